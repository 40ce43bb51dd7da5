// Writes events as rows of the audit log, each linked to the one before it with a key that is stored encrypted under JWT_SECRET.
import { randomBytes } from 'node:crypto'
import type { DataSource, EntityManager } from 'typeorm'
import { isAbandoned, reseal, type Sealed, type SealingSecret, seal, unseal } from '../tokens/sealed-keys.ts'
import { every } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import {
  type AuditContent,
  type AuditHead,
  type AuditKey,
  type AuditKeys,
  auditKey,
  contentHash,
  type KeyStart,
  linkHash,
  readAuditHead
} from './audit-chain.ts'
import type { Database } from './database.ts'
import { AUDIT_KEY_LOCK, clockOf, isRowId, query, rowId, storableJson, storableText } from './query.ts'

/** An entry cannot be linked: the log is keyed, and this process has no secret that opens the key. */
export class AuditKeyMissing extends Error {
  constructor() {
    super(
      'the audit log is chained with a key that JWT_SECRET opens; set JWT_SECRET as for the gateways; nothing was changed'
    )
    this.name = 'AuditKeyMissing'
  }
}

// One per database that this process has open, because an entry is appended with nothing but a transaction at hand.
const known = new WeakMap<DataSource, AuditKeys>()

/** The keys opened for this database; none before `keyAuditLog`. */
export const keysOf = (manager: EntityManager): AuditKeys => known.get(manager.connection) ?? []

/** The key that links new entries: the newest. Undefined: the log has none yet. Throws AuditKeyMissing. */
export const linkingKey = async (manager: EntityManager): Promise<AuditKey | undefined> => {
  const key = keysOf(manager).at(-1)
  if (key !== undefined) return key
  const [sealed] = await query(manager, 'SELECT id FROM audit_keys LIMIT 1')
  if (sealed !== undefined) throw new AuditKeyMissing()
  return undefined
}

interface KeyRow {
  readonly id: string
  readonly sealed: Sealed
  /** The clock of the database, in seconds. */
  readonly nowS: number
}

interface Keying {
  readonly secrets: readonly SealingSecret[]
  /** Whether a key is made if none of those stored opens: what a gateway does when it starts, or has lost its key. */
  readonly creates: boolean
  /** Whether an entry of the log says that a key was made. */
  readonly records?: boolean
}

/**
 * Opens the keys of the log, and seals them for the secrets that are new. From then on entries of this database are linked
 * with the newest. Returns whether there is a key that only an instance with other secrets has opened, within the last hour or
 * until the first start with these.
 */
export const keyAuditLog = async (
  database: Database,
  { secrets, creates, records = false }: Keying
): Promise<boolean> => {
  const { connection, keys, isForeign } = await database.write(async manager => {
    // Before the head is locked, as in every change.
    await query(manager, 'SELECT pg_advisory_xact_lock($1)', [AUDIT_KEY_LOCK])
    const rows = await query<KeyRow>(manager, READ)
    const opened = rows.flatMap(row => openAuditKey(row, secrets) ?? []).sort((a, b) => a.from - b.from)
    const isForeign = rows.some(
      ({ id, sealed, nowS }) =>
        !opened.some(key => key.id === id) && (opened.length === 0 || !isAbandoned(sealed, nowS))
    )
    await keepSealed(manager, rows, secrets)
    // A backup that was restored under a running gateway may lack its key, and even the entry from which the key took over.
    const missing = keysOf(manager).filter(({ id }) => !rows.some(row => row.id === id))
    const kept: AuditKey[] = []
    for (const key of missing) if (await beginsHere(manager, key)) kept.push(key)
    for (const key of kept) await store(manager, key, secrets)
    const keys = [...opened, ...kept].sort((a, b) => a.from - b.from)
    if (keys.length === 0 && (creates || missing.length > 0)) keys.push(await create(manager, secrets, records))
    return { connection: manager.connection, keys, isForeign }
  })
  // Only now: the transaction may have been repeated.
  known.set(connection, keys)
  return isForeign
}

/**
 * Whether others link entries with a newer key that is not known here, since they have another secret alone: they would not know
 * the one that vouches here for where the log begins.
 */
export const isOvertaken = async (manager: EntityManager): Promise<boolean> => {
  const rows = await query<KeyRow>(manager, READ)
  const newest = rows.findLastIndex(({ id }) => keysOf(manager).some(key => key.id === id))
  return rows.slice(newest + 1).some(({ sealed, nowS }) => !isAbandoned(sealed, nowS))
}

/** Of what has been archived, the key itself vouches. */
const beginsHere = async (manager: EntityManager, { from, hash }: AuditKey): Promise<boolean> => {
  if (from <= (await readAuditHead(manager)).archived) return true
  return (await query(manager, 'SELECT id FROM audit_events WHERE id = $1 AND hash = $2', [from, hash])).length > 0
}

const purpose = (id: string) => `audit ${id}`

export const sealedAuditKey = (key: AuditKey, secrets: readonly SealingSecret[], nowS: number): Sealed => {
  const { id, secret, from, hash, archived, archivedHash } = key
  const text = JSON.stringify({ secret: secret.toString('base64url'), from, hash, archived, archivedHash })
  return seal(secrets, purpose(id), text, nowS)
}

export const openAuditKey = (
  { id, sealed }: Pick<KeyRow, 'id' | 'sealed'>,
  secrets: readonly SealingSecret[]
): AuditKey | undefined => {
  const text = unseal(secrets, purpose(id), sealed)
  if (text === undefined) return undefined
  // Authentic: it was encrypted by us.
  const { secret, ...start } = JSON.parse(text) as { secret: string } & KeyStart
  return auditKey(id, Buffer.from(secret, 'base64url'), start)
}

/** From here on entries are linked with this key: the head stays as it is until the transaction ends. */
const create = async (
  manager: EntityManager,
  secrets: readonly SealingSecret[],
  records: boolean
): Promise<AuditKey> => {
  const head = await readAuditHead(manager, true)
  const { entries: from, lastHash: hash, archived, archivedHash } = head
  const key = auditKey(randomBytes(9).toString('base64url'), randomBytes(32), { from, hash, archived, archivedHash })
  await store(manager, key, secrets)
  const details = { entries: key.from, hash: key.hash }
  if (records) await insert(manager, linked([contentOf({ actor: ACTOR, action: 'audit.key', details })], key, head))
  return key
}

const store = async (manager: EntityManager, key: AuditKey, secrets: readonly SealingSecret[]) => {
  const sealed = sealedAuditKey(key, secrets, (await clockOf(manager)) / 1000)
  await query(manager, 'INSERT INTO audit_keys (id, sealed) VALUES ($1, $2::jsonb)', [key.id, JSON.stringify(sealed)])
}

const keepSealed = async (manager: EntityManager, rows: readonly KeyRow[], secrets: readonly SealingSecret[]) => {
  for (const { id, sealed, nowS } of rows) {
    const better = reseal(secrets, purpose(id), sealed, nowS)
    if (better !== undefined)
      await query(manager, 'UPDATE audit_keys SET sealed = $2::jsonb WHERE id = $1', [id, JSON.stringify(better)])
  }
}

const READ = `
  SELECT id, sealed, extract(epoch FROM clock_timestamp())::float8 AS "nowS" FROM audit_keys ORDER BY created_at, id`

/** Who acts, and through which request; `id` is null for the gateway itself or its command line. */
export interface Actor {
  id: number | null
  username: string
  requestId?: string | undefined
  ip?: string | undefined
  /** `ver` of the token with which they act. */
  version?: number
}

export interface AuditEntry {
  actor: Actor
  /** Stable word, e.g. `login`, `access.set`, `person.disable`, `area.rename`. */
  action: string
  /** `user:<id>`, `area:<id>`, `token:<jti>`, or `''`. */
  target?: string
  before?: unknown
  after?: unknown
  details?: unknown
  /** Now, unless given. */
  at?: Date
}

/**
 * Appends an entry within a transaction. Entries of all instances queue until their transactions end, so in a longer one
 * this comes last.
 */
export const appendAudit = (manager: EntityManager, entry: AuditEntry): Promise<void> => appendAudits(manager, [entry])

/** The same for several, linked in this order. Throws AuditKeyMissing. */
export const appendAudits = async (manager: EntityManager, entries: readonly AuditEntry[]): Promise<void> => {
  if (entries.length === 0) return
  const contents = entries.map(contentOf)
  const key = await linkingKey(manager)
  const rows =
    key === undefined
      ? contents.map(content => ({ ...content, contentHash: contentHash(content) }))
      : linked(contents, key, await readAuditHead(manager, true))
  await insert(manager, rows)
}

const insert = (manager: EntityManager, rows: readonly object[]) => query(manager, INSERT, [JSON.stringify(rows)])

/**
 * The entry as it may be written about a person who is perhaps being erased: without name and address if they are. Comes before
 * other rows of the person are locked.
 */
export const unlessErased = async (
  manager: EntityManager,
  id: number | null,
  entry: AuditEntry
): Promise<AuditEntry> => {
  const [person] = await query<{ isErased: boolean }>(manager, IS_ERASED, [rowId(id ?? 0)])
  return person?.isErased === true ? { ...entry, actor: { ...entry.actor, username: '', ip: '' } } : entry
}

// Waits for an erasure that is under way; one that begins later waits, and finds the entry.
const IS_ERASED = 'SELECT erased_at IS NOT NULL AS "isErased" FROM users WHERE id = $1 FOR SHARE'

/** The database checks that they follow the last entry there is. */
const linked = (contents: readonly AuditContent[], key: AuditKey, { entries, lastHash }: AuditHead) => {
  let previousHash = lastHash
  return contents.map((content, n) => {
    const row = { ...content, id: entries + 1 + n, keyId: key.id, contentHash: contentHash(content, key), previousHash }
    previousHash = linkHash(previousHash, row.contentHash, key)
    return { ...row, hash: previousHash }
  })
}

const contentOf = (entry: AuditEntry): AuditContent => ({
  at: entry.at ?? new Date(),
  actorId: isRowId(entry.actor.id) ? entry.actor.id : null,
  actorUsername: storableText(entry.actor.username),
  action: storableText(entry.action, 64),
  target: storableText(entry.target ?? ''),
  before: storableJson(entry.before),
  after: storableJson(entry.after),
  requestId: storableText(entry.actor.requestId ?? '', 128),
  ip: storableText(entry.actor.ip ?? '', 64),
  details: storableJson(entry.details)
})

const INSERT = `
  INSERT INTO audit_events (id, at, actor_id, actor_username, action, target, before, after, request_id, ip, details,
    content_hash, key_id, previous_hash, hash)
  SELECT id, at, "actorId", "actorUsername", action, target, before, after, "requestId", ip, details,
    "contentHash", "keyId", "previousHash", hash
  FROM ROWS FROM (jsonb_to_recordset($1::jsonb) AS (
    id bigint, at timestamptz, "actorId" int, "actorUsername" text, action text, target text, before jsonb, after jsonb,
    "requestId" text, ip text, details jsonb, "contentHash" text, "keyId" text, "previousHash" text, hash text
  )) WITH ORDINALITY AS entry
  ORDER BY ordinality`

/** More often than the copy for a secret that no instance names is dropped. */
const SEAL_EVERY_MS = 10 * 60 * 1000
const ACTOR = { id: null, username: 'gateway' }

const OTHER_SECRET =
  'this database was or is used with a JWT_SECRET that is not among JWT_SECRET and JWT_PREVIOUS_SECRETS here: tokens signed with it are refused, and entries of the audit log cannot be checked. Unless it was replaced on purpose, set the same secrets on all instances'

export const startAuditKey = async (
  database: Database,
  secrets: readonly SealingSecret[],
  log: Log
): Promise<{ close(): void }> => {
  const isForeign = await keyAuditLog(database, { secrets, creates: true, records: true })
  if (isForeign) log.warn({ reason: 'other-secret' }, OTHER_SECRET)
  // Next time, if the database is away.
  return {
    close: every(SEAL_EVERY_MS, () =>
      keyAuditLog(database, { secrets, creates: false, records: true }).catch(() => undefined)
    )
  }
}

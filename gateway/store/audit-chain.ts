// Reads rows of the audit log, links them by HMAC (RFC 2104), and checks that each follows from the one before it.
import { createHmac, hkdfSync } from 'node:crypto'
import { setImmediate as breath } from 'node:timers/promises'
import type { EntityManager } from 'typeorm'
import { canonicalJson, type Json, query, sha256 } from './query.ts'

/** What someone recorded, before the database numbered and linked it. */
export interface AuditContent {
  at: Date
  actorId: number | null
  actorUsername: string
  action: string
  target: string
  before: Json
  after: Json
  requestId: string
  ip: string
  details: Json
}

export interface AuditRow extends AuditContent {
  id: number
  contentHash: string
  previousHash: string
  hash: string
  /** The key that links it; null: written without one, by the release before this one. */
  keyId: string | null
  actorDigest: string | null
  ipDigest: string | null
}

/** The end of the chain, and the last entry that was archived and removed. */
export interface AuditHead {
  entries: number
  lastHash: string
  archived: number
  archivedHash: string
  archivedKey: string | null
  archivedMac: string | null
}

/** @param rest the end of a statement over `audit_events e` */
export const selectRows = (manager: EntityManager, rest: string, values: readonly unknown[]): Promise<AuditRow[]> =>
  query<AuditRow>(manager, `${COLUMNS} ${rest}`, values)

export const nextRows = (manager: EntityManager, after: number, most: number): Promise<AuditRow[]> =>
  selectRows(manager, 'WHERE e.id > $1 ORDER BY e.id LIMIT $2', [after, most])

/** @param isLocked no entry is written until the transaction ends */
export const readAuditHead = async (manager: EntityManager, isLocked = false): Promise<AuditHead> => {
  const [head] = await query<AuditHead>(manager, isLocked ? `${HEAD} FOR UPDATE` : HEAD)
  if (head === undefined) throw new Error('the table audit_head has no row: restore a backup of the database')
  return head
}

// Numbers as float8, which pg reads as numbers: exact beyond any log.
const COLUMNS = `
  SELECT e.id::float8 AS id, e.at, e.actor_id AS "actorId", e.actor_username AS "actorUsername", e.action, e.target,
    e.before, e.after, e.request_id AS "requestId", e.ip, e.details, e.content_hash AS "contentHash",
    e.previous_hash AS "previousHash", e.hash, e.key_id AS "keyId", e.actor_digest AS "actorDigest", e.ip_digest AS "ipDigest"
  FROM audit_events e`

const HEAD = `
  SELECT entries::float8 AS entries, last_hash AS "lastHash", archived::float8 AS archived,
    archived_hash AS "archivedHash", archived_key AS "archivedKey", archived_mac AS "archivedMac"
  FROM audit_head`

const GENESIS_HASH = '0'.repeat(64)
/** The database may hold any text instead, also the beginning of one that `macOf` vouches for. */
const isHash = (text: string): boolean => /^[0-9a-f]{64}$/.test(text)

/** Where a key took over: every entry after this number is linked with it. */
export interface KeyStart {
  readonly from: number
  readonly hash: string
  /** Where the log began then. */
  readonly archived: number
  readonly archivedHash: string
}

/** A key of the audit log. */
export interface AuditKey extends KeyStart {
  readonly id: string
  readonly secret: Buffer
  /** Names and addresses are hashed under a key of their own. */
  readonly digestSecret: Buffer
}

/** The keys that this process can open, in the order in which they took over. */
export type AuditKeys = readonly AuditKey[]

export const auditKey = (id: string, secret: Buffer, start: KeyStart): AuditKey => ({
  ...start,
  id,
  secret,
  digestSecret: Buffer.from(hkdfSync('sha256', secret, '', 'portaria audit digests', 32))
})

const hmac = (secret: Buffer, text: string): string => createHmac('sha256', secret).update(text).digest('hex')

/** Takes the place of a name or an address in what is hashed, so that it can be erased later. */
export const digestOf = ({ digestSecret }: AuditKey, text: string): string =>
  text === '' ? '' : hmac(digestSecret, text).slice(0, 32)

/** Vouches for a text that only somebody with the key can have written. */
export const macOf = ({ secret }: AuditKey, text: string): string => hmac(secret, `portaria audit ${text}`)

type Digests = Partial<Pick<AuditRow, 'actorDigest' | 'ipDigest'>>

/** SHA-256 over the canonical JSON of an entry; with a key, over digests of its name and address. */
export const contentHash = (content: AuditContent, key?: AuditKey, { actorDigest, ipDigest }: Digests = {}): string => {
  const { at, actorId, actorUsername, action, target, before, after, requestId, ip, details } = content
  const said = { at: at.toISOString(), actorId, action, target, before, after, requestId, details }
  const who = key && {
    actor: actorDigest ?? digestOf(key, actorUsername),
    address: ipDigest ?? digestOf(key, ip)
  }
  return sha256(canonicalJson({ ...said, ...(who ?? { actorUsername, ip }) }))
}

/** The hash of an entry; without a key, as the trigger `audit_link` computes it (migration 0017). */
export const linkHash = (previousHash: string, content: string, key?: AuditKey): string => {
  if (key === undefined) return sha256(previousHash + content)
  return hmac(key.secret, (isHash(previousHash) ? previousHash : sha256(previousHash)) + content)
}

/** What vouches for the last archived entry. */
export const archivedMac = (key: AuditKey, number: number, hash: string): string =>
  macOf(key, `archived ${number} ${hash}`)

/**
 * Whether the entries that are left begin where the log begins, or where an archive of ours ends. The key of that archive may be
 * lost: then the one that took over vouches for it.
 */
export const isBeginning = (
  { archived, archivedHash, archivedKey, archivedMac: mac }: AuditHead,
  keys: AuditKeys
): boolean => {
  if (archived === 0) return archivedHash === GENESIS_HASH
  if (keys.some(key => key.archived === archived && key.archivedHash === archivedHash)) return true
  const key = keys.find(({ id }) => id === archivedKey)
  return key !== undefined && archivedMac(key, archived, archivedHash) === mac
}

export type ChainWalk = ReturnType<typeof walkFrom>

export const walkFrom = (number: number, hash: string, unknown = 0, mostUnknown = Number.POSITIVE_INFINITY) => ({
  number,
  hash,
  /** Entries without a key that is known here, after one had taken over. */
  unkeyed: 0,
  /** Entries whose key no secret opens any more, from before the first key that one opens. */
  uncheckable: 0,
  /** Entries with a key that is not known here, all in all. */
  unknown,
  /** As many of them there can be: where there is one more, a known key has been replaced. */
  mostUnknown
})

/** Moves on over these entries, which come next; false at the first that does not follow: the walk stays before it. */
export const walkOver = (walk: ChainWalk, rows: readonly AuditRow[], keys: AuditKeys): boolean => {
  for (const row of rows) if (row.id !== walk.number + 1 || !passes(walk, row, keys)) return false
  return true
}

/** Some milliseconds each, during which nothing else runs. */
const PAGE = 200

/** Moves on to `goal` page by page. Returns the number of the first entry that does not follow; undefined if all do. */
export const walkPages = async (
  walk: ChainWalk,
  goal: number,
  keys: AuditKeys,
  read: (after: number, most: number) => Promise<readonly AuditRow[]>
): Promise<number | undefined> => {
  while (walk.number < goal) {
    const rows = await read(walk.number, Math.min(PAGE, goal - walk.number))
    if (rows.length === 0 || !walkOver(walk, rows, keys)) return walk.number + 1
    await breath()
  }
  return undefined
}

/** A digest takes the place of a text that was erased, so nothing vouches for a text beside it. */
const isBesideDigest = (text: string, digest: string | null): boolean => typeof digest === 'string' && text !== ''

const passes = (walk: ChainWalk, row: AuditRow, keys: AuditKeys): boolean => {
  if (row.previousHash !== walk.hash || !isHash(row.hash)) return false
  if (isBesideDigest(row.actorUsername, row.actorDigest) || isBesideDigest(row.ip, row.ipDigest)) return false
  const first = keys[0]?.from ?? Number.POSITIVE_INFINITY
  const key = keys.find(({ id }) => id === row.keyId)
  const isLost = row.keyId !== null && key === undefined
  if (isLost) {
    if (walk.unknown >= walk.mostUnknown) return false
    // Written by an instance that still had a secret that has been replaced, or by anybody: like one without a key.
    if (row.id > first) walk.unkeyed++
    else walk.uncheckable++
  } else {
    const content = contentHash(row, key, row)
    if (row.contentHash !== content || row.hash !== linkHash(walk.hash, content, key)) return false
    if (key === undefined && row.id > first) walk.unkeyed++
  }
  // What a key took over from is part of the key.
  if (keys.some(({ from, hash }) => from === row.id && hash !== row.hash)) return false
  walk.number = row.id
  walk.hash = row.hash
  walk.unknown += Number(isLost)
  return true
}

// Keeps service accounts: their identity, their access and the hashes of their secrets, by which they are proved.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { EntityManager } from 'typeorm'
import { BadRequest, Conflict, NotFound } from '../errors.ts'
import type { Identity } from '../identity.ts'
import { formatNetwork, parseNetwork } from '../values/addresses.ts'
import { plainName } from '../values/names.ts'
import { parseTimestamp } from '../values/quantities.ts'
import { replaceAccess } from './access.ts'
import { raiseVersions } from './access-changes.ts'
import { areasFor } from './areas.ts'
import { type Actor, appendAudit } from './audit-entry.ts'
import { bind, type Database } from './database.ts'
import { type AccessNames, findPerson, type StoredPerson } from './people.ts'
import { recordLastUse } from './personal-tokens.ts'
import { type Bounds, type Page, query, readPage, requireName, rowId, sha256, storableKey } from './query.ts'
import { writeAs } from './write-as.ts'

export type ClientItem = Awaited<ReturnType<typeof toItem>>

export interface ClientWish extends AccessNames {
  name: string
  /** RFC 3339; null: it does not expire. */
  expiresAt?: string | null
  addresses?: string[]
}

/** The secret is shown once and stored as SHA-256 only: 256 random bits need no slow hash. */
export type ClientWithSecret = ClientItem & { clientSecret: string }

const NAME_TAKEN = 'There is already a service account of this name'

const list = (database: Database, bounds: Bounds = {}): Promise<Page<ClientItem>> =>
  database.read(async manager => {
    const select = (window: string) => `${SELECT} ORDER BY lower(c.name) ${window}`
    const page = await readPage<ClientRow>(manager, bounds, 'FROM clients', select)
    const items: ClientItem[] = []
    for (const row of page.items) items.push(await toItem(manager, row))
    return { ...page, items }
  })

/** Throws NotFound. */
const get = (database: Database, id: number): Promise<ClientItem> => database.read(manager => getClient(manager, id))

const findByName = (database: Database, name: string): Promise<ClientItem | undefined> =>
  database.read(manager => findClient(manager, name))

/** Profiles that can be assigned; undefined: all in the database. */
type Assignable = readonly string[] | undefined

/** Throws Conflict (the name is taken), BadRequest; an area that does not exist is one, unless areas are made. */
const create = (
  database: Database,
  profiles: Assignable,
  actor: Actor,
  wish: ClientWish,
  { makesAreas = false } = {}
) =>
  writeAs(database, actor, async (manager): Promise<ClientWithSecret> => {
    const name = requireName(plainName(wish.name), 'client-name')
    const [expiresAt, addresses] = [expiry(wish.expiresAt), networks(wish.addresses ?? [])]
    if ((await findClient(manager, name)) !== undefined)
      throw new Conflict({ reason: 'client-name-taken', message: NAME_TAKEN })
    const clientSecret = newSecret()
    const values = [name, `pc_${randomBytes(15).toString('base64url')}`, sha256(clientSecret), expiresAt, addresses]
    const [row] = await query<{ id: number }>(manager, CREATE, values)
    const owner = await getOwner(manager, row?.id ?? 0)
    const access = makesAreas ? await withAreas(manager, actor, wish) : wish
    await replaceAccess(manager, owner, access, profiles, { before: [], after: addresses })
    const item = await getClient(manager, owner.user.id)
    await appendAudit(manager, { actor, action: 'client.create', target: target(item.id), after: item })
    return { ...item, clientSecret }
  })

const withAreas = async (manager: EntityManager, actor: Actor, { profiles, areas, areaPrincipal }: AccessNames) => {
  const known = await areasFor(manager, actor, areas)
  const [main = null] = areaPrincipal === null ? [] : await areasFor(manager, actor, [areaPrincipal])
  return { profiles, areas: known, areaPrincipal: main }
}

/** Throws NotFound, Conflict, BadRequest. */
const update = (
  database: Database,
  profiles: Assignable,
  actor: Actor,
  id: number,
  change: Partial<ClientWish>
): Promise<ClientItem> =>
  writeAs(database, actor, async manager => {
    const before = await getClient(manager, id)
    const name = change.name === undefined ? before.name : requireName(plainName(change.name), 'client-name')
    const other = await findClient(manager, name)
    if (other !== undefined && other.id !== id) throw new Conflict({ reason: 'client-name-taken', message: NAME_TAKEN })
    const expiresAt = change.expiresAt === undefined ? dateOf(before.expiresAt) : expiry(change.expiresAt)
    const addresses = change.addresses === undefined ? before.addresses : networks(change.addresses)
    await query(manager, UPDATE, [id, name, expiresAt, addresses])
    const main = before.areaPrincipal === '' ? null : before.areaPrincipal
    const access = {
      profiles: change.profiles ?? before.profiles,
      areas: change.areas ?? before.areas,
      areaPrincipal: change.areaPrincipal === undefined ? main : change.areaPrincipal
    }
    // As of people: a profile that no file names any more can be kept.
    const assignable = profiles && [...profiles, ...before.profiles]
    const changed = { before: before.addresses, after: addresses }
    await replaceAccess(manager, await getOwner(manager, id), access, assignable, changed)
    const after = await getClient(manager, id)
    if (JSON.stringify(before) === JSON.stringify(after)) return after
    // Tokens contain the conditions of their issue: changing a condition ends them, other changes make them stale.
    const ends = before.expiresAt !== after.expiresAt || before.addresses.join() !== after.addresses.join()
    await raiseVersions(manager, [id], ends)
    await appendAudit(manager, { actor, action: 'client.update', target: target(id), before, after })
    return after
  })

/** Creates a new secret; the previous one keeps working for a day. Throws NotFound. */
const rotate = (database: Database, actor: Actor, id: number): Promise<ClientWithSecret> =>
  // A service account that is being removed gets no secret that never works.
  writeAs(database, actor, async manager => {
    const item = await getClient(manager, id)
    const clientSecret = newSecret()
    await query(manager, ROTATE, [id, sha256(clientSecret)])
    await appendAudit(manager, { actor, action: 'client.rotate', target: target(id) })
    return { ...item, clientSecret }
  })

/**
 * Ends its tokens. The row in users stays, disabled: its versions keep earlier tokens ended, and its id is not assigned
 * again. Throws NotFound.
 */
const remove = (database: Database, actor: Actor, id: number): Promise<void> =>
  writeAs(database, actor, async manager => {
    const before = await getClient(manager, id)
    await query(manager, 'DELETE FROM clients WHERE user_id = $1', [id])
    await query(manager, 'UPDATE users SET disabled = true WHERE id = $1', [id])
    await raiseVersions(manager, [id], true)
    await appendAudit(manager, { actor, action: 'client.remove', target: target(id), before })
  })

export interface ProvenClient {
  person: StoredPerson
  addresses: readonly string[]
  /** Seconds since the epoch; undefined: it does not expire. */
  expiresAt: number | undefined
}

/** Why credentials prove nothing, for the log. */
type Unproven = 'unknown-id' | 'wrong-secret' | 'expired'

/** The owner of these credentials, or why they prove nothing; takes as long for an unknown clientId as for a wrong secret. */
const prove = (database: Database, clientId: string, secret: string): Promise<ProvenClient | Unproven> =>
  database.read(async manager => {
    const given = sha256(secret)
    const key = storableKey(clientId)
    const [row] = key === undefined ? [] : await query<CredentialRow>(manager, CREDENTIALS, [key])
    const matches = [row?.secret_hash ?? '', row?.previous_secret_hash ?? ''].map(hash => sameHash(hash, given))
    if (row === undefined) return 'unknown-id'
    if (!matches.includes(true)) return 'wrong-secret'
    if (row.expired) return 'expired'
    const person = await findPerson(manager, row.user_id)
    if (person === undefined || person.disabled) return 'unknown-id'
    await query(manager, 'UPDATE clients SET last_used_at = now() WHERE user_id = $1', [row.user_id])
    // The version that the conditions belong to: if they have changed since, a token under the old ones has already ended.
    const { version } = row
    return { person: { ...person, version }, addresses: row.addresses, expiresAt: row.expires_s ?? undefined }
  })

interface CredentialRow {
  user_id: number
  secret_hash: string
  previous_secret_hash: string | null
  addresses: string[]
  expires_s: number | null
  expired: boolean
  version: number
}

const sameHash = (hash: string, given: string): boolean =>
  timingSafeEqual(Buffer.from(hash.padEnd(64, '-')), Buffer.from(given))

/** The service account whose token was used; empty for tokens of people. */
export const clientUse = ({ identity, usedAt }: { identity: Identity; usedAt: number }) =>
  identity.kind === 'client' ? [{ id: identity.user.id, usedAt }] : []

const recordUse = (database: Database, uses: Readonly<ReturnType<typeof clientUse>>): Promise<void> =>
  recordLastUse(database, 'clients', 'user_id', uses)

const CREDENTIALS = `
  SELECT c.user_id, c.secret_hash, c.addresses, extract(epoch FROM c.expires_at)::float8 AS expires_s,
    coalesce(c.expires_at <= now(), false) AS expired,
    CASE WHEN c.previous_secret_until > now() THEN c.previous_secret_hash END AS previous_secret_hash,
    u.access_version AS version
  FROM clients c JOIN users u ON u.id = c.user_id
  WHERE c.client_id = $1`

export type Clients = ReturnType<typeof createClients>

/**
 * Every change is one transaction with its audit entry, and ends the affected tokens or makes them stale.
 * @param profiles those that can be assigned; without it, all in the database
 */
export const createClients = (database: Database, profiles?: () => readonly string[]) => ({
  ...bind(database, { list, get, findByName, rotate, remove, prove, recordUse }),
  create: (actor: Actor, wish: ClientWish, options?: { makesAreas: boolean }) =>
    create(database, profiles?.(), actor, wish, options),
  update: (actor: Actor, id: number, change: Partial<ClientWish>) => update(database, profiles?.(), actor, id, change)
})

const newSecret = (): string => `ps_${randomBytes(32).toString('base64url')}`
const target = (id: number): string => `client:${id}`
const dateOf = (text: string): Date | null => (text === '' ? null : new Date(text))

const expiry = (text: string | null | undefined): Date | null => {
  if (text === null || text === undefined || text === '') return null
  const date = parseTimestamp(text)
  if (date === undefined || date.getTime() <= Date.now())
    throw new BadRequest({
      reason: 'client-expiry',
      message: 'expiresAt must be a time in the future, such as 2027-06-30 or 2027-06-30T18:00:00Z'
    })
  return date
}

const networks = (texts: readonly string[]): string[] =>
  texts.map((text, index) => {
    const network = parseNetwork(text)
    if (network === undefined)
      throw new BadRequest({
        reason: 'client-address',
        message: `addresses/${index} must be an IP address or a CIDR block`
      })
    return formatNetwork(network)
  })

/** What tokens of the service account contain. */
const getOwner = async (manager: EntityManager, id: number): Promise<StoredPerson> => {
  const owner = await findPerson(manager, id)
  if (owner === undefined) throw new NotFound({ reason: 'no-client' })
  return owner
}

const getClient = async (manager: EntityManager, id: number): Promise<ClientItem> => {
  const [row] = await query<ClientRow>(manager, `${SELECT} WHERE c.user_id = $1`, [rowId(id)])
  if (row === undefined) throw new NotFound({ reason: 'no-client' })
  return toItem(manager, row)
}

const findClient = async (manager: EntityManager, name: string): Promise<ClientItem | undefined> => {
  const [row] = await query<ClientRow>(manager, `${SELECT} WHERE lower(c.name) = lower($1)`, [name])
  return row === undefined ? undefined : toItem(manager, row)
}

interface ClientRow {
  user_id: number
  client_id: string
  name: string
  expires_at: Date | null
  addresses: string[]
  last_used_at: Date | null
}

const toItem = async (manager: EntityManager, row: ClientRow) => {
  const { profiles, areas, areaPrincipal } = (await getOwner(manager, row.user_id)).assigned
  return {
    /** Id of the row in users, which its tokens carry as `sub`. */
    id: row.user_id,
    clientId: row.client_id,
    name: row.name,
    profiles,
    areas,
    areaPrincipal: areaPrincipal ?? '',
    /** ISO 8601, UTC; `''`: never. */
    expiresAt: row.expires_at?.toISOString() ?? '',
    /** CIDR blocks that it may connect from; empty: anywhere. */
    addresses: row.addresses,
    /** ISO 8601, UTC; `''` if never. */
    lastUsedAt: row.last_used_at?.toISOString() ?? ''
  }
}

const SELECT = `
  SELECT c.user_id, c.client_id, c.name, c.expires_at, c.addresses, date_trunc('minute', c.last_used_at) AS last_used_at
  FROM clients c`

const CREATE = `
  WITH account AS (INSERT INTO users (provider, name, username) VALUES ('client', $1, $1) RETURNING id)
  INSERT INTO clients (user_id, client_id, name, secret_hash, expires_at, addresses)
  SELECT id, $2, $1, $3, $4, $5::text[] FROM account RETURNING user_id AS id`

const UPDATE = `
  WITH account AS (UPDATE users SET name = $2, username = $2 WHERE id = $1)
  UPDATE clients SET name = $2, expires_at = $3, addresses = $4::text[] WHERE user_id = $1`

const ROTATE = `
  UPDATE clients SET previous_secret_hash = secret_hash, previous_secret_until = now() + interval '1 day', secret_hash = $2
  WHERE user_id = $1`

// Proves service accounts by their secrets, and records when their tokens were used.
import { timingSafeEqual } from 'node:crypto'
import type { Identity } from '../identity.ts'
import type { Database } from './database.ts'
import { findPerson, type StoredPerson } from './people.ts'
import { query, sha256, storableKey } from './query.ts'

export interface ProvenClient {
  person: StoredPerson
  addresses: readonly string[]
  /** Seconds since the epoch; undefined: it does not expire. */
  expiresAt: number | undefined
}

interface ClientUse {
  readonly id: number
  /** Milliseconds since the epoch. */
  readonly usedAt: number
}

/** The owner of these credentials, unless expired; takes as long for an unknown clientId as for a wrong secret. */
export const prove = (database: Database, clientId: string, secret: string): Promise<ProvenClient | undefined> =>
  database.read(async manager => {
    const given = sha256(secret)
    const key = storableKey(clientId)
    const [row] = key === undefined ? [] : await query<CredentialRow>(manager, CREDENTIALS, [key])
    const matches = [row?.secret_hash ?? '', row?.previous_secret_hash ?? ''].map(hash => sameHash(hash, given))
    if (row === undefined || !matches.includes(true)) return undefined
    const person = await findPerson(manager, row.user_id)
    if (person === undefined || person.disabled) return undefined
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
  version: number
}

const sameHash = (hash: string, given: string): boolean =>
  timingSafeEqual(Buffer.from(hash.padEnd(64, '-')), Buffer.from(given))

/** The service account whose token was used; empty for tokens of people. */
export const clientUse = ({ identity, usedAt }: { identity: Identity; usedAt: number }): ClientUse[] =>
  identity.kind === 'client' ? [{ id: identity.user.id, usedAt }] : []

/** Records when tokens of service accounts were last used. */
export const recordUse = async (database: Database, uses: readonly ClientUse[]): Promise<void> => {
  if (uses.length === 0) return
  const [ids, times] = [uses.map(({ id }) => id), uses.map(({ usedAt }) => usedAt / 1000)]
  await database.read(manager => query(manager, RECORD_USE, [ids, times]))
}

const CREDENTIALS = `
  SELECT c.user_id, c.secret_hash, c.addresses, extract(epoch FROM c.expires_at)::float8 AS expires_s,
    CASE WHEN c.previous_secret_until > now() THEN c.previous_secret_hash END AS previous_secret_hash,
    u.access_version AS version
  FROM clients c JOIN users u ON u.id = c.user_id
  WHERE c.client_id = $1 AND (c.expires_at IS NULL OR c.expires_at > now())`

const RECORD_USE = `
  UPDATE clients SET last_used_at = greatest(last_used_at, to_timestamp(used.at))
  FROM unnest($1::int[], $2::float8[]) AS used (id, at) WHERE user_id = used.id`

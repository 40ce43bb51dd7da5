// Stores what ended early: revoked tokens, and the versions below which a person's tokens are stale.
import type { EntityManager } from 'typeorm'
import { BadRequest } from '../errors.ts'
import type { PersonVersion, RevokedToken } from '../tokens/revocations.ts'
import { announce } from './access-changes.ts'
import { type AuditEntry, appendAudit } from './audit-entry.ts'
import type { Database } from './database.ts'
import { query } from './query.ts'
import { storableKey } from './storable.ts'

export const createTokenState = (database: Database) => ({
  /** Everything needed to check tokens without another query. */
  loadRevocations: () => database.read(manager => readSince(manager, undefined)),
  /**
   * What was committed since `cursor`; some of it may be repeated, but nothing is missing: transactions that commit late are
   * found by their number. Complete again if the database was replaced by an older one.
   */
  changesSince: (cursor: string) => database.read(manager => readSince(manager, cursor)),
  /** Ends a token on every instance, with its audit entry in the same transaction. `expiresAt` in seconds. */
  revokeToken: (jti: string, expiresAt: number, entry?: AuditEntry): Promise<void> =>
    database.write(manager => revokeToken(manager, jti, expiresAt, entry)),
  /** Removes what has expired: revocations, used OAuth states, login addresses unused for 180 days. */
  purgeExpired: (): Promise<void> =>
    database.read(async manager => {
      for (const statement of PURGES) await manager.query(statement)
    })
})

const readSince = async (manager: EntityManager, since: string | undefined) => {
  /** By this process's clock, milliseconds since the epoch. */
  const at = Date.now()
  // Read before the rows, so that everything a transaction below this number changed is visible to the queries below.
  const [now] = await query<{ cursor: string }>(
    manager,
    'SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS cursor'
  )
  const cursor = now?.cursor ?? '0'
  const complete = since === undefined || !/^[0-9]{1,20}$/.test(since) || BigInt(since) > BigInt(cursor)
  const from = complete ? '0' : since
  const tokens = await query<RevokedToken>(manager, TOKENS, [from])
  const versions = await query<PersonVersion>(manager, VERSIONS, [from])
  return {
    /** Unexpired revoked tokens. */
    tokens,
    /** People whose version is above 0. */
    versions,
    /** Where the next `changesSince` continues. */
    cursor,
    at,
    /** Whether this is the complete state, rather than a set of changes. */
    complete
  }
}

// A minute of tolerance, because the gateway's clock may lag behind the database's.
const TOKENS = `
  SELECT jti, extract(epoch FROM expires_at)::float8 AS "expiresAt" FROM revocations
  WHERE revoked_in >= $1::text::xid8 AND expires_at > now() - interval '1 minute'`
const VERSIONS = `
  SELECT id AS "userId", access_version AS version, lowest_accepted_version AS "lowestAccepted" FROM users
  WHERE access_version > 0 AND version_changed_in >= $1::text::xid8`

const PURGES = [
  "DELETE FROM revocations WHERE expires_at < now() - interval '5 minutes'",
  "DELETE FROM used_oauth_states WHERE expires_at < now() - interval '5 minutes'",
  "DELETE FROM sessions WHERE expires_at < now() - interval '5 minutes'",
  "DELETE FROM personal_tokens WHERE expires_at < now() - interval '5 minutes'",
  'DELETE FROM provider_sessions WHERE expires_at < now()',
  "DELETE FROM used_logout_tokens WHERE expires_at < now() - interval '5 minutes'",
  "DELETE FROM login_permits WHERE expires_at < now() - interval '5 minutes'",
  'DELETE FROM login_attempts WHERE expires_at < now()',
  // No address is held back for so long. Where the directory never forgets, freed rows would stay for good.
  "DELETE FROM login_attempts WHERE kind = 'freed' AND at < now() - interval '1 day'",
  "UPDATE login_attempts SET pair = '' WHERE pair <> '' AND at < now() - interval '1 day'",
  "DELETE FROM login_addresses WHERE last_success_at < now() - interval '180 days'"
]

/** Ends a token and its session on every instance, within a transaction. */
export const revokeToken = async (manager: EntityManager, jti: string, expiresAt: number, entry?: AuditEntry) => {
  const key = storableKey(jti)
  if (key === undefined || !Number.isFinite(expiresAt)) throw new BadRequest({ reason: 'bad-token-id' })
  const [row] = await query<RevokedToken>(manager, REVOKE, [key, expiresAt])
  if (row !== undefined) await announce(manager, [{ kind: 'token', ...row }])
  await query(manager, 'DELETE FROM sessions WHERE jti = $1', [key])
  if (entry !== undefined) await appendAudit(manager, entry)
}

// Refreshed copies share jti and exp; if they ever differ, the later expiry counts.
const REVOKE = `
  INSERT INTO revocations (jti, expires_at) VALUES ($1, to_timestamp($2::float8))
  ON CONFLICT (jti) DO UPDATE SET
    expires_at = greatest(revocations.expires_at, excluded.expires_at), revoked_in = excluded.revoked_in
  RETURNING jti, extract(epoch FROM expires_at)::float8 AS "expiresAt"`

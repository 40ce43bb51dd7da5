// Stores what ended early: revoked tokens, and the versions below which a person's tokens are stale.
import type { EntityManager } from 'typeorm'
import { BadRequest } from '../errors.ts'
import type { Lost, PersonVersion, RevokedToken } from '../tokens/revocations.ts'
import { announce } from './access-changes.ts'
import { type AuditEntry, appendAudit } from './audit-entry.ts'
import type { Database } from './database.ts'
import { DatabaseUnavailable } from './database-errors.ts'
import { query } from './query.ts'
import { storableKey } from './storable.ts'

export const createTokenState = (database: Database) => ({
  /** Everything needed to check tokens without another query. */
  loadRevocations: () => readState(database, undefined),
  /**
   * What was committed since `cursor`; some of it may be repeated, but nothing is missing: transactions that commit late are
   * found by their number. Complete again if the database was replaced by an older one.
   */
  changesSince: (cursor: string) => readState(database, cursor),
  /** Ends a token on every instance, with its audit entry in the same transaction. `expiresAt` in seconds. */
  revokeToken: (jti: string, expiresAt: number, entry?: AuditEntry): Promise<void> =>
    database.write(manager => revokeToken(manager, jti, expiresAt, entry)),
  /** Writes back what a fail-over has lost; several instances may do so at once. */
  restore: (lost: Lost): Promise<void> => database.write(manager => restore(manager, lost)),
  /** Removes what has expired: revocations, used OAuth states, login addresses unused for 180 days. */
  purgeExpired: (): Promise<void> =>
    database.read(async manager => {
      for (const statement of PURGES) await manager.query(statement)
    })
})

/** Databases that have no timelines to ask for, as services that only resemble Postgres. */
const withoutTimeline = new WeakSet<Database>()

const readState = async (database: Database, since: string | undefined) => {
  const read = () => {
    const statement = withoutTimeline.has(database) ? PLAIN_CURSOR : CURSOR
    return database.read(manager => readSince(manager, statement, since))
  }
  try {
    return await read()
  } catch (error) {
    if (error instanceof DatabaseUnavailable || withoutTimeline.has(database)) throw error
    withoutTimeline.add(database)
    return read()
  }
}

const readSince = async (manager: EntityManager, statement: string, since: string | undefined) => {
  /** By this process's clock, milliseconds since the epoch. */
  const at = Date.now()
  // Read before the rows, so that everything a transaction below this number changed is visible to the queries below.
  const [now] = await query<{ timeline: string; xmin: string }>(manager, statement)
  const { timeline = '', xmin = '0' } = now ?? {}
  const [known, last] = since?.split(' ') ?? []
  const complete =
    known !== timeline || last === undefined || !/^[0-9]{1,20}$/.test(last) || BigInt(last) > BigInt(xmin)
  const from = complete ? '0' : last
  const tokens = await query<RevokedToken>(manager, TOKENS, [from])
  const versions = await query<PersonVersion>(manager, VERSIONS, [from])
  return {
    /** Unexpired revoked tokens. */
    tokens,
    /** People whose version is above 0. */
    versions,
    /** Where the next `changesSince` continues. */
    cursor: `${timeline} ${xmin}`,
    at,
    /** Whether this is the complete state, rather than a set of changes. */
    complete
  }
}

// A number of a transaction means something on its own timeline of its own server only: a promoted standby uses the numbers of
// lost transactions again.
const CURSOR = `
  SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS xmin, CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE
    (SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
  END AS timeline`

const PLAIN_CURSOR = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS xmin, '' AS timeline"

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

const RESTORER = { id: null, username: 'gateway' }

/** Logins that the person had when their tokens ended are ended one by one, so that later ones are not. */
const restore = async (manager: EntityManager, { tokens, people }: Lost): Promise<void> => {
  const values = [people.map(({ userId }) => userId), people.map(({ heardAt }) => heardAt)]
  const lowest = people.map(({ lowestAccepted }) => lowestAccepted)
  const sessions = await query<RevokedToken>(manager, ENDED_SESSIONS, [...values, lowest])
  const personal = await query<RevokedToken>(manager, ENDED_TOKENS, [...values, lowest])
  const restored: RevokedToken[] = []
  for (const { jti, expiresAt } of [...tokens, ...sessions, ...personal]) {
    const [row] = await query<RevokedToken>(manager, RESTORE, [jti, expiresAt])
    if (row !== undefined) restored.push(row)
  }
  if (restored.length === 0) return
  await announce(manager, [{ kind: 'many' }])
  const details = { tokens: restored.length, people: people.length }
  await appendAudit(manager, { actor: RESTORER, action: 'revocations.restored', details })
}

const PEOPLE =
  'unnest($1::int[], $2::float8[], $3::int[]) AS lost (user_id, heard_at, lowest) JOIN users u ON u.id = lost.user_id'
const WAS_ENDED = 'created_at < to_timestamp(floor(lost.heard_at)) AND lost.lowest > u.lowest_accepted_version'
const ENDED_SESSIONS = `
  SELECT s.jti, extract(epoch FROM s.expires_at)::float8 AS "expiresAt" FROM sessions s, ${PEOPLE}
  WHERE s.user_id = lost.user_id AND s.${WAS_ENDED}`
const ENDED_TOKENS = `
  DELETE FROM personal_tokens t USING ${PEOPLE} WHERE t.user_id = lost.user_id AND t.${WAS_ENDED} AND t.version < lost.lowest
  RETURNING 'pt_' || t.id AS jti, extract(epoch FROM t.expires_at)::float8 AS "expiresAt"`
const RESTORE = `
  INSERT INTO revocations (jti, expires_at) VALUES ($1, to_timestamp($2::float8)) ON CONFLICT (jti) DO NOTHING
  RETURNING jti, extract(epoch FROM expires_at)::float8 AS "expiresAt"`

// Refreshed copies share jti and exp; if they ever differ, the later expiry counts.
// An instance whose SESSION_MAX is shorter does not know how long the renewed tokens of another one live; their session does.
const REVOKE = `
  INSERT INTO revocations (jti, expires_at)
  SELECT $1, greatest(to_timestamp($2::float8), (SELECT expires_at FROM sessions WHERE jti = $1))
  ON CONFLICT (jti) DO UPDATE SET
    expires_at = greatest(revocations.expires_at, excluded.expires_at), revoked_in = excluded.revoked_in
  RETURNING jti, extract(epoch FROM expires_at)::float8 AS "expiresAt"`

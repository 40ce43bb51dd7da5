// Stores what ended early: revoked tokens, and the versions below which a person's tokens are stale; names the history that they belong to.
import type { EntityManager } from 'typeorm'
import { BadRequest } from '../errors.ts'
import type { Lost, LostPerson, PersonVersion, RevokedToken } from '../tokens/revocations.ts'
import { announce } from './access-changes.ts'
import { type AuditEntry, appendAudit, unlessErased } from './audit-entry.ts'
import { type Database, readRows } from './database.ts'
import { databaseCode } from './database-errors.ts'
import { query, storableKey } from './query.ts'

export const createTokenState = (database: Database) => ({
  /** Everything needed to check tokens without another query. */
  loadRevocations: () => readState(database, undefined),
  /**
   * What was committed since `cursor`; some of it may be repeated, but nothing is missing: transactions that commit late are
   * found by their number. Complete again if the database was replaced by an older one.
   * @param from an earlier cursor, from which on changes are read again
   */
  changesSince: (cursor: string, from = cursor) => readState(database, cursor, from),
  /** Ends a token on every instance, with the audit entry of its owner in the same transaction. `expiresAt` in seconds. */
  revokeToken: (jti: string, expiresAt: number, entry?: AuditEntry): Promise<void> =>
    database.write(async manager => {
      const kept = entry && (await unlessErased(manager, entry.actor.id, entry))
      await revokeToken(manager, jti, expiresAt)
      if (kept !== undefined) await appendAudit(manager, kept)
    }),
  /** Writes back what a fail-over has lost; several instances may do so at once. */
  restore: (lost: Lost): Promise<void> => database.write(manager => restore(manager, lost), RESTORE_MS),
  /** Removes what has expired: revocations, used OAuth states, login addresses unused for 180 days. */
  purgeExpired: (): Promise<void> => purgeExpired(database)
})

/** One transaction, because an idle installation reads every two seconds. */
const readState = (database: Database, since: string | undefined, again = since) =>
  onTimeline(database, timeline => database.write(manager => readSince(manager, timeline, since, again)))

const readSince = async (
  manager: EntityManager,
  timelineName: string,
  since: string | undefined,
  again: string | undefined
) => {
  /** By this process's clock, milliseconds since the epoch. */
  const at = Date.now()
  // Read before the rows, so that everything a transaction below this number changed is visible to the queries below.
  const [now] = await query<{ timeline: string; place: string; snapshot: string; nowS: number }>(
    manager,
    `SELECT pg_current_snapshot()::text AS snapshot, ${timelineName} AS timeline, ${timelineName === NONE ? NONE : PLACE} AS place,
      extract(epoch FROM now())::float8 AS "nowS"`
  )
  const { timeline = '', place = '', snapshot = '', nowS = 0 } = now ?? {}
  const history = timeline + place
  const [, xmin = '0', xmax = '0'] = SNAPSHOT.exec(snapshot) ?? []
  const [known, last = ''] = since?.split(' ') ?? []
  const [, lastXmin, lastXmax] = SNAPSHOT.exec(last) ?? []
  const complete =
    known !== history ||
    lastXmin === undefined ||
    lastXmax === undefined ||
    BigInt(lastXmin) > BigInt(xmin) ||
    BigInt(lastXmax) > BigInt(xmax)
  const from = complete ? EVERYTHING : again?.split(' ').at(-1)
  const tokens = await query<RevokedToken>(manager, TOKENS, [from])
  const versions = await query<PersonVersion>(manager, VERSIONS, [from])
  const lost = await query<LostPerson>(manager, LOST, [from])
  return {
    /** Unexpired revoked tokens. */
    tokens,
    /** People whose version is above 0. */
    versions,
    /** People whose access had changed in what a fail-over has lost. */
    lost,
    /** Where the next `changesSince` continues. */
    cursor: `${history} ${hasExactSnapshots(timeline) ? snapshot : `${xmin}:${xmin}:`}`,
    at,
    nowS,
    /** Whether this is the complete state, rather than a set of changes. */
    complete,
    /** What has ended since may be missing: nothing says how far a standby lags behind. */
    mayLag: timeline === STANDBY
  }
}

/** A pg_snapshot: of transactions from `xmin` on, those below `xmax` had ended, unless they are among those that follow. */
const SNAPSHOT = /^([0-9]{1,20}):([0-9]{1,20}):[0-9,]*$/
const EVERYTHING = '1:1:'

/**
 * Elsewhere everything from `xmin` on is read again: the snapshot of a standby leaves out what is under way (`xip` is empty there), and
 * without a timeline a fail-over goes unnoticed, after which numbers of what has been read may be used again.
 */
const hasExactSnapshots = (timeline: string): boolean => timeline !== '' && timeline !== STANDBY

/**
 * Whether a transaction that the snapshot `$1` could not see wrote the row. One that stays open for hours holds `xmin` back, but has
 * nothing read again. Leaves out rows of a dump of another server, whose transactions may have had higher numbers: they have been
 * read with the complete state.
 */
export const writtenSince = (column: string): string =>
  `(${column} >= pg_snapshot_xmin($1::text::pg_snapshot) AND NOT pg_visible_in_snapshot(${column}, $1::text::pg_snapshot)
    AND ($1::text = '${EVERYTHING}' OR ${column} < pg_snapshot_xmax(pg_current_snapshot())))`

// A minute of tolerance, because the gateway's clock may lag behind the database's.
const TOKENS = `
  SELECT jti, extract(epoch FROM expires_at)::float8 AS "expiresAt" FROM revocations
  WHERE ${writtenSince('revoked_in')} AND expires_at > now() - interval '1 minute'`
const VERSIONS = `
  SELECT id AS "userId", access_version AS version, lowest_accepted_version AS "lowestAccepted" FROM users
  WHERE access_version > 0 AND ${writtenSince('version_changed_in')}`
const LOST = `
  SELECT user_id AS "userId", lowest_accepted AS "lowestAccepted", extract(epoch FROM heard_at)::float8 AS "receivedAt"
  FROM lost_people WHERE ${writtenSince('written_in')}`

/** Ends a token and its session on every instance, within a transaction. */
export const revokeToken = (manager: EntityManager, jti: string, expiresAt: number) =>
  revokeTokens(manager, [{ jti, expiresAt }])

/** The same for any number of different tokens. */
export const revokeTokens = async (manager: EntityManager, tokens: readonly RevokedToken[]) => {
  const keys = tokens.map(({ jti }) => storableKey(jti))
  const ends = tokens.map(({ expiresAt }) => expiresAt)
  if (keys.includes(undefined) || !ends.every(Number.isFinite)) throw new BadRequest({ reason: 'bad-token-id' })
  const revoked = await query<RevokedToken>(manager, REVOKE, [keys, ends])
  await announce(
    manager,
    revoked.map(token => ({ kind: 'token', ...token }))
  )
  await query(manager, 'DELETE FROM sessions WHERE jti = ANY ($1::text[])', [keys])
}

const RESTORER = { id: null, username: 'gateway' }
/** For all that has ended since a backup that was restored: until it is written back, no change is read. */
const RESTORE_MS = 60_000

const restore = async (manager: EntityManager, { tokens, people }: Lost): Promise<void> => {
  const ids = people.map(({ userId }) => userId)
  const values = [ids, people.map(({ lowestAccepted }) => lowestAccepted), people.map(({ receivedAt }) => receivedAt)]
  await query(manager, SKIP_VERSIONS, [ids, people.map(({ version }) => version)])
  await query(manager, SKIP_TOKENS, [tokens.map(({ jti }) => jti)])
  await query(manager, SKIP_PEOPLE, [ids])
  const restoredPeople = await query(manager, RESTORE_PEOPLE, values)
  await query(manager, END_SESSIONS, values)
  const personal = await query<RevokedToken>(manager, END_PERSONAL, values)
  const ended = [...tokens, ...personal]
  const columns = [ended.map(({ jti }) => jti), ended.map(({ expiresAt }) => expiresAt)]
  const restoredTokens = await query(manager, RESTORE, columns)
  for (const statement of END_BROUGHT_BACK) await query(manager, statement, [tokens.map(({ jti }) => jti)])
  if (restoredPeople.length + restoredTokens.length === 0) return
  await announce(manager, [{ kind: 'many' }])
  const details = { tokens: tokens.length, people: people.length }
  await appendAudit(manager, { actor: RESTORER, action: 'revocations.restored', details })
}

// What was lost is not counted again: a token that has such a version would outlive the next change of its person. Tokens issued
// since the loss remain valid, so no instance is notified. The step is bounded, because every user of the database can send announcements.
const SKIP_VERSIONS = `
  WITH behind AS (
    SELECT u.id, lost.version FROM unnest($1::int[], $2::int[]) AS lost (id, version) JOIN users u ON u.id = lost.id
    WHERE u.access_version < lost.version ORDER BY u.id FOR NO KEY UPDATE OF u)
  UPDATE users u SET access_version = least(greatest(access_version, behind.version), access_version + 1000)
  FROM behind WHERE u.id = behind.id`
const skipIds = (table: 'personal_tokens' | 'users', last: string): string => {
  const next = `nextval(pg_get_serial_sequence('${table}', 'id'))`
  return `
  WITH lost AS (${last}),
  behind AS MATERIALIZED (SELECT lost.id AS last, ${next} AS id FROM lost WHERE lost.id IS NOT NULL)
  SELECT count(${next}) FROM behind, generate_series(behind.id + 1, least(behind.last, behind.id + 100000))`
}
// Nor are the ids of ended access tokens: new ones would count as ended.
const SKIP_TOKENS = skipIds(
  'personal_tokens',
  "SELECT max(substr(jti, 4)::bigint) AS id FROM unnest($1::text[]) AS jti WHERE jti ~ '^pt_[0-9]{1,10}$'"
)
// Nor are those of people who are lost themselves: backends would take a new person for one of them.
const SKIP_PEOPLE = skipIds('users', 'SELECT max(id)::bigint AS id FROM unnest($1::int[]) AS id')
// Several instances may have heard of the same change; tokens issued since the loss are later than all of that.
const RESTORE_PEOPLE = `
  INSERT INTO lost_people AS known (user_id, lowest_accepted, heard_at, written_in)
  SELECT id, lowest, to_timestamp(heard), pg_current_xact_id()
  FROM unnest($1::int[], $2::int[], $3::float8[]) AS lost (id, lowest, heard) ORDER BY id
  ON CONFLICT (user_id) DO UPDATE SET lowest_accepted = greatest(known.lowest_accepted, excluded.lowest_accepted),
    heard_at = greatest(known.heard_at, excluded.heard_at), written_in = excluded.written_in
  WHERE known.lowest_accepted < excluded.lowest_accepted OR known.heard_at < excluded.heard_at
  RETURNING user_id`
const ENDED =
  'unnest($1::int[], $2::int[], $3::float8[]) AS lost (user_id, lowest, heard) JOIN users u ON u.id = lost.user_id'
const WAS_ENDED = 'created_at <= to_timestamp(lost.heard) AND lost.lowest > u.lowest_accepted_version'
const END_SESSIONS = `DELETE FROM sessions s USING ${ENDED} WHERE s.user_id = lost.user_id AND s.${WAS_ENDED}`
const END_PERSONAL = `
  DELETE FROM personal_tokens t USING ${ENDED} WHERE t.user_id = lost.user_id AND t.${WAS_ENDED} AND t.version < lost.lowest
  RETURNING 'pt_' || t.id AS jti, extract(epoch FROM t.expires_at)::float8 AS "expiresAt"`
const RESTORE = `
  INSERT INTO revocations (jti, expires_at)
  SELECT jti, to_timestamp(at) FROM unnest($1::text[], $2::float8[]) AS ended (jti, at) ORDER BY jti
  ON CONFLICT (jti) DO NOTHING RETURNING jti`

/** What had ended with these tokens is there again. */
const END_BROUGHT_BACK = [
  'DELETE FROM sessions WHERE jti = ANY ($1::text[])',
  "DELETE FROM personal_tokens WHERE 'pt_' || id = ANY ($1::text[])"
]

// Refreshed copies share jti and exp; if they ever differ, the later expiry counts.
// An instance whose SESSION_MAX is shorter does not know how long the renewed tokens of another one live; their session does.
// A renewal that is under way is waited for.
const REVOKE = `
  WITH live AS (SELECT jti, expires_at FROM sessions WHERE jti = ANY ($1::text[]) ORDER BY jti FOR UPDATE)
  INSERT INTO revocations (jti, expires_at)
  SELECT ended.jti, greatest(to_timestamp(ended.at), s.expires_at)
  FROM unnest($1::text[], $2::float8[]) AS ended (jti, at) LEFT JOIN live s ON s.jti = ended.jti ORDER BY ended.jti
  ON CONFLICT (jti) DO UPDATE SET
    expires_at = greatest(revocations.expires_at, excluded.expires_at), revoked_in = excluded.revoked_in
  RETURNING jti, extract(epoch FROM expires_at)::float8 AS "expiresAt"`

const PORTION = 5_000

type Purge = readonly [table: string, condition: string]

// An instance whose clock is behind still accepts what has expired.
const EXPIRED = "expires_at < now() - interval '5 minutes'"

const DELETED: readonly Purge[] = [
  ['revocations', EXPIRED],
  ['used_oauth_states', EXPIRED],
  ['sessions', EXPIRED],
  ['personal_tokens', EXPIRED],
  ['provider_sessions', 'expires_at < now()'],
  ['used_logout_tokens', EXPIRED],
  ['login_permits', EXPIRED],
  ['login_attempts', 'expires_at < now()'],
  // No address is held back for so long. Where the directory never forgets, freed rows would stay for good.
  ['login_attempts', "kind = 'freed' AND at < now() - interval '1 day'"],
  // Longer than any token lives.
  ['lost_people', "heard_at < now() - interval '400 days'"],
  ['login_addresses', "last_success_at < now() - interval '180 days'"]
]

const some = ([table, condition]: Purge): string =>
  `ctid = ANY (ARRAY(SELECT ctid FROM ${table} WHERE ${condition} LIMIT ${PORTION} FOR UPDATE SKIP LOCKED))`

const STATEMENTS: readonly string[] = [
  ...DELETED.map(purge => `DELETE FROM ${purge[0]} WHERE ${some(purge)}`),
  `UPDATE login_attempts SET pair = '' WHERE ${some(['login_attempts', "pair <> '' AND at < now() - interval '1 day'"])}`
]

/** Deletes what has expired, in portions that end well within the deadline of a statement, however much there is. */
const purgeExpired = async (database: Database): Promise<void> => {
  for (const statement of STATEMENTS) {
    const portion = `WITH purged AS (${statement} RETURNING 1) SELECT count(*)::int AS count FROM purged`
    for (;;) {
      const [row] = await readRows<{ count: number }>(database, portion)
      if (row?.count !== PORTION) break
    }
  }
}

const STANDBY = 'standby'

/**
 * Another server, or a standby that was promoted, has another name; numbers of transactions and of audit entries may have been
 * used again there. An expression of SQL.
 */
const TIMELINE = `CASE WHEN pg_is_in_recovery() THEN '${STANDBY}' ELSE
    (SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) END`

/** No such function, none that may be called, none that is supported, or no such syntax (PostgreSQL documentation, appendix A). */
const NO_TIMELINE: ReadonlySet<string> = new Set(['42883', '42501', '0A000', '42601'])

/** A backup that is restored on the same server, into another database that takes the place of this one, has another. */
const DATABASE = "'/' || (SELECT oid FROM pg_database WHERE datname = current_database())"
/** And the tables: one that is restored in their place has others. */
const PLACE = `${DATABASE} || '/' || 'users'::regclass::oid`
const NONE = "''"

/** Databases that have no timelines to ask for, as services that only resemble Postgres. */
const withoutTimeline = new WeakSet<Database>()

/** Runs work with {@link TIMELINE}, or with an empty name where the database has none. */
export const onTimeline = async <T>(database: Database, work: (timeline: string) => Promise<T>): Promise<T> => {
  if (withoutTimeline.has(database)) return work(NONE)
  try {
    return await work(TIMELINE)
  } catch (error) {
    // The work may lack another right, or another function.
    if (!NO_TIMELINE.has(databaseCode(error)) || (await hasTimeline(database))) throw error
    withoutTimeline.add(database)
    return work(NONE)
  }
}

const hasTimeline = (database: Database): Promise<boolean> =>
  readRows(database, `SELECT ${TIMELINE}`).then(
    () => true,
    error => !NO_TIMELINE.has(databaseCode(error))
  )

/** With the database on it; empty if there are no timelines to ask for. */
export const readTimeline = (database: Database): Promise<string> =>
  onTimeline(database, async timeline => {
    const place = timeline === NONE ? NONE : `${timeline} || ${DATABASE}`
    const [row] = await readRows<{ timeline: string }>(database, `SELECT ${place} AS timeline`)
    return row?.timeline ?? ''
  })

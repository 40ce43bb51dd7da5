// Remembers when the directory last confirmed a person, and who is due to be looked up again.
import type { EntityManager } from 'typeorm'
import { raiseVersions } from './access-changes.ts'
import { type Actor, type AuditEntry, appendAudits } from './audit-entry.ts'
import { type Database, readRows } from './database.ts'
import { applyGroups } from './granted-access.ts'
import { HOLDS_LOGIN, query } from './query.ts'

export interface DueAccount {
  readonly userId: number
  readonly subject: string
  /** The value inserted into the directory's filter. */
  readonly login: string
  /** An earlier lookup found nothing. */
  readonly wasMissing: boolean
  /** Since it was last looked up. */
  readonly ageMs: number
}

export type DirectoryAccounts = ReturnType<typeof createDirectoryAccounts>

/** Each throws `GW_UNAVAILABLE` if the database is unavailable. */
export const createDirectoryAccounts = (database: Database) => ({
  /**
   * Whether `holder` looks people up on behalf of all instances until `leaseMs` from now. Only one does at a time; another
   * takes over when it stops asking.
   */
  lead: async (holder: string, leaseMs: number): Promise<boolean> =>
    (await readRows(database, LEAD, [holder, leaseMs])).length === 1,
  /** Releases the lease, so that another instance may take over at once. */
  resign: (holder: string) => readRows(database, 'DELETE FROM directory_recheck WHERE holder = $1', [holder]),
  /** People with a live session or access token: their number, and how many of them are missing. */
  count: async () => {
    const [row] = await readRows<{ readonly live: number; readonly missing: number }>(database, COUNT)
    return row ?? { live: 0, missing: 0 }
  },
  /**
   * Up to `limit` of them that were not looked up for `ageMs`, the longest first.
   * @param mostMs without those that were not looked up for even longer
   */
  due: (ageMs: number, limit: number, mostMs?: number): Promise<readonly DueAccount[]> =>
    mostMs === undefined
      ? readRows<DueAccount>(database, DUE, [ageMs, limit])
      : readRows<DueAccount>(database, RECENTLY_DUE, [ageMs, limit, mostMs]),
  /** The directory reported that the account is open; `areGroupsRead`: and its groups. */
  confirm: (userId: number, areGroupsRead: boolean) => readRows(database, CONFIRM, [userId, areGroupsRead]),
  /** Its groups could not be read, by a recheck. True: what they grant has lapsed. */
  missGroups: async (userId: number): Promise<boolean> => {
    const [row] = await readRows<{ hasLapsed: boolean }>(database, MISS_GROUPS, [userId])
    return row?.hasLapsed ?? false
  },
  /** A lookup found nothing. */
  miss: (userId: number) => readRows(database, MISS, [userId]),
  /** It was looked up, without any consequence. */
  postpone: (userId: number) =>
    readRows(database, 'UPDATE directory_accounts SET checked_at = now() WHERE user_id = $1', [userId]),
  /**
   * Ends all sessions, tokens and streams of the person, and what the groups there grant; they may log in again. False: there was nothing to end.
   * @param readAt when the directory was asked, by `performance.now()`; nothing ends if the person has logged in since
   */
  end: (actor: Actor, userId: number, reason: string, readAt?: number): Promise<boolean> =>
    database.write(async manager => {
      const [row] = await query(manager, END, [userId, readAt === undefined ? undefined : performance.now() - readAt])
      if (row === undefined) return false
      await raiseVersions(manager, [userId], true)
      // They may log in at the cloud provider.
      const granted = await applyGroups(manager, userId, { provider: 'ldap', groups: [] })
      const target = `user:${userId}`
      const entry = { actor, action: 'person.ended-by-directory', target, details: { reason } }
      await appendAudits(manager, [...granted, entry])
      return true
    })
})

/**
 * A login found the account open. Part of the login's transaction. True: its groups could not be read, and what they grant
 * has lapsed.
 */
export const confirmAccount = async (
  manager: EntityManager,
  userId: number,
  { subject, login }: Pick<DueAccount, 'subject' | 'login'>,
  areGroupsUnreadable: boolean
): Promise<boolean> => {
  const [row] = await query<{ hasLapsed: boolean }>(manager, LOGGED_IN, [userId, login, areGroupsUnreadable, subject])
  return row?.hasLapsed ?? false
}

/** Release 1.0.0 ended people but not what their groups in the directory grant. For a login with another provider. */
export const dropEndedGroups = async (manager: EntityManager, userId: number): Promise<AuditEntry[]> => {
  const [left] = await query(manager, LEFT_GROUPS, [userId])
  return left === undefined ? [] : applyGroups(manager, userId, { provider: 'ldap', groups: [] })
}

/** Two rechecks, or a day where nothing is rechecked. */
const HAS_LAPSED = (row: string) =>
  `coalesce(${row}.groups_misses >= 2 OR ${row}.groups_unread_since <= now() - interval '24 hours', false) AS "hasLapsed"`

const LOGGED_IN = `
  INSERT INTO directory_accounts AS a (user_id, login, checked_at, groups_unread_since, subject)
  VALUES ($1, $2, now(), CASE WHEN $3::boolean THEN now() END, $4)
  ON CONFLICT (user_id) DO UPDATE SET
    login = excluded.login, subject = excluded.subject, checked_at = now(), missing_since = NULL, ended_at = NULL,
    groups_unread_since = CASE WHEN $3::boolean THEN coalesce(a.groups_unread_since, now()) END,
    groups_misses = CASE WHEN $3::boolean THEN a.groups_misses ELSE 0 END
  RETURNING ${HAS_LAPSED('a')}`
const MISS_GROUPS = `
  UPDATE directory_accounts AS a
  SET groups_unread_since = coalesce(groups_unread_since, now()), groups_misses = groups_misses + 1
  WHERE user_id = $1 RETURNING ${HAS_LAPSED('a')}`
const CONFIRM = `
  UPDATE directory_accounts SET checked_at = now(), confirmed_at = now(), missing_since = NULL,
    groups_unread_since = CASE WHEN $2::boolean THEN NULL ELSE groups_unread_since END,
    groups_misses = CASE WHEN $2::boolean THEN 0 ELSE groups_misses END
  WHERE user_id = $1`
const MISS = `
  UPDATE directory_accounts SET checked_at = now(), missing_since = coalesce(missing_since, now()) WHERE user_id = $1`
const END = `
  UPDATE directory_accounts SET checked_at = now(), ended_at = now(), missing_since = NULL
  WHERE user_id = $1 AND ended_at IS NULL
    AND ($2::float8 IS NULL OR checked_at NOT BETWEEN now() - $2 * interval '1 millisecond' AND clock_timestamp())
  RETURNING user_id`
const LEFT_GROUPS = `
  SELECT FROM directory_accounts a JOIN person_groups g USING (user_id)
  WHERE user_id = $1 AND a.ended_at IS NOT NULL AND g.provider = 'ldap' AND g.groups <> '{}'`
// A lease that ends much later than one that begins now is of a clock that has been set back since.
const LEAD = `
  INSERT INTO directory_recheck (one, holder, held_until)
  VALUES (true, $1, clock_timestamp() + $2::float8 * interval '1 millisecond')
  ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
  WHERE directory_recheck.holder = excluded.holder OR directory_recheck.held_until < clock_timestamp()
    OR directory_recheck.held_until > excluded.held_until + interval '1 minute'
  RETURNING holder`

const LIVE = `
  directory_accounts a JOIN users u ON u.id = a.user_id AND NOT u.disabled
  WHERE a.ended_at IS NULL AND EXISTS (
    SELECT FROM provider_links l WHERE l.user_id = a.user_id AND l.provider = 'ldap'
  ) AND ${HOLDS_LOGIN}`
const COUNT = `SELECT count(*)::int AS live, count(a.missing_since)::int AS missing FROM ${LIVE}`
const BEFORE = (ms: string) => `now() - ${ms}::float8 * interval '1 millisecond'`
// Of several accounts, the one that last logged in.
const firstOf = (due: string) => `
  SELECT a.user_id AS "userId", l.subject, a.login, a.missing_since IS NOT NULL AS "wasMissing",
    extract(epoch FROM now() - a.checked_at)::float8 * 1000 AS "ageMs"
  FROM (${due} ORDER BY checked_at LIMIT $2) AS a
  CROSS JOIN LATERAL (
    SELECT subject FROM provider_links WHERE user_id = a.user_id AND provider = 'ldap'
    ORDER BY subject IS NOT DISTINCT FROM a.subject DESC, created_at DESC LIMIT 1
  ) AS l
  ORDER BY a.checked_at`
// All at once, as they are counted: one by one, the many who are not logged in would come first, each looked for among the sessions.
// A look-up that lies ahead is of a clock that has been set back since.
const DUE = firstOf(`
  WITH live AS MATERIALIZED (SELECT a.* FROM ${LIVE})
  SELECT * FROM live WHERE checked_at <= ${BEFORE('$1')} OR checked_at > now() + interval '1 minute'`)
// By index: in a large installation, half of all people may be due.
const RECENTLY_DUE = firstOf(`SELECT a.* FROM ${LIVE} AND a.checked_at BETWEEN ${BEFORE('$3')} AND ${BEFORE('$1')}`)

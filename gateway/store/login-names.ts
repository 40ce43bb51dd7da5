// Remembers which names and addresses belong to one account, whom a failed login was for, and which OAuth states were used.
import type { EntityManager } from 'typeorm'
import type { AccountClue } from '../identity.ts'
import { type Database, readRows } from './database.ts'
import { LAST_LOGIN, STABLE } from './links.ts'
import { accountKeyOf, since } from './login-attempts.ts'
import type { StoredPerson } from './people.ts'
import { query, storableKey } from './query.ts'

export type LoginNames = ReturnType<typeof createLoginNames>

/** An account that has just logged in. */
interface NamedAccount {
  readonly subject: string
  readonly username: string
  /** The login attributes of its own entry. */
  readonly names?: readonly string[] | undefined
}

/** Each throws `GW_UNAVAILABLE` if the database is unavailable. */
export const createLoginNames = (database: Database) => ({
  /** The person whose account it is; undefined if there is none, or the clue leads to several. */
  personOf: async (clue: AccountClue): Promise<NamedPerson | undefined> => {
    const [person, another] = await ('bound' in clue
      ? readRows<NamedPerson>(database, BY_BOUND_NAME, [storableKey(clue.bound) ?? ''])
      : readRows<NamedPerson>(database, BY_ENTRY, [clue.subject, clue.names, clue.createdAt ?? null]))
    return another === undefined ? person : undefined
  },
  /**
   * These names lead to this account from now on. A directory forgets earlier failures when it accepts a password: so do
   * we, for names that are new, those of which ended before the login began.
   */
  join: async ({ subject, username, names = [] }: NamedAccount, beganMsAgo: number): Promise<void> => {
    const [account, link] = [storableKey(username), storableKey(subject)]
    const logins = [...new Set(names)].flatMap(name => storableKey(name) ?? [])
    if (account === undefined || link === undefined || logins.length === 0) return
    await readRows(database, JOIN, [account, logins, link, beganMsAgo])
  }
})

/** The person who has logged in with it, or whose account it leads to; undefined if there is none, or several have. */
export const findByLogin = async (database: Database, login: string): Promise<NamedPerson | undefined> => {
  const [person, another] = await readRows<NamedPerson>(database, BY_LOGIN, [storableKey(login) ?? ''])
  return another === undefined ? person : undefined
}

interface NamedPerson {
  readonly id: number
  readonly username: string
}

const ADDRESSES_PER_LOGIN = 200

export const createLoginMemory = (database: Database) => ({
  /** True for exactly one caller on all instances, until `expiresAt`; false if the state or one-time code was used before. */
  useOAuthState: async (nonce: string, expiresAt: Date): Promise<boolean> =>
    (await readRows(database, USE, [nonce, expiresAt])).length === 1,
  /** Records a success for 180 days; the 200 latest addresses per login are kept. `login` is the canonical login. */
  async rememberAddress(login: string, address: string, userId: number): Promise<void> {
    const [who, from] = [storableKey(login), storableKey(address)]
    if (who === undefined || from === undefined) return
    await readRows(database, REMEMBER, [who, from, userId, ADDRESSES_PER_LOGIN - 1])
  }
})

/** `guards`: all that the permits of a directory account may be counted under, its logins and its stable subject. */
export const guardsOfPerson = async (manager: EntityManager, { id, username, provider }: StoredPerson['user']) => {
  const rows = await query<{ name: string; isLogin: boolean }>(manager, GUARDS, [id])
  // Somebody else may have the username of a cloud account as login in the directory, or of a person whose account was relinked.
  const own = provider === 'ldap' && rows.length > 0 ? [username] : []
  const logins = new Set([...own, ...rows.flatMap(({ name, isLogin }) => (isLogin ? name : []))])
  return { logins: [...logins], guards: [...new Set([...logins, ...rows.map(({ name }) => name)])] }
}

/** The person was the last to log in with it: a login may be given to somebody else. Of a row `l` of login_addresses. */
export const IS_LATEST = `NOT EXISTS (
  SELECT FROM login_addresses o
  WHERE o.login = l.login AND o.user_id <> l.user_id AND o.last_success_at > l.last_success_at
)`

const PERSON = `SELECT DISTINCT u.id, u.username FROM provider_links l JOIN users u ON u.id = l.user_id
  WHERE l.provider = 'ldap' AND`
// What was typed may look like the stable subject of somebody.
const BY_BOUND_NAME = `${PERSON} l.subject IN (
  CASE WHEN $1 !~ ${STABLE} THEN $1 END, (SELECT subject FROM login_names WHERE login = $1)) LIMIT 2`
// A link by login name counts only where this entry would take it over at its next login.
const BY_ENTRY = `
  WITH own AS (${PERSON} l.subject = $1
    AND (l.subject ~ ${STABLE} OR $3::timestamptz IS NULL OR ${LAST_LOGIN} >= $3::timestamptz - interval '1 hour'))
  SELECT * FROM own
  UNION ALL (${PERSON} l.subject = ANY($2::text[]) AND ${LAST_LOGIN} > $3::timestamptz + interval '1 second'
    AND NOT EXISTS (SELECT FROM own)
    AND NOT EXISTS (
      SELECT FROM provider_links o WHERE o.user_id = u.id AND o.provider = 'ldap' AND o.subject ~ ${STABLE}
    ))
  LIMIT 2`
// With a service account, the last one that was typed is all that is kept.
const BY_LOGIN = `${PERSON} (l.subject IN (SELECT subject FROM login_names WHERE login = $1)
  OR u.id IN (SELECT user_id FROM directory_accounts WHERE login = $1)) LIMIT 2`
const GUARDS = `
  SELECT login AS name, true AS "isLogin" FROM login_names
    WHERE subject IN (SELECT subject FROM provider_links WHERE user_id = $1 AND provider = 'ldap')
  UNION SELECT login, true FROM directory_accounts WHERE user_id = $1
  UNION SELECT l.login, l.login !~ ${STABLE} FROM login_addresses l WHERE l.user_id = $1 AND ${IS_LATEST}
  UNION SELECT subject, subject !~ ${STABLE} FROM provider_links WHERE user_id = $1 AND provider = 'ldap'
  ORDER BY name`
const JOIN = `
  WITH joined AS (
    INSERT INTO login_names (login, account, subject) SELECT login, $1, $3 FROM unnest($2::text[]) AS login ORDER BY login
    ON CONFLICT (login) DO UPDATE SET account = excluded.account, subject = excluded.subject, joined_at = now()
    WHERE login_names.account <> excluded.account OR login_names.subject IS DISTINCT FROM excluded.subject
    RETURNING login
  )
  UPDATE login_attempts SET kind = 'freed' FROM joined
  WHERE kind = 'failed' AND account = ${accountKeyOf('joined.login')} AND at < ${since('$4')}`
const USE = 'INSERT INTO used_oauth_states (nonce, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING nonce'
const REMEMBER = `
  WITH forgotten AS (
    DELETE FROM login_addresses WHERE login = $1 AND address IN (
      SELECT address FROM login_addresses WHERE login = $1 AND address <> $2 ORDER BY last_success_at DESC OFFSET $4
    )
  )
  INSERT INTO login_addresses (login, address, user_id, last_success_at)
  SELECT $1, $2, id, now() FROM users WHERE id = $3 AND erased_at IS NULL FOR SHARE
  ON CONFLICT (login, address) DO UPDATE SET user_id = excluded.user_id, last_success_at = excluded.last_success_at`

// Remembers which names of the directory belong to one account, and whom a failed login was for.
import type { EntityManager } from 'typeorm'
import type { AccountClue } from '../identity.ts'
import type { Database } from './database.ts'
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
  personOf: (clue: AccountClue): Promise<NamedPerson | undefined> =>
    database.read(async manager => {
      const [person, another] = await findPeople(manager, clue)
      return another === undefined ? person : undefined
    }),
  /**
   * These names lead to this account from now on. A directory forgets earlier failures when it accepts a password: so do
   * we, for names that are new, those of which ended before the login began.
   */
  join: ({ subject, username, names = [] }: NamedAccount, beganMsAgo: number): Promise<void> =>
    database.read(async manager => {
      const [account, link] = [storableKey(username), storableKey(subject)]
      const logins = [...new Set(names)].flatMap(name => storableKey(name) ?? [])
      if (account === undefined || link === undefined || logins.length === 0) return
      await query(manager, JOIN, [account, logins, link, beganMsAgo])
    })
})

interface NamedPerson {
  readonly id: number
  readonly username: string
}

const findPeople = (manager: EntityManager, clue: AccountClue): Promise<NamedPerson[]> => {
  if ('bound' in clue) return query<NamedPerson>(manager, BY_BOUND_NAME, [storableKey(clue.bound) ?? ''])
  return query<NamedPerson>(manager, BY_ENTRY, [clue.subject, clue.names, clue.createdAt ?? null])
}

interface PersonGuards {
  readonly logins: readonly string[]
  /** All that the permits of this person's directory account may be counted under: the logins and the stable subject. */
  readonly guards: readonly string[]
}

export const guardsOfPerson = async (
  manager: EntityManager,
  { id, username, provider }: StoredPerson['user']
): Promise<PersonGuards> => {
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

// Remembers which logins belong to the same account.
import type { EntityManager } from 'typeorm'
import type { Database } from './database.ts'
import { STABLE } from './links.ts'
import { query } from './query.ts'
import { storableKey } from './storable.ts'

export type LoginNames = ReturnType<typeof createLoginNames>

/** Each throws `GW_UNAVAILABLE` if the database is unavailable. */
export const createLoginNames = (database: Database) => ({
  /** The canonical login of the account that `login` belongs to; undefined if no successful login has shown one. */
  accountOf: (login: string): Promise<string | undefined> =>
    database.read(async manager => {
      const key = storableKey(login)
      const [row] = key === undefined ? [] : await query<{ account: string }>(manager, ACCOUNT, [key])
      return row?.account
    }),
  /** The only person of the directory that a login names; undefined if there is none, or more than one. */
  personOf: (login: string): Promise<NamedPerson | undefined> =>
    database.read(async manager => {
      const key = storableKey(login)
      const [person, another] = key === undefined ? [] : await query<NamedPerson>(manager, PERSON, [key])
      return another === undefined ? person : undefined
    }),
  /** Assigns `logins` to `account` from now on. Returns those that were not assigned to it before. */
  join: (account: string, logins: readonly string[]): Promise<readonly string[]> =>
    database.read(async manager => {
      const key = storableKey(account)
      const names = [...new Set([account, ...logins])].flatMap(name => storableKey(name) ?? [])
      if (key === undefined) return []
      return (await query<{ login: string }>(manager, JOIN, [key, names])).map(({ login }) => login)
    })
})

interface NamedPerson {
  readonly id: number
  readonly username: string
}

/** All logins under which this person's directory account is known. */
export const loginsOfPerson = async (manager: EntityManager, id: number, username: string): Promise<string[]> => {
  const rows = await query<{ login: string }>(manager, LOGINS, [id, username])
  return [...new Set([username, ...rows.map(({ login }) => login)])]
}

const ACCOUNT = 'SELECT account FROM login_names WHERE login = $1'
const PERSON = `
  SELECT u.id, u.username FROM users u
  WHERE lower(u.username) = lower(coalesce((SELECT account FROM login_names WHERE login = $1), $1))
    AND EXISTS (SELECT FROM provider_links l WHERE l.user_id = u.id AND l.provider = 'ldap')
  LIMIT 2`
const LOGINS = `
  SELECT login FROM login_names WHERE account = $2
  UNION SELECT login FROM directory_accounts WHERE user_id = $1
  UNION SELECT subject FROM provider_links WHERE user_id = $1 AND provider = 'ldap'
    AND subject !~ ${STABLE}
  ORDER BY login`
const JOIN = `
  INSERT INTO login_names (login, account) SELECT login, $1 FROM unnest($2::text[]) AS login
  ON CONFLICT (login) DO UPDATE SET account = excluded.account, joined_at = now()
  WHERE login_names.account <> excluded.account
  RETURNING login`

// Remembers which logins have turned out to be one account's.
import type { Database } from './database.ts'
import { query } from './query.ts'
import { storableKey } from './storable.ts'

export interface LoginNames {
  /** The canonical login of the account that `login` leads to; undefined when no success has shown one. */
  accountOf(login: string): Promise<string | undefined>
  /** From now on `logins` lead to `account`. Gives those that did not before. */
  join(account: string, logins: readonly string[]): Promise<readonly string[]>
  /** All logins that lead to `account`, itself included. */
  loginsOf(account: string): Promise<readonly string[]>
}

/** Each throws `GW_UNAVAILABLE` when the database is away. */
export const createLoginNames = (database: Database): LoginNames => ({
  accountOf: login =>
    database.read(async manager => {
      const key = storableKey(login)
      if (key === undefined) return undefined
      const [row] = await query<{ account: string }>(manager, ACCOUNT, [key])
      return row?.account
    }),
  join: (account, logins) =>
    database.read(async manager => {
      const key = storableKey(account)
      const names = [...new Set([account, ...logins])].map(storableKey).filter(name => name !== undefined)
      if (key === undefined) return []
      return (await query<{ login: string }>(manager, JOIN, [key, names])).map(({ login }) => login)
    }),
  loginsOf: account =>
    database.read(async manager => {
      const rows = await query<{ login: string }>(manager, LOGINS, [account])
      return [...new Set([account, ...rows.map(({ login }) => login)])]
    })
})

const ACCOUNT = 'SELECT account FROM login_names WHERE login = $1'
const LOGINS = 'SELECT login FROM login_names WHERE account = $1'
const JOIN = `
  INSERT INTO login_names (login, account) SELECT login, $1 FROM unnest($2::text[]) AS login
  ON CONFLICT (login) DO UPDATE SET account = excluded.account, joined_at = now()
  WHERE login_names.account <> excluded.account
  RETURNING login`

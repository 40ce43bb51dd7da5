// Records which OAuth states and one-time codes of hosts were used, and the addresses from which each person has logged in.
import type { Database } from './database.ts'
import { query, storableKey } from './query.ts'

const ADDRESSES_PER_LOGIN = 200

export const createLoginMemory = (database: Database) => ({
  /** True for exactly one caller on all instances, until `expiresAt`; false if the nonce was used before. */
  useOAuthState: (nonce: string, expiresAt: Date): Promise<boolean> =>
    database.read(async manager => (await query(manager, USE, [nonce, expiresAt])).length === 1),
  /** Records a success for 180 days; the 200 latest addresses per login are kept. `login` is the canonical login. */
  async rememberAddress(login: string, address: string, userId: number): Promise<void> {
    const [who, from] = [storableKey(login), storableKey(address)]
    if (who === undefined || from === undefined) return
    await database.read(manager => query(manager, REMEMBER, [who, from, userId, ADDRESSES_PER_LOGIN - 1]))
  }
})

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

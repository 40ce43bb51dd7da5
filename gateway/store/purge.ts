// Deletes what has expired, in portions that end well within the deadline of a statement, however much there is.
import type { Database } from './database.ts'
import { query } from './query.ts'

const PORTION = 5_000

type Purge = readonly [table: string, condition: string]

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

export const purgeExpired = async (database: Database): Promise<void> => {
  for (const statement of STATEMENTS) {
    const portion = `WITH purged AS (${statement} RETURNING 1) SELECT count(*)::int AS count FROM purged`
    for (;;) {
      const [row] = await database.read(manager => query<{ count: number }>(manager, portion))
      if (row?.count !== PORTION) break
    }
  }
}

// Lists the accounts and client addresses whose failed logins hold them back, and frees them.
import type { EntityManager } from 'typeorm'
import { type AccountPermit, accountKeyOf, ms, since } from './login-attempts.ts'
import { IS_LATEST } from './login-names.ts'
import { query } from './query.ts'

interface AddressRules {
  /** Different pairs of name and password that may fail. */
  readonly perIp: number
  readonly windowMs: number
}

/** The failed and unfinished logins of a person's account; times are ms since the epoch. */
export interface PersonPermits {
  readonly userId: number
  readonly username: string
  readonly now: number
  readonly permits: readonly AccountPermit[]
}

interface HeldAddress {
  readonly address: string
  /** `client`: for the secrets of service accounts. */
  readonly provider: 'ldap' | 'client'
  /** Different pairs of name and password. */
  readonly failures: number
  readonly until: Date
}

/** Of people who have logged in before, by username; the others have no name here. */
export const permitsOfPeople = (manager: EntityManager): Promise<PersonPermits[]> =>
  query<PersonPermits>(manager, PERMITS)

/** By address. */
export const heldAddresses = (manager: EntityManager, { perIp, windowMs }: AddressRules): Promise<HeldAddress[]> =>
  query<HeldAddress>(manager, ADDRESSES, [perIp, windowMs])

/** Addresses from which this person has logged in, or has tried to. */
export const addressesOf = async (
  manager: EntityManager,
  userId: number,
  guards: readonly string[]
): Promise<readonly string[]> =>
  (await query<{ address: string }>(manager, ADDRESSES_OF, [guards, userId])).map(({ address }) => address)

/** From now on failures under these guards count only for their addresses. Returns those that counted for the account. */
export const freeAccount = async (
  manager: EntityManager,
  guards: readonly string[]
): Promise<Pick<PersonPermits, 'now' | 'permits'>> => {
  const [row] = await query<Pick<PersonPermits, 'now' | 'permits'>>(manager, FREE_ACCOUNT, [guards])
  return row ?? { now: 0, permits: [] }
}

/** From now on failures from this address count only for their accounts. Returns how many pairs counted. */
export const freeAddress = async (manager: EntityManager, address: string, windowMs: number): Promise<number> => {
  const [row] = await query<{ freed: number }>(manager, FREE_ADDRESS, [address, windowMs])
  return row?.freed ?? 0
}

const KEYS = `SELECT ${accountKeyOf('login')} FROM unnest($1::text[]) AS login`
const NOW = ms('clock_timestamp()')
const permitsOf = (rows: string): string =>
  `coalesce(json_agg(json_build_object('kind', ${rows}.kind, 'at', ${ms(`${rows}.at`)})), '[]') AS permits`
// The keys are hashes, so those of all people are compared, but only if anything counts for an account.
const PERMITS = `
  WITH held AS MATERIALIZED (
    SELECT account, kind, at FROM login_attempts WHERE provider = 'ldap' AND kind <> 'freed'
  ),
  logins AS (
    SELECT p.user_id, lower(u.username) AS login FROM provider_links p JOIN users u ON u.id = p.user_id
      WHERE p.provider = 'ldap' AND u.provider = 'ldap'
    UNION ALL SELECT user_id, subject FROM provider_links WHERE provider = 'ldap'
    UNION ALL SELECT p.user_id, n.login FROM provider_links p JOIN login_names n ON n.subject = p.subject
      WHERE p.provider = 'ldap'
    UNION ALL SELECT DISTINCT l.user_id, l.login FROM provider_links p JOIN login_addresses l ON l.user_id = p.user_id
      WHERE p.provider = 'ldap' AND ${IS_LATEST}
  ),
  keys AS (SELECT user_id, ${accountKeyOf('login')} AS account FROM logins WHERE EXISTS (SELECT FROM held)),
  people AS (SELECT DISTINCT user_id, account FROM keys WHERE account IN (SELECT account FROM held))
  SELECT u.id AS "userId", u.username, ${NOW} AS now, ${permitsOf('held')}
  FROM people JOIN held USING (account) JOIN users u ON u.id = user_id
  GROUP BY u.id, u.username ORDER BY u.username, u.id`
const ADDRESSES = `
  SELECT address, provider, count(*)::int AS failures,
    (array_agg(at ORDER BY at DESC))[$1::int] + $2::float8 * interval '1 millisecond' AS until
  FROM (
    SELECT address, provider, pair, max(at) AS at FROM login_attempts
    WHERE kind IN ('failed', 'freed') AND address <> '' AND at > ${since('$2')} GROUP BY address, provider, pair
  ) AS pairs
  GROUP BY address, provider HAVING count(*) >= $1 ORDER BY address, provider`
const ADDRESSES_OF = `
  SELECT address FROM login_attempts WHERE account IN (${KEYS})
  UNION SELECT address FROM login_addresses WHERE user_id = $2::int`
const FREE_ACCOUNT = `
  WITH mine AS (
    SELECT id, kind, at FROM login_attempts WHERE account IN (${KEYS}) AND kind <> 'freed' ORDER BY id FOR UPDATE
  ),
  gone AS (DELETE FROM login_attempts WHERE id IN (SELECT id FROM mine WHERE kind <> 'failed')),
  freed AS (UPDATE login_attempts SET kind = 'freed' WHERE id IN (SELECT id FROM mine WHERE kind = 'failed'))
  SELECT ${NOW} AS now, ${permitsOf('mine')} FROM mine`
const FREE_ADDRESS = `
  WITH mine AS (
    SELECT id, pair, at FROM login_attempts WHERE address = $1 AND kind IN ('failed', 'freed') ORDER BY id FOR UPDATE
  ),
  freed AS (UPDATE login_attempts SET address = '' WHERE id IN (SELECT id FROM mine))
  SELECT count(DISTINCT pair)::int AS freed FROM mine WHERE at > ${since('$2')}`

// Lists the accounts and client addresses whose failed logins hold them back, and frees them.
import type { EntityManager } from 'typeorm'
import { accountKeyOf, interval, since } from './login-attempts.ts'
import { query } from './query.ts'

export interface HeldBackRules {
  /** Failures at which strangers to an account are refused; its known addresses may have more. */
  readonly accountMax: number
  /** Infinity: failures are never forgotten. */
  readonly accountWindowMs: number
  readonly addressMax: number
  readonly addressWindowMs: number
}

export interface HeldAccount {
  readonly userId: number
  readonly username: string
  readonly failures: number
  /** null: until a success. */
  readonly until: Date | null
}

export interface HeldAddress {
  readonly address: string
  /** `client`: for the secrets of service accounts. */
  readonly provider: 'ldap' | 'client'
  /** Different pairs of name and password. */
  readonly failures: number
  readonly until: Date
}

/** Accounts of people who have logged in before; the others have no name here. By username. */
export const heldAccounts = async (
  manager: EntityManager,
  { accountMax, accountWindowMs }: HeldBackRules
): Promise<readonly HeldAccount[]> => {
  const isEndless = !Number.isFinite(accountWindowMs)
  const rows = await query<HeldAccount>(manager, ACCOUNTS, [accountMax, interval(accountWindowMs)])
  return isEndless ? rows.map(row => ({ ...row, until: null })) : rows
}

/** By address. */
export const heldAddresses = (
  manager: EntityManager,
  { addressMax, addressWindowMs }: HeldBackRules
): Promise<HeldAddress[]> => query<HeldAddress>(manager, ADDRESSES, [addressMax, addressWindowMs])

/** Addresses from which this person has logged in, or has tried to. */
export const addressesOf = async (
  manager: EntityManager,
  userId: number,
  logins: readonly string[]
): Promise<readonly string[]> =>
  (await query<{ address: string }>(manager, ADDRESSES_OF, [logins, userId])).map(({ address }) => address)

/** Failures of these logins no longer count for the account, only for the addresses. Returns how many did. */
export const freeAccounts = async (manager: EntityManager, logins: readonly string[]): Promise<number> => {
  const [row] = await query<{ freed: number }>(manager, FREE_ACCOUNTS, [logins])
  return row?.freed ?? 0
}

/** Failures from this address no longer count for it, only for the accounts. Returns how many did. */
export const freeAddress = async (manager: EntityManager, address: string): Promise<number> => {
  const [row] = await query<{ freed: number }>(manager, FREE_ADDRESS, [address])
  return row?.freed ?? 0
}

const KEYS = `SELECT ${accountKeyOf('login')} FROM unnest($1::text[]) AS login`
// The keys are hashes, so those of all people are compared, but only while an account is held back.
const ACCOUNTS = `
  WITH held AS MATERIALIZED (
    SELECT account, count(*)::int AS failures, max(at) AS at FROM login_attempts
    WHERE provider = 'ldap' AND kind <> 'freed' GROUP BY account HAVING max(at) + $2::interval > clock_timestamp()
  ),
  logins AS (
    SELECT p.user_id, lower(u.username) AS login FROM provider_links p JOIN users u ON u.id = p.user_id
      WHERE p.provider = 'ldap'
    UNION SELECT p.user_id, n.login FROM provider_links p JOIN login_names n ON n.subject = p.subject
      WHERE p.provider = 'ldap'
  ),
  people AS (
    SELECT user_id, ${accountKeyOf('login')} AS account FROM logins WHERE EXISTS (SELECT FROM held)
  )
  SELECT u.id AS "userId", u.username, sum(failures)::int AS failures, max(at) + $2::interval AS until
  FROM people JOIN held USING (account) JOIN users u ON u.id = user_id
  GROUP BY u.id, u.username HAVING sum(failures) >= $1::int ORDER BY u.username, u.id`
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
const FREE_ACCOUNTS = `
  WITH mine AS (
    SELECT id, kind FROM login_attempts WHERE account IN (${KEYS}) AND kind <> 'freed' ORDER BY id FOR UPDATE
  ),
  gone AS (DELETE FROM login_attempts WHERE id IN (SELECT id FROM mine WHERE kind <> 'failed')),
  freed AS (UPDATE login_attempts SET kind = 'freed' WHERE id IN (SELECT id FROM mine WHERE kind = 'failed'))
  SELECT count(*)::int AS freed FROM mine`
const FREE_ADDRESS = `
  WITH mine AS (
    SELECT id, pair FROM login_attempts WHERE address = $1 AND kind IN ('failed', 'freed') ORDER BY id FOR UPDATE
  ),
  freed AS (UPDATE login_attempts SET address = '' WHERE id IN (SELECT id FROM mine))
  SELECT count(DISTINCT pair)::int AS freed FROM mine`

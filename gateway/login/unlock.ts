// Frees accounts and client addresses from the login throttle, and says what was freed and what is still held back.
import { guardOfDn } from '../directory/account-names.ts'
import { BadRequest } from '../errors.ts'
import { type Actor, appendAudit } from '../store/audit-entry.ts'
import type { Database } from '../store/database.ts'
import {
  addressesOf,
  freeAccount,
  freeAddress,
  type HeldAddress,
  heldAddresses,
  type PersonPermits,
  permitsOfPeople
} from '../store/held-back.ts'
import { guardsOfPerson } from '../store/login-names.ts'
import { getPerson } from '../store/people.ts'
import { limitKeyOf } from '../values/addresses.ts'
import { accountRules, decideAccount, livePermits } from './throttle/permits.ts'

export interface ThrottleSettings {
  readonly ldap: Parameters<typeof accountRules>[0]
  readonly loginFailures: { readonly perIp: number; readonly windowMs: number }
}

interface HeldAccount {
  readonly userId: number
  readonly username: string
  readonly failures: number
  /** null: until a login succeeds. */
  readonly until: Date | null
}

/** Accounts that strangers to them cannot log in to, and addresses from which no one can. */
export interface HeldBack {
  readonly accounts: readonly HeldAccount[]
  readonly addresses: readonly HeldAddress[]
}

export const listHeldBack = (database: Database, { ldap, loginFailures }: ThrottleSettings): Promise<HeldBack> =>
  database.write(
    async manager => ({
      accounts: (await permitsOfPeople(manager)).flatMap(person => heldAccount(person, accountRules(ldap)) ?? []),
      addresses: await heldAddresses(manager, loginFailures)
    }),
    LIST_MS
  )

/** The names of all people are compared: some microseconds each. */
const LIST_MS = 30_000

const heldAccount = (
  { userId, username, now, permits }: PersonPermits,
  rules: ReturnType<typeof accountRules>
): HeldAccount | undefined => {
  const verdict = decideAccount({ now, permits, isKnown: false }, rules)
  if (verdict.kind !== 'refused') return undefined
  const { retryAfterMs } = verdict
  const until = Number.isFinite(retryAfterMs) ? new Date(now + retryAfterMs) : null
  return { userId, username, failures: livePermits(permits, now, rules).length, until }
}

export interface UnlockedPerson {
  /** All logins of the account, which share its failures. */
  readonly logins: readonly string[]
  /** Failures that counted until now. */
  readonly freed: number
  /** Addresses of this person that are held back themselves, and still are. */
  readonly heldAddresses: readonly HeldAddress[]
}

/** Returns all permits to a person, under every name of their account. Throws NotFound. */
export const unlockPerson = (
  database: Database,
  { ldap, loginFailures }: ThrottleSettings,
  actor: Actor,
  id: number
): Promise<UnlockedPerson> =>
  database.write(async manager => {
    const { user } = await getPerson(manager, id)
    const { logins, guards: stored } = await guardsOfPerson(manager, user)
    // Of logins that are bound by DN, 1.0.0 stored the guard with its accents.
    const guards = [...new Set([...stored, ...stored.map(guardOfDn)])]
    const theirs = new Set(await addressesOf(manager, id, guards))
    const held = (await heldAddresses(manager, loginFailures)).filter(
      ({ address, provider }) => provider === 'ldap' && theirs.has(address)
    )
    const { now, permits } = await freeAccount(manager, guards)
    const freed = livePermits(permits, now, accountRules(ldap)).length
    await appendAudit(manager, { actor, action: 'person.unlock', target: `user:${id}`, details: { freed } })
    return { logins, freed, heldAddresses: held }
  })

/** Returns how many failures counted for this address until now. Throws BadRequest if it is no address. */
export const unlockAddress = async (
  database: Database,
  { loginFailures }: ThrottleSettings,
  actor: Actor,
  text: string
): Promise<{ readonly address: string; readonly freed: number }> => {
  const address = limitKeyOf(text)
  if (address === undefined) throw new BadRequest({ reason: 'bad-address', message: 'address must be an IP address' })
  return database.write(async manager => {
    const freed = await freeAddress(manager, address, loginFailures.windowMs)
    await appendAudit(manager, { actor, action: 'address.unlock', target: `address:${address}`, details: { freed } })
    return { address, freed }
  })
}

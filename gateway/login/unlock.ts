// Frees accounts and client addresses from the login throttle, and says what was freed and what is still held back.
import { BadRequest } from '../errors.ts'
import type { LdapSettings } from '../settings/settings.ts'
import { type Actor, appendAudit } from '../store/audit-entry.ts'
import type { Database } from '../store/database.ts'
import {
  addressesOf,
  freeAccounts,
  freeAddress,
  type HeldAccount,
  type HeldAddress,
  type HeldBackRules,
  heldAccounts,
  heldAddresses
} from '../store/held-back.ts'
import { loginsOfPerson } from '../store/login-names.ts'
import { getPerson } from '../store/people.ts'
import { limitKeyOf } from '../values/addresses.ts'
import { strangersMax } from './throttle/permits.ts'

export interface HeldBack {
  readonly accounts: readonly HeldAccount[]
  readonly addresses: readonly HeldAddress[]
}

export const heldBackRules = (
  { lockoutThreshold, lockoutWindowMs }: Pick<LdapSettings, 'lockoutThreshold' | 'lockoutWindowMs'>,
  loginFailures: { readonly perIp: number; readonly windowMs: number }
): HeldBackRules => ({
  accountMax: strangersMax(lockoutThreshold),
  accountWindowMs: lockoutWindowMs === 0 ? Number.POSITIVE_INFINITY : lockoutWindowMs,
  addressMax: loginFailures.perIp,
  addressWindowMs: loginFailures.windowMs
})

export const listHeldBack = (database: Database, rules: HeldBackRules): Promise<HeldBack> =>
  database.read(async manager => ({
    accounts: await heldAccounts(manager, rules),
    addresses: await heldAddresses(manager, rules)
  }))

interface UnlockedPerson {
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
  rules: HeldBackRules,
  actor: Actor,
  id: number
): Promise<UnlockedPerson> =>
  database.write(async manager => {
    const { user } = await getPerson(manager, id)
    const logins = await loginsOfPerson(manager, id, user.username)
    const theirs = new Set(await addressesOf(manager, id, logins))
    const held = (await heldAddresses(manager, rules)).filter(
      ({ address, provider }) => provider === 'ldap' && theirs.has(address)
    )
    const freed = await freeAccounts(manager, logins)
    await appendAudit(manager, { actor, action: 'person.unlock', target: `user:${id}`, details: { freed } })
    return { logins, freed, heldAddresses: held }
  })

/** Returns how many failures counted for this address until now. Throws BadRequest if it is no address. */
export const unlockAddress = (
  database: Database,
  actor: Actor,
  text: string
): Promise<{ readonly address: string; readonly freed: number }> => {
  const address = limitKeyOf(text)
  if (address === undefined) throw new BadRequest({ reason: 'bad-address' })
  return database.write(async manager => {
    const freed = await freeAddress(manager, address)
    await appendAudit(manager, { actor, action: 'address.unlock', target: `address:${address}`, details: { freed } })
    return { address, freed }
  })
}

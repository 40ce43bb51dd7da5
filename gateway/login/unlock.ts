// Frees accounts and client addresses from the login throttle, and says what was freed and what is still held back.
import { guardOfDn } from '../directory/account-names.ts'
import { foldLogin } from '../directory/names.ts'
import { BadRequest } from '../errors.ts'
import type { Settings } from '../settings/settings.ts'
import { type Actor, appendAudit } from '../store/audit-entry.ts'
import type { Database } from '../store/database.ts'
import {
  addressesOf,
  freeAccount,
  freeAddress,
  heldAddresses,
  type PersonPermits,
  permitsOfPeople
} from '../store/held-back.ts'
import { findByLogin, guardsOfPerson } from '../store/login-names.ts'
import { getPerson } from '../store/people.ts'
import { limitKeyOf } from '../values/addresses.ts'
import { accountRules, decideAccount, type LockoutSettings, livePermits, type PermitRules } from './throttle/permits.ts'

interface ThrottleSettings extends Pick<Settings, 'loginFailures'> {
  readonly ldap: LockoutSettings
}

export type HeldBack = Awaited<ReturnType<typeof listHeldBack>>

/** Accounts that strangers to them cannot log in to, and addresses from which no one can. */
export const listHeldBack = (database: Database, { ldap, loginFailures }: ThrottleSettings) =>
  database.write(
    async manager => ({
      accounts: (await permitsOfPeople(manager)).flatMap(person => heldAccount(person, accountRules(ldap)) ?? []),
      addresses: await heldAddresses(manager, loginFailures)
    }),
    LIST_MS
  )

/** The names of all people are compared: some microseconds each. */
const LIST_MS = 30_000

const heldAccount = ({ userId, username, now, permits }: PersonPermits, rules: PermitRules) => {
  const verdict = decideAccount({ now, permits, isKnown: false }, rules)
  if (verdict.kind !== 'refused') return undefined
  const { retryAfterMs } = verdict
  /** null: until a login succeeds. */
  const until = Number.isFinite(retryAfterMs) ? new Date(now + retryAfterMs) : null
  return { userId, username, failures: livePermits(permits, now, rules).length, until }
}

export type UnlockedPerson = Awaited<ReturnType<typeof unlockPerson>>

/**
 * Returns all permits to a person, under every name of their account; and what has been freed: the logins that share them, how
 * many failures counted, and which addresses of this person are held back themselves and still are. Throws NotFound.
 */
export const unlockPerson = (database: Database, { ldap, loginFailures }: ThrottleSettings, actor: Actor, id: number) =>
  database.write(async manager => {
    const { user } = await getPerson(manager, id)
    const { logins, guards: stored } = await guardsOfPerson(manager, user)
    // Of logins that are bound by DN, 1.0.0 stored the guard with its accents.
    const guards = [...new Set([...stored, ...stored.map(guardOfDn)])]
    const theirs = new Set(await addressesOf(manager, id, guards))
    const held = await heldAddresses(manager, loginFailures)
    const stillHeld = held.filter(({ address, provider }) => provider === 'ldap' && theirs.has(address))
    const { now, permits } = await freeAccount(manager, guards)
    const freed = livePermits(permits, now, accountRules(ldap)).length
    await appendAudit(manager, { actor, action: 'person.unlock', target: `user:${id}`, details: { freed } })
    return { logins, freed, heldAddresses: stillHeld }
  })

/** The person who has logged in with this name of their account; undefined if there is none, or several have. */
export const personOfLogin = (database: Database, text: string) => findByLogin(database, foldLogin(text) ?? text)

/** Returns all permits to a login that belongs to no one known, and how many failures counted for it. */
export const unlockLogin = (database: Database, ldap: LockoutSettings, actor: Actor, text: string): Promise<number> =>
  database.write(async manager => {
    const login = foldLogin(text) ?? text
    const { now, permits } = await freeAccount(manager, [...new Set([login, guardOfDn(login)])])
    const freed = livePermits(permits, now, accountRules(ldap)).length
    const entry = { actor, action: 'person.unlock', target: 'user:unknown', details: { freed } }
    if (freed > 0) await appendAudit(manager, entry)
    return freed
  })

/** Returns how many failures counted for this address until now. Throws BadRequest if it is no address. */
export const unlockAddress = async (
  database: Database,
  { loginFailures }: ThrottleSettings,
  actor: Actor,
  text: string
) => {
  const address = limitKeyOf(text)
  if (address === undefined) throw new BadRequest({ reason: 'bad-address', message: 'address must be an IP address' })
  return database.write(async manager => {
    const freed = await freeAddress(manager, address, loginFailures.windowMs)
    await appendAudit(manager, { actor, action: 'address.unlock', target: `address:${address}`, details: { freed } })
    return { address, freed }
  })
}

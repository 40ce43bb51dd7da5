// Frees an account or a client address from the login throttle, or lists those that are held back.
import { guardOfUnknown } from '../directory/account-names.ts'
import type { User } from '../identity.ts'
import type { HeldBack, UnlockedPerson } from '../login/unlock.ts'
import { limitKeyOf } from '../values/addresses.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { loginLimits } from './command-settings.ts'
import { ACTOR, personNamed, withUsers } from './open-store.ts'
import { plain } from './terminal.ts'

export const addUnlock: Add = (program, define) =>
  define(program, 'unlock', unlock, 'free an account or a client address that failed logins hold back', [
    'unlock',
    'unlock maria',
    'unlock id:7',
    'unlock 192.0.2.7'
  ])
    .argument(
      '[who]',
      'username or ldap:username, id:NUMBER of someone who has logged in at least once, or an IP address; without it, those that are held back are listed'
    )
    .addHelpText('after', '\nThis does not unlock an account that the directory itself has locked.')

const unlock = ({ environment }: Cli, who: string | undefined): Promise<Report> =>
  withUsers(environment, async (users, database) => {
    const login = await import('../login/unlock.ts')
    const limits = loginLimits(environment)
    if (who === undefined) return listed(await login.listHeldBack(database, limits))
    if (limitKeyOf(who) === undefined) {
      const name = who.replace(/^ldap:/, '')
      const person = await personNamed(users, who).catch(async (error: unknown) => {
        // Several people are not freed at once.
        const isUnknown = error instanceof CannotRun && error.details.length === 0
        if (!isUnknown) throw error
        const known = await login.personOfLogin(database, name)
        if (known !== undefined) return { user: known }
        // Failures of strangers also hold back people who are not known yet.
        const freed = await login.unlockLogin(database, limits.ldap, ACTOR, name)
        if (freed === 0) throw new CannotRun(error.message, otherNames(name))
        return freed
      })
      if (typeof person !== 'number')
        return unlocked(person.user, await login.unlockPerson(database, limits, ACTOR, person.user.id))
      const text = `${name}, who has not logged in yet, may try to log in again; ${counted(person)} freed.`
      return { json: { login: name, freed: person }, text: ({ green }) => green(plain(text)) }
    }
    const { address, freed } = await login.unlockAddress(database, limits, ACTOR, who)
    const text = freed === 0 ? `${address} had no failed logins.` : `${address} may try again; ${counted(freed)} freed.`
    return { json: { address, freed }, text: ({ green }) => green(text) }
  })

/** Its entry may count under its uid or sAMAccountName; a name that no entry has counts without its domain. */
const otherNames = (name: string): string[] => {
  const short = guardOfUnknown(name.replace(/^[^\\]*\\/, ''))
  return short === name ? [] : [`Failed logins may count under the login name alone: unlock ${short}`]
}

const unlocked = (
  { id, username }: Pick<User, 'id' | 'username'>,
  { logins, freed, heldAddresses }: UnlockedPerson
): Report => {
  const name = `${username} (id ${id})`
  const first =
    freed === 0
      ? `${name} had no failed logins.`
      : `${name} may try to log in again, as ${logins.join(', ')}; ${counted(freed)} freed.`
  return {
    json: { id, username, logins, freed, heldAddresses },
    text: ({ green, yellow }) =>
      [
        green(plain(first)),
        ...heldAddresses.map(({ address, until }) =>
          yellow(
            `The address ${address} is held back until ${until.toISOString()}, and no one can log in from it: free it with \`unlock ${address}\`.`
          )
        )
      ].join('\n')
  }
}

const counted = (failures: number): string => (failures === 1 ? '1 failed login' : `${failures} failed logins`)

const listed = ({ accounts, addresses }: HeldBack): Report => ({
  json: { accounts, addresses },
  text: () =>
    [
      ...accounts.map(
        ({ username, userId, failures, until }) =>
          `${plain(username)} (id ${userId})  ${counted(failures)}, ${until === null ? 'until a login succeeds' : `until ${until.toISOString()}`}`
      ),
      ...addresses.map(
        ({ address, provider, failures, until }) =>
          `${address}  ${counted(failures)}${provider === 'client' ? ' of service accounts' : ''}, until ${until.toISOString()}`
      )
    ].join('\n') || 'No account or address is held back.'
})

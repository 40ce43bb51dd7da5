// Frees an account or a client address from the login throttle, or lists those that are held back.
import type { User } from '../identity.ts'
import type { HeldBack, UnlockedPerson } from '../login/unlock.ts'
import { limitKeyOf } from '../values/addresses.ts'
import type { Add, Cli, Report } from './command.ts'
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
      'username, ldap:username or id:NUMBER of someone who has logged in at least once, or an IP address; without it, those that are held back are listed'
    )
    .addHelpText('after', '\nThis does not unlock an account that the directory itself has locked.')

const unlock = ({ environment }: Cli, who: string | undefined): Promise<Report> =>
  withUsers(environment, async (users, database) => {
    const login = await import('../login/unlock.ts')
    const limits = loginLimits(environment)
    if (who === undefined) return listed(await login.listHeldBack(database, limits))
    if (limitKeyOf(who) === undefined) {
      const { user } = await personNamed(users, who)
      return unlocked(user, await login.unlockPerson(database, limits, ACTOR, user.id))
    }
    const { address, freed } = await login.unlockAddress(database, limits, ACTOR, who)
    const text = freed === 0 ? `${address} had no failed logins.` : `${address} may try again; ${counted(freed)} freed.`
    return { json: { address, freed }, text: ({ green }) => green(text) }
  })

const unlocked = ({ id, username }: User, { logins, freed, heldAddresses }: UnlockedPerson): Report => {
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

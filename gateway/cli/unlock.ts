// Releases an account from the login throttle.
import type { Command } from 'commander'
import { addCommand, type Cli, type Report, run } from './command.ts'
import { personNamed } from './named-arguments.ts'
import { ACTOR, withDatabase } from './open-store.ts'

export const addUnlock = (program: Command, cli: Cli): void => {
  addCommand(program, 'unlock', 'release an account that the login throttle holds back', [
    'unlock maria',
    'unlock id:7'
  ])
    .argument('<user>', 'username, ldap:username or id:NUMBER of someone who has logged in at least once')
    .addHelpText('after', '\nThis does not unlock an account that the directory itself has locked.')
    .action(run(cli, unlock))
}

const unlock = ({ environment }: Cli, name: string): Promise<Report> =>
  withDatabase(environment, async database => {
    const [{ createUsers }, { unlockPerson }] = await Promise.all([
      import('../store/users.ts'),
      import('../login/unlock.ts')
    ])
    const { user } = await personNamed(createUsers(database), name)
    const logins = await unlockPerson(database, ACTOR, user.id)
    return {
      json: { id: user.id, username: user.username, logins },
      text: ({ green }) => green(`${user.username} (id ${user.id}) may try to log in again, as ${logins.join(', ')}.`)
    }
  })

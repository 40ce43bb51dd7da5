// Removes what identifies a person, once the username has been typed again.
import { GatewayError } from '../errors.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { ACTOR, personNamed, withUsers } from './open-store.ts'
import { ask, isTerminal, readAll } from './read-input.ts'
import { plain } from './terminal.ts'

export const addErase: Add = (program, define) =>
  define(program, 'erase', erase, 'remove the names, addresses, logins and sessions of a person for good', [
    'erase maria',
    'erase id:7 --yes'
  ])
    .argument('<user>', 'username, ldap:username, cloudidp:username or id:NUMBER of someone who has logged in')
    .option('--yes', 'do not ask for the username')
    .addHelpText(
      'after',
      '\nThe username (or id:NUMBER, if there is none) is asked for on the terminal, or read from standard input.\nExit code 1: the person is an Admin. Entries of the audit log that were written before the log had a key keep\ntheir names until they are archived.'
    )

const erase = (cli: Cli, name: string, { yes = false }: { yes?: boolean }): Promise<Report> =>
  withUsers(cli.environment, async users => {
    const { user } = await personNamed(users, name)
    const person = plain(`${user.username} (id ${user.id}, ${user.provider})`)
    // Some providers send no username; an empty answer confirms nothing.
    const [what, word] = user.username === '' ? ['id', `id:${user.id}`] : ['username', user.username]
    if (!yes && (await typed(cli, what, person)) !== word)
      throw new CannotRun(`That is not the ${what}; nothing was changed`)
    try {
      await users.erasePerson(ACTOR, user.id, user.username)
    } catch (error) {
      if (!(error instanceof GatewayError) || error.reason !== 'erases-admin') throw error
      return {
        found: true,
        json: { id: user.id, erased: false },
        text: ({ red }) => red(`${person} is an Admin and was not erased: take the profile away first.`)
      }
    }
    return {
      json: { id: user.id, erased: true },
      text: ({ green }) => green(`${person} has been erased. The next login with the same account makes a new person.`)
    }
  })

const typed = async (cli: Cli, what: string, person: string): Promise<string> =>
  isTerminal(cli) ? ask(cli, `Type the ${what} to erase ${person} for good: `, false) : (await readAll(cli)).trim()

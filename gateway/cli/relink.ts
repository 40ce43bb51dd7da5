// Leads a person back to their access, when a changed setting has made somebody new of them.
import type { Command } from 'commander'
import { GatewayError } from '../errors.ts'
import { addCommand, CannotRun, type Cli, type CommonOptions, type Report, run } from './command.ts'
import { withDatabase } from './open-store.ts'

const ACTOR = { id: null, username: 'cli' }

export const addRelink = (program: Command, cli: Cli): void => {
  addCommand(program, 'relink', 'make the logins of one person lead to another', ['relink 7 212'])
    .argument('<old>', 'id of the person who has the access')
    .argument('<new>', 'id of the person as whom they log in now; must have no access of their own')
    .addHelpText('after', '\nMoves links only. Both have to log in again.')
    .action((old: string, fresh: string, options: CommonOptions) => run(cli, options, () => relink(cli, old, fresh)))
}

const relink = ({ environment }: Cli, old: string, fresh: string): Promise<Report> => {
  const [oldId, newId] = [idOf(old), idOf(fresh)]
  return withDatabase(environment, async database => {
    const { createUsers } = await import('../store/users.ts')
    const moved = await createUsers(database)
      .relinkPerson(ACTOR, oldId, newId)
      .catch((error: unknown) => {
        throw error instanceof GatewayError && error.reason !== undefined
          ? new CannotRun(REFUSALS[error.reason] ?? 'There is no such person')
          : error
      })
    return {
      found: false,
      json: { old: oldId, new: newId, links: moved },
      text: ({ green }) => green(`${moved} ${moved === 1 ? 'link' : 'links'} of ${newId} now lead to ${oldId}.`)
    }
  })
}

const REFUSALS: Readonly<Record<string, string>> = {
  'relink-to-itself': 'Both ids are the same person',
  'relink-has-access': 'The new person has access of their own: take it away first, or choose the other way round',
  'relink-without-link': 'No login leads to the new person'
}

const idOf = (text: string): number => {
  if (!/^[1-9]\d{0,9}$/.test(text))
    throw new CannotRun('People are named by their ids here: numbers, as the console shows')
  return Number(text)
}

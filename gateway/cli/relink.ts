// Reattaches a person's logins to their access after a changed setting has made them a new person.
import { GatewayError, NotFound } from '../errors.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { ACTOR, withUsers } from './open-store.ts'

export const addRelink: Add = (program, define) =>
  define(program, 'relink', relink, 'attach the logins of one person to another', ['relink 7 212'])
    .argument('<old>', 'id of the person who has the access and keeps it')
    .argument('<new>', 'id of the person that they log in as now, who must have no access')
    .addHelpText('after', '\nOnly links are moved. Both people must log in again.')

const relink = ({ environment }: Cli, old: string, fresh: string): Promise<Report> => {
  const [oldId, newId] = [idOf(old), idOf(fresh)]
  return withUsers(environment, async users => {
    const moved = await users.relinkPerson(ACTOR, oldId, newId).catch((error: unknown) => {
      const refusal = error instanceof GatewayError ? REFUSALS[error.reason ?? error.code] : undefined
      throw refusal === undefined ? error : new CannotRun(refusal)
    })
    return {
      json: { old: oldId, new: newId, links: moved },
      text: ({ green }) => green(`${moved} ${moved === 1 ? 'link' : 'links'} moved from ${newId} to ${oldId}.`)
    }
  })
}

const REFUSALS: Readonly<Record<string, string>> = {
  [NotFound.code]: 'There is no such person',
  'relink-disabled':
    'The new person is disabled: enable them first, if their logins may have the access of the old person',
  'relink-to-itself': 'Both ids are of the same person',
  'relink-has-access': 'The new person has access: remove it first, or swap the two ids',
  'relink-without-link': 'The new person has no logins'
}

const idOf = (text: string): number => {
  if (!/^[1-9]\d{0,9}$/.test(text))
    throw new CannotRun('OLD and NEW must be the ids of people: numbers, as the console shows them')
  return Number(text)
}

// Somebody who has logged in before has the profiles and areas they were given here, and the audit log says so.
import type { Command } from 'commander'
import type { Users } from '../store/users.ts'
import { nearestHint } from '../values/spelling.ts'
import { addCommand, CannotRun, type Cli, type CommonOptions, type Report, run } from './command.ts'
import { personNamed } from './find-person.ts'
import { withDatabase } from './open-store.ts'

interface GrantOptions extends CommonOptions {
  readonly profile: readonly string[]
  readonly area: readonly string[]
}

const ACTOR = { id: null, username: 'cli' }

export const addGrant = (program: Command, cli: Cli): void => {
  addCommand(program, 'grant', 'give a person profiles and areas, beside those they have', [
    'grant maria --profile Admin --area Geral',
    'grant ldap:maria --profile Agente Supervisor --area Norte Sul',
    'grant id:7 --profile Agente --area Geral'
  ])
    .argument('<user>', 'username, ldap:username, cloudidp:username, or id:NUMBER; has logged in at least once')
    .requiredOption('--profile <profile...>', 'Admin, Supervisor, Agente, or one that route files name')
    .requiredOption('--area <area...>', 'areas that do not exist are created')
    .addHelpText('after', '\nTokens of the person become stale at once; the main area is kept, else the first one.')
    .action((user: string, options: GrantOptions) => run(cli, options, () => grant(cli, user, options)))
}

const grant = ({ environment }: Cli, name: string, { profile, area }: GrantOptions): Promise<Report> =>
  withDatabase(environment, async database => {
    const { createUsers } = await import('../store/users.ts')
    const users = createUsers(database)
    const known = (await users.listProfiles()).map(one => one.name)
    const unknown = profile.find(one => !known.includes(one))
    if (unknown !== undefined) throw new CannotRun(`Unknown profile "${unknown}"${nearestHint(unknown, known)}`)
    const { user, assigned } = await personNamed(users, name)
    const given = await areasFor(users, area)
    const areas = [...new Set([...assigned.areas, ...given])]
    const access = {
      profiles: [...new Set([...assigned.profiles, ...profile])],
      areas,
      areaPrincipal: assigned.areaPrincipal ?? areas[0] ?? null
    }
    const { user: changed } = await users.setAccess(ACTOR, user.id, access)
    return {
      found: false,
      json: changed,
      text: ({ green }) =>
        green(
          `${changed.username} (id ${changed.id}, ${changed.provider}) now has ${changed.profiles.join(', ')} in ${changed.areas.join(', ')}.`
        )
    }
  })

const PAGE_SIZE = 200

/** The areas as they are spelled already, in any case; those that are missing are created. */
const areasFor = async (users: Users, names: readonly string[]): Promise<string[]> => {
  const known = new Map<string, string>()
  for (let page = 1; ; page += 1) {
    const { items } = await users.listAreas({ page, pageSize: PAGE_SIZE })
    for (const { name } of items) known.set(name.toLowerCase(), name)
    if (items.length < PAGE_SIZE) break
  }
  const areas: string[] = []
  for (const name of names.map(one => one.trim().normalize('NFC'))) {
    const area = known.get(name.toLowerCase()) ?? (await users.createArea(ACTOR, name)).name
    known.set(area.toLowerCase(), area)
    areas.push(area)
  }
  return areas
}

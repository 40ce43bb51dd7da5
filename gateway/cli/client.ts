// Creates, lists, rotates and removes service accounts from the command line.
import type { ClientItem, Clients, ClientWithSecret } from '../store/clients.ts'
import type { Database } from '../store/database.ts'
import { profileName } from '../values/names.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { ACTOR, refuseUnknownProfiles, withDatabase } from './open-store.ts'
import type { Terminal } from './terminal.ts'

interface CreateOptions {
  readonly profile: readonly string[]
  readonly area: readonly string[]
  readonly expires?: string
  readonly address?: readonly string[]
}

const PAGE_SIZE = 200

export const addClient: Add = (program, define) => {
  const client = program.command('client').description('manage service accounts, which give tokens to programs')
  define(client, 'create', create, 'create a service account and print its secret, which is shown only once', [
    'client create nightly-export --profile Agente --area Norte',
    'client create ci --profile Supervisor --area Geral --expires 2027-06-30 --address 203.0.113.0/24'
  ])
    .argument('<name>', 'unique name; backends see it as x-user-username')
    .requiredOption('--profile <profile...>', 'profiles of the account')
    .requiredOption('--area <area...>', 'areas; the first one is the main area; areas that do not exist are created')
    .option(
      '--expires <time>',
      'date or time, such as 2027-06-30 or 2027-06-30T18:00:00Z; without it the account does not expire'
    )
    .option('--address <cidr...>', 'networks from which it may be used; without it: any')
  define(client, 'rotate', rotate, 'print a new secret; the previous one works for another 24 hours', [
    'client rotate ci'
  ]).argument('<name>')
  define(client, 'list', list, 'list all service accounts', ['client list --json'])
  define(client, 'remove', remove, 'remove a service account and end its tokens', ['client remove ci']).argument(
    '<name>'
  )
}

const withClients = <T>(cli: Cli, work: (clients: Clients, database: Database) => Promise<T>): Promise<T> =>
  withDatabase(cli.environment, async database => {
    const { createClients } = await import('../store/clients.ts')
    return work(createClients(database), database)
  })

const withClient = (cli: Cli, name: string, work: (clients: Clients, item: ClientItem) => Promise<Report>) =>
  withClients(cli, async clients => {
    const item = await clients.findByName(name)
    if (item === undefined) throw new CannotRun(`There is no service account "${name}"`)
    return work(clients, item)
  })

const create = (cli: Cli, name: string, { profile, area, expires, address }: CreateOptions): Promise<Report> =>
  withClients(cli, async (clients, database) => {
    // An unset variable of a script must not make an account that never expires.
    if (expires === '') throw new CannotRun('--expires is empty: leave it out for an account that does not expire')
    const { createUsers } = await import('../store/users.ts')
    const profiles = profile.map(profileName)
    await refuseUnknownProfiles(createUsers(database), profiles)
    const access = { profiles, areas: [...area], areaPrincipal: area[0] ?? null }
    const conditions = { expiresAt: expires ?? null, addresses: [...(address ?? [])] }
    return shown(await clients.create(ACTOR, { name, ...access, ...conditions }, { makesAreas: true }))
  })

const rotate = (cli: Cli, name: string): Promise<Report> =>
  withClient(cli, name, async (clients, { id }) => shown(await clients.rotate(ACTOR, id)))

const remove = (cli: Cli, name: string): Promise<Report> =>
  withClient(cli, name, async (clients, item) => {
    await clients.remove(ACTOR, item.id)
    return { json: { removed: item.name }, text: ({ green }) => green(`${item.name} has been removed.`) }
  })

const shown = (item: ClientWithSecret): Report => ({
  json: item,
  text: ({ green }) =>
    `${green(`${item.name} (id ${item.id})`)}\nclient_id      ${item.clientId}\nclient_secret  ${item.clientSecret}`
})

const list = (cli: Cli): Promise<Report> =>
  withClients(cli, async clients => {
    const items: ClientItem[] = []
    for (let page = 1; ; page++) {
      const found = await clients.list({ page, pageSize: PAGE_SIZE })
      items.push(...found.items)
      if (found.items.length < PAGE_SIZE) break
    }
    return { json: items, text: terminal => listText(items, terminal) }
  })

const listText = (items: readonly ClientItem[], { dim }: Terminal): string =>
  items.length === 0
    ? 'There are no service accounts.'
    : items
        .map(({ name, clientId, profiles, areas, expiresAt, addresses, lastUsedAt }) => {
          const limits = [expiresAt === '' ? 'does not expire' : `until ${expiresAt}`, ...addresses].join(', ')
          const used = lastUsedAt === '' ? 'never used' : `last used ${lastUsedAt}`
          return `${name}  ${clientId}\n  ${profiles.join(', ')} in ${areas.join(', ')}\n  ${dim(`${limits}; ${used}`)}`
        })
        .join('\n')

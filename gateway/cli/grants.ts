// Lists what route files grant to groups, and finds the DNs of groups in the directory.
import type { Command } from 'commander'
import { formatPlace } from '../route-files/read.ts'
import { readSettings, SettingsError } from '../settings/read-settings.ts'
import type { Environment } from '../settings/reader.ts'
import { addCommand, CannotRun, type Cli, type CommonOptions, type Report, run } from './command.ts'
import { routeFolder } from './command-settings.ts'
import { readTable } from './read-routes.ts'
import { table } from './terminal.ts'

interface GrantsOptions extends CommonOptions {
  readonly config?: string
  readonly find?: string
}

export const addGrants = (program: Command, cli: Cli): void => {
  addCommand(program, 'grants', 'list what the route files grant to groups, or find the DN of a group', [
    'grants',
    'grants --config upstream-config --json',
    'grants --find Suporte'
  ])
    .option('--config <folder>', 'folder of route files (default: UPSTREAM_CONFIG, else upstream-config)')
    .option('--find <cn>', 'list the DNs of the groups with this cn, as the service account sees them')
    .action((options: GrantsOptions) =>
      run(cli, options, () =>
        options.find === undefined ? list(cli.environment, options.config) : find(cli.environment, options.find)
      )
    )
}

const list = async (environment: Environment, config: string | undefined): Promise<Report> => {
  const { grants } = await readTable(routeFolder(environment, config))
  const rows = grants.list.map(({ provider, group, tenant = '', profiles, areas, place }) => ({
    group,
    provider,
    tenant,
    profiles,
    areas,
    place: formatPlace(place)
  }))
  const cells = rows.map(row => [
    row.tenant === '' ? row.group : `${row.group} (${row.tenant})`,
    row.provider,
    row.profiles.join(', '),
    row.areas.join(', '),
    row.place
  ])
  return {
    found: false,
    json: rows,
    text: terminal =>
      rows.length === 0
        ? 'The route files grant nothing to groups.'
        : table(['group', 'provider', 'profiles', 'areas', 'place'], cells, terminal)
  }
}

const find = async (environment: Environment, cn: string): Promise<Report> => {
  const { ldap } = settingsOf(environment)
  if (!ldap.active) throw new CannotRun('Directory login is not active here (LDAP_ENABLED)')
  if (ldap.bindDn === undefined) throw new CannotRun('Finding groups needs the service account (LDAP_BIND_DN)')
  const { createDirectory } = await import('../directory/directory.ts')
  const groups = await createDirectory(ldap)
    .findGroups(cn)
    .catch((error: unknown) => {
      const reason = error instanceof Error && 'reason' in error ? String(error.reason) : 'unknown'
      throw new CannotRun(`The directory could not be asked (${reason})`)
    })
  if (groups.length === 0) throw new CannotRun(`The directory shows the service account no group with the cn "${cn}"`)
  return { found: false, json: groups, text: () => groups.join('\n') }
}

const settingsOf = (environment: Environment) => {
  try {
    return readSettings(environment)
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    throw new CannotRun(
      'The settings are not right:',
      error.mistakes.map(({ variable, message }) => `${variable} ${message}`)
    )
  }
}

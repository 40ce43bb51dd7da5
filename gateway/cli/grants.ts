// Lists what route files grant to groups, and finds the DNs of groups in the directory.
import { resolve } from 'node:path'
import { formatLocation } from '../route-files/complaint.ts'
import type { Grants } from '../routes/grants.ts'
import type { Environment } from '../settings/reader.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { allSettings, routeFolder } from './command-settings.ts'
import { withDatabase } from './open-store.ts'
import { checkedFolder, readTable } from './read-routes.ts'
import { note, table } from './terminal.ts'

export const addGrants: Add = (program, define) =>
  define(program, 'grants', grants, 'list what the route files grant to groups, or find the DN of a group', [
    'grants',
    'grants --config upstream-config --json',
    'grants --find Suporte'
  ])
    .option('--config <folder>', 'directory of route files (default: UPSTREAM_CONFIG, else upstream-config)')
    .option('--find <cn>', 'list the DNs of the groups with this cn that the service account can see')
    .addHelpText('after', '\nThe exit code is 1 if no group has the cn.')

const grants = ({ environment }: Cli, { config, find: cn }: { config?: string; find?: string }): Promise<Report> =>
  cn === undefined ? list(environment, config) : find(environment, cn)

const list = async (environment: Environment, config: string | undefined): Promise<Report> => {
  const folder = routeFolder(environment, config)
  const { grants } = await readTable(folder)
  const counted = grants.list.length === 0 ? [] : await count(environment, grants)
  const isCounted = typeof counted !== 'string'
  const rows = grants.list.map(({ provider, group, tenant = '', profiles, areas, place }, index) => ({
    group,
    provider,
    tenant,
    profiles,
    areas,
    place: formatLocation(place),
    people: isCounted ? (counted[index] ?? null) : null
  }))
  const heading = ['group', 'provider', 'profiles', 'areas', ...(isCounted ? ['people'] : []), 'place']
  const cells = rows.map(({ group, provider, tenant, profiles, areas, place, people }) => [
    tenant === '' ? group : `${group} (${tenant})`,
    provider,
    profiles.join(', '),
    areas.join(', '),
    ...(isCounted ? [String(people)] : []),
    place
  ])
  const counting = isCounted
    ? 'People: the number of people who were in the group at their last login or recheck.'
    : `People are not counted. ${counted}`
  return {
    json: rows,
    text: terminal =>
      rows.length === 0
        ? `The route files in ${resolve(folder)} grant nothing to groups.`
        : [table(heading, cells, terminal), '', note(counting, terminal), checkedFolder(folder, terminal)].join('\n')
  }
}

/** The number of people last seen in each group, or the reason why the database cannot be read. */
const count = async (environment: Environment, grants: Grants): Promise<readonly number[] | string> => {
  const { countPeople } = await import('../store/granted-items.ts')
  // Listing what the files grant works without a database, and never creates or changes one.
  const counted = withDatabase(environment, database => countPeople(database, grants.list), { migrates: false })
  return counted.catch((error: unknown) => (error instanceof CannotRun ? error.message : 'The database cannot be read'))
}

const find = async (environment: Environment, cn: string): Promise<Report> => {
  const { ldap } = allSettings(environment)
  if (!ldap.active) throw new CannotRun('Directory login is not active here (LDAP_ENABLED)')
  if (ldap.bindDn === undefined) throw new CannotRun('Finding groups requires the service account (LDAP_BIND_DN)')
  const { createDirectory } = await import('../directory/directory.ts')
  const groups = await createDirectory(ldap)
    .findGroups(cn)
    .catch((error: unknown) => {
      const reason = error instanceof Error && 'reason' in error ? String(error.reason) : 'unknown'
      throw new CannotRun(`The directory could not be searched (${reason})`)
    })
  const where =
    ldap.groupBase === undefined
      ? 'in the directory; set LDAP_GROUP_BASE to where the groups are'
      : `below ${ldap.groupBase}`
  const none = `The service account finds no group with the cn "${cn}" ${where}`
  const isFound = groups.length > 0
  return { found: !isFound, json: groups, text: () => (isFound ? groups.join('\n') : none), isMessage: !isFound }
}

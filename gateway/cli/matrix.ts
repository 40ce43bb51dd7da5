// Prints a table of all routes and kinds of people that shows who may pass where.
import { distinguishedBy, matrixRows } from '../explain/access-matrix.ts'
import { formatLocation } from '../route-files/complaint.ts'
import { isFromFiles } from '../routes/route.ts'
import { formatNetwork } from '../values/addresses.ts'
import { atOnce } from '../values/in-parts.ts'
import type { Add, Cli, Report } from './command.ts'
import { decideOptions, routeFolder } from './command-settings.ts'
import { checkedFolder, readTable } from './read-routes.ts'
import { note, table } from './terminal.ts'

interface MatrixOptions {
  readonly config?: string
  readonly own?: boolean
}

export const addMatrix: Add = (program, define) =>
  define(program, 'matrix', matrix, 'show who may pass which route', [
    'matrix',
    'matrix --config upstream-config --own',
    'matrix --json'
  ])
    .option('--config <folder>', 'directory of route files (default: UPSTREAM_CONFIG, else upstream-config)')
    .option('--own', "list the gateway's own endpoints too")

const matrix = async ({ environment }: Cli, { config, own = false }: MatrixOptions): Promise<Report> => {
  const folder = routeFolder(environment, config)
  const { routes, profiles } = await readTable(folder)
  const listed = routes.filter(route => own || isFromFiles(route))
  const options = decideOptions(environment)
  const askers = atOnce(distinguishedBy(listed, options, profiles))
  const rows = listed
    .flatMap(route => matrixRows(route, options, askers))
    .map(({ id, route, allowed }) => ({
      id,
      upstream: route.upstream?.name ?? (route.external ? 'external' : "the gateway's own"),
      place: formatLocation(route.place),
      ...(route.host === undefined ? {} : { host: route.host }),
      ...(route.from === undefined ? {} : { from: route.from.map(formatNetwork) }),
      allowed
    }))
  const heading = ['route', ...askers.map(({ name }) => name), 'upstream']
  const alike = SPECIAL.filter(([kind]) => !askers.some(({ name }) => kind.test(name))).map(([, words]) => words)
  const byHost = Map.groupBy(rows, ({ host = [] }) => host.join(', '))
  return {
    json: rows,
    text: terminal => {
      const lines = [...byHost].flatMap(([hosts, group]) => [
        ...(byHost.size > 1 ? [[{ text: hosts === '' ? OTHER_HOSTS : hosts, paint: terminal.bold }]] : []),
        ...group.map(({ id, upstream, from, allowed }) => [
          from === undefined ? id : `${id} (from ${from.join(', ')})`,
          ...askers.map(({ name }) =>
            allowed[name] === true ? { text: 'yes', paint: terminal.green } : { text: '–', paint: terminal.dim }
          ),
          upstream
        ])
      ])
      const notes = alike.length === 0 ? [] : [note(`As ROLE passes: ${alike.join(', ')}.`, terminal)]
      return [table(heading, lines, terminal), '', ...notes, checkedFolder(folder, terminal)].join('\n')
    }
  }
}

/** Those who have columns only if these differ from the columns of their roles. */
const SPECIAL = [
  [/ without area$/, 'people without an area (ROLE without area)'],
  [/^client /, 'service accounts (client ROLE)']
] as const

const OTHER_HOSTS = 'all other hosts'

// Every route and every kind of person stand in one table that says who may pass where.
import type { Command } from 'commander'
import { ASKERS } from '../explain/askers.ts'
import { decide, judgePerson } from '../routes/decide.ts'
import type { Route } from '../routes/route.ts'
import { addCommand, type Cli, type CommonOptions, type Report, run } from './command.ts'
import { cloudUnassignedMayPass, routeFolder } from './command-settings.ts'
import { placeOf, readTable } from './read-routes.ts'
import { table } from './terminal.ts'

interface MatrixOptions extends CommonOptions {
  readonly config?: string
  readonly own?: boolean
}

export const addMatrix = (program: Command, cli: Cli): void => {
  addCommand(program, 'matrix', 'show who may pass which route', [
    'matrix',
    'matrix --config upstream-config --own',
    'matrix --json'
  ])
    .option('--config <folder>', 'folder of route files (default: UPSTREAM_CONFIG, else upstream-config)')
    .option('--own', "list the gateway's own endpoints too")
    .action((options: MatrixOptions) => run(cli, options, () => matrix(cli, options)))
}

interface Row {
  readonly id: string
  readonly upstream: string
  readonly place: string
  readonly allowed: Readonly<Record<string, boolean>>
}

const matrix = async ({ environment }: Cli, { config, own = false }: MatrixOptions): Promise<Report> => {
  const { routes } = await readTable(routeFolder(environment, config))
  const mayPass = cloudUnassignedMayPass(environment)
  const rows = routes.filter(route => own || route.upstream !== undefined).flatMap(route => rowsOf(route, mayPass))
  return {
    found: false,
    json: rows,
    text: terminal =>
      table(
        ['route', ...ASKERS.map(({ name }) => name), 'upstream'],
        rows.map(({ id, upstream, allowed }) => [
          id,
          ...ASKERS.map(({ name }) =>
            allowed[name] === true ? { text: 'yes', paint: terminal.green } : { text: '–', paint: terminal.dim }
          ),
          upstream
        ]),
        terminal
      )
  }
}

const rowsOf = (route: Route, mayPass: boolean): Row[] => {
  const row = (id: string, allows: (asker: (typeof ASKERS)[number]) => boolean): Row => ({
    id,
    upstream: route.upstream?.name ?? "the gateway's own",
    place: placeOf(route),
    allowed: Object.fromEntries(ASKERS.map(asker => [asker.name, allows(asker)]))
  })
  if (route.socketio === undefined) {
    const options = { cloudUnassignedMayPass: mayPass }
    return [row(route.id, asker => decide({ route, path: route.path }, asker, options).decision === 'allow')]
  }
  // Whoever connects is judged namespace by namespace; the HTTP side lets everybody in.
  return route.socketio.namespaces.map(({ name, roles }) =>
    row(`${route.id} namespace ${name}`, ({ user }) => {
      const rule = { roles, requireAssigned: route.requireAssigned }
      return user !== undefined && judgePerson(user, rule, mayPass).decision === 'allow'
    })
  )
}

// Collects the paths that the doctor requests: given, taken from route files, or the gateway's own.
import type { Route } from '../../routes/route.ts'
import { shapeOf, takesMethod } from '../../routes/route-trie.ts'
import { CannotRun } from '../command.ts'
import { readTable } from '../read-routes.ts'

export type Surroundings = Awaited<ReturnType<typeof surroundingsOf>>

export interface GivenPaths {
  readonly config?: string
  readonly private?: readonly string[]
  readonly public?: readonly string[]
  readonly websocket?: readonly string[]
}

/** The gateway's own endpoints; other gateways may lack them. */
const OWN = ['/auth/admin/users', '/auth/me']
const MAX_PATHS = 3

/** @param host of the gateway: other hosts may have other routes */
export const surroundingsOf = async (given: GivenPaths, host: string) => {
  const table = given.config === undefined ? undefined : await readTable(given.config)
  const routes = table?.routesAt(host).filter(isProxied) ?? []
  const closed = routes.filter(route => !route.public && route.socketio === undefined)
  const examples = (of: readonly Route[]) => of.slice(0, MAX_PATHS).map(example)
  const paths = [...new Set([...(given.private ?? []), ...examples(closed.sort(byRoles))])]
  const open = [...(given.public ?? []), ...examples(routes.filter(route => route.public))].slice(0, MAX_PATHS)
  const withSockets = routes.filter(({ websocket }) => websocket !== undefined)
  const sockets = [...(given.websocket ?? []), ...examples(withSockets)].slice(0, MAX_PATHS)
  if ([...paths, ...open, ...sockets].some(path => !/^\/[\x21-\x7e]*$/.test(path)))
    throw new CannotRun('Paths must begin with / and must not contain spaces')
  return {
    /** Paths that should require a token; those that are not given may be missing. */
    candidates: [...paths.map(path => ({ path, isGiven: true })), ...OWN.map(path => ({ path, isGiven: false }))],
    /** Paths that require no token. */
    open,
    sockets,
    /** Some of the hosts that route files name, without wildcards. */
    hosts: (table?.hosts ?? []).filter(name => name !== host && !name.startsWith('*')).slice(0, MAX_PATHS)
  }
}

const isProxied = (route: Route): boolean => route.upstream !== undefined && takesMethod(route, 'GET')

// Routes with the fewest roles first, because most is at stake there; routes without roles last.
const byRoles = (a: Route, b: Route): number => (a.roles?.length ?? 99) - (b.roles?.length ?? 99)

const example = ({ path }: Route): string =>
  `/${shapeOf(path)
    .map(segment => (segment.startsWith(':') || segment === '*' ? 'x1' : segment))
    .join('/')}`

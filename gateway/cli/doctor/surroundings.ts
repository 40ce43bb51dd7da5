// Collects the paths that the doctor requests: given, taken from route files, or the gateway's own.

import type { Route } from '../../routes/route.ts'
import { shapeOf, takesMethod } from '../../routes/route-trie.ts'
import { CannotRun } from '../command.ts'
import { readTable } from '../read-routes.ts'

export interface Surroundings {
  readonly candidates: readonly { readonly path: string; readonly isGiven: boolean }[]
  /** Paths that require no token. */
  readonly open: readonly string[]
  readonly sockets: readonly string[]
  /** Some of those that route files name, without wildcards. */
  readonly hosts: readonly string[]
}

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
export const surroundingsOf = async (given: GivenPaths, host: string): Promise<Surroundings> => {
  const table = given.config === undefined ? undefined : await readTable(given.config)
  const routes = table?.routesAt(host).filter(isProxied) ?? []
  const closed = routes.filter(route => !route.public && route.socketio === undefined)
  const paths = [...(given.private ?? []), ...closed.sort(byRoles).slice(0, MAX_PATHS).map(example)]
  const sockets = routes.filter(({ websocket }) => websocket !== undefined)
  const surroundings = {
    candidates: [
      ...[...new Set(paths)].map(path => ({ path, isGiven: true })),
      ...OWN.map(path => ({ path, isGiven: false }))
    ],
    open: [...(given.public ?? []), ...routes.filter(route => route.public).map(example)].slice(0, MAX_PATHS),
    sockets: [...(given.websocket ?? []), ...sockets.map(example)].slice(0, MAX_PATHS),
    hosts: (table?.hosts ?? []).filter(name => name !== host && !name.startsWith('*')).slice(0, MAX_PATHS)
  }
  const all = [...paths, ...surroundings.open, ...surroundings.sockets]
  if (all.some(path => !/^\/[\x21-\x7e]*$/.test(path)))
    throw new CannotRun('Paths must begin with / and must not contain spaces')
  return surroundings
}

const isProxied = (route: Route): boolean => route.upstream !== undefined && takesMethod(route, 'GET')

// Routes with the fewest roles first, because most is at stake there; routes without roles last.
const byRoles = (a: Route, b: Route): number => (a.roles?.length ?? 99) - (b.roles?.length ?? 99)

const example = ({ path }: Route): string =>
  `/${shapeOf(path)
    .map(segment => (segment.startsWith(':') || segment === '*' ? 'x1' : segment))
    .join('/')}`

// Finds routes beside which a less strict one serves what people would expect to be covered: other paths and other methods.

import { type Complaint, complain, formatLocation } from '../route-files/complaint.ts'
import { forwardedPath, isFromFiles, type Route, type RouteTable } from '../routes/route.ts'
import { formatNetwork } from '../values/addresses.ts'

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
/** How much harm a method may do. Those who may delete have more rights, so leaving lesser methods to others is usual. */
const harm = (method: string): number => (['GET', 'HEAD', 'OPTIONS'].includes(method) ? 0 : method === 'DELETE' ? 2 : 1)

/** Findings worth a look before the files are used; none is necessarily a mistake. */
export const weakerNeighbours = (table: RouteTable): Complaint[] => {
  const routes = table.routes.filter(isFromFiles)
  const ofUpstream = Map.groupBy(routes, ({ upstream }) => upstream?.name)
  const prefixes = new Map([...ofUpstream].map(([name, group]) => [name, new Set(group.map(prefixOf))]))
  return routes.flatMap(route => [
    ...belowExact(table, route),
    ...otherMethods(table, route),
    ...otherPrefixes(table, route, [...(prefixes.get(route.upstream?.name) ?? [])].slice(0, MOST_PREFIXES))
  ])
}

/** Of one upstream; beyond it, the first ones are tried. */
const MOST_PREFIXES = 100

const prefixOf = ({ stripPrefix = '' }: Route): string => stripPrefix

/** With another `stripPrefix`, or without, another path of the gateway leads to the same one of the backend. */
const otherPrefixes = (table: RouteTable, route: Route, prefixes: readonly string[]): Complaint[] => {
  if (route.accept.includes('wider-paths')) return []
  const behind = forwardedPath(route, probeOf(route))
  const others = prefixes.filter(prefix => prefix !== prefixOf(route))
  const [found] = others.flatMap(prefix => {
    const path = prefix + behind
    return matchesOf(table, route, route.methods ?? ['GET', 'POST'], path).flatMap(({ match: { route: other } }) => {
      const isSame = other !== undefined && prefixOf(other) === prefix && sharesUpstream(other, route)
      return isSame && isWeaker(other, route) ? [{ other, path }] : []
    })
  })
  if (found === undefined) return []
  const { other, path } = found
  const message = `the less strict "${other.id}" at ${formatLocation(other.place)} leads to what "${route.id}" protects: ${path} reaches the backend as ${behind}, too; make that one as strict, or add "accept: [wider-paths]" if that is intended`
  return [complain(route.place, message)]
}

/** Backends that match prefixes (nginx, PHP, Jetty) use the handler of `/api/admin` for `/api/admin/x` too. */
const belowExact = (table: RouteTable, route: Route): Complaint[] => {
  if (route.coversBelow || /\/:[^/]*$/.test(route.path) || route.accept.includes('wider-paths')) return []
  const prefix = route.path.replace(/\/$/, '')
  const probe = probeOf({ path: `${prefix}/x` })
  const [below] = matchesOf(table, route, route.methods ?? METHODS, probe).flatMap(({ match }) => {
    // What is below a script needs the right to that script too.
    if (match.route === undefined || match.alsoReadAs?.includes(route)) return []
    const other = match.route
    return other.coversBelow && sharesUpstream(other, route) && isWeaker(other, route) ? [other] : []
  })
  if (below === undefined) return []
  // A second route of this path would tie with it.
  const hint = below.path === `${prefix}/*` ? 'make that one as strict, or add' : `add "${prefix}/*", or`
  const message = `"${route.id}" does not cover paths below it: ${prefix}/x belongs to the less strict "${below.id}" at ${formatLocation(below.place)}, and a backend that matches prefixes would serve it alike; ${hint} "accept: [wider-paths]" if that is intended`
  return [complain(route.place, message)]
}

const otherMethods = (table: RouteTable, route: Route): Complaint[] => {
  if (route.methods === undefined || route.accept.includes('wider-methods')) return []
  const left = matchesOf(table, route, METHODS, probeOf(route)).flatMap(({ method, match: { route: other } }) => {
    // A second route with the same path shows what becomes of the other methods.
    if (other === undefined || other.path === route.path) return []
    return sharesUpstream(other, route) && isWeaker(other, route) ? [{ method, other }] : []
  })
  const least = Math.min(...[...route.methods].map(harm))
  if (left.every(({ method }) => harm(method) <= least)) return []
  return [...Map.groupBy(left, ({ other }) => other)].map(([other, found]) => {
    const names = [...new Set(found.map(({ method }) => method))].join(', ')
    const unknown = other.methods === undefined ? ' and unknown methods' : ''
    const message = `"${route.id}" leaves ${names}${unknown} to the less strict "${other.id}" at ${formatLocation(other.place)}; if that is intended, add "accept: [wider-methods]"`
    return complain(route.place, message)
  })
}

/** What requests with these methods find at a path, on each of the route's hosts. */
const matchesOf = (table: RouteTable, { host = [''] }: Route, methods: Iterable<string>, path: string) =>
  [...methods].flatMap(method => host.map(name => ({ method, match: table.match(method, path, name) })))

/** A path that the route matches. */
const probeOf = ({ path }: Pick<Route, 'path'>): string =>
  path
    .replace(/\/:[^/]+/g, (_, index: number) => `/0${index}`)
    .replace(/\*$/, '0')
    .replace(/(?!^)\/$/, '')

const sharesUpstream = (a: Route, b: Route): boolean => a.upstream?.name === b.upstream?.name

/** Whether someone may pass `route` who may not pass `stronger`. */
const isWeaker = (route: Route, stronger: Route): boolean => {
  if (stronger.from !== undefined && isWider(route.from, stronger.from)) return true
  if (stronger.public || stronger.socketio !== undefined) return false
  if (route.public) return true
  if (stronger.requireAssigned && !route.requireAssigned) return true
  if (stronger.roles === undefined) return false
  return route.roles === undefined || route.roles.some(role => !stronger.roles?.includes(role))
}

const isWider = (networks: Route['from'], others: NonNullable<Route['from']>): boolean => {
  const known = others.map(formatNetwork)
  return networks === undefined || networks.some(network => !known.includes(formatNetwork(network)))
}

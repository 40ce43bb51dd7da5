// Divides routes by the hosts that they name, and finds those that apply to a host: exact names before wildcards before the rest.
import { wildcardOf } from '../values/urls.ts'
import type { Route, RouteTable } from './route.ts'

/** Which routes of files apply to each entry of `host`, and to all other hosts. */
export const routesByHost = (routes: readonly Route[]) => {
  const named = routes.flatMap(route => (route.host ?? []).map(host => ({ host, route })))
  const byHost = Map.groupBy(named, ({ host }) => host)
  return {
    others: routes.filter(({ host }) => host === undefined),
    byHost: new Map([...byHost].map(([host, entries]) => [host, entries.map(({ route }) => route)]))
  }
}

/** At most two look-ups, however many hosts there are. */
export const hostLookup = <T>(
  others: T,
  byHost: ReadonlyMap<string, T>
): { at(host: string): T } & Pick<RouteTable, 'namesHost' | 'hosts'> => {
  const named = (host: string): T | undefined => byHost.get(host) ?? byHost.get(wildcardOf(host))
  return {
    at: byHost.size === 0 ? () => others : host => named(host) ?? others,
    namesHost: host => named(host) !== undefined,
    hosts: [...byHost.keys()]
  }
}

// Divides routes by the hosts that they name, and finds those that apply to a host: exact names before wildcards before the rest.
import { wildcardOf } from '../values/host-names.ts'
import type { Route, RouteTable } from './route.ts'

/** Which routes of files apply to each entry of `host`, and to all other hosts. */
export const routesByHost = (routes: readonly Route[]) => {
  const others: Route[] = []
  const byHost = new Map<string, Route[]>()
  for (const route of routes) {
    if (route.host === undefined) others.push(route)
    for (const host of route.host ?? []) {
      const known = byHost.get(host)
      if (known === undefined) byHost.set(host, [route])
      else known.push(route)
    }
  }
  return { others, byHost }
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

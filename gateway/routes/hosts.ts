// Divides routes by the hosts that they name, and finds those that apply to a host: exact names before wildcards before the rest.
import { wildcardOf } from '../values/host-names.ts'
import type { Route, RouteTable } from './route.ts'

/** Which routes apply to each entry of `host`, and to all other hosts; the gateway's own endpoints are on every host. */
export const routesByHost = (routes: readonly Route[]) => {
  const own = routes.filter(isOwn)
  const others = [...own]
  const byHost = new Map<string, Route[]>()
  for (const route of routes) {
    if (isOwn(route)) continue
    if (route.host === undefined) others.push(route)
    for (const host of route.host ?? []) {
      const known = byHost.get(host)
      if (known === undefined) byHost.set(host, [...own, route])
      else known.push(route)
    }
  }
  return { others, byHost }
}

const isOwn = ({ place }: Route): boolean => place.file === 'gateway'

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

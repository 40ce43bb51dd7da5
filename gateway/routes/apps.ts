// Lists the applications that a person may open: a route with `app`, decided as the requests to it are.
import { type Asker, type DecideOptions, decide } from './decide.ts'
import type { App, Route, RouteTable } from './route.ts'

/** A tile of /auth/apps. */
export type AppItem = App

export const hasApps = ({ routes }: RouteTable): boolean => routes.some(({ app }) => app !== undefined)

/** In the order of the files. @param hostName the host on whose page they are listed */
export const appsFor = (
  table: RouteTable,
  asker: Asker,
  hostName: string,
  options: DecideOptions & { readonly publicUrl: string }
): AppItem[] => {
  const isOnNamedHost = table.namesHost(hostName)
  const homeHost = isOnNamedHost ? new URL(options.publicUrl).hostname : hostName
  const mayOpen = (route: Route, address: string): boolean => {
    const [path = ''] = address.split(/[?#]/, 1)
    // Another route may decide the address; an address elsewhere is not ours to decide.
    const others = address.startsWith('/') ? [table.match('GET', path, hostOf(route) || homeHost)] : []
    const matches = [{ route, path: route.path }, ...others]
    return matches.every(match => decide(match, asker, options).decision === 'allow')
  }
  return table.routes.flatMap(route => {
    if (route.app === undefined) return []
    const address = route.app.url || pathOf(route)
    if (!mayOpen(route, address)) return []
    const isElsewhere = address.startsWith('/') && (isOnNamedHost || route.host !== undefined)
    return [{ ...route.app, url: isElsewhere ? originOf(route, options.publicUrl) + address : address }]
  })
}

const pathOf = ({ path, coversBelow }: Route): string => (coversBelow ? path.slice(0, -2) || '/' : path)

/** The first host of its own that a browser can ask for; '': none. */
const hostOf = ({ host = [] }: Route): string => host.find(name => !name.startsWith('*')) ?? ''

/** With the scheme and the port of PUBLIC_URL. */
const originOf = (route: Route, publicUrl: string): string => {
  const url = new URL(publicUrl)
  url.hostname = hostOf(route) === '' ? url.hostname : hostOf(route)
  return url.origin
}

// Lists the applications that a person may open: a route with `app`, decided as the requests to it are.
import { type Asker, type DecideOptions, decide } from './decide.ts'
import type { Route, RouteTable } from './route.ts'

/** A tile of /auth/apps; '' for what is not given. */
export interface AppItem {
  readonly name: string
  readonly description: string
  readonly icon: string
  readonly url: string
}

export const hasApps = ({ routes }: RouteTable): boolean => routes.some(({ app }) => app !== undefined)

/** In the order of the files. */
export const appsFor = (table: RouteTable, asker: Asker, options: DecideOptions): AppItem[] => {
  const mayOpen = (route: Route, url: string): boolean => {
    const [path = ''] = url.split(/[?#]/, 1)
    // Another route may decide the address; an address elsewhere is not ours to decide.
    const matches = [{ route, path: route.path }, ...(url.startsWith('/') ? [table.match('GET', path)] : [])]
    return matches.every(match => decide(match, asker, options).decision === 'allow')
  }
  return table.routes.flatMap(route => {
    if (route.app === undefined) return []
    const url = route.app.url || addressOf(route)
    return mayOpen(route, url) ? [{ ...route.app, url }] : []
  })
}

const addressOf = ({ path, coversBelow }: Route): string => (coversBelow ? path.slice(0, -2) || '/' : path)

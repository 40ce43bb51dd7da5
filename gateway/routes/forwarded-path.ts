// The path that the upstream is asked for follows from the route and the canonical path that matched it.
import type { Route } from './route.ts'

/** The canonical path without the route's `stripPrefix`, cut on a segment boundary; always begins with `/`. */
export const forwardedPath = (route: Pick<Route, 'stripPrefix'>, path: string): string => {
  const prefix = route.stripPrefix
  if (prefix === undefined || prefix === '/') return path
  if (path === prefix) return '/'
  return path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path
}

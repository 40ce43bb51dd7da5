// Finds the route of a path that a request writes to besides its own: one that leads to the same backend.
import type { Route, RouteMatch, RouteTable } from './route.ts'

export const ELSEWHERE: RouteMatch = { refusal: 'bad-path', reason: 'destination', public: true }

/** The match of `path`; a route of another upstream, or judged for another proxy where `route` is not, is a refusal. */
export const matchBeside = (
  table: RouteTable,
  route: Route,
  method: string,
  path: string,
  host: string | undefined
): RouteMatch => {
  const found = table.match(method, path, host)
  return found.route === undefined || isBeside(found.route, route) ? found : ELSEWHERE
}

const isBeside = (one: Route, other: Route): boolean =>
  one.upstream === other.upstream && one.external === other.external

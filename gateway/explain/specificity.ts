// Explains which of two routes is more specific for a request, without the tree.
import { isUnusualMethod, type Route } from '../routes/route.ts'
import { shapeOf } from '../routes/route-trie.ts'

/** Segments of a canonical path; a trailing slash is ignored. */
export const segmentsOf = (path: string): string[] => {
  const segments = path.split('/').slice(1)
  if (segments.at(-1) === '') segments.pop()
  return segments
}

/** Whether a route's path covers these segments, whatever the method. */
export const pathMatches = (
  routePath: string,
  segments: readonly string[],
  spelling: (text: string) => string = text => text
): boolean => {
  const shape = shapeOf(routePath)
  const isRest = shape.at(-1) === '*'
  const named = isRest ? shape.slice(0, -1) : shape
  if (isRest ? segments.length < named.length : segments.length !== named.length) return false
  return named.every((part, index) => {
    const segment = segments[index] ?? ''
    return part.startsWith(':') ? segment !== '' : spelling(part) === segment
  })
}

/** RFC 9110 §9.3.2: a route that takes GET takes HEAD. */
export const takesMethod = ({ methods }: Pick<Route, 'methods'>, method: string): boolean =>
  methods === undefined ? !isUnusualMethod(method) : methods.has(method) || (method === 'HEAD' && methods.has('GET'))

/** Positive if `a` is the more specific of two routes that match the same path. */
export const compareShapes = (a: Route, b: Route, method: string): number => {
  const [one, other] = [shapeOf(a.path), shapeOf(b.path)]
  for (let i = 0; i < Math.max(one.length, other.length); i += 1) {
    const difference = rankOf(one[i]) - rankOf(other[i])
    if (difference !== 0) return difference
  }
  return methodRank(a, method) - methodRank(b, method)
}

/** Why `route` was not chosen for a method, compared with the route that was (if any). */
export const whyLost = (route: Route, winner: Route | undefined, method: string): string => {
  if (!takesMethod(route, method)) {
    if (method === 'CONNECT') return 'no route takes CONNECT'
    return route.methods === undefined
      ? `takes ${method} only if its methods name it`
      : `takes ${[...route.methods].join(', ')}, not ${method}`
  }
  if (winner === undefined) return 'the path is refused'
  const [mine, theirs] = [shapeOf(route.path), shapeOf(winner.path)]
  const at = theirs.findIndex((segment, index) => rankOf(segment) > rankOf(mine[index]))
  if (at !== -1) {
    const [better, worse] = [theirs[at] ?? '', mine[at]]
    return `"${better}" in "${winner.id}" is more specific than ${worse === undefined ? 'the end' : `"${worse}"`} here`
  }
  if (theirs.length < mine.length) return `"${winner.id}" matches this path exactly; this route covers it only with "*"`
  return `"${winner.id}" names the method ${method}`
}

// Static before `:param` before `*`; the end of a path before a `*` that would cover nothing.
const rankOf = (segment: string | undefined): number => {
  if (segment === undefined) return 2
  if (segment === '*') return 1
  return segment.startsWith(':') ? 2 : 3
}

const methodRank = ({ methods }: Route, method: string): number => {
  if (methods === undefined) return 0
  return methods.has(method) ? 2 : 1
}

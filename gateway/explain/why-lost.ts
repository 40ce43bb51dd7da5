// Explains why a route that covers a path was not chosen.
import type { Route } from '../routes/route.ts'
import { shapeOf, takesMethod } from '../routes/route-trie.ts'

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

// Finds the most specific of routes by comparing each with each: an oracle for the tree.
import type { Route } from '../../gateway/routes/route.ts'
import { shapeOf } from '../../gateway/routes/route-trie.ts'

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

/** Positive if `a` is the more specific of two routes that match the same path. */
export const compareShapes = (a: Route, b: Route, method: string): number => {
  const [one, other] = [shapeOf(a.path), shapeOf(b.path)]
  for (let i = 0; i < Math.max(one.length, other.length); i += 1) {
    const difference = rankOf(one[i]) - rankOf(other[i])
    if (difference !== 0) return difference
  }
  return methodRank(a, method) - methodRank(b, method)
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

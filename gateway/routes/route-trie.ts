// Keeps routes in a tree of path segments: finding one costs the length of the path, not the number of routes.
import { atOnce, inParts, type Parts } from '../values/in-parts.ts'
import { isUnusualMethod, type Route } from './route.ts'

/** One view of the routes: exact, decoded, or folded to one case. */
export interface RouteTrie {
  readonly root: TrieNode
  /** Number of segments of the longest route, without `*`. */
  readonly depth: number
}

/** A map exists only if it is not empty: among thousands of routes, every further object is memory outside the CPU's caches. */
interface TrieNode {
  statics: Map<string, TrieNode> | undefined
  param: TrieNode | undefined
  /** The route that ends here, for all methods. */
  exact: Route | undefined
  exactByMethod: Map<string, Route> | undefined
  /** The route that ends in `/*` here, for all methods; it also covers this node itself. */
  rest: Route | undefined
  restByMethod: Map<string, Route> | undefined
  /** Whether this path is the gateway's own, alone or with everything below: wider routes never apply. */
  reserved: 'self' | 'subtree' | undefined
}

export type Spelling = (segment: string) => string

/** Called if two routes have the same shape and method; returns the one that stays. */
export type OnTie = (earlier: Route, later: Route) => Route

export const asWritten: Spelling = segment => segment
export const keepEarlier: OnTie = earlier => earlier

/** The parts of the public origin that belong to the gateway: `/health`, and `/auth` with everything below. */
export const RESERVED = [
  { segment: 'health', extent: 'self' },
  { segment: 'auth', extent: 'subtree' }
] as const

/** The gateway's own endpoints, and what else of its paths is reserved: the tries of all hosts are built on this one. */
export const createOwnTrie = (routes: readonly Route[]): RouteTrie => {
  const trie = atOnce(createTrie(routes, asWritten, keepEarlier))
  for (const { segment, extent } of RESERVED) childOf(trie.root, segment).reserved = extent
  return trie
}

/** @param own shared, not copied, because route files may name nothing below it */
export function* createTrie(
  routes: readonly Route[],
  spelling: Spelling,
  onTie: OnTie,
  own?: RouteTrie
): Parts<RouteTrie> {
  const root = createNode()
  let depth = own?.depth ?? 1
  for (const [segment, node] of own?.root.statics ?? []) Object.assign(childOf(root, segment), node)
  yield* inParts(routes, route => {
    const segments = shapeOf(route.path)
    if (route.coversBelow) segments.pop()
    depth = Math.max(depth, segments.length)
    let node = root
    for (const segment of segments) node = segment.startsWith(':') ? paramOf(node) : childOf(node, spelling(segment))
    addRoute(node, route, onTie)
  })
  return { root, depth }
}

/** Segments of a route's path; a trailing slash is ignored. */
export const shapeOf = (path: string): string[] => path.split('/').filter(segment => segment !== '')

/** A route whose path covers the path asked for, whatever its methods; `'reserved'`: what follows is hidden by the gateway itself. */
export type Candidate = Route | 'reserved'

/** Returns whether to stop. */
type Visit = (candidate: Candidate) => boolean

/** The first candidate that takes the method. `'reserved'`: only the gateway itself is there. */
export const findRoute = (
  trie: RouteTrie,
  method: string,
  segments: readonly string[]
): Route | 'reserved' | undefined => {
  let found: Candidate | undefined
  walk(trie.root, method, segments, 0, candidate => {
    if (candidate !== 'reserved' && !takesMethod(candidate, method)) return false
    found = candidate
    return true
  })
  return found
}

/** All candidates, the one with precedence first. A route that takes the method precedes others with the same path. */
export const candidatesFor = (trie: RouteTrie, method: string, segments: readonly string[]): Candidate[] => {
  const found = new Set<Candidate>()
  walk(trie.root, method, segments, 0, candidate => {
    found.add(candidate)
    return false
  })
  return [...found]
}

/** RFC 9110 §9.3.2: HEAD is GET without content, so GET includes HEAD unless HEAD has a route of its own. */
export const takesMethod = ({ methods }: Pick<Route, 'methods'>, method: string): boolean =>
  methods === undefined ? !isUnusualMethod(method) : methods.has(method) || (method === 'HEAD' && methods.has('GET'))

/**
 * Visits the candidates in order of precedence: static before `:param` before `*`, segment by segment from the left; then
 * an exact path before a `/*`, and a route that names the method before one for all methods.
 */
const walk = (node: TrieNode, method: string, segments: readonly string[], index: number, visit: Visit): boolean => {
  const segment = segments[index]
  if (segment === undefined) {
    return (
      visitEnd(node.exactByMethod, node.exact, method, visit) || visitEnd(node.restByMethod, node.rest, method, visit)
    )
  }
  const child = node.statics?.get(segment)
  if (child !== undefined) {
    if (walk(child, method, segments, index + 1, visit)) return true
    if (isReserved(child, segments, index) && visit('reserved')) return true
  }
  // An empty segment is no value for a `:param`.
  if (node.param !== undefined && segment !== '' && walk(node.param, method, segments, index + 1, visit)) return true
  return visitEnd(node.restByMethod, node.rest, method, visit)
}

const visitEnd = (
  byMethod: Map<string, Route> | undefined,
  forAll: Route | undefined,
  method: string,
  visit: Visit
): boolean => {
  if (byMethod !== undefined) {
    const named = byMethod.get(method) ?? (method === 'HEAD' ? byMethod.get('GET') : undefined)
    if (named !== undefined && visit(named)) return true
  }
  if (forAll !== undefined && visit(forAll)) return true
  if (byMethod !== undefined) for (const other of byMethod.values()) if (visit(other)) return true
  return false
}

const isReserved = (child: TrieNode, segments: readonly string[], index: number): boolean =>
  child.reserved === 'subtree' || (child.reserved === 'self' && index + 1 === segments.length)

const addRoute = (node: TrieNode, route: Route, onTie: OnTie): void => {
  const place = route.coversBelow ? 'rest' : 'exact'
  const stays = (earlier: Route | undefined) => (earlier === undefined ? route : onTie(earlier, route))
  if (route.methods === undefined) {
    node[place] = stays(node[place])
    return
  }
  const byMethod = node[`${place}ByMethod`] ?? new Map<string, Route>()
  node[`${place}ByMethod`] = byMethod
  for (const method of route.methods) byMethod.set(method, stays(byMethod.get(method)))
}

const createNode = (): TrieNode => ({
  statics: undefined,
  param: undefined,
  exact: undefined,
  exactByMethod: undefined,
  rest: undefined,
  restByMethod: undefined,
  reserved: undefined
})

const childOf = (node: TrieNode, segment: string): TrieNode => {
  const known = node.statics?.get(segment)
  if (known !== undefined) return known
  const child = createNode()
  node.statics ??= new Map()
  node.statics.set(segment, child)
  return child
}

const paramOf = (node: TrieNode): TrieNode => {
  node.param ??= createNode()
  return node.param
}

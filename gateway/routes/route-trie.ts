// Keeps routes in a tree of path segments: finding one costs the length of the path, not the number of routes.
import { inParts, type Parts } from './in-parts.ts'
import type { Route } from './route.ts'

/** One view of the routes: exact, decoded, or folded to one case. */
export interface RouteTrie {
  readonly root: TrieNode
  /** Number of segments of the longest route, without `*`. */
  readonly depth: number
}

/**
 * Most routes serve every method and share their last literal segment with no other. They are stored beside the nodes, and
 * a map exists only if it is not empty: among thousands of routes, every additional object is memory outside the CPU's
 * caches.
 */
interface TrieNode {
  /** Segments that lead only to this route, for all methods. */
  leaves: Map<string, Route> | undefined
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

export interface Reserved {
  readonly segment: string
  readonly extent: 'self' | 'subtree'
}

export function* createTrie(
  routes: readonly Route[],
  spelling: Spelling,
  onTie: OnTie,
  reserved: readonly Reserved[]
): Parts<RouteTrie> {
  const root = createNode()
  let depth = 1
  for (const { segment, extent } of reserved) childOf(root, segment).reserved = extent
  yield* inParts(routes, route => {
    const segments = shapeOf(route.path)
    if (route.coversBelow) segments.pop()
    depth = Math.max(depth, segments.length)
    const last = segments.pop()
    let node = root
    for (const segment of segments) node = nodeBelow(node, segment, spelling)
    if (last === undefined) addRoute(root, route, onTie)
    else if (!addLeaf(node, last, route, spelling)) addRoute(nodeBelow(node, last, spelling), route, onTie)
  })
  return { root, depth }
}

/** Segments of a route's path; a trailing slash is ignored. */
export const shapeOf = (path: string): string[] => path.split('/').filter(segment => segment !== '')

/**
 * The most specific route for a method: static before `:param` before `*`, segment by segment from the left; if a
 * branch has no route for this method, the next wider one is tried. `'reserved'`: only the gateway itself is there.
 */
export const findRoute = (
  trie: RouteTrie,
  method: string,
  segments: readonly string[]
): Route | 'reserved' | undefined => findBelow(trie.root, method, segments, 0)

const findBelow = (
  node: TrieNode,
  method: string,
  segments: readonly string[],
  index: number
): Route | 'reserved' | undefined => {
  const segment = segments[index]
  if (segment === undefined) return exactRoute(node, method) ?? restRoute(node, method)
  const leaf = node.leaves?.get(segment)
  if (leaf !== undefined && endsAt(leaf, segments, index)) return leaf
  const child = node.statics?.get(segment)
  if (child !== undefined) {
    const found = findBelow(child, method, segments, index + 1)
    if (found !== undefined) return found
    if (isReserved(child, segments, index)) return 'reserved'
  }
  // An empty segment is no value for a `:param`.
  if (node.param !== undefined && segment !== '') {
    const found = findBelow(node.param, method, segments, index + 1)
    if (found !== undefined) return found
  }
  return restRoute(node, method)
}

/** Where `findRoute` finds none: the routes whose path matches, but which serve other methods only. */
export const routesAt = (trie: RouteTrie, segments: readonly string[]): Route[] => {
  const found: Route[] = []
  collect(trie.root, segments, 0, found)
  return found
}

const collect = (node: TrieNode, segments: readonly string[], index: number, found: Route[]): void => {
  const segment = segments[index]
  if (segment === undefined) found.push(...(node.exactByMethod?.values() ?? []))
  else {
    const child = node.statics?.get(segment)
    if (child !== undefined) {
      collect(child, segments, index + 1, found)
      if (isReserved(child, segments, index)) return
    }
    if (node.param !== undefined && segment !== '') collect(node.param, segments, index + 1, found)
  }
  found.push(...(node.restByMethod?.values() ?? []))
}

const endsAt = (leaf: Route, segments: readonly string[], index: number): boolean =>
  leaf.coversBelow || index + 1 === segments.length

const isReserved = (child: TrieNode, segments: readonly string[], index: number): boolean =>
  child.reserved === 'subtree' || (child.reserved === 'self' && index + 1 === segments.length)

const exactRoute = (node: TrieNode, method: string): Route | undefined => pick(node.exactByMethod, method) ?? node.exact

const restRoute = (node: TrieNode, method: string): Route | undefined => pick(node.restByMethod, method) ?? node.rest

// RFC 9110 §9.3.2: HEAD is GET without content, so GET includes HEAD unless HEAD has a route of its own.
const pick = (byMethod: Map<string, Route> | undefined, method: string): Route | undefined =>
  byMethod === undefined ? undefined : (byMethod.get(method) ?? (method === 'HEAD' ? byMethod.get('GET') : undefined))

const nodeBelow = (node: TrieNode, segment: string, spelling: Spelling): TrieNode =>
  segment.startsWith(':') ? paramOf(node) : childOf(node, spelling(segment))

/** Returns whether nothing else is known about this segment, and the route serves all methods. */
const addLeaf = (node: TrieNode, segment: string, route: Route, spelling: Spelling): boolean => {
  if (segment.startsWith(':') || route.methods !== undefined) return false
  const spelt = spelling(segment)
  if (node.statics?.has(spelt) || node.leaves?.has(spelt)) return false
  node.leaves ??= new Map()
  node.leaves.set(spelt, route)
  return true
}

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
  leaves: undefined,
  statics: undefined,
  param: undefined,
  exact: undefined,
  exactByMethod: undefined,
  rest: undefined,
  restByMethod: undefined,
  reserved: undefined
})

/** The node of a segment; a former leaf is attached to it. */
const childOf = (node: TrieNode, segment: string): TrieNode => {
  const known = node.statics?.get(segment)
  if (known !== undefined) return known
  const child = createNode()
  const leaf = node.leaves?.get(segment)
  if (leaf !== undefined) {
    child[leaf.coversBelow ? 'rest' : 'exact'] = leaf
    node.leaves?.delete(segment)
  }
  node.statics ??= new Map()
  node.statics.set(segment, child)
  return child
}

const paramOf = (node: TrieNode): TrieNode => {
  node.param ??= createNode()
  return node.param
}

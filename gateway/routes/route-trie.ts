// Routes lie in a tree of path segments, so that finding one costs the length of the path, not the number of routes.
import type { Route } from './route.ts'

/** One spelling of the routes: exact, decoded, or folded to one case. */
export interface RouteTrie {
  readonly root: TrieNode
  /** Segments of the longest route, `*` not counted. */
  readonly depth: number
}

/** Most nodes are leaves and most routes serve every method: there is a map only where something is in it. */
export interface TrieNode {
  statics: Map<string, TrieNode> | undefined
  param: TrieNode | undefined
  /** Routes that end here. */
  exact: Handlers | undefined
  /** Routes that end in `/*` here; they also cover this very node. */
  rest: Handlers | undefined
  /** What lies here is the gateway's own, alone or with everything below: wider routes never take over. */
  reserved: 'self' | 'subtree' | undefined
}

/** Routes of one shape: by method, and the one for all methods. */
export interface Handlers {
  byMethod: Map<string, Route> | undefined
  any: Route | undefined
}

export type Spelling = (segment: string) => string

/** Called when two routes have the same shape and method; returns the one that stays. */
export type OnTie = (earlier: Route, later: Route) => Route

export interface Reserved {
  readonly segment: string
  readonly extent: 'self' | 'subtree'
}

export const createTrie = (
  routes: readonly Route[],
  spelling: Spelling,
  onTie: OnTie,
  reserved: readonly Reserved[]
): RouteTrie => {
  const root = createNode()
  let depth = 1
  for (const { segment, extent } of reserved) childOf(root, segment).reserved = extent
  for (const route of routes) {
    const segments = shapeOf(route.path)
    const isRest = segments.at(-1) === '*'
    const named = isRest ? segments.slice(0, -1) : segments
    depth = Math.max(depth, named.length)
    let node = root
    for (const segment of named) node = segment.startsWith(':') ? paramOf(node) : childOf(node, spelling(segment))
    const place = isRest ? 'rest' : 'exact'
    const handlers = node[place] ?? { byMethod: undefined, any: undefined }
    node[place] = handlers
    addRoute(handlers, route, onTie)
  }
  return { root, depth }
}

/** Segments of a route's path; a slash at the end says nothing. */
export const shapeOf = (path: string): string[] => path.split('/').filter(segment => segment !== '')

/**
 * The most specific route for a method: static over `:param` over `*`, segment by segment from the left; where a
 * branch has no route for this method, the next wider one is asked. `'reserved'`: only the gateway itself lives there.
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
  if (segment === undefined) return pick(node.exact, method) ?? pick(node.rest, method)
  const child = node.statics?.get(segment)
  if (child !== undefined) {
    const found = findBelow(child, method, segments, index + 1)
    if (found !== undefined) return found
    if (isReserved(child, segments, index)) return 'reserved'
  }
  // An empty segment is no value of a `:param`.
  if (node.param !== undefined && segment !== '') {
    const found = findBelow(node.param, method, segments, index + 1)
    if (found !== undefined) return found
  }
  return pick(node.rest, method)
}

/** Every route whose path matches, whatever its methods. */
export const routesAt = (trie: RouteTrie, segments: readonly string[]): Route[] => {
  const found: Route[] = []
  collect(trie.root, segments, 0, found)
  return found
}

const collect = (node: TrieNode, segments: readonly string[], index: number, found: Route[]): void => {
  const segment = segments[index]
  if (segment !== undefined) {
    const child = node.statics?.get(segment)
    if (child !== undefined) collect(child, segments, index + 1, found)
    if (child !== undefined && isReserved(child, segments, index)) return
    if (node.param !== undefined && segment !== '') collect(node.param, segments, index + 1, found)
  }
  for (const handlers of segment === undefined ? [node.exact, node.rest] : [node.rest]) {
    if (handlers === undefined) continue
    if (handlers.byMethod !== undefined) found.push(...new Set(handlers.byMethod.values()))
    if (handlers.any !== undefined) found.push(handlers.any)
  }
}

/** The most nodes that any path can make `findRoute` visit. */
export const worstCaseSteps = (node: TrieNode): number => {
  let deepest = 0
  for (const child of node.statics?.values() ?? []) deepest = Math.max(deepest, worstCaseSteps(child))
  return 1 + deepest + (node.param === undefined ? 0 : worstCaseSteps(node.param))
}

const isReserved = (child: TrieNode, segments: readonly string[], index: number): boolean =>
  child.reserved === 'subtree' || (child.reserved === 'self' && index + 1 === segments.length)

// RFC 9110 §9.3.2: HEAD is GET without content, so what may GET may HEAD, unless HEAD has a route of its own.
const pick = (handlers: Handlers | undefined, method: string): Route | undefined => {
  if (handlers === undefined) return undefined
  const { byMethod } = handlers
  if (byMethod === undefined) return handlers.any
  const named = byMethod.get(method)
  if (named !== undefined) return named
  return (method === 'HEAD' ? byMethod.get('GET') : undefined) ?? handlers.any
}

const addRoute = (handlers: Handlers, route: Route, onTie: OnTie): void => {
  if (route.methods === undefined) {
    handlers.any = handlers.any === undefined ? route : onTie(handlers.any, route)
    return
  }
  handlers.byMethod ??= new Map()
  for (const method of route.methods) {
    const earlier = handlers.byMethod.get(method)
    handlers.byMethod.set(method, earlier === undefined ? route : onTie(earlier, route))
  }
}

const createNode = (): TrieNode => ({
  statics: undefined,
  param: undefined,
  exact: undefined,
  rest: undefined,
  reserved: undefined
})

const childOf = (node: TrieNode, segment: string): TrieNode => {
  node.statics ??= new Map()
  const child = node.statics.get(segment) ?? createNode()
  node.statics.set(segment, child)
  return child
}

const paramOf = (node: TrieNode): TrieNode => {
  node.param ??= createNode()
  return node.param
}

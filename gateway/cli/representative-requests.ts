// Lists requests that together show every difference between two route tables in paths and methods.
import { isOutside } from '../routes/decide.ts'
import { foldLetters, mayBeScript } from '../routes/lax-readings.ts'
import type { Route } from '../routes/route.ts'
import { shapeOf } from '../routes/route-trie.ts'
import { formatAddress, type Network } from '../values/addresses.ts'

/** A method that some route names, or one that represents all others. */
export interface MethodClass {
  readonly method: string
  readonly standsForOthers: boolean
  /** The one beside which it is not listed. */
  readonly beside: string | undefined
}

const MAX_PATHS = 100_000

/**
 * The route of a canonical path depends only on its length and on which of its segments are static segments of some
 * route, so one path per class is enough. Overlaps (`/a/:x` with `/:y/b`) form classes too, and so does each way in which
 * a lax backend could read a path as another one.
 */
export const representativeRequests = (routes: readonly Route[]) => {
  const root = createNode()
  for (const { path } of routes) insert(root, shapeOf(path))
  const fresh = freshSegment(routes)
  const paths = new Set(routes.flatMap(({ path }) => instances(path, fresh)))
  let isComplete = enumerate(root, fresh, paths)
  const spellings = new Map<string, string>()
  for (const path of paths) {
    const bare = path.replace(`/${fresh}.php`, '')
    if (bare !== path) spellings.set(path, bare === '' ? '/' : bare)
    if (spellings.size > MAX_PATHS) isComplete = false
    else for (const spelling of spellingsOf(path, fresh)) if (!paths.has(spelling)) spellings.set(spelling, path)
  }
  const plain = [...paths].filter(path => !spellings.has(path)).map(path => ({ path, of: undefined }))
  const others = [...spellings].map(([path, of]) => ({ path, of }))
  return {
    /** `of`: the plain path that this is another spelling of. */
    paths: [...plain, ...others],
    methods: methodClasses(routes),
    /** False if the routes have more combinations than are checked; each single route always is. */
    isComplete
  }
}

/** A session in the path, which classic ASP.NET takes off. */
const IGNORED = '(S(x))'

/** A path as clients could write it for a backend that ignores case, extensions, scripts, parameters or escapes. */
const spellingsOf = (path: string, fresh: string): string[] => {
  const segments = path.split('/').slice(1)
  const inEach = segments.flatMap((segment, index) => {
    // What a backend leaves out entirely can only be the value of a parameter.
    const leftOut = segment === fresh ? [IGNORED] : []
    const others = [inCapitals(segment), `${segment}.php`, `${segment}%23`, ...leftOut]
    return others.map(other => `/${segments.with(index, other).join('/')}`)
  })
  const ends = ['.json', '/...', '%20', '.', ';x', '/', `.php/${fresh}`, `/${fresh}.php/`, `%2F${fresh}`, '/index.html']
  return [`/${segments.map(inCapitals).join('/')}`, ...inEach, ...ends.map(end => path + end)]
}

const inCapitals = (segment: string): string =>
  segment.includes('%') ? encodeURIComponent(decodeURIComponent(segment).toUpperCase()) : segment.toUpperCase()

interface Node {
  readonly statics: Map<string, Node>
  param: Node | undefined
}

const createNode = (): Node => ({ statics: new Map(), param: undefined })

const insert = (root: Node, shape: readonly string[]): void => {
  let node = root
  for (const segment of shape) {
    if (segment === '*') return
    if (segment.startsWith(':')) {
      node.param ??= createNode()
      node = node.param
    } else {
      const next: Node = node.statics.get(segment) ?? createNode()
      node.statics.set(segment, next)
      node = next
    }
  }
}

// A segment that no route contains, in any case.
const freshSegment = (routes: readonly Route[]): string => {
  const known = new Set(routes.flatMap(({ path }) => shapeOf(path).map(foldLetters)))
  let fresh = 'x'
  while (known.has(fresh)) fresh += 'x'
  return fresh
}

const instances = (path: string, fresh: string): string[] => {
  const shape = shapeOf(path)
  const named = shape.filter(segment => segment !== '*').map(segment => (segment.startsWith(':') ? fresh : segment))
  const base = `/${named.join('/')}`
  return shape.at(-1) === '*' ? [base, `${base === '/' ? '' : base}/${fresh}`] : [base]
}

interface Level {
  readonly prefix: string
  readonly nodes: readonly Node[]
  readonly hasScript: boolean
}

/** Breadth first, so that the paths omitted beyond the limit are the deepest. */
const enumerate = (root: Node, fresh: string, paths: Set<string>): boolean => {
  let level: Level[] = [{ prefix: '', nodes: [root], hasScript: false }]
  while (level.length > 0) {
    const next: Level[] = []
    for (const { prefix, nodes, hasScript } of level) {
      paths.add(prefix === '' ? '/' : prefix)
      if (paths.size > MAX_PATHS) return false
      const params = nodes.flatMap(({ param }) => (param === undefined ? [] : [param]))
      const names = new Set(nodes.flatMap(({ statics }) => [...statics.keys()]))
      for (const name of hasScript ? names : names.add(`${fresh}.php`)) {
        // A script may route what follows as if it were not there itself.
        const isScript = mayBeScript(name) && !hasScript
        const below = [...nodes.flatMap(node => childrenNamed(node, name)), ...params, ...(isScript ? nodes : [])]
        next.push({ prefix: `${prefix}/${name}`, nodes: below, hasScript: hasScript || isScript })
      }
      if (params.length > 0) next.push({ prefix: `${prefix}/${fresh}`, nodes: params, hasScript })
      else paths.add(`${prefix}/${fresh}`)
    }
    level = next
  }
  return true
}

/** Below another spelling, too, there may be a route that ignoring case leads to. */
const childrenNamed = ({ statics }: Node, name: string): Node[] =>
  [...statics].flatMap(([other, child]) => (foldLetters(other) === foldLetters(name) ? [child] : []))

const COMMON = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD', 'PROPFIND']

const methodClasses = (routes: readonly Route[]): MethodClass[] => {
  const named = new Set(routes.flatMap(({ methods }) => [...(methods ?? [])]))
  if (named.has('GET')) named.add('HEAD')
  const other = COMMON.find(method => !named.has(method)) ?? 'X-OTHER'
  // It deletes its source (RFC 4918 §9.9), so it is decided otherwise than others where DELETE is.
  const move = { method: 'MOVE', standsForOthers: false, beside: other }
  return [
    ...[...named]
      .sort()
      .map(method => ({ method, standsForOthers: false, beside: method === 'HEAD' ? 'GET' : undefined })),
    { method: other, standsForOthers: true, beside: undefined },
    ...(named.has('DELETE') && !named.has('MOVE') ? [move] : [])
  ]
}

/**
 * One address of each kind that the routes' `from` distinguish: the first of each network, and the first after it, where wider
 * networks may go on. `undefined`, an address in no network, comes first.
 */
export const representativeAddresses = (routes: readonly Route[]): readonly (string | undefined)[] => {
  const restricted = routes.filter(({ from }) => from !== undefined)
  const candidates = restricted.flatMap(({ from = [] }) => from.flatMap(edgesOf))
  const byKind = new Map<string, string | undefined>()
  for (const address of [undefined, ...candidates]) {
    const kind = restricted.map(route => isOutside(route, address)).join()
    if (!byKind.has(kind)) byKind.set(kind, address)
  }
  return [...byKind.values()]
}

/** The first address of a network, and the first after its last; undefined where numbers end. */
const edgesOf = ({ address, prefix }: Network): string[] => {
  const size = 1n << BigInt(128 - prefix)
  const first = address - (address % size)
  return [first, first + size].flatMap(edge => (edge >> 128n === 0n ? formatAddress(edge) : []))
}

// Finds the route of a request, and refuses every request that could be read in two ways.
import { PROFILES } from '../identity.ts'
import { inParts, type Parts } from '../values/in-parts.ts'
import { canonicalPath, decode, encodeRaw, isDottedPath, isPlainPath } from './canonical-path.ts'
import { type Grants, NO_GRANTS } from './grants.ts'
import { hostLookup, routesByHost } from './hosts.ts'
import { indexNameOf, withIndexFiles } from './index-files.ts'
import {
  foldLetters,
  formatReadings,
  hasOneReading,
  laxReadings,
  mayBeScript,
  scriptReadings,
  scriptsOnTheWay
} from './lax-readings.ts'
import {
  type BadPathReason,
  forwardedPath,
  type PathException,
  ROUTE_DEFAULTS,
  type Route,
  type RouteMatch,
  type RouteTable,
  type WrittenRoute
} from './route.ts'
import {
  asWritten,
  type Candidate,
  candidatesFor,
  createOwnTrie,
  createTrie,
  findRoute,
  keepEarlier,
  type OnTie,
  type RouteTrie,
  type Spelling,
  shapeOf
} from './route-trie.ts'
import type { Upstream } from './upstream.ts'

export interface RouteTableParts {
  /** The gateway's own endpoints first, then the files' routes as written. Paths are canonical. */
  readonly routes: readonly WrittenRoute[]
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly checksum: string
  /** The epoch, unless given. */
  readonly changedAt?: Date
  /** The built-in ones, unless given. */
  readonly profiles?: readonly string[]
  readonly grants?: Grants
  /** Called for each pair of routes that nothing distinguishes; by default the earlier one stays. */
  readonly onTie?: (earlier: Route, later: Route) => void
  /** Called for each pair of routes that differ in case only. */
  readonly onCaseTie?: (kept: Route, hidden: Route) => void
}

/** The routes that apply to a host. */
interface Spellings {
  /** Those of the files. */
  readonly routes: readonly Route[]
  readonly exact: RouteTrie
  readonly decoded: RouteTrie
  readonly folded: RouteTrie
  /** Everything that some route allows a path to contain. */
  readonly exceptions: readonly PathException[]
  /** Number of segments beyond which no route looks. */
  readonly depth: number
  /** Of all routes that end in one. */
  readonly indexNames: ReadonlySet<string>
}

/** Without a token it must not be seen that a path leads to two routes, unless its own is public. */
const laxReading = (route: Route): RouteMatch => ({
  refusal: 'bad-path',
  reason: 'lax-reading',
  public: route.public,
  by: route
})
const badPath = (reason: BadPathReason): RouteMatch => ({ refusal: 'bad-path', reason, public: true })
const NO_ROUTE: RouteMatch = { refusal: 'no-route' }

/** Builds a table from individually valid routes. Its results do not depend on their order. */
export function* buildRouteTable(parts: RouteTableParts): Parts<RouteTable> {
  // Without interruption, so that the numbers of a table are consecutive even if other tables are built at the same time.
  const routes = parts.routes.map(numbered)
  const own = routes.filter(isOwn)
  const ownTrie = createOwnTrie(own)
  const { others, byHost } = routesByHost(routes.filter(route => !isOwn(route)))
  const named = new Map<string, Spellings>()
  for (const [host, applying] of byHost) {
    named.set(host, yield* createSpellings(applying, ownTrie, parts))
    yield
  }
  const { at, ...hosts } = hostLookup(yield* createSpellings(others, ownTrie, parts), named)
  return {
    match: (method, rawPath, host = '') => matchPath(at(host), method, rawPath),
    candidates(method, path, host = '') {
      const { exact, depth } = at(host)
      return candidatesFor(exact, method, segmentsOf(encodeRaw(path), depth))
    },
    misread: (method, path, host = '') => misread(at(host), method, path),
    ...hosts,
    routesAt: host => [...own, ...at(host).routes],
    routes,
    upstreams: parts.upstreams,
    profiles: parts.profiles ?? PROFILES,
    grants: parts.grants ?? NO_GRANTS,
    checksum: parts.checksum,
    changedAt: parts.changedAt ?? new Date(0)
  }
}

const isOwn = ({ place }: Route): boolean => place.file === 'gateway'

let nextNumber = 0

// The copy of a literal keeps its layout, which the assignments then fill in.
const numbered = (route: WrittenRoute): Route =>
  Object.assign({ ...ROUTE_DEFAULTS }, route, { number: nextNumber++, coversBelow: route.path.endsWith('/*') })

const matchPath = (spellings: Spellings, method: string, rawPath: string): RouteMatch => {
  const match = matchFile(spellings, method, rawPath)
  return spellings.indexNames.size === 0 ? match : withIndexFiles(match, method, spellings)
}

const matchFile = (spellings: Spellings, method: string, rawPath: string): RouteMatch => {
  if (isPlainPath(rawPath)) return matchPlain(spellings, method, rawPath)
  return isDottedPath(rawPath) ? matchDotted(spellings, method, rawPath) : matchUnusual(spellings, method, rawPath)
}

const matchPlain = (spellings: Spellings, method: string, path: string): RouteMatch => {
  const { exact, folded } = spellings
  const segments = segmentsOf(path, spellings.depth)
  const route = findRoute(exact, method, segments)
  if (route === undefined || route === 'reserved') return refuse(exact, method, segments)
  if (folded !== exact && findRoute(folded, method, segments) !== route) return laxReading(route)
  return { route, path }
}

const matchDotted = (spellings: Spellings, method: string, path: string): RouteMatch => {
  const match = matchPlain(spellings, method, path)
  const { route } = match
  if (route === undefined) return match
  return checkShorter(spellings, method, route, path, [segmentsOf(path, spellings.depth)])
}

const matchUnusual = (spellings: Spellings, method: string, rawPath: string): RouteMatch => {
  const canonical = canonicalPath(rawPath, spellings.exceptions)
  if (canonical.refusal !== undefined) return badPath(canonical.refusal)
  const encoded = encodeRaw(canonical.path)
  const segments = segmentsOf(encoded, spellings.depth)
  const found = findRoute(spellings.exact, method, segments)
  const route = found === 'reserved' ? undefined : found
  // It is forwarded as it came, unless a prefix is to be stripped that the route spells in another way.
  const path = canonical.path.startsWith(route?.stripPrefix ?? '/') ? canonical.path : encoded
  const allowed = canonicalPath(path, route?.allowInPath)
  if (allowed.refusal !== undefined) return badPath(allowed.refusal)
  if (route === undefined) return refuse(spellings.exact, method, segments)
  if (!isReadOneWay(spellings, method, path, route)) return laxReading(route)
  const forwarded = canonicalPath(forwardedPath(route, path), route.allowInPath)
  if (forwarded.refusal !== undefined) return badPath(forwarded.refusal)
  if (!/\.|%2E/.test(path)) return { route, path }
  return checkShorter(spellings, method, route, path, laxReadings(path, spellings.depth))
}

/**
 * A backend may cut the format off the end of each reading (`/api/admin.json`), or run a script in the middle of the path
 * (`/admin.php/x`), which may route by the rest (`/index.php/api/admin`). If that leads to another route, that route must admit
 * the request as well, unless the chosen route spells that segment out.
 */
const checkShorter = (
  { decoded, folded, depth, exact }: Spellings,
  method: string,
  route: Route,
  path: string,
  readings: readonly (readonly string[])[]
): RouteMatch => {
  const written = writtenSegments(route, path, exact)
  const others = new Set<Route>()
  const scriptless = written.scripts ? [] : scriptReadings(path, depth)
  const scripts = written.scripts ? [] : scriptsOnTheWay(path, depth)
  const formatless = written.last ? [] : [...readings, ...scriptless].flatMap(reading => formatReadings(reading, depth))
  for (const segments of [...scripts, ...scriptless, ...formatless]) {
    for (const [trie, read] of [
      [decoded, segments],
      [folded, segments.map(foldLetters)]
    ] as const) {
      const found = findRoute(trie, method, read)
      if (found === undefined && candidatesFor(trie, method, read).length > 0) return laxReading(route)
      if (found !== undefined && found !== 'reserved' && found !== route) others.add(found)
    }
  }
  return others.size === 0 ? { route, path } : { route, path, alsoReadAs: [...others] }
}

/** Which segments with a format or script are spelled out by the route, or allowed by it. */
const writtenSegments = (route: Route, path: string, { depth }: RouteTrie) => {
  if (route.allowInPath.includes('extension')) return { last: true, scripts: true }
  const shape = shapeOf(route.path)
  if (route.coversBelow) shape.pop()
  const isStatic = (index: number) => shape[index] !== undefined && !shape[index].startsWith(':')
  const segments = segmentsOf(path, depth)
  return {
    last: isStatic(segments.length - 1),
    scripts: segments.every((segment, index) => !mayBeScript(segment) || isStatic(index))
  }
}

/**
 * Whether no backend, however lax, could mistake this path for another route's; a reading without a route is harmless, unless it
 * is of what the route allows in paths.
 */
const isReadOneWay = (spellings: Spellings, method: string, path: string, route: Route): boolean => {
  const { folded, depth } = spellings
  // Upper case alone, as in many ids, leaves one other reading.
  if (hasOneReading(path)) return leadsTo(route, folded, method, segmentsOf(path, depth).map(foldLetters))
  return misreading(spellings, method, path, route) === undefined
}

const leadsTo = (
  route: Route | undefined,
  trie: RouteTrie,
  method: string,
  segments: readonly string[],
  isStrict = false
): boolean => {
  const found = findRoute(trie, method, segments)
  return found === route || (!isStrict && candidatesFor(trie, method, segments).length === 0)
}

/** Whether only `allowInPath` lets the path through. A reading without a route would then reach what no route exposes. */
const needsException = (path: string, route: Route | undefined): boolean =>
  route !== undefined && route.allowInPath.length > 0 && canonicalPath(path).refusal !== undefined

/** The first reading of a path by which a lax backend would find another route, or none that takes this method. */
const misreading = (
  { decoded, folded, depth }: Spellings,
  method: string,
  path: string,
  route: Route | undefined
): { readonly trie: RouteTrie; readonly segments: readonly string[] } | undefined => {
  const isStrict = needsException(path, route)
  for (const segments of laxReadings(path, depth)) {
    const small = segments.map(foldLetters)
    if (!leadsTo(route, decoded, method, segments, isStrict)) return { trie: decoded, segments }
    if (!leadsTo(route, folded, method, small, isStrict)) return { trie: folded, segments: small }
  }
  return undefined
}

const refuse = (trie: RouteTrie, method: string, segments: readonly string[]): RouteMatch => {
  const routes = visible(candidatesFor(trie, method, segments))
  if (routes.length === 0) return NO_ROUTE
  return { refusal: 'method', routes, public: routes.every(route => route.public) }
}

/** The candidates that the gateway's own endpoints do not hide. */
const visible = (candidates: readonly Candidate[]): Route[] => {
  const hiddenFrom = candidates.indexOf('reserved')
  const shown = hiddenFrom === -1 ? candidates : candidates.slice(0, hiddenFrom)
  return shown.filter(candidate => candidate !== 'reserved')
}

const misread = (spellings: Spellings, method: string, path: string): ReturnType<RouteTable['misread']> => {
  const { exact, depth } = spellings
  const found = findRoute(exact, method, segmentsOf(encodeRaw(path), depth))
  const other = misreading(spellings, method, path, found === 'reserved' ? undefined : found)
  if (other === undefined) return undefined
  const route = findRoute(other.trie, method, other.segments)
  return { path: `/${other.segments.join('/')}`, route: route === 'reserved' ? undefined : route }
}

const segmentsOf = (path: string, depth: number): string[] => {
  const segments = path.split('/', depth + 3)
  segments.shift()
  if (segments.at(-1) === '') segments.pop()
  return segments
}

// Most tables are written in lower case without escapes, so that one tree serves all three purposes.
function* createSpellings(
  routes: readonly Route[],
  own: RouteTrie,
  { onTie, onCaseTie }: RouteTableParts
): Parts<Spellings> {
  const statics = new Set<string>()
  const indexNames = new Set<string>()
  yield* inParts(routes, route => {
    const indexName = indexNameOf(route)
    if (indexName !== undefined) indexNames.add(indexName)
    for (const segment of shapeOf(route.path)) if (!segment.startsWith(':')) statics.add(segment)
  })
  let isDecoded = false
  let isFolded = false
  yield* inParts(statics, segment => {
    isDecoded ||= decodeSegment(segment) !== segment
    isFolded ||= foldSegment(segment) !== segment
  })
  const build = (spelling: Spelling, tie: OnTie) => createTrie(routes, spelling, tie, own)
  const decoded = yield* build(decodeSegment, (earlier, later) => {
    onTie?.(earlier, later)
    return earlier
  })
  const exact = isDecoded ? yield* build(asWritten, keepEarlier) : decoded
  const folded = isFolded ? yield* build(foldSegment, keepLowerCase(onCaseTie)) : decoded
  const exceptions = [...new Set(routes.flatMap(route => route.allowInPath))]
  return { routes, exact, decoded, folded, exceptions, depth: exact.depth, indexNames }
}

const decodeSegment: Spelling = segment => decode(segment) ?? segment
const foldSegment: Spelling = segment => foldLetters(decodeSegment(segment))

// A path in lower case means the route in lower case; between others the text decides, never the order.
const keepLowerCase =
  (onCaseTie: RouteTableParts['onCaseTie']): OnTie =>
  (earlier, later) => {
    if (signature(earlier) === signature(later)) return earlier
    const [kept, hidden] = rankByCase(earlier) <= rankByCase(later) ? [earlier, later] : [later, earlier]
    onCaseTie?.(kept, hidden)
    return kept
  }

const rankByCase = (route: Route): string => {
  const text = signature(route)
  return foldLetters(text) === text ? `0${text}` : `1${text}`
}

const signature = (route: Route): string =>
  shapeOf(route.path)
    .map(segment => (segment.startsWith(':') ? ':' : decodeSegment(segment)))
    .join('/')

// Decides requests and events by brute force, from the contract alone: every route is compared with every reading of a path.
import { BlockList } from 'node:net'
import {
  decoded,
  folded,
  formatReadings,
  isScript,
  readings,
  scriptReadings,
  segmentsOf,
  type View
} from './readings.ts'

/** A route as a route file writes it. */
export interface RouteSpec {
  readonly path: string
  readonly upstream?: string
  readonly methods?: readonly string[]
  readonly roles?: readonly string[]
  readonly public?: boolean
  readonly requireAssigned?: boolean
  readonly external?: boolean
  readonly host?: string | readonly string[]
  readonly from?: readonly string[]
  readonly allowInPath?: readonly string[]
  readonly maxBody?: number
  readonly rateLimit?: { readonly max: number; readonly window: string; readonly by: string }
  readonly websocket?: Readonly<Record<string, string | number | boolean>>
  readonly socketio?: { readonly namespaces: Readonly<Record<string, NamespaceSpec>> }
}

export interface NamespaceSpec {
  readonly roles?: readonly string[]
  readonly events?: Readonly<Record<string, { readonly roles?: readonly string[] }>>
}

export interface Person {
  /** As in test lines. */
  readonly who: string
  /** undefined: without a token. */
  readonly profiles: readonly string[] | undefined
  readonly isAssigned: boolean
  readonly kind: 'ldap' | 'cloudidp' | 'client'
  /** Of the client; undefined: one in no network of any route. */
  readonly address?: string | undefined
}

export type Verdict = 'allow' | '400' | '401' | '403' | '404' | '405'

export interface Outcome {
  readonly verdict: Verdict
  /** The route that was found; undefined: none. */
  readonly route: RouteSpec | undefined
  /** Ids of all routes on which the verdict depends. */
  readonly concerned: ReadonlySet<string>
}

export const hostsOf = ({ host = [] }: RouteSpec): string[] => [host].flat().map(name => name.toLowerCase())

export const idOf = (route: RouteSpec): string => {
  const location = `${hostsOf(route)[0] ?? ''}${route.path}`
  return route.methods === undefined ? location : `${route.methods.join(',')} ${location}`
}

/** The routes for a host: those that name it, those that name its wildcard if none does, the rest if none names either. */
export const routesAt = (routes: readonly RouteSpec[], host = ''): readonly RouteSpec[] => {
  const naming = (name: string) => routes.filter(route => hostsOf(route).includes(name))
  const [exact, wild] = [naming(host), naming(host.replace(/^[^.]+/, '*'))]
  if (exact.length > 0) return exact
  return wild.length > 0 ? wild : routes.filter(route => hostsOf(route).length === 0)
}

/** The gateway's own endpoints that the oracle asks for; everything else below /auth is missing. */
const OWN: readonly RouteSpec[] = [
  { path: '/health', methods: ['GET'], public: true },
  { path: '/auth/login', methods: ['GET'], public: true },
  { path: '/auth/login', methods: ['POST'], public: true },
  { path: '/auth/me', methods: ['GET'] },
  { path: '/auth/admin/*', roles: ['Admin'] }
]

const asWritten: View = segment => segment

const shapeOf = (path: string): string[] => path.split('/').filter(segment => segment !== '')

const covers = ({ path }: RouteSpec, segments: readonly string[], view: View): boolean => {
  const shape = shapeOf(path)
  const isOpen = shape.at(-1) === '*'
  if (isOpen) shape.pop()
  if (isOpen ? segments.length < shape.length : segments.length !== shape.length) return false
  return shape.every((part, index) => {
    const segment = segments[index] ?? ''
    return part.startsWith(':') ? segment !== '' : view(part) === segment
  })
}

const takes = ({ methods }: RouteSpec, method: string): boolean =>
  methods === undefined
    ? method !== 'TRACE' && method !== 'CONNECT'
    : methods.includes(method) || (method === 'HEAD' && methods.includes('GET'))

/** A static segment over `:param` over `*`; exact over `/*`; a named method over all. Positive: `a` precedes. */
const precedence = (a: RouteSpec, b: RouteSpec, method: string): number => {
  const [one, other] = [shapeOf(a.path), shapeOf(b.path)]
  const rank = (segment: string | undefined) =>
    segment === '*' ? 1 : segment === undefined || segment.startsWith(':') ? 2 : 3
  for (let index = 0; index < Math.max(one.length, other.length); index++) {
    const difference = rank(one[index]) - rank(other[index])
    if (difference !== 0) return difference
  }
  const named = ({ methods }: RouteSpec) => (methods === undefined ? 0 : methods.includes(method) ? 2 : 1)
  return named(a) - named(b) || byCase(a, b)
}

/** Two routes that differ in case only: the one in lower case means a path in lower case. */
const byCase = (a: RouteSpec, b: RouteSpec): number => {
  const text = ({ path }: RouteSpec) =>
    shapeOf(path)
      .map(segment => (segment.startsWith(':') ? ':' : decoded(segment)))
      .join('/')
  const rank = (route: RouteSpec) => (folded(text(route)) === text(route) ? '0' : '1') + text(route)
  return rank(a) < rank(b) ? 1 : rank(a) > rank(b) ? -1 : 0
}

const isOwn = (segments: readonly string[]): boolean =>
  segments[0] === 'auth' || (segments.length === 1 && segments[0] === 'health')

/** All routes that cover the segments, the one with precedence first. */
const covering = (routes: readonly RouteSpec[], method: string, segments: readonly string[], view: View): RouteSpec[] =>
  (isOwn(segments) ? OWN : routes)
    .filter(route => covers(route, segments, view))
    .sort((a, b) => precedence(b, a, method))

/** A refusal before any route is known, or the path in its one spelling (RFC 3986 §6.2.2). */
const canonical = (raw: string): string | undefined => {
  if (!raw.startsWith('/') || /[^\x21-\x7e]|[\\#?]/.test(raw) || /%(?![0-9A-Fa-f]{2})/.test(raw)) return undefined
  const path = raw.replace(/%../g, encoded => {
    const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16))
    return /[A-Za-z0-9._~-]/.test(character) ? character : encoded.toUpperCase()
  })
  if (/%25[0-9A-Fa-f]{2}|%5C/.test(path)) return undefined
  let text: string
  try {
    text = decodeURIComponent(path)
  } catch {
    return undefined
  }
  if (/\p{Cc}/u.test(text) || text.startsWith('//')) return undefined
  const isDots = (segment: string) => /^\s*\.\.?\s*$/u.test(segment.replace(/[;?#].*$/s, ''))
  return text.split('/').some(isDots) ? undefined : path
}

/** What a path contains that only some routes allow. */
const exceptionsIn = (path: string): string[] => [
  ...(path.includes('%2F') ? ['encodedSlash'] : []),
  ...(/;|%3B/.test(path) ? ['semicolon'] : []),
  ...(path.replaceAll('%2F', '/').includes('//') ? ['doubleSlash'] : [])
]

export type Found =
  | {
      readonly kind: 'route'
      readonly route: RouteSpec
      readonly alsoReadAs: readonly RouteSpec[]
      /** Of the HTTP side of Socket.IO. */
      readonly engine: Verdict
    }
  | { readonly kind: 'bad-path'; readonly isPublic: boolean }
  | { readonly kind: 'method'; readonly isPublic: boolean; readonly all: readonly RouteSpec[] }
  | { readonly kind: 'none' }

interface Search {
  readonly found: Found
  readonly concerned: ReadonlySet<string>
}

const BAD: Found = { kind: 'bad-path', isPublic: true }

export const findRoute = (routes: readonly RouteSpec[], method: string, raw: string): Search => {
  const concerned = new Set<string>()
  const at = (segments: readonly string[], view: View) => {
    const all = covering(routes, method, segments, view)
    for (const route of all) concerned.add(idOf(route))
    return { all, first: all.find(route => takes(route, method)) }
  }
  const search = (found: Found): Search => ({ found, concerned })
  const path = canonical(raw)
  if (path === undefined) return search(BAD)
  const { all, first: route } = at(segmentsOf(path), asWritten)
  const allowed = route?.allowInPath ?? []
  const exceptions = exceptionsIn(path)
  if (exceptions.some(exception => !allowed.includes(exception))) return search(BAD)
  if (route === undefined) {
    if (all.length === 0) return search({ kind: 'none' })
    return search({ kind: 'method', isPublic: all.every(each => each.public === true), all })
  }
  const lax: Found = { kind: 'bad-path', isPublic: route.public === true }
  const others = new Set<RouteSpec>()
  for (const reading of readings(path))
    for (const [view, segments] of views(reading)) {
      const { all: read, first } = at(segments, view)
      if (first !== route && (exceptions.length > 0 || read.length > 0 || isOwn(segments))) return search(lax)
    }
  const isSpelled = spelledOut(route, path)
  const shorter = [
    ...(isSpelled.scripts ? [] : scriptReadings(path)),
    ...(isSpelled.last ? [] : formatReadings(path, !isSpelled.scripts))
  ]
  for (const reading of shorter)
    for (const [view, segments] of views(reading)) {
      const { all: read, first } = at(segments, view)
      if (first === undefined && read.length > 0 && !isOwn(segments)) return search(lax)
      if (first !== undefined) others.add(first)
    }
  for (const index of indexFiles(routes, method, path, route)) others.add(index)
  for (const other of others) concerned.add(idOf(other))
  others.delete(route)
  return search({ kind: 'route', route, alsoReadAs: [...others], engine: engineVerdict(route, method, path) })
}

/** Engine.IO answers at the path of its route alone, and knows two methods. */
const engineVerdict = (route: RouteSpec, method: string, path: string): Verdict => {
  if (route.socketio === undefined) return 'allow'
  const [own, asked] = [route.path.replace(/\*$/, ''), path].map(each => each.split('/').filter(part => part !== ''))
  if (own?.length !== asked?.length) return '400'
  return ['GET', 'POST'].includes(method) ? 'allow' : '405'
}

const views = (reading: readonly string[]): [View, readonly string[]][] => [
  [decoded, reading],
  [folded, reading.map(folded)]
]

/** Whether the route itself spells the last segment, and every script. */
const spelledOut = (route: RouteSpec, path: string) => {
  if (route.allowInPath?.includes('extension')) return { last: true, scripts: true }
  const shape = shapeOf(route.path)
  const isStatic = (index: number) => shape[index] !== undefined && !/^[:*]/.test(shape[index])
  const segments = segmentsOf(path)
  const mayRun = (segment: string) => segment.split(/%[0-9A-F]{2}|[^A-Za-z0-9_~.-]/).some(isScriptStart)
  return {
    last: isStatic(segments.length - 1),
    scripts: segments.every((segment, index) => !mayRun(segment) || isStatic(index))
  }
}

const isScriptStart = (text: string): boolean =>
  text.split('.').some((_, index, parts) => isScript(parts.slice(0, index + 1).join('.')))

const INDEX = /^(?:index|default)\.[^/]+$/i

/** Routes of index files that a server may serve for a directory. */
const indexFiles = (routes: readonly RouteSpec[], method: string, path: string, route: RouteSpec): RouteSpec[] => {
  const isDirectory = !/\/(?:\*|:[^/]*)\/?$/.test(route.path)
  if (isDirectory || route.allowInPath?.includes('extension')) return []
  const depthOf = (shape: readonly string[]) => shape.length - (shape.at(-1) === '*' ? 1 : 0)
  return readings(path).flatMap(reading => {
    const segments = reading.map(folded)
    const names = routes.map(({ path: each }) => folded(shapeOf(each).findLast(part => part !== '*') ?? ''))
    return [...new Set(names.filter(name => INDEX.test(name)))].flatMap(name => {
      const first = covering(routes, method, [...segments, name], folded).find(each => takes(each, method))
      if (first === undefined) return []
      const shape = shapeOf(first.path)
      const last = shape[depthOf(shape) - 1] ?? ''
      return folded(last) === name && depthOf(shape) === segments.length + 1 ? [first] : []
    })
  })
}

/** Whether the client's address is in none of the networks of `from`, by Node's own reading of them. */
export const isOutside = ({ from }: RouteSpec, { address }: Person): boolean => {
  if (from === undefined) return false
  const networks = new BlockList()
  for (const network of from) {
    const [base = '', prefix] = network.split('/')
    const family = base.includes(':') ? 'ipv6' : 'ipv4'
    if (prefix === undefined) networks.addAddress(base, family)
    else networks.addSubnet(base, Number(prefix), family)
  }
  return address === undefined || !networks.check(address, address.includes(':') ? 'ipv6' : 'ipv4')
}

const passes = (route: RouteSpec, person: Person): Verdict => {
  if (isOutside(route, person)) return '403'
  if (route.public || route.socketio !== undefined) return 'allow'
  if (person.profiles === undefined) return '401'
  const isProxied = !OWN.includes(route)
  if (isProxied && person.kind === 'cloudidp' && !person.isAssigned) return '403'
  if (route.path.startsWith('/auth/admin') && !isProxied && person.kind === 'client') return '403'
  if (route.roles !== undefined && !route.roles.some(role => person.profiles?.includes(role))) return '403'
  return route.requireAssigned === true && !person.isAssigned ? '403' : 'allow'
}

export const NOBODY: Person = { who: 'anonymous', profiles: undefined, isAssigned: false, kind: 'ldap' }

/** What the gateway answers, given the route that it found. External routes are taken as /auth/forward answers them. */
export const decideFound = ({ found, concerned }: Search, person: Person): Outcome => {
  const route = found.kind === 'route' ? found.route : undefined
  const outcome = (verdict: Verdict): Outcome => ({ verdict, route, concerned })
  if (found.kind !== 'route') {
    if (found.kind === 'method' && found.all.every(each => isOutside(each, person))) return outcome('403')
    const isShown = person.profiles !== undefined || (found.kind !== 'none' && found.isPublic)
    if (!isShown) return outcome('401')
    return outcome(found.kind === 'bad-path' ? '400' : found.kind === 'method' ? '405' : '404')
  }
  const verdict = passes(found.route, person)
  if (verdict !== 'allow') return outcome(verdict)
  // On a public route the token is not checked, so the person is not known.
  const known =
    found.route.public || found.route.socketio !== undefined ? { ...NOBODY, address: person.address } : person
  return outcome(found.alsoReadAs.every(other => passes(other, known) === 'allow') ? found.engine : '400')
}

/** Names with a meaning of their own for servers. */
const RESERVED_EVENTS = [
  'connect',
  'connect_error',
  'disconnect',
  'disconnecting',
  'newListener',
  'removeListener',
  '*'
]

const ruleFor = <T>(rules: Readonly<Record<string, T>>, name: string): T | undefined => {
  const patterns = Object.entries(rules).filter(([key]) => key.length > 2 && /^\/.*\/$/.test(key))
  if (Object.hasOwn(rules, name) && !patterns.some(([key]) => key === name)) return rules[name]
  return patterns.find(([key]) => new RegExp(`^(?:${key.slice(1, -1)})$`, 'u').test(name))?.[1]
}

/** What the gateway answers on a route to an event in a namespace, the CONNECT before it included. */
export const decideEvent = (route: RouteSpec, namespace: string, event: string, person: Person): Verdict => {
  if (/[\s,?#\\"'[\]{}]/.test(namespace)) return '400'
  if (isOutside(route, person)) return '403'
  if (person.profiles === undefined) return '401'
  const rule = ruleFor(route.socketio?.namespaces ?? {}, namespace)
  if (rule === undefined) return '404'
  const may = (roles: readonly string[] | undefined) =>
    passes({ path: '', roles, requireAssigned: route.requireAssigned } as RouteSpec, person)
  if (may(rule.roles) !== 'allow') return '403'
  if (RESERVED_EVENTS.includes(event)) return '400'
  if (rule.events === undefined) return 'allow'
  const found = ruleFor(rule.events, event)
  return found === undefined ? '403' : may(found.roles)
}

export const listsNamespace = ({ socketio }: RouteSpec, namespace: string): boolean =>
  !/[\s,?#\\"'[\]{}]/.test(namespace) && ruleFor(socketio?.namespaces ?? {}, namespace) !== undefined

// Makes random route tables, pairs of them, and requests that lax backends could read in several ways.
import { words } from '../../../test/support/words.ts'
import type { Random } from '../mutate.ts'
import { hostsOf, type NamespaceSpec, type Person, type RouteSpec } from './model.ts'

export const PROFILES = ['Medico']

const person = (who: string, profiles: readonly string[] | undefined, isAssigned: boolean, kind: Person['kind']) => ({
  who,
  profiles,
  isAssigned,
  kind
})

const NAMED = ['Agente', 'Supervisor', 'Admin', 'Medico']

/** The kinds of people whom `diff` names. */
export const PEOPLE: readonly Person[] = [
  person('anonymous', undefined, false, 'ldap'),
  person('cloud-unassigned', [], false, 'cloudidp'),
  person('unassigned', [], false, 'ldap'),
  ...NAMED.map(profile => person(profile, [profile], true, 'ldap')),
  ...NAMED.map(profile => person(`${profile} without area`, [profile], false, 'ldap'))
]

/** All that test lines know. */
export const EVERYBODY: readonly Person[] = [
  ...PEOPLE,
  person('Agente+Supervisor', ['Agente', 'Supervisor'], true, 'ldap'),
  person('client Agente', ['Agente'], true, 'client'),
  person('client Admin', ['Admin'], true, 'client')
]

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE', 'TRACE']
const SEGMENTS = words`
  a b admin Admin a.json admin.json index.php index.html x.php x a%20b kiss %C3%A3 a:b :id :id :id
`
const NAMESPACES = ['/', '/chat', '/room1', '/\\/room.*/', '/\\/[a-z]+/']
const EVENTS = ['send', 'move', '/se.*/', '/.*/']

const NETWORKS = ['10.0.0.0/8', '10.1.0.0/16', '192.0.2.7', '2001:db8::/32', '::ffff:192.0.2.0/121', '2001::/16']
const ADDRESSES = ['10.1.2.3', '10.9.9.9', '192.0.2.7', '192.0.2.127', '192.0.2.128', '2001:db8::5', '2001:db9::']

const addressOf = (random: Random): string | undefined => (random.below(4) === 0 ? undefined : random.pick(ADDRESSES))

const some = <T>(random: Random, items: readonly T[]): T[] => items.filter(() => random.below(3) === 0)

const pathOf = (random: Random): string => {
  const segments = Array.from({ length: random.below(4) }, () => random.pick(SEGMENTS))
  const named = segments.map((segment, index) => (segment === ':id' ? `:id${index}` : segment))
  return `/${[...named, ...(random.below(2) === 0 ? ['*'] : [])].join('/')}`
}

const rolesOf = (random: Random): { roles?: string[] } => {
  const roles = some(random, NAMED)
  return roles.length === 0 ? {} : { roles }
}

const accessOf = (random: Random): Partial<RouteSpec> => {
  const kind = random.below(6)
  if (kind === 0) return { public: true }
  return { ...(kind < 4 ? rolesOf(random) : {}), ...(kind === 3 || kind === 4 ? { requireAssigned: true } : {}) }
}

/** Few routes have it, as in life. */
const fromOf = (random: Random): Partial<RouteSpec> => {
  const networks = random.below(5) === 0 ? some(random, NETWORKS) : []
  return networks.length === 0 ? {} : { from: networks }
}

const HOSTS = ['a.example', 'B.example', '*.example', '*.b.example', 'x.b.example']
const ASKED_HOSTS = ['a.example', 'b.example', 'c.example', 'x.b.example', 'y.b.example', 'a.y.b.example', 'example']

/** Whether a table has hosts at all is for its maker to say. */
const hostOf = (random: Random): Partial<RouteSpec> => {
  const hosts = random.below(3) > 0 ? some(random, HOSTS) : []
  const [only] = hosts
  return only === undefined ? {} : { host: hosts.length === 1 ? only : hosts }
}

const askedHostOf = (random: Random): string | undefined =>
  random.below(3) === 0 ? undefined : random.pick(ASKED_HOSTS)

type Value = string | number | boolean

const SOCKET_OPTIONS: Readonly<Record<string, readonly Value[]>> = {
  maxMessage: [10, 100],
  messagesPerSecond: [1, 5],
  maxLifetime: ['1h', '2h'],
  idleTimeout: ['1m', '2h', '0'],
  tokenInQuery: [true]
}

/** Every other key, with one of its values. */
const someOf = (random: Random, choices: typeof SOCKET_OPTIONS): Record<string, Value> =>
  Object.fromEntries(
    Object.entries(choices).flatMap(([key, values]) => (random.below(2) === 0 ? [[key, random.pick(values)]] : []))
  )

const optionsOf = (random: Random): Partial<RouteSpec> => {
  const kind = random.below(10)
  const allowed = some(random, ['extension', 'semicolon', 'encodedSlash', 'doubleSlash'])
  return {
    ...(kind === 0 && { maxBody: random.pick([10, 1000]) }),
    ...(kind === 1 && {
      rateLimit: { max: random.pick([1, 10]), window: random.pick(['1s', '60s']), by: 'ip' }
    }),
    ...(kind === 2 && { websocket: someOf(random, SOCKET_OPTIONS) }),
    ...(random.below(4) === 0 && allowed.length > 0 && { allowInPath: allowed })
  }
}

const namespaceOf = (random: Random): NamespaceSpec => ({
  ...rolesOf(random),
  ...(random.below(2) === 0 && {
    events: Object.fromEntries(some(random, EVENTS).map(event => [event, rolesOf(random)]))
  })
})

const socketRouteOf = (random: Random): RouteSpec => {
  const names = some(random, NAMESPACES)
  const listed = names.length === 0 ? [random.pick(NAMESPACES)] : names
  return {
    path: random.pick(['/socket.io/*', '/a/socket.io/*']),
    upstream: 'up',
    ...(random.below(3) === 0 && { requireAssigned: true }),
    ...fromOf(random),
    socketio: { namespaces: Object.fromEntries(listed.map(name => [name, namespaceOf(random)])) }
  }
}

const routeOf = (random: Random): RouteSpec => {
  if (random.below(8) === 0) return socketRouteOf(random)
  const methods = random.below(3) === 0 ? some(random, METHODS) : []
  const isExternal = random.below(10) === 0
  const access = accessOf(random)
  const options = isExternal ? {} : optionsOf(random)
  const { websocket, ...others } = options
  const isUpgradable = websocket !== undefined && (methods.length === 0 || methods.includes('GET'))
  return {
    path: pathOf(random),
    ...(isExternal ? { external: true } : { upstream: 'up' }),
    ...(methods.length > 0 && { methods }),
    ...access,
    ...fromOf(random),
    ...(isUpgradable ? options : others)
  }
}

const shapeOf = (path: string): string => path.replace(/:[^/]+/g, ':').replace(/^\/$/, '')

/** Without routes that only the order of writing could tell apart, which is an error in files. */
const withoutTies = (routes: readonly RouteSpec[]): RouteSpec[] => {
  const taken = new Set<string>()
  return routes.filter(route => {
    const { path, methods } = route
    const hosts = hostsOf(route)
    const keys = [...(methods ?? ['*'])].flatMap(method =>
      [...(hosts.length === 0 ? [''] : hosts)].map(host => `${method} ${host}${shapeOf(path)}`)
    )
    if (keys.some(key => taken.has(key))) return false
    for (const key of keys) taken.add(key)
    return true
  })
}

export type Table = readonly RouteSpec[]

const someRoutes = (random: Random, hasHosts: boolean, count: number): RouteSpec[] =>
  Array.from({ length: count }, () => ({ ...routeOf(random), ...(hasHosts ? hostOf(random) : {}) }))

export const tableOf = (random: Random): Table => {
  const hasHosts = random.below(2) === 0
  return withoutTies(someRoutes(random, hasHosts, 1 + random.below(hasHosts ? 7 : 4)))
}

/** A table, and what somebody might make of it. */
export const pairOf = (random: Random): [Table, Table] => {
  const before = tableOf(random)
  const hasHosts = random.below(3) === 0 || before.some(({ host }) => host !== undefined)
  const moved = (route: RouteSpec): RouteSpec => {
    const { host: _, ...rest } = route
    return hasHosts && random.below(6) === 0 ? { ...rest, ...hostOf(random) } : route
  }
  const after = before.map(moved).flatMap((route): RouteSpec[] => {
    const change = random.below(6)
    if (change === 0) return []
    if (change > 2) return [route]
    const other = routeOf(random)
    if (route.socketio !== undefined || route.external || other.socketio !== undefined || other.external)
      return [other, route]
    const { path, methods, host } = route
    const same = { path, upstream: 'up', ...(host !== undefined && { host }) }
    return [{ ...(change === 1 || methods === undefined ? other : { ...other, methods }), ...same }]
  })
  if (random.below(2) === 0) after.push(...someRoutes(random, hasHosts, 1))
  return [before, withoutTies(after.map(usable))]
}

/** WebSocket upgrades are requests with GET. */
const usable = (route: RouteSpec): RouteSpec => {
  if (route.methods === undefined) return route
  const { websocket, ...rest } = route
  return websocket === undefined || route.methods.includes('GET') ? route : rest
}

const ASKED = [
  ...words`
    a b admin Admin ADMIN A c x X a.json admin.json a.tar.gz .json a. index.php INDEX.php index.html x.php x.PHP5 a.php
    x.php;v x.php%20 a%20b a+b a%20 a%C2%A0 %E2%80%8Ba b. b.. b%20. a;v=1 a%3bv a%2Fb a%2fx %61 %41dmin a%3F a%23x
    K%C4%B1ss K%C4%B0ss ki%E1%BA%9E %E2%84%AAiss ki%C3%9F ki%C5%BF%C5%BF %C3%83 A%CC%83 a%CC%83 (S(x)) %28S(x)) a::$DATA
    a%20.json admin..json ... ...json admin:x:$I30 a:b A:B
    . .. %2e%2e ..;x %5C a%00 %ff %2561 %4 ~ auth health AUTH health. me login socket.io SOCKET.IO
  `,
  ...['', '']
]

export type AskedRequest = ReturnType<typeof requestOf>

export const requestOf = (random: Random) => ({
  method: random.pick([...METHODS, 'PUT', 'GET', 'GET']),
  /** undefined: one that no route names. */
  host: askedHostOf(random),
  /** Of the client; undefined: one in no network. */
  address: addressOf(random),
  path: `/${Array.from({ length: random.below(5) }, () => random.pick(ASKED)).join('/')}`
})

/** A request for one of the routes, perhaps with one segment spelled otherwise. */
export const requestFor = (random: Random, table: Table): AskedRequest => {
  const route = random.pick(table)
  const { path, methods } = route
  const named = hostsOf(route).map(name => name.replace('*', random.pick(['c', 'x'])))
  const segments = path.split('/').slice(1)
  const own = segments.flatMap(segment => {
    if (segment === '*') return Array.from({ length: random.below(3) }, () => random.pick(ASKED))
    return [segment.startsWith(':') || random.below(8) === 0 ? random.pick(ASKED) : segment]
  })
  const method = random.pick([...(methods ?? METHODS), random.pick(METHODS)])
  const host = named.length === 0 || random.below(6) === 0 ? askedHostOf(random) : random.pick(named)
  return { method, host, path: `/${own.join('/')}`, address: addressOf(random) }
}

export type AskedEvent = ReturnType<typeof eventOf>

export const eventOf = (random: Random) => ({
  namespace: random.pick(['/', '/chat', '/room1', '/room2', '/Chat', '/other', '/room?x']),
  address: addressOf(random),
  event: random.pick(['send', 'sent', 'move', 'Move', 'connect', 'disconnect', '*', 'x'])
})

// Finds routes for paths with the gateway's table, and with a list that is searched from end to end.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadRoutes } from '../../../../gateway/route-files/load.ts'
import { ownRoutes } from '../../../../gateway/routes/own-routes.ts'
import type { PathException, Route, RouteTable } from '../../../../gateway/routes/route.ts'
import { laxReadings } from '../../../../test/support/oracles.ts'
import type { Random } from '../../mutate.ts'
import { Fault, type Target } from '../engine.ts'

const ROUTES = `
upstreams: { back: { url: 'http://127.0.0.1:9' } }
routes:
  - { path: /api/*, upstream: back, roles: [Agente] }
  - { path: /api/admin, upstream: back, roles: [Admin] }
  - { path: /api/admin/*, upstream: back, roles: [Admin] }
  - { path: '/api/:id', upstream: back, roles: [Supervisor] }
  - { path: '/api/:id/items', upstream: back, methods: [GET], roles: [Supervisor] }
  - { path: /api/orders/*, upstream: back, methods: [DELETE], roles: [Admin] }
  - { path: /api/orders/mine, upstream: back, roles: [Agente] }
  - { path: /files/*, upstream: back, allowInPath: [encodedSlash, extension], roles: [Agente] }
  - { path: /files/top.secret, upstream: back, roles: [Admin] }
  - { path: /Case/*, upstream: back, roles: [Agente] }
  - { path: /kilo/admin, upstream: back, roles: [Admin] }
  - { path: /open, upstream: back, public: true }
`

const loadTable = async (): Promise<RouteTable> => {
  const folder = mkdtempSync(join(tmpdir(), 'portaria-fuzz-'))
  try {
    writeFileSync(join(folder, 'routes.yaml'), ROUTES)
    return (await loadRoutes(folder, ownRoutes())).table
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const table = await loadTable()
const METHODS = ['GET', 'HEAD', 'DELETE', 'POST'] as const

/** How a route takes a path, segment by segment, best first; undefined: not at all. */
const rank = (route: Route, method: string, segments: readonly string[]): string | undefined => {
  const isNamed = route.methods?.has(method) || (method === 'HEAD' && route.methods?.has('GET'))
  if (route.methods !== undefined && !isNamed) return undefined
  const shape = route.path.split('/').filter(segment => segment !== '')
  const isOpen = shape.at(-1) === '*'
  if (isOpen) shape.pop()
  if (segments.length < shape.length || (!isOpen && segments.length > shape.length)) return undefined
  let kinds = ''
  for (const [index, part] of shape.entries()) {
    const isParameter = part.startsWith(':')
    if (!isParameter && part !== segments[index]) return undefined
    kinds += isParameter ? 'b' : 'a'
  }
  return `${kinds}${isOpen ? 'd' : ''}${route.methods === undefined ? '1' : '0'}`
}

const findByList = (method: string, path: string): Route | undefined => {
  const segments = path.split('/').filter(segment => segment !== '')
  let best: { rank: string; route: Route } | undefined
  for (const route of table.routes) {
    const own = rank(route, method, segments)
    if (own !== undefined && (best === undefined || own < best.rank)) best = { rank: own, route }
  }
  return best?.route
}

/** What no path that goes on may hold, whatever route takes it, unless that route allows it. */
const FORBIDDEN: readonly (readonly [what: string, exception: PathException | undefined, held: RegExp])[] = [
  ['a semicolon', 'semicolon', /;/],
  ['a backslash', undefined, /\\/],
  ['a control character', undefined, /\p{Cc}/u],
  ['an escape of an escape', undefined, /%[0-9a-f]{2}/i]
]

const forbiddenIn = (path: string, { allowInPath }: Route): string | undefined => {
  const decoded = decodeURIComponent(path)
  const held = FORBIDDEN.find(
    ([, exception, pattern]) => pattern.test(decoded) && (exception === undefined || !allowInPath.includes(exception))
  )
  if (held === undefined && /%2f/i.test(path) && !allowInPath.includes('encodedSlash')) return 'an encoded slash'
  return held?.[0]
}

const isReserved = (path: string): boolean => /^\/(?:auth|health)(?:\/|$)/i.test(path)

const run = (input: string, random: Random): string => {
  const method = random.pick(METHODS)
  const match = table.match(method, input)
  if (match.route === undefined) return `${method} ${match.refusal} ${'reason' in match ? match.reason : ''}`
  const { route, path } = match
  const again = table.match(method, path)
  const forbidden = forbiddenIn(path, route)
  if (forbidden !== undefined) throw new Fault(`a path goes on with ${forbidden}`)
  if (again.route !== route || again.path !== path) throw new Fault('a path has two spellings')
  if (!isReserved(path) && findByList(method, path) !== route)
    throw new Fault(`a path is taken by ${route.path}, not by ${findByList(method, path)?.path}`)

  const also: readonly Route[] = match.alsoReadAs ?? []
  for (const reading of laxReadings(path)) {
    const other = table.match(method, reading).route
    if (other !== undefined && other !== route && !also.includes(other))
      throw new Fault(`a reading of a path belongs to ${other.path}, not ${route.path}`)
  }
  return `${method} ${route.path} ${path === input} ${also.length} ${path.replace(/[a-z]+/g, 'a').slice(0, 12)}`
}

const SEEDS = [
  ...['/api/admin', '/api/orders/mine', '/api/7/items', '/files/a%2Fb', '/files/top.secret', '/Case/x', '/kilo/admin'],
  ...['/open', '/api/admin/x', '/api/orders/7']
]

/** A path with one or two of its characters in another spelling. */
const generate = (random: Random): string => {
  let path = random.pick(SEEDS)
  for (let left = 1 + random.below(2); left > 0; left--) {
    const at = 1 + random.below(path.length - 1)
    const character = path.charAt(at)
    const hex = character.charCodeAt(0).toString(16)
    const other = [
      `%${hex}`,
      `%${hex.toUpperCase()}`,
      `%25${hex}`,
      `%2525${hex}`,
      character.toUpperCase(),
      `${character}.`
    ]
    path =
      path.slice(0, at) +
      random.pick([...other, `%20${character}`, `${character};x`, `${character}/.`]) +
      path.slice(at + 1)
  }
  return path
}

export const paths: Target = {
  name: 'paths',
  words: [
    ...[
      '/',
      '//',
      '.',
      '..',
      '/./',
      '/../',
      '%2e',
      '%2E',
      '%2f',
      '%2F',
      '%5c',
      '\\',
      ';',
      ';x=y',
      '%3b',
      '#',
      '%23',
      '?',
      '%3f'
    ],
    ...[
      '%00',
      '%25',
      '%2561',
      '%61',
      'admin',
      'ADMIN',
      'Admin',
      'orders',
      'mine',
      'api',
      'files',
      'top.secret',
      '.json',
      '.',
      '+'
    ],
    ...[
      '%20',
      '%C4%B0',
      '%C4%B1',
      '%C5%BF',
      '%E2%84%AA',
      '%E2%80%8B',
      '%C0%AE',
      '%ff',
      'k',
      'i',
      's',
      'kilo',
      'items',
      '/health',
      '/auth/me'
    ]
  ],
  seeds: SEEDS,
  generate,
  run
}

// Decides requests on many hosts: the rule that decides is the rule of the host which the backend gets, however that was written.
import { checkCertificate } from '../../../gateway/access/authorize.ts'
import { createMatchRoute } from '../../../gateway/access/match-route.ts'
import { beginForwardAuth } from '../../../gateway/forward/forward-auth.ts'
import { createRequestHost } from '../../../gateway/http/client-address.ts'
import { ownRoutes } from '../../../gateway/routes/own-routes.ts'
import type { WrittenRoute } from '../../../gateway/routes/route.ts'
import { buildRouteTable } from '../../../gateway/routes/route-table.ts'
import { createUpstreamHeads } from '../../../gateway/upstream/headers/upstream-head.ts'
import { createCertificateNames } from '../../../gateway/values/certificates.ts'
import { atOnce } from '../../../gateway/values/in-parts.ts'
import { exchangeOf } from '../../../test/support/exchanges.ts'
import { routeAt, upstreamAt } from '../../../test/support/routes.ts'
import { words } from '../../../test/support/words.ts'
import { createRandom, type Random } from '../mutate.ts'
import type { Reading } from './readings.ts'

/** Something that must never happen. */
class Fault extends Error {}

const PUBLIC = 'gw.example:8443'
const ALLOWED = ['also.example', 'wiki.example:8080']
const NAMED = words`
  wiki.example a.wiki.example *.wiki.example admin.example *.example *.a.wiki.example 127.0.0.1 gw.example
  xn--bcher-kva.example localhost *.localhost also.example
`
const PATHS = ['/', '/a', '/a/*', '/*', '/b/:id']
const ASKED = ['/', '/a', '/a/x', '/b/7', '/c', '/health', '/auth/x', '/auth/config']

const upstream = { ...upstreamAt(4001), preserveHost: true }
const heads = createUpstreamHeads({
  tokens: { isOurs: () => false },
  ownCookies: { has: () => false },
  assertions: { lineFor: () => '' }
})

const worldOf = (random: Random) => {
  const specs = new Map<string, WrittenRoute>()
  for (let left = random.below(8); left >= 0; left--) {
    const hosts = random.below(3) === 0 ? [''] : NAMED.filter(() => random.below(5) === 0)
    const path = random.pick(PATHS)
    for (const host of hosts) {
      const route = { ...routeAt(path, upstream), host: host === '' ? undefined : [host], id: host + path }
      specs.set(route.id, random.below(8) === 0 ? { ...route, upstream: undefined, external: true } : route)
    }
  }
  const isOpen = random.below(6) === 0
  const routes = [...specs.values()]
  const table = atOnce(
    buildRouteTable({ routes: [...ownRoutes(), ...routes], upstreams: new Map([['up', upstream]]), checksum: '' })
  )
  const settings = { publicUrl: `https://${PUBLIC}`, allowedHosts: isOpen ? ['*'] : ALLOWED }
  const steps = createMatchRoute(() => table, createRequestHost(settings))
  const allowed = (host: string) => isOpen || [PUBLIC, ...ALLOWED].includes(host)
  return { specs, steps, allowed, hosts: new Set(routes.flatMap(({ host = [] }) => host)) }
}
type Tables = ReturnType<typeof worldOf>
const seeded = createRandom(37)
const WORLDS = Array.from({ length: 300 }, () => worldOf(seeded))

/** What `Host` may hold (RFC 3986 §3.2.2), less the comma. */
const SHAPE = /^(?:(?:[\w.~!$&'()*+;=-]|%[\da-f]{2})+|\[[\da-f:.]+\])(?::\d{1,5})?$/i

/** The name in an authority, character by character; undefined: programs may read it in several ways. */
const nameIn = (authority: string): string | undefined => {
  const end = authority.startsWith('[') ? authority.indexOf(']') + 1 : authority.indexOf(':')
  const name = end < 1 ? authority : authority.slice(0, end)
  const port = authority.slice(name.length)
  const isPort =
    port === '' ||
    (port.length > 1 && port.startsWith(':') && port.length < 7 && [...port.slice(1)].every(c => c >= '0' && c <= '9'))
  const isAddress = name.startsWith('[') && name.endsWith(']')
  const labels = isAddress ? [name.slice(1, -1)] : name.split('.')
  const characters = isAddress ? '0123456789abcdef:.' : '0123456789abcdefghijklmnopqrstuvwxyz-_'
  const isRead = labels.every(label => label !== '' && [...label.toLowerCase()].every(c => characters.includes(c)))
  return isPort && isRead ? name.toLowerCase() : undefined
}

/** What the routes of a host are listed under: its name, else a wildcard, else ''. */
const entryFor = ({ hosts }: Tables, name: string): string => {
  const [, ...parents] = name.split('.')
  return [name, ['*', ...parents].join('.')].find(entry => parents.length + 1 > 0 && hosts.has(entry)) ?? ''
}

/** The route for a path on a host, among so few that precedence is a list. */
const routeFor = ({ specs }: Tables, entry: string, path: string): string | undefined => {
  if (/^\/(?:auth|health)(?:\/|$)/.test(path)) return undefined
  const inOrder = [
    path === '/' ? '/' : '',
    path,
    path === '/b/7' ? '/b/:id' : '',
    /^\/a(?:\/|$)/.test(path) ? '/a/*' : '',
    '/*'
  ]
  const found = inOrder.find(each => each !== '' && specs.has(entry + each))
  return found === undefined ? undefined : entry + found
}

interface Asked {
  readonly target: string
  readonly fields: string[]
  readonly isTrusted: boolean
  readonly asks: 'uri' | 'url' | undefined
  /** The names of the certificate that SNI chose; undefined: there is only one. */
  readonly certificate: readonly string[] | undefined
}

const CERTIFICATES = [['gw.example', '127.0.0.1'], ['*.wiki.example', 'wiki.example'], ['*.example']]

/** RFC 9110 §15.5.20: Host must be one of the names, a wildcard standing for one label (RFC 9525 §6.3). */
const isMisdirected = ({ fields, isTrusted, certificate }: Asked): boolean => {
  const [host] = valuesOf(fields, 'host')
  if (certificate === undefined || isTrusted || host === undefined) return false
  const [, ...parents] = (nameIn(host) ?? '').split('.')
  return ![nameIn(host), ['*', ...parents].join('.')].some(name => name !== undefined && certificate.includes(name))
}

const valuesOf = (fields: readonly string[], name: string): string[] =>
  fields.filter((_, i) => i % 2 === 1 && fields[i - 1]?.toLowerCase() === name)

/** The host that somebody says the request is for; null: none, undefined: it cannot be told. */
const saidBy = ({ target, fields, isTrusted, asks }: Asked): string | null | undefined => {
  const forwarded = valuesOf(fields, 'x-forwarded-host')
  if (asks === 'url') return /^https?:\/\/([^/?#\\]+)/i.exec(target)?.[1] ?? undefined
  if (asks === 'uri') return forwarded.length === 1 ? forwarded[0] : undefined
  if (isTrusted && forwarded.length > 0) return forwarded.length === 1 ? forwarded[0] : undefined
  return valuesOf(fields, 'host')[0] ?? null
}

/** `ROUTE on HOST`, or why not; undefined: the model does not know. */
const decideByModel = (world: Tables, asked: Asked): string | undefined => {
  if (asked.target.includes('#') || isMisdirected(asked)) return 'refused'
  const path = ASKED.find(each => asked.target === each || asked.target.replace(/^https?:\/\/[^/\\]*/i, '') === each)
  if (path === undefined) return undefined
  const said = saidBy(asked)
  const name = typeof said === 'string' ? nameIn(said) : undefined
  if (world.hosts.size > 0 && said !== null && name === undefined) return 'refused'
  const isNamed = name !== undefined && entryFor(world, name) !== ''
  // Without `host` in any route, hosts are not read, and any that could be one passes to backends if ALLOWED_HOSTS says so.
  const isOurs = typeof said === 'string' && world.allowed(said.toLowerCase()) && SHAPE.test(said)
  const told = isNamed || isOurs ? String(said).toLowerCase() : PUBLIC
  const route = routeFor(world, entryFor(world, nameIn(told) ?? ''), path)
  const isOther = route !== undefined && world.specs.get(route)?.external !== (asked.asks !== undefined)
  return `${isOther ? 'none' : (route ?? 'none')} on ${told}`
}

const decide = (world: Tables, { target, fields, isTrusted, asks, certificate }: Asked): string => {
  const named =
    asks === 'uri'
      ? ['X-Forwarded-Method', 'GET', 'X-Forwarded-Uri', target]
      : ['X-Original-Method', 'GET', 'X-Original-URL', target]
  const exchange = exchangeOf({
    target: asks === undefined ? target : '/auth/forward',
    fields: asks === undefined ? fields : [...fields, ...named],
    trusted: isTrusted,
    covers: certificate && (host => createCertificateNames([certificate]).covers(0, host))
  })
  if (asks !== undefined) exchange.refusal = beginForwardAuth(exchange)
  world.steps.matchPlain(exchange)
  world.steps.matchUnusual(exchange)
  exchange.refusal ??= checkCertificate(exchange)
  if (exchange.refusal !== undefined) return `refused ${exchange.refusal.reason}`
  const { route, host } = exchange
  if (route === undefined || route.place.file === 'gateway') return `none on ${host.toLowerCase()}`
  const entry = entryFor(world, nameIn(host) ?? '')
  if ((route.host?.[0] ?? '') !== entry)
    throw new Fault(`the rule of ${route.id} decides for ${entry || 'other hosts'}`)
  if (route.external) return `${route.id} on ${host.toLowerCase()}`
  const head = heads.whole(exchange, route, '127.0.0.1:4001', false)
  const told = [...head.matchAll(/^(?:x-forwarded-)?host: (.*)\r$/gim)].map(([, value]) => value)
  if (told.length !== 2 || told.some(each => each !== host)) throw new Fault(`decided for ${host}, told ${told.join()}`)
  return `${route.id} on ${host.toLowerCase()}`
}

const run = (input: string, random: Random): void => {
  const [target = '', ...lines] = input.split('\n')
  const pairs = lines.map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()] as const)
  const fields = pairs.filter(([name]) => /^[\w-]+$/.test(name)).flat()
  const world = random.pick(WORLDS)
  const isTrusted = random.below(2) === 0
  const asks = isTrusted ? ([undefined, undefined, 'uri', 'url'] as const)[random.below(4)] : undefined
  const asked = { target, fields, isTrusted, asks, certificate: CERTIFICATES[random.below(4)] }
  const got = decide(world, asked)
  const expected = decideByModel(world, asked)
  // Two hosts, none, and what no Host may hold are refused whatever the routes are; so are targets of another host.
  const isRefused = got.startsWith('refused')
  const fits = isRefused ? expected === undefined || expected === 'refused' || isBadHead(asked) : got === expected
  if (expected !== undefined && !fits) throw new Fault(`${got}, not ${expected}: ${JSON.stringify(asked)}`)
}

const isBadHead = (asked: Asked): boolean => {
  const { target, fields, asks } = asked
  const [host = '', ...more] = valuesOf(fields, 'host')
  const authority = /^https?:\/\/([^/?#\\]*)/i.exec(target)?.[1]
  const isElsewhere = asks === undefined && authority !== undefined && authority.toLowerCase() !== host.toLowerCase()
  // An address without a host is none (RFC 9110 §4.2.1).
  const isUnusable = asks === 'uri' ? authority !== undefined : asks === 'url' && saidBy(asked) === undefined
  return more.length > 0 || !SHAPE.test(host) || isElsewhere || isUnusable
}

const SPELLED: readonly ((host: string) => string)[] = [
  ...Array.from({ length: 4 }, () => (host: string) => host),
  host => host.toUpperCase(),
  host => `${host}:8443`,
  host => `${host}:443`,
  host => `${host}.`,
  host => `${host}.:443`,
  host => `.${host}`,
  host => host.replace('.', '..'),
  host => `good@${host}`,
  host => `${host}@evil.example`,
  host => `${host}, gw.example`,
  host => `${host}:`,
  host => `${host}/x`,
  host => host.replace(/[aeiou]/, vowel => `%${vowel.charCodeAt(0).toString(16)}`),
  host => `a.${host}`,
  host => host.replace(/^[^.]*\./, ''),
  host => host.replace(/[aeiou]/, '\xe4')
]
const HOSTS = [
  ...NAMED.map(name => name.replace('*', 'any')),
  PUBLIC,
  ...words`evil.example [::1] x.y.wiki.example 10.0.0.1`
]

const generate = (random: Random): string => {
  const spelled = () => random.pick(SPELLED)(random.pick(HOSTS))
  const host = spelled()
  const authority = random.pick([host, host, spelled()])
  const path = random.pick(ASKED)
  const target = random.below(3) === 0 ? `${random.pick(['http', 'https', 'HTTP'])}://${authority}${path}` : path
  const lines = [`Host: ${host}`]
  if (random.below(2) === 0) lines.push(`X-Forwarded-Host: ${random.pick([host, spelled()])}`)
  if (random.below(12) === 0)
    lines.push(`${random.pick(['Host', 'X-Forwarded-Host', 'X-Host', 'Forwarded', 'X_Forwarded_Host'])}: ${spelled()}`)
  return [target, ...lines].join('\n')
}

const compare = (input: string, random: Random): string | undefined => {
  try {
    run(input, random)
    return undefined
  } catch (error) {
    if (error instanceof Fault) return error.message
    throw error
  }
}

export const hosts: Reading = {
  name: 'requests for many hosts',
  words: [...HOSTS, '\nHost: ', '\nX-Forwarded-Host: ', ...words`http:// . : @ * % , [ ] :443`, ...ASKED],
  seeds: [
    ...HOSTS.map(host => `/a\nHost: ${host}`),
    'http://wiki.example/a\nHost: wiki.example',
    '/b/7\nHost: gw.example\nX-Forwarded-Host: any.wiki.example'
  ],
  generate,
  compare
}

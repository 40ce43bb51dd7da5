// Makes a route that can be asked of one as written, or complains about what it must not say.

import { canonicalPath, decode, trimBlanks } from '../../routes/canonical-path.ts'
import { foldCase } from '../../routes/lax-readings.ts'
import { RESERVED } from '../../routes/own-routes.ts'
import { ROUTE_DEFAULTS, ROUTE_FLAGS, type RouteFlags, type Upstream, type WrittenRoute } from '../../routes/route.ts'
import { shapeOf } from '../../routes/route-trie.ts'
import { MAX_TIMER_MS, parseDuration, parseSize } from '../../values/quantities.ts'
import { nearestHint } from '../../values/spelling.ts'
import type { PlaceOf } from '../complaint.ts'
import { type Complaint, complain } from '../complaint.ts'
import type { RouteData } from '../schema/route-schema.ts'
import type { WebSocketData } from '../schema/socket-schemas.ts'
import { unknownRole } from './define-grants.ts'
import { defineSocketIo } from './define-socketio.ts'

type Complain = (message: string, ...path: (string | number)[]) => void

/** What the routes of a folder have in common. */
export interface Common {
  /** Every name that some file uses, sound or not. */
  readonly names: ReadonlySet<string>
  readonly sound: ReadonlyMap<string, Upstream>
  /** Every profile that there is. */
  readonly profiles: readonly string[]
  /** Lists of roles, by what is in them: routes with the same roles hold the same list, found sooner by a request. */
  readonly roles: Map<string, readonly string[]>
}

export interface DefinedRoute {
  readonly route: WrittenRoute
  /** False when there was anything to complain about; then the route only serves to find further mistakes. */
  readonly isSound: boolean
}

/**
 * `data` holds what has passed the schema. Returns undefined when it is not known what the route matches.
 */
export const defineRoute = (
  data: Partial<RouteData>,
  common: Common,
  placeOf: PlaceOf,
  complaints: Complaint[]
): DefinedRoute | undefined => {
  const before = complaints.length
  const say: Complain = (message, ...path) => complaints.push(complain(placeOf(...path), message))
  const path = data.path === undefined ? undefined : definePath(data.path, say)
  const hasPath = path !== undefined && complaints.length === before
  judgeCombinations(data, say)
  judgeRoles(data, common.profiles, say)
  const route = assemble(data, path ?? '/', common, placeOf, say)
  return hasPath
    ? { route, isSound: complaints.length === before && (route.upstream !== undefined || route.external) }
    : undefined
}

const assemble = (
  data: Partial<RouteData>,
  path: string,
  common: Common,
  placeOf: PlaceOf,
  say: Complain
): WrittenRoute => {
  const methods = data.methods === undefined ? undefined : new Set(data.methods)
  const hasPrefix = data.stripPrefix !== undefined && data.path !== undefined
  return {
    ...ROUTE_DEFAULTS,
    ...flagsOf(data),
    id: methods === undefined ? path : `${[...methods].join(',')} ${path}`,
    path,
    methods,
    upstream: data.upstream === undefined ? undefined : findUpstream(data.upstream, common, say),
    roles: data.roles && shareList(common.roles, data.roles),
    stripPrefix: hasPrefix ? definePrefix(data.stripPrefix ?? '', path, say) : undefined,
    rateLimit: data.rateLimit && {
      max: data.rateLimit.max,
      windowMs: timer(data.rateLimit.window, say, 'rateLimit', 'window'),
      by: data.rateLimit.by ?? 'ip'
    },
    timeoutMs: data.timeout === undefined ? undefined : timer(data.timeout, say, 'timeout'),
    maxBodyBytes: data.maxBody === undefined ? undefined : parseSize(data.maxBody),
    allowInPath: data.allowInPath ?? ROUTE_DEFAULTS.allowInPath,
    websocket: data.websocket && defineWebSocket(data.websocket, say),
    socketio: data.socketio && defineSocketIo(data.socketio, say),
    place: placeOf()
  }
}

const FLAGS = Object.keys(ROUTE_FLAGS) as (keyof RouteFlags)[]

const flagsOf = (data: Partial<RouteData>) =>
  Object.fromEntries(FLAGS.map(name => [name, data[name] ?? false])) as Record<keyof RouteFlags, boolean>

const shareList = (lists: Common['roles'], list: readonly string[]): readonly string[] => {
  const key = list.join()
  const shared = lists.get(key) ?? list
  lists.set(key, shared)
  return shared
}

const findUpstream = (name: string, common: Common, say: Complain): Upstream | undefined => {
  if (!common.names.has(name)) say(`unknown upstream "${name}"${nearestHint(name, common.names)}`, 'upstream')
  return common.sound.get(name)
}

const timer = (text: string | number, say: Complain, ...path: string[]): number => {
  const milliseconds = parseDuration(text)
  if (milliseconds > MAX_TIMER_MS) say(`"${path.at(-1)}" must be at most 24d`, ...path)
  return milliseconds
}

/** The path in the spelling that requests are compared with. */
const definePath = (written: string, say: Complain): string => {
  if (!written.startsWith('/')) say('"path" must begin with /', 'path')
  for (const segment of written.split('/')) {
    const foreign = foreignParameter(segment)
    if (foreign !== undefined) say(`"${segment}" would be a literal: write :${foreign}`, 'path')
  }
  const encoded = encodeRaw(written)
  const { path, refusal } = encoded === undefined ? { refusal: 'utf-8' } : canonicalPath(encoded)
  if (path === undefined) {
    if (written.startsWith('/')) say(`no request can have this path (${refusal})`, 'path')
    return written
  }
  const segments = shapeOf(path)
  for (const [index, segment] of segments.entries()) judgeSegment(segment, index === segments.length - 1, say)
  if (new Set(params(segments)).size < params(segments).length) say('"path" names a parameter twice', 'path')
  const first = foldCase(decode(segments[0] ?? '') ?? '')
  const owned = RESERVED.find(({ segment, extent }) => segment === first && (extent === 'subtree' || isWhole(segments)))
  if (owned !== undefined) say(`/${owned.segment}${owned.extent === 'self' ? '' : '/'} belongs to the gateway`, 'path')
  return path
}

/** Parameters as others write them: OpenAPI and Go, Flask, Remix, Next.js. */
const FOREIGN = /[{<[]\.{0,3}(?:\w+:)?(\w*)[^\]}>]*[\]}>]|^\$\{?([A-Za-z_]\w*)\}?$/
/** Names that OData itself spells with a dollar (OData 4.01 URL conventions). */
const ODATA = /^\$(?:metadata|batch|count|value|ref|all|crossjoin|entity|root|it|links|apply)$/

const foreignParameter = (segment: string): string | undefined => {
  const found = ODATA.test(segment) ? null : FOREIGN.exec(segment)
  return found === null ? undefined : found[1] || found[2] || 'id'
}

// `/health/*` would cover `/health` itself; `/health/live` does not.
const isWhole = (segments: readonly string[]): boolean => segments.length === (segments.at(-1) === '*' ? 2 : 1)

const params = (segments: readonly string[]): string[] => segments.filter(segment => segment.startsWith(':'))

const encodeRaw = (path: string): string | undefined => {
  try {
    return path.replace(/[^\x21-\x7e]|["<>^`{|}[\]]/gu, encodeURIComponent)
  } catch {
    return undefined
  }
}

const judgeSegment = (segment: string, isLast: boolean, say: Complain): void => {
  if (segment.startsWith(':')) {
    if (!/^:[A-Za-z_][A-Za-z0-9_]*$/.test(segment)) say('a parameter must be a whole segment such as :id', 'path')
    return
  }
  if (segment.includes('*')) {
    if (segment !== '*' || !isLast) say('* stands for the rest of a path: only alone, after the last /', 'path')
    return
  }
  const decoded = decode(segment) ?? segment
  if (decoded.endsWith('.') || trimBlanks(decoded) !== decoded) {
    say('a segment must not begin or end with a blank, or end with a dot', 'path')
  }
  if (/%(?:2[146-9A-C]|3[AD]|40)/.test(segment)) say('"path" escapes a character that needs no escape', 'path')
  if (/%(?:23|3F)/.test(segment)) say('"path" must not hold an escaped # or ?', 'path')
}

const definePrefix = (written: string, path: string, say: Complain): string => {
  const prefix = written.length > 1 && written.endsWith('/') ? written.slice(0, -1) : written
  const wanted = shapeOf(prefix)
  const segments = shapeOf(path)
  const isStatic = wanted.every(segment => !segment.startsWith(':') && !segment.includes('*'))
  const isPrefix = `/${wanted.join('/')}` === prefix && wanted.every((segment, index) => segments[index] === segment)
  if (!isStatic || !isPrefix) say('"stripPrefix" must be whole static segments at the start of "path"', 'stripPrefix')
  return prefix
}

const judgeRoles = (data: Partial<RouteData>, profiles: readonly string[], say: Complain): void => {
  const judge = (roles: readonly string[] | undefined, ...path: string[]) => {
    for (const [index, role] of (roles ?? []).entries()) {
      if (!profiles.includes(role)) say(unknownRole(role, profiles), ...path, 'roles', index)
    }
  }
  judge(data.roles)
  for (const [name, { roles, events }] of Object.entries(data.socketio?.namespaces ?? {})) {
    judge(roles, 'socketio', 'namespaces', name)
    for (const [event, rule] of Object.entries(events ?? {}))
      judge(rule.roles, 'socketio', 'namespaces', name, 'events', event)
  }
}

const FORWARDING_ONLY = [
  'upstream',
  'stripPrefix',
  'timeout',
  'maxBody',
  'forwardToken',
  'websocket',
  'socketio'
] as const

const judgeCombinations = (data: Partial<RouteData>, say: Complain): void => {
  if (data.public === true) {
    if (data.roles !== undefined) say('a public route has no roles: choose one', 'roles')
    if (data.requireAssigned === true)
      say('a public route knows nobody, so "requireAssigned" has no meaning', 'requireAssigned')
    const by = data.rateLimit?.by
    if (by === 'user' || by === 'both')
      say(`a public route knows nobody, so "by: ${by}" has no meaning`, 'rateLimit', 'by')
  }
  if (data.external === true) {
    for (const key of FORWARDING_ONLY) {
      if (data[key] !== undefined) say(`"${key}" has no meaning on an external route: nothing is forwarded`, key)
    }
  }
  if (data.basic === true) {
    if (data.public === true) say('a public route asks for no token, so "basic" has no meaning', 'basic')
    for (const kind of ['websocket', 'socketio'] as const)
      if (data[kind] !== undefined) say(`"basic" and "${kind}" exclude each other`, 'basic')
  }
  if (data.socketio !== undefined) {
    const why = 'has no place on a socketio route: its namespaces say who may connect'
    if (data.roles !== undefined) say(`"roles" ${why}`, 'roles')
    if (data.public !== undefined) say(`"public" ${why}`, 'public')
    if (data.browser !== undefined) say(`"browser" ${why}`, 'browser')
    if (data.websocket !== undefined) say('"websocket" and "socketio" exclude each other', 'websocket')
  }
  const isUpgradable = data.methods === undefined || data.methods.includes('GET')
  if (data.websocket !== undefined && !isUpgradable) say('"websocket" needs the method GET', 'methods')
  const polls = data.methods === undefined || ['GET', 'POST'].every(method => data.methods?.includes(method))
  if (data.socketio !== undefined && !polls) say('"socketio" needs the methods GET and POST', 'methods')
  if (data.methods?.includes('CONNECT')) say('CONNECT is never forwarded', 'methods')
}

const defineWebSocket = (data: WebSocketData, say: Complain) => {
  for (const [index, origin] of (data.origins ?? []).entries()) {
    const isOrigin = /^https?:/.test(origin) && URL.canParse(origin) && new URL(origin).origin === origin
    if (!isOrigin)
      say('an origin must be scheme, host and port, as in https://app.example.org', 'websocket', 'origins', index)
  }
  return {
    origins: data.origins ?? [],
    tokenInQuery: data.tokenInQuery ?? false,
    maxMessageBytes: parseSize(data.maxMessage ?? '1MB'),
    messagesPerSecond: data.messagesPerSecond ?? 0,
    idleTimeoutMs: timer(data.idleTimeout ?? '1h', say, 'websocket', 'idleTimeout'),
    maxLifetimeMs: timer(data.maxLifetime ?? 0, say, 'websocket', 'maxLifetime')
  }
}

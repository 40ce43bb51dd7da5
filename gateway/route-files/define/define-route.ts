// Builds a route from its definition in a route file, or complains about what is not allowed in it.
import { isFromFiles, ROUTE_DEFAULTS, ROUTE_FLAGS, type RouteFlags, type WrittenRoute } from '../../routes/route.ts'
import type { Upstream } from '../../routes/upstream.ts'
import { profileName } from '../../values/names.ts'
import { nearestHint } from '../../values/spelling.ts'
import { type Complain, type Complaint, complainTo, type LocationOf } from '../complaint.ts'
import type { RouteData } from '../schema/route-file-schema.ts'
import { unknownRole } from './define-grants.ts'
import { definePath, definePrefix } from './define-path.ts'
import { warnOfPatterns } from './define-sockets.ts'
import { defineOptions } from './route-options.ts'

const { METHODS } = process.getBuiltinModule('node:http')

/** What the routes of a folder have in common. */
export interface Common {
  /** All upstream names that some file uses, valid or not. */
  readonly names: ReadonlySet<string>
  readonly sound: ReadonlyMap<string, Upstream>
  /** All existing profiles. */
  readonly profiles: readonly string[]
  /** Lists of roles by their contents: routes with the same roles share one list, which requests find sooner. */
  readonly roles: Map<string, readonly string[]>
  /** Warnings. */
  readonly warnings: Complaint[]
}

/**
 * `data` has passed the schema. Returns undefined if it is not known what the route matches; what is not sound only serves to
 * find further mistakes.
 */
export const defineRoute = (
  data: Partial<RouteData>,
  common: Common,
  locationOf: LocationOf,
  complaints: Complaint[]
) => {
  const before = complaints.length
  const say = complainTo(complaints, locationOf)
  const warn = complainTo(common.warnings, locationOf)
  const path = data.path === undefined ? undefined : definePath(data.path, say, warn)
  const hasPath = path !== undefined && complaints.length === before
  checkCombinations(data, say)
  checkMethods(data.methods, warn)
  checkEffects(data, warn)
  checkApp(data, say, warn)
  checkRoles(data, common.profiles, say)
  const route = assemble(data, path ?? '/', common, locationOf, say)
  return hasPath ? { route, isSound: complaints.length === before && isFromFiles(route) } : undefined
}

const assemble = (
  data: Partial<RouteData>,
  path: string,
  common: Common,
  locationOf: LocationOf,
  say: Complain
): WrittenRoute => {
  const methods = data.methods === undefined ? undefined : new Set(data.methods)
  const hasPrefix = data.stripPrefix !== undefined && data.path !== undefined
  const options = defineOptions(data, say)
  // Two routes that begin with the same host and have the same path tie, so one host is enough.
  const location = (options.host?.[0] ?? '') + path
  return {
    ...ROUTE_DEFAULTS,
    ...flagsOf(data),
    id: methods === undefined ? location : `${[...methods].join(',')} ${location}`,
    path,
    methods,
    upstream: data.upstream === undefined ? undefined : findUpstream(data.upstream, common, say),
    roles: data.roles && shareList(common.roles, data.roles.map(profileName)),
    stripPrefix: hasPrefix ? definePrefix(data.stripPrefix ?? '', path, say) : undefined,
    ...options,
    place: locationOf()
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
  if (!common.names.has(name)) say(unknownUpstream(name, common.names), 'upstream')
  return common.sound.get(name)
}

const unknownUpstream = (name: string, known: ReadonlySet<string>): string => {
  if (/^(?:[a-z]+:\/\/|unix:)/i.test(name))
    return '"upstream" takes the name of an entry of "upstreams", not an address'
  const near = nearestHint(name, known)
  if (near !== '') return `unknown upstream "${name}"${near}`
  if (known.size === 0) return `unknown upstream "${name}": no file has any under "upstreams"`
  return `unknown upstream "${name}": known ${known.size === 1 ? 'is' : 'are'} ${listed([...known].sort())}`
}

const LISTED = 12

const listed = (names: readonly string[]): string =>
  names.length <= LISTED ? names.join(', ') : `${names.slice(0, LISTED).join(', ')} and ${names.length - LISTED} more`

const checkRoles = (data: Partial<RouteData>, profiles: readonly string[], say: Complain): void => {
  const check = (roles: readonly string[] | undefined, ...path: string[]) => {
    for (const [index, role] of (roles ?? []).entries()) {
      if (!profiles.includes(profileName(role))) say(unknownRole(role, profiles), ...path, 'roles', index)
    }
  }
  check(data.roles)
  for (const [name, { roles, events }] of Object.entries(data.socketio?.namespaces ?? {})) {
    check(roles, 'socketio', 'namespaces', name)
    for (const [event, rule] of Object.entries(events ?? {}))
      check(rule.roles, 'socketio', 'namespaces', name, 'events', event)
  }
}

const FORWARDING_ONLY = [
  'upstream',
  'stripPrefix',
  'timeout',
  'maxBody',
  'streaming',
  'forwardToken',
  'websocket',
  'socketio'
] as const

const checkCombinations = (data: Partial<RouteData>, say: Complain): void => {
  if (data.public === true) {
    if (data.roles !== undefined) say('a public route cannot have roles: remove one of the two keys', 'roles')
    if (data.requireAssigned === true)
      say('a public route has no identity, so "requireAssigned" has no effect', 'requireAssigned')
    const by = data.rateLimit?.by
    if (by === 'user' || by === 'both')
      say(`a public route has no identity, so "by: ${by}" has no effect`, 'rateLimit', 'by')
  }
  if (data.external === true) {
    for (const key of FORWARDING_ONLY) {
      if (data[key] !== undefined) say(`"${key}" has no effect on an external route, which is never forwarded`, key)
    }
  }
  if (data.socketio !== undefined && data.streaming === true)
    say('the bodies of Socket.IO are read whole, so "streaming" has no effect', 'streaming')
  if (data.basic === true) {
    if (data.public === true) say('a public route requires no token, so "basic" has no effect', 'basic')
    for (const kind of ['websocket', 'socketio'] as const)
      if (data[kind] !== undefined) say(`"basic" and "${kind}" cannot be used together`, 'basic')
  }
  if (data.ownAuthorization === true) {
    const whose = 'leaves Authorization to the application'
    if (data.browser !== true)
      say('"ownAuthorization" needs "browser: true": only the session cookie tells who asks', 'ownAuthorization')
    for (const key of ['public', 'basic', 'forwardToken'] as const)
      if (data[key] === true) say(`"ownAuthorization" ${whose}, so "${key}" cannot be used with it`, 'ownAuthorization')
    if (data.websocket?.tokenInQuery === true)
      say(`"ownAuthorization" ${whose}, so "tokenInQuery" cannot be used with it`, 'ownAuthorization')
  }
  if (data.socketio !== undefined) {
    const why = 'cannot be used on a socketio route: its namespaces say who may connect'
    if (data.roles !== undefined) say(`"roles" ${why}`, 'roles')
    if (data.public !== undefined) say(`"public" ${why}`, 'public')
    if (data.browser !== undefined)
      say(
        `"browser" ${why}; an application with Socket.IO inside takes "websocket: {}" instead of "socketio"`,
        'browser'
      )
    if (data.websocket !== undefined) say('"websocket" and "socketio" cannot be used together', 'websocket')
  }
  const lacks = (method: string) => data.methods?.includes(method) === false
  if (data.websocket !== undefined && lacks('GET')) say('"websocket" requires the method GET', 'methods')
  if (data.socketio !== undefined && (lacks('GET') || lacks('POST')))
    say('"socketio" requires the methods GET and POST', 'methods')
}

/** What /auth/apps lists must open by a click, which sends GET and no Authorization. */
const checkApp = (data: Partial<RouteData>, say: Complain, warn: Complain): void => {
  const { app, path = '', host = [], methods, socketio } = data
  if (app === undefined) return
  if (socketio !== undefined) say('"app" needs a page to open, which a socketio route does not have', 'app')
  if (methods?.includes('GET') === false) say('"app" requires the method GET', 'app')
  if (path.includes('/:') && app.url === undefined)
    say('"app" needs "url" here, because the path has :name in it', 'app')
  const isWild = host.length > 0 && [host].flat().every(name => name.startsWith('*'))
  if (isWild && (app.url ?? '/').startsWith('/'))
    say('"app" needs a whole address as "url" here, because the host has * in it', 'app')
  const opensElsewhere = data.external === true || (app.url !== undefined && !app.url.startsWith('/'))
  if (data.public !== true && data.browser !== true && !opensElsewhere)
    warn(
      'the application cannot be opened from /auth/apps: a link carries no token, so the route needs "browser: true"',
      'app'
    )
}

/** Keys that nothing reads on such a route. */
const checkEffects = (data: Partial<RouteData>, warn: Complain): void => {
  const by = data.rateLimit?.by
  // People join a Socket.IO session by its packets, after the requests that are counted.
  if (data.socketio !== undefined && (by === 'user' || by === 'both'))
    warn(`the requests of a socketio route name no person, so "by: ${by}" counts per address`, 'rateLimit', 'by')
  if (data.socketio !== undefined && data.maxBody !== undefined)
    warn('"maxBody" has no effect on a socketio route: "maxMessage" limits what clients send', 'maxBody')
  if (data.socketio !== undefined) warnOfPatterns(data.socketio, warn)
  if (data.public !== true) return
  if (data.forwardToken === true)
    warn('a public route checks no token and forwards none, so "forwardToken" has no effect', 'forwardToken')
  if (data.websocket?.tokenInQuery === true)
    warn('a public route requires no token, so "tokenInQuery" has no effect', 'websocket', 'tokenInQuery')
}

const checkMethods = (methods: readonly string[] = [], warn: Complain): void => {
  for (const [index, method] of methods.entries())
    if (!METHODS.includes(method))
      warn(`no request can have the method "${method}"${nearestHint(method, METHODS)}`, 'methods', index)
}

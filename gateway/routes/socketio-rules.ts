// Finds the rules of a Socket.IO route for a namespace and an event: one decision for the gateway, `explain` and test lines.
import { BadRequest, Forbidden, NoRoute, Unauthenticated } from '../errors.ts'
import { type Asker, checkPerson, type DecideOptions, type Decision, isOutside } from './decide.ts'
import type { EngineFault, Route, RouteTable, SocketIoEvent, SocketIoNamespace } from './route.ts'
import { shapeOf } from './route-trie.ts'

/**
 * Names that servers do not treat as ordinary events. socket.io refuses all of them except `*`;
 * python-socketio would run its own connect handler for `["connect", {}, {"user": …}]`, with a person of the client's
 * choice, and its catch-all handler for `*` with arguments of the client's choice.
 */
const RESERVED: ReadonlySet<string> = new Set([
  'connect',
  'connect_error',
  'disconnect',
  'disconnecting',
  'newListener',
  'removeListener',
  '*'
])

export const isReservedEvent = (name: string): boolean => RESERVED.has(name)

/** Characters. Longer names match no pattern, since matching takes time. */
const MAX_MATCHED_NAME = 200

// A character at which others cut a name (`?`), or one that they never use in it.
const PLAIN_NAMESPACE = /^\/[^\s,?#\\"'[\]{}\p{Cc}]*$/u

/** Whether every implementation reads this name as written. */
export const isPlainNamespace = (name: string): boolean => PLAIN_NAMESPACE.test(name)

/**
 * Why Engine.IO answers no request with this path or method. Its path is the route's own (`/socket.io/` of `/socket.io/*`): the
 * HTTP side needs no token, so nothing below it is forwarded.
 */
export const engineFault = (
  { path: pattern, coversBelow }: Pick<Route, 'path' | 'coversBelow'>,
  method: string,
  path: string
): EngineFault | undefined => {
  if (shapeOf(path).length !== shapeOf(pattern).length - (coversBelow ? 1 : 0)) return 'engineio-path'
  return method === 'GET' || method === 'POST' ? undefined : 'engineio-method'
}

/** An exact name takes precedence over patterns; of several patterns, the first one applies. undefined: it is not listed. */
export const findRule = <T extends SocketIoEvent>(rules: readonly T[], name: string): T | undefined =>
  rules.find(rule => rule.pattern === undefined && rule.name === name) ??
  (name.length > MAX_MATCHED_NAME ? undefined : rules.find(({ pattern }) => pattern?.test(name) === true))

/** undefined: the namespace is not listed, so it is closed. */
export const findNamespace = (route: Route, name: string): SocketIoNamespace | undefined =>
  findRule(route.socketio?.namespaces ?? [], name)

/** Each namespace and event as a route of its own; created once per rule, which lives as long as its table. */
const routes = new WeakMap<SocketIoEvent, Route>()
const rules = new WeakMap<Route, SocketIoNamespace>()

const checkedBy = (route: Route, rule: SocketIoEvent): Route => {
  const known = routes.get(rule)
  if (known !== undefined) return known
  const checked: Route = { ...route, socketio: undefined, roles: rule.roles }
  routes.set(rule, checked)
  return checked
}

/** The route by which a connection to this namespace is decided; undefined: the namespace is not listed. */
export const namespaceRoute = (route: Route, name: string): Route | undefined => {
  const namespace = findNamespace(route, name)
  if (namespace === undefined) return undefined
  const checked = checkedBy(route, namespace)
  rules.set(checked, namespace)
  return checked
}

/** The name, as in the route file, of the namespace that a route represents. */
export const namespaceName = (governing: Route): string => rules.get(governing)?.name ?? ''

/** Whether a person passes all of these rules of a route: that of a namespace and, for an event, its own. */
export const passesRules = (
  { requireAssigned, from }: Route,
  rules: readonly Pick<SocketIoNamespace, 'roles'>[],
  { user, address }: Asker,
  { cloudUnassignedMayPass }: DecideOptions
): boolean =>
  user !== undefined &&
  !isOutside({ from }, address) &&
  rules.every(({ roles }) => checkPerson(user, { roles, requireAssigned }, cloudUnassignedMayPass).decision === 'allow')

/** Why no client may send an event of this name. */
type EventFault = 'reserved-event' | 'event-not-listed'

/** The route by which an event in a namespace is decided: its own, or the namespace's if all may pass; or why none is. */
export const eventRoute = (governing: Route, event: string): Route | EventFault => {
  if (isReservedEvent(event)) return 'reserved-event'
  const events = rules.get(governing)?.events
  if (events === undefined) return governing
  const rule = findRule(events, event)
  if (rule === undefined) return 'event-not-listed'
  return rule.roles === undefined ? governing : checkedBy(governing, rule)
}

/** The same for an open stream: the route itself unless the stream is a Socket.IO connection. */
export const streamRoute = (route: Route, namespace: string | undefined): Route | undefined =>
  namespace === undefined ? route : namespaceRoute(route, namespace)

/** Whether a person may send an event of this name in a namespace that a Socket.IO route lists. */
const decideEvent = (governing: Route, event: string, { user, address }: Asker, mayPass: boolean): Decision => {
  if (isOutside(governing, address)) return { decision: 403, code: Forbidden.code, reason: 'address' }
  if (user === undefined) return NO_TOKEN
  const connect = checkPerson(user, governing, mayPass)
  if (connect.decision !== 'allow') return connect
  const by = eventRoute(governing, event)
  if (by === 'reserved-event') return { decision: 400, code: BadRequest.code, reason: by }
  if (by === 'event-not-listed') return { decision: 403, code: Forbidden.code, reason: by }
  return by === governing ? connect : checkPerson(user, by, mayPass)
}

const NO_TOKEN: Decision = { decision: 401, code: Unauthenticated.code, reason: 'no-token' }
const NO_NAMESPACE: Decision = { decision: 404, code: NoRoute.code, reason: 'no-namespace' }
const BAD_NAME: Decision = { decision: 400, code: BadRequest.code, reason: 'namespace-name' }

interface EventDecision {
  /** undefined: no route lists the namespace. */
  readonly route: Route | undefined
  readonly decision: Decision
}

/** The decisions of all routes that list the namespace, in the order of the table; at least one result. */
export const decideEventOnRoutes = (
  { routes }: RouteTable,
  { namespace, event }: { namespace: string; event: string },
  asker: Asker,
  { cloudUnassignedMayPass }: DecideOptions
): EventDecision[] => {
  if (!isPlainNamespace(namespace)) return [{ route: undefined, decision: BAD_NAME }]
  const decisions = routes.flatMap(route => {
    const governing = namespaceRoute(route, namespace)
    if (governing === undefined) return []
    return [{ route, decision: decideEvent(governing, event, asker, cloudUnassignedMayPass) }]
  })
  if (decisions.length > 0) return decisions
  return [{ route: undefined, decision: asker.user === undefined ? NO_TOKEN : NO_NAMESPACE }]
}

// Finds the rule of a Socket.IO route that applies to a namespace and an event, and its decision on a person.
import { Forbidden, NoRoute, Unauthenticated } from '../errors.ts'
import { type Asker, type DecideOptions, type Decision, judgePerson } from './decide.ts'
import type { Route, RouteTable, SocketIoEvent, SocketIoNamespace } from './route.ts'

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

interface Rule {
  readonly name: string
  readonly pattern: RegExp | undefined
}

/** An exact name takes precedence over patterns; of several patterns, the first one applies. */
const findRule = <T extends Rule>(rules: readonly T[], name: string): T | undefined =>
  rules.find(rule => rule.pattern === undefined && rule.name === name) ??
  rules.find(({ pattern }) => pattern?.test(name) === true)

/** undefined: the namespace is not listed, so it is closed. */
export const findNamespace = (route: Route, name: string): SocketIoNamespace | undefined =>
  findRule(route.socketio?.namespaces ?? [], name)

/** undefined: the event is not listed, so it is refused if there are `events` at all. */
export const findEvent = (events: readonly SocketIoEvent[], name: string): SocketIoEvent | undefined =>
  findRule(events, name)

/** Whether a person may send an event of this name in a namespace of a Socket.IO route. */
const decideEvent = (
  route: Route,
  { namespace, event }: { namespace: string; event: string },
  { user }: Asker,
  { cloudUnassignedMayPass }: DecideOptions
): Decision => {
  if (user === undefined) return { decision: 401, code: Unauthenticated.code, reason: 'no-token' }
  const governing = findNamespace(route, namespace)
  if (governing === undefined) return { decision: 404, code: NoRoute.code, reason: 'no-namespace' }
  const { requireAssigned } = route
  const connect = judgePerson(user, { roles: governing.roles, requireAssigned }, cloudUnassignedMayPass)
  if (connect.decision !== 'allow' || governing.events === undefined) return connect
  const rule = findEvent(governing.events, event)
  if (rule === undefined) return { decision: 403, code: Forbidden.code, reason: 'event-not-listed' }
  if (rule.roles === undefined) return connect
  return judgePerson(user, { roles: rule.roles, requireAssigned }, cloudUnassignedMayPass)
}

interface EventDecision {
  /** undefined: no route lists the namespace. */
  readonly route: Route | undefined
  readonly decision: Decision
}

/** The same for every route that lists the namespace, in the order of the table; at least one result. */
export const decideEventOnRoutes = (
  { routes }: RouteTable,
  what: { namespace: string; event: string },
  asker: Asker,
  options: DecideOptions
): EventDecision[] => {
  const listing = routes.filter(route => findNamespace(route, what.namespace) !== undefined)
  if (listing.length > 0) return listing.map(route => ({ route, decision: decideEvent(route, what, asker, options) }))
  const decision: Decision =
    asker.user === undefined
      ? { decision: 401, code: Unauthenticated.code, reason: 'no-token' }
      : { decision: 404, code: NoRoute.code, reason: 'no-namespace' }
  return [{ route: undefined, decision }]
}

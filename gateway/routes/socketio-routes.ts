// Represents each namespace and event of a Socket.IO route as a route of its own for decisions.
import type { Route, SocketIoEvent, SocketIoNamespace } from './route.ts'
import { findEvent, findNamespace } from './socketio-rules.ts'

/** Created once per rule; the rules live as long as their table. */
const routes = new WeakMap<SocketIoNamespace | SocketIoEvent, Route>()
const rules = new WeakMap<Route, SocketIoNamespace>()

const judgedBy = (route: Route, rule: SocketIoNamespace | SocketIoEvent): Route => {
  const known = routes.get(rule)
  if (known !== undefined) return known
  const judged: Route = { ...route, socketio: undefined, roles: rule.roles }
  routes.set(rule, judged)
  return judged
}

/** The route by which a connection to this namespace is decided; undefined: the namespace is not listed. */
export const namespaceRoute = (route: Route, name: string): Route | undefined => {
  const namespace = findNamespace(route, name)
  if (namespace === undefined) return undefined
  const judged = judgedBy(route, namespace)
  rules.set(judged, namespace)
  return judged
}

/** The name, as in the route file, of the namespace that a route represents. */
export const namespaceName = (governing: Route): string => rules.get(governing)?.name ?? ''

/** The route by which an event in a namespace is decided: its own, or the namespace's if all may pass; undefined: not listed. */
export const eventRoute = (governing: Route, event: string): Route | undefined => {
  const events = rules.get(governing)?.events
  if (events === undefined) return governing
  const rule = findEvent(events, event)
  if (rule === undefined) return undefined
  return rule.roles === undefined ? governing : judgedBy(governing, rule)
}

/** The same for an open stream: the route itself unless the stream is a Socket.IO connection. */
export const streamRoute = (route: Route, namespace: string | undefined): Route | undefined =>
  namespace === undefined ? route : namespaceRoute(route, namespace)

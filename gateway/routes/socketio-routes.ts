// Gives each namespace and event of a Socket.IO route a route of its own for decisions.
import type { Route, SocketIoEvent, SocketIoNamespace } from './route.ts'
import { findEvent, findNamespace } from './socketio-rules.ts'

/** Made once for each rule; the rules live as long as their table. */
const routes = new WeakMap<SocketIoNamespace | SocketIoEvent, Route>()
const rules = new WeakMap<Route, SocketIoNamespace>()

const judgedBy = (route: Route, rule: SocketIoNamespace | SocketIoEvent): Route => {
  const known = routes.get(rule)
  if (known !== undefined) return known
  const judged: Route = { ...route, socketio: undefined, roles: rule.roles }
  routes.set(rule, judged)
  return judged
}

/** The route that a connection to this namespace is judged by; undefined: the namespace is not listed. */
export const namespaceRoute = (route: Route, name: string): Route | undefined => {
  const namespace = findNamespace(route, name)
  if (namespace === undefined) return undefined
  const judged = judgedBy(route, namespace)
  rules.set(judged, namespace)
  return judged
}

/** Name as the route file has it, of the namespace that a route stands for. */
export const namespaceName = (governing: Route): string => rules.get(governing)?.name ?? ''

/** The route that an event is judged by in a namespace: its own, the namespace's where all may pass; undefined: it is not listed. */
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

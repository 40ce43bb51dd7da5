// A namespace of a Socket.IO route is judged like a route of its own.
import type { Route, SocketIoNamespace } from '../routes/route.ts'

const find = (route: Route, name: string): SocketIoNamespace | undefined => {
  const namespaces = route.socketio?.namespaces ?? []
  return (
    namespaces.find(namespace => namespace.pattern === undefined && namespace.name === name) ??
    namespaces.find(namespace => namespace.pattern?.test(name) === true)
  )
}

const routes = new WeakMap<SocketIoNamespace, Route>()

/** The route that a connection to this namespace is judged by; undefined: the namespace is not listed. */
export const namespaceRoute = (route: Route, name: string): Route | undefined => {
  const namespace = find(route, name)
  if (namespace === undefined) return undefined
  const known = routes.get(namespace)
  if (known !== undefined) return known
  const judged: Route = { ...route, socketio: undefined, roles: namespace.roles }
  routes.set(namespace, judged)
  return judged
}

/** The same for an open stream: the route itself unless the stream is a Socket.IO connection. */
export const streamRoute = (route: Route, namespace: string | undefined): Route | undefined =>
  namespace === undefined ? route : namespaceRoute(route, namespace)

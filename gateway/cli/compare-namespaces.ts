// Who may connect to which Socket.IO namespace under one route table and under another.
import { ASKERS, HALF_ASSIGNED } from '../explain/askers.ts'
import { judgePerson } from '../routes/decide.ts'
import type { Route, SocketIoNamespace } from '../routes/route.ts'

interface NamespaceAccess {
  readonly name: string
  readonly before: readonly string[]
  readonly after: readonly string[]
}

/** Every namespace that one of the two routes names; a pattern is compared as the pattern that it is. */
export const compareNamespaces = (
  was: Route | undefined,
  now: Route | undefined,
  cloudUnassignedMayPass: boolean
): NamespaceAccess[] => {
  const names = new Set([was, now].flatMap(route => route?.socketio?.namespaces.map(({ name }) => name) ?? []))
  return [...names].map(name => ({
    name,
    before: allowed(was, name, cloudUnassignedMayPass),
    after: allowed(now, name, cloudUnassignedMayPass)
  }))
}

const allowed = (route: Route | undefined, name: string, mayPass: boolean): string[] => {
  const namespace = find(route?.socketio?.namespaces ?? [], name)
  if (route === undefined || namespace === undefined) return []
  const rule = { roles: namespace.roles, requireAssigned: route.requireAssigned }
  return [...ASKERS, ...HALF_ASSIGNED]
    .filter(({ user }) => user !== undefined && judgePerson(user, rule, mayPass).decision === 'allow')
    .map(asker => asker.name)
}

// An exact name counts before any pattern, as in a running gateway.
const find = (namespaces: readonly SocketIoNamespace[], name: string): SocketIoNamespace | undefined =>
  namespaces.find(namespace => namespace.name === name) ??
  namespaces.find(({ pattern }) => pattern?.test(name) === true)

// Lists who may pass each route, who may connect to each Socket.IO namespace, and who may send which event there.
import { type DecideOptions, decide, judgePerson } from '../routes/decide.ts'
import type { Route } from '../routes/route.ts'
import { ASKERS, type NamedAsker } from './askers.ts'

interface MatrixRow {
  readonly route: Route
  /** The route's id, followed by ` namespace NAME` or ` namespace NAME event NAME` if one of these is checked. */
  readonly id: string
  /** undefined: any valid token. */
  readonly roles: readonly string[] | undefined
  /** Whether each asker may pass, by name. */
  readonly allowed: Readonly<Record<string, boolean>>
}

/** @param askers by default those that a table without additional profiles distinguishes */
export const accessMatrix = (
  routes: readonly Route[],
  options: DecideOptions,
  askers: readonly NamedAsker[] = ASKERS
): MatrixRow[] => routes.flatMap(route => rowsOf(route, options, askers))

const rowsOf = (route: Route, options: DecideOptions, askers: readonly NamedAsker[]): MatrixRow[] => {
  const allowedBy = (mayPass: (asker: NamedAsker) => boolean): Record<string, boolean> =>
    Object.fromEntries(askers.map(asker => [asker.name, mayPass(asker)]))
  const { id, path, roles, socketio, requireAssigned } = route
  if (socketio === undefined) {
    const allowed = allowedBy(asker => decide({ route, path }, asker, options).decision === 'allow')
    return [{ route, id, roles, allowed }]
  }
  // The HTTP side of Socket.IO admits everyone: clients are checked at CONNECT, namespace by namespace.
  const passes = (needed: Route['roles'], { user }: NamedAsker): boolean => {
    const rule = { roles: needed, requireAssigned }
    return user !== undefined && judgePerson(user, rule, options.cloudUnassignedMayPass).decision === 'allow'
  }
  return socketio.namespaces.flatMap(namespace => {
    const namespaceId = `${id} namespace ${namespace.name}`
    const events = (namespace.events ?? []).map(event => ({
      route,
      id: `${namespaceId} event ${event.name}`,
      roles: event.roles ?? namespace.roles,
      allowed: allowedBy(asker => passes(namespace.roles, asker) && passes(event.roles, asker))
    }))
    const allowed = allowedBy(asker => passes(namespace.roles, asker))
    return [{ route, id: namespaceId, roles: namespace.roles, allowed }, ...events]
  })
}

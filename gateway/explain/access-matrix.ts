// Lists who may pass each route, who may connect to each Socket.IO namespace, and who may send which event there.
import { type DecideOptions, decide } from '../routes/decide.ts'
import type { Route } from '../routes/route.ts'
import { passesRules } from '../routes/socketio-rules.ts'
import { formatAddress } from '../values/addresses.ts'
import type { Parts } from '../values/in-parts.ts'
import { askersWith, clientsWith, halfAssignedWith, type NamedAsker } from './askers.ts'

export interface MatrixRow {
  readonly route: Route
  /** The route's id, followed by ` namespace NAME` or ` namespace NAME event NAME` if one of these is checked. */
  readonly id: string
  /** undefined: any valid token. */
  readonly roles: readonly string[] | undefined
  /** Whether each asker may pass, by name, from one of the networks of `from` if the route has it. */
  readonly allowed: Readonly<Record<string, boolean>>
}

/** Those to show: people without an area, and service accounts, only if one of these routes tells them from an assigned person. */
export function* distinguishedBy(
  routes: readonly Route[],
  options: DecideOptions,
  profiles: readonly string[]
): Parts<NamedAsker[]> {
  const plain = askersWith(profiles)
  const assigned = plain.slice(-profiles.length)
  const shown = [...plain]
  // In the same order of profiles.
  for (const special of [halfAssignedWith(profiles), clientsWith(profiles)]) {
    let areToldApart = false
    for (const route of routes) {
      areToldApart ||= matrixRows(route, options, [...assigned, ...special]).some(({ allowed }) =>
        assigned.some(({ name }, i) => allowed[name] !== allowed[special[i]?.name ?? ''])
      )
      // With a thousand profiles, one route takes a millisecond.
      yield
    }
    if (areToldApart) shown.push(...special)
  }
  return shown
}

/** One row for each rule: the route's own, or those of its namespaces and their events. */
export const matrixRows = (route: Route, options: DecideOptions, askers: readonly NamedAsker[]): MatrixRow[] => {
  const { id, path, roles, socketio, from } = route
  const address = from?.[0] && formatAddress(from[0].address)
  const allowedBy = (mayPass: (asker: NamedAsker) => boolean): Record<string, boolean> =>
    Object.fromEntries(askers.map(asker => [asker.name, mayPass({ ...asker, address })]))
  if (socketio === undefined) {
    const allowed = allowedBy(asker => decide({ route, path }, asker, options).decision === 'allow')
    return [{ route, id, roles, allowed }]
  }
  // The HTTP side of Socket.IO admits everyone: clients are checked at CONNECT, namespace by namespace.
  return socketio.namespaces.flatMap(namespace => {
    const namespaceId = `${id} namespace ${namespace.name}`
    const events = (namespace.events ?? []).map(event => ({
      route,
      id: `${namespaceId} event ${event.name}`,
      roles: event.roles ?? namespace.roles,
      allowed: allowedBy(asker => passesRules(route, [namespace, event], asker, options))
    }))
    const allowed = allowedBy(asker => passesRules(route, [namespace], asker, options))
    return [{ route, id: namespaceId, roles: namespace.roles, allowed }, ...events]
  })
}

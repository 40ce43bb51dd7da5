// Decides who may open a stream, and keep it when access or routes change.
import { Forbidden, type GatewayError, Unassigned } from '../errors.ts'
import type { User } from '../identity.ts'
import { type DecideOptions, decideRoute, isOutside } from '../routes/decide.ts'
import type { Route, RouteTable } from '../routes/route.ts'
import { streamRoute } from '../routes/socketio-rules.ts'
import type { OpenStream, StreamKind } from './stream.ts'

/** Whether the route still forwards streams of this kind. */
const carries = ({ upstream, websocket, socketio }: Route, kind: StreamKind): boolean =>
  upstream !== undefined &&
  (kind !== 'websocket' || websocket !== undefined) &&
  (kind !== 'socketio' || socketio !== undefined)

export const createStreamRights = (routes: () => RouteTable, options: DecideOptions) => {
  const check = (route: Route, user: User): GatewayError | undefined => {
    const { decision, code, reason } = decideRoute(route, user, options.cloudUnassignedMayPass)
    if (decision === 'allow') return undefined
    return code === Unassigned.code ? new Unassigned({ reason }) : new Forbidden({ reason })
  }
  const mayPass = (route: Route, user: User): boolean => check(route, user) === undefined

  /** The route of the current table that governs a stream; undefined: none allows it any more. */
  const checkAgain = ({
    kind,
    method = 'GET',
    path,
    hostName,
    namespace,
    identity,
    ip
  }: OpenStream): Route | undefined => {
    const { route } = routes().match(method, path, hostName)
    const governing = route === undefined || !carries(route, kind) ? undefined : streamRoute(route, namespace)
    if (governing === undefined || isOutside(governing, ip)) return undefined
    if (identity === undefined) return governing.public ? governing : undefined
    return mayPass(governing, identity.user) ? governing : undefined
  }

  return { check, mayPass, checkAgain }
}

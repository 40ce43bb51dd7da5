// Decides who may open a stream, and keep it when access or routes change.
import { Forbidden, type GatewayError, Unassigned } from '../errors.ts'
import type { User } from '../identity.ts'
import { type DecideOptions, decide, decideRoute } from '../routes/decide.ts'
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

  /** The route of the current table that governs a stream; undefined: none allows it any more. */
  const checkAgain = (stream: Omit<OpenStream, 'id' | 'since'>): Route | undefined => {
    const { kind, method = 'GET', path, hostName, namespace, identity, ip } = stream
    const match = routes().match(method, path, hostName)
    if (match.route === undefined || !carries(match.route, kind)) return undefined
    // Other readings of the path count as they did for the request.
    if (decide(match, { user: identity?.user, kind: identity?.kind, address: ip }, options).decision !== 'allow')
      return undefined
    const governing = streamRoute(match.route, namespace)
    if (governing === undefined || governing === match.route) return governing
    return identity === undefined || check(governing, identity.user) !== undefined ? undefined : governing
  }

  return { check, checkAgain }
}

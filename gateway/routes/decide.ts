// Decides whether a person may pass: one pure decision for live requests, route tests and `explain`.
import { BadPath, BadRequest, Forbidden, MethodNotAllowed, NoRoute, Unassigned, Unauthenticated } from '../errors.ts'
import type { TokenKind, User } from '../identity.ts'
import { contains, parseAddress } from '../values/addresses.ts'
import type { Route, RouteMatch } from './route.ts'

/** The sender of the request; no user: without a valid token. */
export interface Asker {
  readonly user?: Pick<User, 'profiles' | 'accessStatus' | 'provider'> | undefined
  /** Absent: a login token. */
  readonly kind?: TokenKind | undefined
  /** Of the client; absent: one that is in no network of any route. */
  readonly address?: string | undefined
}

export interface DecideOptions {
  /** Whether cloud accounts without profile and area pass routes without roles (CLOUDIDP_ALLOWED_TENANTS). */
  readonly cloudUnassignedMayPass: boolean
}

export type Decision =
  | { readonly decision: 'allow'; readonly code: undefined; readonly reason: AllowReason }
  | { readonly decision: RefusalStatus; readonly code: string; readonly reason: string }

/** `socketio`: the HTTP side of a Socket.IO route needs no token; its namespaces are checked at CONNECT. */
type AllowReason = 'public' | 'socketio' | 'any-valid-token' | 'has-role'
type RefusalStatus = 400 | 401 | 403 | 404 | 405

/** The decision for a match and an asker. The code comes from the error contract; the reason is a stable word. */
export const decide = (match: RouteMatch, sender: Asker, options: DecideOptions): Decision => {
  // Where no token is needed, none is checked: other routes that must admit the request too know no person either.
  const asker = match.route !== undefined && needsNoToken(match.route) ? { address: sender.address } : sender
  const decision = decidePath(match, asker, options)
  if (decision.decision !== 'allow' || match.route === undefined) return decision
  if (match.engineFault === 'engineio-path') return refuse(400, BadRequest.code, match.engineFault)
  if (match.engineFault !== undefined) return refuse(405, MethodNotAllowed.code, match.engineFault)
  if (match.alsoWrites === undefined) return decision
  for (const written of match.alsoWrites) {
    const other = decidePath(written, asker, options)
    if (other.decision === 400 || other.decision === 401) return other
    if (other.decision !== 'allow') return refuse(403, Forbidden.code, 'destination')
  }
  return decision
}

/** Those of a route that names none, as far as they can be listed. */
const USUAL_METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT']

/** The methods of these routes that are not refused to a client with this address. */
export const allowedMethods = (routes: readonly Route[], address: string | undefined): string[] => {
  const open = routes.filter(route => !isOutside(route, address))
  const allowed = new Set(open.flatMap(route => [...(route.methods ?? USUAL_METHODS)]))
  if (allowed.has('GET')) allowed.add('HEAD')
  return [...allowed].sort()
}

const decidePath = (
  match: RouteMatch,
  { user, kind = 'login', address }: Asker,
  { cloudUnassignedMayPass }: DecideOptions
): Decision => {
  if (match.refusal !== undefined) {
    if (refusesAddress(match, address)) return refuse(403, Forbidden.code, 'address')
    // Without a token, a private path gets the same response as an unknown one, so that existing paths are not revealed.
    const isShown = user !== undefined || (match.refusal !== 'no-route' && match.public)
    if (!isShown) return refuse(401, Unauthenticated.code, 'no-token')
    if (match.refusal === 'bad-path') return refuse(400, BadPath.code, match.reason)
    if (match.refusal === 'method') return refuse(405, MethodNotAllowed.code, 'method')
    return refuse(404, NoRoute.code, 'no-route')
  }
  const check = (route: Route): Decision => {
    if (isOutside(route, address)) return refuse(403, Forbidden.code, 'address')
    return user !== undefined && route.tokenKinds?.includes(kind) === false
      ? refuse(403, Forbidden.code, 'token-kind')
      : decideRoute(route, user, cloudUnassignedMayPass)
  }
  const decision = check(match.route)
  if (decision.decision !== 'allow' || match.alsoReadAs === undefined) return decision
  const isAdmitted = match.alsoReadAs.every(route => check(route).decision === 'allow')
  return isAdmitted ? decision : refuse(400, BadPath.code, 'lax-reading')
}

export const needsNoToken = (route: Route): boolean => route.public || route.socketio !== undefined

/** Whether the route's `from` refuses a client with this address, whether logged in or not. */
export const isOutside = ({ from }: Pick<Route, 'from'>, address: string | undefined): boolean => {
  if (from === undefined) return false
  const client = address === undefined ? undefined : parseAddress(address)
  return client === undefined || !from.some(network => contains(network, client))
}

/** The same of a match: of its route, or of all routes at a path without this method. */
export const refusesAddress = (match: RouteMatch, address: string | undefined): boolean =>
  match.route === undefined
    ? match.refusal === 'method' && match.routes.every(route => isOutside(route, address))
    : isOutside(match.route, address)

/** The decision on a person, or on a request without a token, whatever the address. */
export const decideRoute = (route: Route, user: Asker['user'], cloudUnassignedMayPass: boolean): Decision => {
  if (route.public) return allow('public')
  if (route.socketio !== undefined) return allow('socketio')
  if (user === undefined) return refuse(401, Unauthenticated.code, 'no-token')
  // The gateway's own endpoints (`/auth/me`, logout) stay open to people who have just logged in.
  const isProxied = route.upstream !== undefined || route.external
  return checkPerson(user, route, cloudUnassignedMayPass || !isProxied)
}

/** Whether a person with a valid token passes: by a route's rule, or that of one of its Socket.IO namespaces. */
export const checkPerson = (
  user: NonNullable<Asker['user']>,
  rule: Pick<Route, 'roles' | 'requireAssigned'>,
  cloudUnassignedMayPass: boolean
): Decision => {
  const { roles, requireAssigned } = rule
  const isUnassigned = user.accessStatus !== 'assigned'
  if (isUnassigned && user.provider === 'cloudidp' && !cloudUnassignedMayPass) {
    return refuse(403, Unassigned.code, 'cloud-unassigned')
  }
  if (roles !== undefined && !user.profiles.some(profile => roles.includes(profile))) {
    return refuse(403, Forbidden.code, 'role-missing')
  }
  if (isUnassigned && requireAssigned) return refuse(403, Unassigned.code, 'unassigned')
  return allow(roles === undefined ? 'any-valid-token' : 'has-role')
}

const allow = (reason: AllowReason): Decision => ({ decision: 'allow', code: undefined, reason })

const refuse = (decision: RefusalStatus, code: string, reason: string): Decision => ({ decision, code, reason })

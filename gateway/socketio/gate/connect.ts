// Checks a CONNECT: it passes with the person in place of the token, or gets a CONNECT_ERROR.
import { BadRequest, Forbidden, GatewayError, NoRoute, Unauthenticated } from '../../errors.ts'
import { asGatewayError } from '../../http/own-responses.ts'
import type { Identity } from '../../identity.ts'
import type { Route } from '../../routes/route.ts'
import { isPlainNamespace, namespaceRoute } from '../../routes/socketio-rules.ts'
import { noteFault } from '../../values/contain.ts'
import { connectErrorPacket, connectPacket, readPayload, type SocketIoPacket } from '../protocol/packets.ts'
import { type GateParts, type PacketVerdict, UNDECIDED, violation } from './gate-state.ts'

const MAX_NAMESPACES = 50
const MAX_ID = 256

export const checkConnect = (parts: GateParts, { namespace, rest }: SocketIoPacket): PacketVerdict => {
  const auth = readPayload(rest)
  let identity: Identity | undefined
  try {
    if (!isPlainNamespace(namespace)) throw new BadRequest({ reason: 'namespace-name' })
    if (auth === undefined) throw new BadRequest({ reason: 'connect-payload' })
    if (typeof auth.token !== 'string') throw new Unauthenticated({ reason: 'no-token' })
    identity = parts.identify(auth.token)
    const route = routeFor(parts, namespace, identity)
    parts.state.namespaces.set(namespace, parts.register(namespace, route, identity))
    return { verdict: 'pass', text: connectPacket(namespace, trusted(parts, namespace, auth, identity)) }
  } catch (error) {
    if (!(error instanceof GatewayError)) noteFault('socketio', error, parts.requestId)
    const known = asGatewayError(error, 'connect')
    parts.onRefusedConnect(namespace, identity?.user, known)
    if (known.statusCode === 503) return violation(UNDECIDED)
    return { verdict: 'answer', text: connectErrorPacket(namespace, known) }
  }
}

/** The route by which this person may connect; throws the reason why they may not. */
const routeFor = ({ routeNow, state, check }: GateParts, namespace: string, { user }: Identity): Route => {
  const by = namespaceRoute(routeNow(), namespace)
  if (by === undefined) throw new NoRoute({ reason: 'no-namespace' })
  const refusal = check(by, user)
  if (refusal !== undefined) throw refusal
  // A session belongs to one person: its id must not transfer one person's access to another.
  for (const other of state.namespaces.values()) {
    if (other.identity.user.id !== user.id) throw new Forbidden({ reason: 'session-of-another' })
  }
  if (state.namespaces.size >= MAX_NAMESPACES) throw new Forbidden({ reason: 'too-many-namespaces' })
  return by
}

/** What the upstream gets of the payload: the person as the gateway knows them, and a recovery id only if it is their own. */
const trusted = (
  { route, recoveryIds }: GateParts,
  namespace: string,
  auth: Record<string, unknown>,
  identity: Identity
): object => {
  const { token, user: _user, __proto__: _proto, pid: given, offset, ...own } = auth
  const pid = typeof given === 'string' ? recoveryIds.read(given, ownerOf(identity, namespace, route)) : undefined
  return {
    ...own,
    user: identity.user,
    ...(route.forwardToken && identity.kind !== 'personal' ? { token } : {}),
    ...(pid === undefined ? {} : { pid, offset })
  }
}

/** The same person, access version, profiles of an access token, namespace and route. */
const ownerOf = ({ user, version, profilesAtMost }: Identity, namespace: string, { id }: Route): string =>
  JSON.stringify([user.id, version, profilesAtMost?.toSorted() ?? null, namespace, id])

/** The upstream's confirmation of a CONNECT with its recovery id signed for its owner; undefined: it has none. */
export const signedConfirmation = (
  { recoveryIds, route }: GateParts,
  { namespace, rest }: SocketIoPacket,
  identity: Identity
): string | undefined => {
  const payload = readPayload(rest)
  const { pid } = payload ?? {}
  if (typeof pid !== 'string' || pid.length > MAX_ID) return undefined
  return connectPacket(namespace, { ...payload, pid: recoveryIds.sign(pid, ownerOf(identity, namespace, route)) })
}

// Checks a CONNECT: it passes with the person in place of the token, or gets a CONNECT_ERROR.

import { BadRequest, Forbidden, GatewayError, Internal, NoRoute, Unauthenticated } from '../../errors.ts'
import type { Identity } from '../../identity.ts'
import type { Route } from '../../routes/route.ts'
import { isPlainNamespace, namespaceRoute } from '../../routes/socketio-rules.ts'
import { noteFault } from '../../values/contain.ts'
import { connectErrorPacket, connectPacket, readAuth, type SocketIoPacket } from '../protocol/packets.ts'
import type { GateParts } from './gate-state.ts'
import { DROPPED, type PacketVerdict } from './packet-verdict.ts'

const MAX_NAMESPACES = 50
const MAX_ID = 256
/** Recovery happens within minutes after a connection breaks; its id must be known until then. */
const PID_GRACE_MS = 10 * 60_000

/** Returns `answer` for a refusal. Only a CONNECT with a recovery id has to wait for a result. */
export const checkConnect = (
  parts: GateParts,
  { namespace, rest }: SocketIoPacket
): PacketVerdict | Promise<PacketVerdict> => {
  const { route } = parts
  const { namespaces } = parts.state
  const auth = readAuth(rest)
  let asking: Identity | undefined
  const identify = (token: string): Identity => {
    asking = parts.identify(token)
    return asking
  }
  try {
    const { identity, by } = prove({ ...parts, identify }, namespace, auth)
    parts.onAsked(namespace, by, identity)
    namespaces.set(namespace, { phase: 'asked', identity })
    const { token, user: _user, __proto__: _proto, pid, offset, ...own } = auth ?? {}
    const trusted = {
      ...own,
      user: identity.user,
      ...(route.forwardToken && identity.kind !== 'personal' ? { token } : {})
    }
    const plain = () => ({ verdict: 'pass', text: connectPacket(namespace, trusted) }) as const
    if (typeof pid !== 'string') return plain()
    return mayRecover(parts, pid, namespace, identity).then(may => {
      // The access may have ended during the lookup.
      if (namespaces.get(namespace)?.phase !== 'asked') {
        namespaces.delete(namespace)
        return DROPPED
      }
      return may ? { verdict: 'pass', text: connectPacket(namespace, { ...trusted, pid, offset }) } : plain()
    })
  } catch (error) {
    if (!(error instanceof GatewayError)) noteFault('socketio', error, parts.requestId)
    const known = error instanceof GatewayError ? error : new Internal({ cause: error, reason: 'connect' })
    parts.onRefusedConnect(namespace, asking?.user, known)
    return { verdict: 'answer', text: connectErrorPacket(namespace, known) }
  }
}

/** Throws the reason for refusing this CONNECT. */
const prove = (
  { route, state, identify, check }: GateParts,
  namespace: string,
  auth: Record<string, unknown> | undefined
): { identity: Identity; by: Route } => {
  if (!isPlainNamespace(namespace)) throw new BadRequest({ reason: 'namespace-name' })
  if (auth === undefined) throw new BadRequest({ reason: 'connect-payload' })
  if (typeof auth.token !== 'string') throw new Unauthenticated({ reason: 'no-token' })
  const identity = identify(auth.token)
  const by = namespaceRoute(route, namespace)
  if (by === undefined) throw new NoRoute({ reason: 'no-namespace' })
  const refusal = check(by, identity.user)
  if (refusal !== undefined) throw refusal
  // A session belongs to one person: its id must not transfer one person's access to another.
  for (const other of state.namespaces.values()) {
    if (other.identity.user.id !== identity.user.id) throw new Forbidden({ reason: 'session-of-another' })
  }
  if (state.namespaces.size >= MAX_NAMESPACES) throw new Forbidden({ reason: 'too-many-namespaces' })
  return { identity, by }
}

/** Whether the recovery id in the auth payload may be used. */
const mayRecover = async (parts: GateParts, pid: string, namespace: string, identity: Identity): Promise<boolean> => {
  if (pid.length > MAX_ID) return false
  const owner = await parts.recoveryIds.ownerOf(pid).catch(() => undefined)
  return owner === ownerOf(identity, namespace, parts.route)
}

/** The same person, access version, profiles of an access token, namespace and route. */
const ownerOf = ({ user, version, profilesAtMost }: Identity, namespace: string, { id }: Route): string =>
  JSON.stringify([user.id, version, profilesAtMost?.toSorted() ?? null, namespace, id])

/** Remembers the owner of the recovery id in an accepted CONNECT. */
export const bindRecovery = ({ recoveryIds, route }: GateParts, packet: SocketIoPacket, identity: Identity) => {
  const { pid } = readAuth(packet.rest) ?? {}
  if (typeof pid !== 'string' || pid.length > MAX_ID) return
  // Without the record the id is worthless, so a failure only costs a recovery.
  const lifetimeMs = identity.expiresAt * 1000 - Date.now() + PID_GRACE_MS
  recoveryIds.bind(pid, ownerOf(identity, packet.namespace, route), lifetimeMs).catch(() => undefined)
}

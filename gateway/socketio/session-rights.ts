// Registers each namespace of a Socket.IO session as an open stream, so that it ends with the access that opened it.
import { Forbidden, GatewayError } from '../errors.ts'
import type { OpenStreams } from '../forward/open-streams.ts'
import type { StreamEnd, StreamHandle } from '../forward/stream.ts'
import type { Identity, User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import { namespaceName, namespaceRoute } from '../routes/socketio-rules.ts'
import type { Log } from '../values/log.ts'
import type { NamespaceState, Right } from './gate/gate-state.ts'
import type { SessionSource } from './session-source.ts'

export interface SessionRightsParts {
  readonly streams: OpenStreams
  readonly log: Log
  /** @param namespace as written in the route file */
  readonly countRefusedEvent: (routeId: string, namespace: string) => void
  readonly countRefusal: (refusal: GatewayError) => void
}

interface SessionControl {
  readonly end: (namespace: string, code: StreamEnd) => void
  readonly destroy: () => void
  readonly bytes: () => number
}

/** Refused events and CONNECTs of one session; all are counted. */
const MAX_LOGGED = 10

export const createSessionRights = (parts: SessionRightsParts, source: SessionSource, session: SessionControl) => {
  const { route, path, hostName, requestId, ip } = source
  const handles = new Map<string, StreamHandle>()
  const rights = new Map<string, Right>()
  let refused = 0
  let leavePlace: (() => void) | undefined

  /** A session belongs to one person: its place counts for them from the first namespace that they request. */
  const takePlace = (userId: number) => {
    const taken = parts.streams.admit({ upstream: source.upstream, userId, ip: undefined })
    if (taken instanceof GatewayError) throw taken
    leavePlace = taken
  }

  const drop = (namespace: string) => {
    handles.delete(namespace)
    rights.delete(namespace)
  }

  const register = (namespace: string, checkedBy: Route, identity: Identity) => {
    if (leavePlace === undefined) takePlace(identity.user.id)
    rights.set(namespace, { route: checkedBy, user: identity.user })
    const handle = parts.streams.register(
      { kind: 'socketio', identity, route: checkedBy, path, hostName, namespace, requestId, ip },
      {
        end(code) {
          drop(namespace)
          session.end(namespace, code)
        },
        destroy: session.destroy,
        bytes: session.bytes,
        onChange: ({ route: governing, identity: current }) =>
          rights.set(namespace, { route: governing, user: current?.user ?? identity.user })
      }
    )
    handles.set(namespace, handle)
  }

  return {
    /** Throws if the access has ended in the meantime, or no place is left. */
    register,
    /** Registers a namespace that another process has checked; throws as `register` does, or if the route no longer has it. */
    adopt(name: string, { phase, identity }: NamespaceState) {
      if (phase === 'ended') return
      const checkedBy = namespaceRoute(route, name)
      if (checkedBy === undefined) throw new Forbidden({ reason: 'no-namespace' })
      register(name, checkedBy, identity)
    },
    of: (namespace: string): Right | undefined => rights.get(namespace),
    /** The namespace was left; false: it was the last one. */
    release(namespace: string): boolean {
      handles.get(namespace)?.close()
      drop(namespace)
      return handles.size > 0
    },
    noteRefusedConnect(namespace: string, user: User | undefined, refusal: GatewayError) {
      parts.countRefusal(refusal)
      if (++refused > MAX_LOGGED) return
      const { code, reason } = refusal
      // What a client sent as a name is written only if a route file lists it.
      const listed = namespaceRoute(route, namespace)
      const named = listed === undefined ? {} : { namespace }
      parts.log.info(
        { requestId, route: route.id, ...named, user: user?.username, code, reason, ip },
        'refused a Socket.IO CONNECT'
      )
    },
    noteRefusedEvent(namespace: string, event: string, { reason }: GatewayError) {
      const right = rights.get(namespace)
      parts.countRefusedEvent(route.id, right === undefined ? '' : namespaceName(right.route))
      if (++refused > MAX_LOGGED) return
      const user = right?.user.username
      parts.log.info({ requestId, route: route.id, namespace, event, user, reason }, 'refused a Socket.IO event')
    },
    close() {
      leavePlace?.()
      for (const handle of handles.values()) handle.close()
      handles.clear()
      rights.clear()
    }
  }
}

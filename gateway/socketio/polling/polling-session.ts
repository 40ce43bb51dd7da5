// Opens a Socket.IO session over polling, on the instance that began it or on one that adopts it.
import { BadRequest, GatewayError } from '../../errors.ts'
import type { Session, SessionEnd } from '../session.ts'
import type { SessionSource } from '../session-source.ts'
import { createShare, type PollingShare } from '../share.ts'
import type { SidSource } from '../sid-store.ts'
import type { SocketIoForwarding } from './polling-parts.ts'
import { createPollingTransport, type PollingTransport } from './polling-transport.ts'

export interface PollingSession {
  readonly session: Session
  readonly polling: PollingTransport
  readonly share: PollingShare | undefined
  readonly sessionMs: number
  lastSeen: number
  /** Dropped here, while other instances may still serve it. */
  isElsewhere: boolean
  /** Ends the WebSocket that is being tried; `isFinal`: at once, as the access has ended. */
  endProbe: (isFinal: boolean) => void
}

/** A stray request of the transport that the session has left; the session is not affected. */
export const upgradedAlready = () => new BadRequest({ reason: 'upgraded-already' })

/** @param start begins the session itself; its `onOver` receives how it ended */
export const openPollingSession = (
  forwarding: SocketIoForwarding,
  sid: string,
  source: SessionSource,
  record: SidSource,
  start: (source: SessionSource, onOver: (end: SessionEnd) => void) => Session
): PollingSession => {
  const { now } = forwarding
  const { shared } = forwarding.sidStore
  const release = forwarding.streams.admit({ upstream: source.upstream, userId: undefined, ip: source.ipKey })
  if (release instanceof GatewayError) throw release
  const session = start(source, ({ from, isFinal }) => {
    release()
    // Kept until the sweep, because its last packet may still wait for a poll.
    entry.lastSeen = now()
    // A probe of the other transport ends together with its session.
    if (from !== 'websocket') entry.endProbe(isFinal)
    if (!entry.isElsewhere) shared?.remove(sid).catch(() => undefined)
  })
  const letGo = () => {
    entry.isElsewhere = true
    session.leave()
    polling.letGo()
    throw upgradedAlready()
  }
  const share = shared && createShare(shared, { sid, session, pollMs: record.pollMs, letGo })
  const polling = createPollingTransport({ forwarding, sid, session, record, share })
  session.poll(polling.carrier, record.createdAt)
  if (shared !== undefined) session.claimBy(namespace => shared.dropNamespace(sid, namespace))
  const entry: PollingSession = {
    session,
    polling,
    share,
    sessionMs: record.sessionMs,
    lastSeen: now(),
    endProbe: () => undefined,
    isElsewhere: false
  }
  return entry
}

// Keeps the Socket.IO sessions that this instance knows: bounded while they have proved nothing, found by their sid, swept.
import { BadRequest, GatewayError, RateLimited } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { forwardedPath, type Route, type Target, type Upstream } from '../routes/route.ts'
import { requestRulesOf } from '../upstream/headers/header-rules.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import { ownText } from '../values/own-text.ts'
import type { SocketForwarding } from '../websocket/forward.ts'
import type { Relay } from '../websocket/relay.ts'
import type { Phase } from './life.ts'
import type { PollingForwarding } from './polling/client-fields.ts'
import { createPollingTransport, type PollingTransport } from './polling/polling-transport.ts'
import { createSession, isProving, type Session, type SessionParts, type SessionSource } from './session.ts'
import { createShare, type PollingShare, storeAway } from './share.ts'
import { hashId, type SidSource } from './sid-store.ts'

export interface SocketIoForwarding extends SocketForwarding, SessionParts, Pick<PollingForwarding, 'pollHeaders'> {
  readonly upstreams: Upstreams
  /** `[name, value, …]` on the gateway's own answers. */
  readonly ownHeaders: (exchange: Exchange) => readonly string[]
}

export interface PollingSession {
  readonly session: Session
  readonly polling: PollingTransport
  readonly share: PollingShare | undefined
  readonly sessionMs: number
  lastSeen: number
  /** Let go of here, while other instances may still serve it. */
  isElsewhere: boolean
  /** The WebSocket that is tried, or carries it. */
  relay: Relay | undefined
}

const FAREWELL_MS = 5000
/** Requests carry the session. */
const POLLED: ReadonlySet<Phase> = new Set(['polling', 'probing'])
/** Sessions of one address without an open namespace. */
const MAX_UNPROVEN_PER_IP = 20

export const unknownSid = () => new BadRequest({ reason: 'unknown-sid' })
/** A stray request of the transport that the session has left; it costs the session nothing. */
export const upgradedAlready = () => new BadRequest({ reason: 'upgraded-already' })

export const sourceOf = (exchange: Exchange, route: Route, upstream: Upstream, target: Target): SessionSource => ({
  route,
  upstream,
  target,
  path: ownText(exchange.path),
  requestId: ownText(exchange.requestId),
  ip: exchange.client.address,
  ipKey: exchange.client.key
})

/** The head of the gateway's own farewell to an upstream. */
const ownHead = ({ route, upstream, path, target, requestId }: SessionSource, sid: string, length: number): string =>
  `POST ${forwardedPath(route, path)}?EIO=4&transport=polling&sid=${sid} HTTP/1.1\r\nhost: ${target.authority}\r\n` +
  `content-type: text/plain;charset=UTF-8\r\ncontent-length: ${length}\r\nx-request-id: ${requestId}\r\n` +
  `${requestRulesOf(upstream)?.lines ?? ''}\r\n`

export interface SocketIoSessions {
  /** Counts a handshake of this address; throws when it has too many sessions that proved nothing. Returns how to stop counting it. */
  enterUnproven(ipKey: string): () => void
  /** @param onOver is given the phase that its end ended */
  start(source: SessionSource, onOver: (from: Phase) => void): Session
  /** Makes a polling session known on this instance. */
  hold(sid: string, source: SessionSource, record: SidSource): PollingSession
  isHeld(sid: string): boolean
  /** The session of a sid, as its last request left it, wherever that was. */
  known(exchange: Exchange, route: Route, upstream: Upstream, sid: string): Promise<PollingSession>
  /** Ends sessions that did not prove themselves, and forgets those that are no longer polled. */
  sweep(): void
  close(): void
}

export const createSocketIoSessions = (forwarding: SocketIoForwarding): SocketIoSessions => {
  const { now } = forwarding
  const { shared } = forwarding.sidStore
  const polled = new Map<string, PollingSession>()
  /** Hashes of the sids in `polled`, for mail from other instances. */
  const hashed = new Map<string, string>()
  const sessions = new Set<Session>()
  // Counted from before the handshake, so that a burst can't pass all at once.
  const unproven = new Map<string, number>()

  const enterUnproven = (ipKey: string) => {
    const count = unprovenOf(ipKey)
    if (count >= MAX_UNPROVEN_PER_IP)
      throw new RateLimited({ reason: 'unproven-sessions', headers: { 'retry-after': '10' } })
    unproven.set(ipKey, (unproven.get(ipKey) ?? 0) + 1)
    return () => {
      const left = (unproven.get(ipKey) ?? 1) - 1
      if (left === 0) unproven.delete(ipKey)
      else unproven.set(ipKey, left)
    }
  }

  /** Handshakes under way and sessions that have proved nothing. */
  const unprovenOf = (ipKey: string): number => {
    let count = unproven.get(ipKey) ?? 0
    for (const session of sessions) if (session.source.ipKey === ipKey && isProving(session)) count++
    return count
  }

  const start = (source: SessionSource, onOver: (from: Phase) => void): Session => {
    const session = createSession(forwarding, source, (over, from) => {
      sessions.delete(over)
      onOver(from)
    })
    sessions.add(session)
    return session
  }

  const hold = (sid: string, source: SessionSource, record: SidSource): PollingSession => {
    const release = forwarding.streams.admit({ upstream: source.upstream, userId: undefined, ip: source.ipKey })
    if (release instanceof GatewayError) throw release
    const session = start(source, from => {
      release()
      // Kept until the sweep: its last word may still wait for a poll.
      entry.lastSeen = now()
      // A probe of the other transport ends with the session that it probes for.
      if (from !== 'websocket') entry.relay?.end({ code: 1008, reason: '' })
      if (!entry.isElsewhere) shared?.remove(sid).catch(() => undefined)
    })
    const letGo = () => {
      entry.isElsewhere = true
      session.leave()
      throw upgradedAlready()
    }
    const share = shared && createShare(shared, { sid, session, pollMs: record.pollMs, letGo })
    const polling = createPollingTransport({
      forwarding,
      session,
      share,
      fields: record.fields,
      pollMs: record.pollMs,
      ownHead: length => ownHead(source, sid, length),
      onViolation: session.violate
    })
    session.poll(polling.carrier, record.createdAt)
    if (shared !== undefined) session.claimBy(namespace => shared.dropNamespace(sid, namespace))
    const entry: PollingSession = {
      session,
      polling,
      share,
      sessionMs: record.sessionMs,
      lastSeen: now(),
      relay: undefined,
      isElsewhere: false
    }
    polled.set(sid, entry)
    if (shared !== undefined) hashed.set(hashId(sid), sid)
    return entry
  }

  const forget = (sid: string) => {
    polled.delete(sid)
    hashed.delete(hashId(sid))
  }

  const known = async (exchange: Exchange, route: Route, upstream: Upstream, sid: string): Promise<PollingSession> => {
    const local = polled.get(sid)
    if (local !== undefined) {
      if (local.session.source.route.id !== route.id) throw unknownSid()
      if (local.session.life.phase === 'websocket') throw upgradedAlready()
      local.lastSeen = now()
      if (!local.session.isOver) await local.share?.reload()
      return local
    }
    const record = await shared?.load(sid).catch(storeAway)
    const target = upstream.targets.find(({ url }) => url === record?.target)
    if (record === undefined || target === undefined || record.routeId !== route.id) throw unknownSid()
    if (record.upgraded) throw upgradedAlready()
    const taken = polled.get(sid) ?? hold(sid, sourceOf(exchange, route, upstream, target), record)
    try {
      await taken.share?.reload()
    } catch (error) {
      // A right in it has ended while this instance did not know of it.
      taken.session.end(4401)
      throw error
    }
    return taken
  }

  const sweep = () => {
    const at = now()
    for (const session of [...sessions]) {
      if (at >= session.life.proveUntil && isProving(session)) void endUnproven(session)
    }
    for (const [sid, entry] of polled) {
      const { session, sessionMs, lastSeen } = entry
      if (session.isOver && at - lastSeen > FAREWELL_MS) forget(sid)
      else if (POLLED.has(session.life.phase) && at - lastSeen > sessionMs) {
        // Another instance may have its requests now.
        entry.isElsewhere = shared !== undefined
        session.leave()
      }
    }
  }

  /** Where instances share sessions, another may have proved this one. */
  const endUnproven = async (session: Session) => {
    const entry = [...polled.values()].find(other => other.session === session)
    await entry?.share?.reload().catch(() => undefined)
    if (isProving(session)) session.end(1008)
  }

  shared?.onMail(hash => polled.get(hashed.get(hash) ?? '')?.polling.onMail())

  return {
    enterUnproven,
    start,
    hold,
    isHeld: sid => polled.has(sid),
    known,
    sweep,
    close() {
      for (const session of [...sessions]) session.end(1001)
    }
  }
}

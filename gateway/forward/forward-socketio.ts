// A Socket.IO route passes well-formed Engine.IO requests in sessions that prove themselves in time, and nothing else.
import type { Duplex } from 'node:stream'
import { BadRequest, GatewayError, Internal, MethodNotAllowed, RateLimited, Unavailable } from '../errors.ts'
import type { Exchange } from '../exchange.ts'
import { hasBody } from '../request-head.ts'
import type { Route, Target, Upstream } from '../routes/route.ts'
import { readHandshake } from './engineio-handshake.ts'
import { type EngineRequest, readEngineQuery } from './engineio-request.ts'
import {
  joinSockets,
  openUpstream,
  type SocketForwarding,
  switchClient,
  targetsInTurn,
  type UpgradeRequest
} from './forward-websocket.ts'
import { hashId, type SidOrigin } from './sid-store.ts'
import {
  clientFields,
  createPollingTransport,
  type PollingShare,
  type PollingTransport,
  readBody
} from './socketio-polling.ts'
import {
  createSession,
  isProving,
  PROVE_MS,
  type Session,
  type SessionOrigin,
  type SessionParts,
  UNPROVEN_BYTES
} from './socketio-session.ts'
import { createShare, storeAway } from './socketio-share.ts'
import { createWebSocketTransport } from './socketio-websocket.ts'
import { type Answer, callUpstream } from './upstream-call.ts'
import type { Upstreams } from './upstreams.ts'
import type { OpenUpstream } from './websocket-dial.ts'
import { fieldValues, judgeClientHandshake } from './websocket-handshake.ts'
import type { Relay } from './websocket-relay.ts'

export interface SocketIoForwarding extends SocketForwarding, SessionParts {
  readonly upstreams: Upstreams
  /** `[name, value, …]` on the gateway's own answers. */
  readonly ownHeaders: (exchange: Exchange) => readonly string[]
  readonly limits?: {
    /** Sessions of one address without an open namespace. */
    readonly unprovenPerIp?: number
  }
}

export interface ForwardSocketIo {
  onRequest(exchange: Exchange, route: Route, upstream: Upstream): void
  onUpgrade(exchange: Exchange, route: Route, upstream: Upstream, socket: Duplex, head: Buffer): void
  /** Ends sessions that did not prove themselves, and forgets those nobody polls any more; runs by itself every second. */
  sweep(): void
  readonly size: number
  close(): void
}

interface PollingSession {
  readonly session: Session
  readonly polling: PollingTransport
  readonly share: PollingShare | undefined
  readonly sessionMs: number
  lastSeen: number
  /** Let go of here, while other instances may still serve it. */
  isElsewhere: boolean
  /** An upgrade of it is under way or done. */
  relay: Relay | undefined
  upgrading: boolean
  /** The WebSocket carries the session. */
  isTakenOver: boolean
}

const SWEEP_MS = 1000
const FAREWELL_MS = 5000
const MAX_UNPROVEN_PER_IP = 20
const HANDSHAKE_BYTES = 64 * 1024
const PLAIN_TEXT = /^text\/plain\s*(?:;|$)/i
// Bodies are read here, so they must come as they are; the rest belongs to one hop or one transport.
const REWRITTEN: ReadonlySet<string> = new Set(['accept-encoding', 'content-length', 'range', 'if-none-match'])

/** Bodies are read here, so they must come as text, uncoded. */
const judgeBodyFields = ({ req }: Exchange) => {
  const type = req.headers['content-type']
  if ((type !== undefined && !PLAIN_TEXT.test(type)) || req.headers['content-encoding'] !== undefined) {
    throw new BadRequest({ reason: 'content-type' })
  }
}

export const createForwardSocketIo = (forwarding: SocketIoForwarding): ForwardSocketIo => {
  const { now, refuse } = forwarding
  const { shared } = forwarding.sidStore
  const maxUnproven = forwarding.limits?.unprovenPerIp ?? MAX_UNPROVEN_PER_IP
  const polled = new Map<string, PollingSession>()
  /** Hashes of the sids in `polled`, for mail from other instances. */
  const hashed = new Map<string, string>()
  const sessions = new Set<Session>()
  // Counted from before the handshake, so that a burst can't pass all at once.
  const unproven = new Map<string, number>()

  const originOf = (exchange: Exchange, route: Route, upstream: Upstream, target: Target): SessionOrigin => ({
    route,
    upstream,
    target,
    path: exchange.path,
    requestId: exchange.requestId,
    ip: exchange.client.address,
    ipKey: exchange.client.key
  })

  const enterUnproven = (ipKey: string) => {
    const count = unprovenOf(ipKey)
    if (count >= maxUnproven) throw new RateLimited({ reason: 'unproven-sessions', headers: { 'retry-after': '10' } })
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
    for (const session of sessions) if (session.origin.ipKey === ipKey && isProving(session)) count++
    return count
  }

  const startSession = (origin: SessionOrigin, onOver: () => void): Session => {
    const session = createSession(forwarding, origin, over => {
      sessions.delete(over)
      onOver()
    })
    sessions.add(session)
    return session
  }

  const fail = (exchange: Exchange, error: unknown) => {
    exchange.underway = undefined
    refuse(exchange, error instanceof GatewayError ? error : new Internal({ cause: error, reason: 'socketio' }))
  }

  // Polling

  const headFor = (exchange: Exchange, route: Route, target: Target, length?: number): string =>
    forwarding.headStart(exchange, route, target.authority, REWRITTEN) +
    (length === undefined ? '\r\n' : `content-length: ${length}\r\n\r\n`)

  const handshake = async (exchange: Exchange, route: Route, upstream: Upstream) => {
    const leaveUnproven = enterUnproven(exchange.client.key)
    try {
      const { answer, target } = await firstAnswer(exchange, route, upstream)
      if (exchange.res.destroyed) return
      await openPolling(exchange, originOf(exchange, route, upstream, target), answer)
    } finally {
      leaveUnproven()
    }
  }

  const firstAnswer = async (exchange: Exchange, route: Route, upstream: Upstream) => {
    const targets = targetsInTurn(upstream)
    for (const [index, target] of targets.entries()) {
      const call = callUpstream(forwarding.upstreams, {
        upstream,
        target,
        method: 'GET',
        head: headFor(exchange, route, target),
        body: undefined,
        timeoutMs: route.timeoutMs ?? upstream.timeoutMs,
        maxBytes: HANDSHAKE_BYTES
      })
      try {
        return { answer: await call.answer, target }
      } catch (error) {
        const isUnreachable = error instanceof GatewayError && error.reason === 'upstream-unreachable'
        if (!isUnreachable || index === targets.length - 1) throw error
      }
    }
    throw new Unavailable({ reason: 'no-target' })
  }

  const openPolling = async (exchange: Exchange, origin: SessionOrigin, { head, body }: Answer) => {
    const opened = head.status === 200 ? readHandshake(body.toString('utf8')) : undefined
    const { route, target } = origin
    const fields = clientFields(head, forwarding, origin)
    const { res } = exchange
    if (opened === undefined || polled.has(opened.sid)) {
      const status = head.status >= 400 ? head.status : 502
      res.writeHead(status, [...fields, ...forwarding.addedHeaders(exchange), 'content-length', '0']).end()
      return
    }
    const { sid, sessionMs, pollMs } = opened
    const record: SidOrigin = { routeId: route.id, target: target.url, createdAt: now(), sessionMs, pollMs, fields }
    hold(sid, origin, record)
    if (shared !== undefined) await shared.create(sid, record).catch(storeAway)
    const type = ['content-type', 'text/plain; charset=UTF-8', 'content-length', String(body.length)]
    res.writeHead(200, [...fields, ...cookiesOf(head), ...forwarding.addedHeaders(exchange), ...type]).end(body)
  }

  /** Makes a polling session known on this instance. */
  const hold = (sid: string, origin: SessionOrigin, record: SidOrigin): PollingSession => {
    const release = forwarding.streams.admit({ userId: undefined, ip: origin.ipKey })
    const session = startSession(origin, () => {
      release()
      // Kept until the sweep: its last word may still wait for a poll.
      entry.lastSeen = now()
      // A probe of the other transport ends with the session that it probes for.
      if (!entry.isTakenOver) entry.relay?.end({ code: 1008, reason: '' })
      if (!entry.isElsewhere) shared?.remove(sid).catch(() => undefined)
    })
    session.proveUntil = record.createdAt + PROVE_MS
    const share = shared && createShare(shared, sid, session, record.pollMs)
    const polling = createPollingTransport({
      forwarding,
      session,
      share,
      fields: record.fields,
      pollMs: record.pollMs,
      ownHead: length => ownHead(origin, sid, length),
      onViolation: () => session.end(1008)
    })
    session.carrier = polling.carrier
    if (shared !== undefined) session.claim = namespace => shared.dropNamespace(sid, namespace)
    const entry: PollingSession = {
      session,
      polling,
      share,
      sessionMs: record.sessionMs,
      lastSeen: now(),
      relay: undefined,
      upgrading: false,
      isTakenOver: false,
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

  /** An affinity cookie of the backend's own, given with the handshake alone. */
  const cookiesOf = ({ headers }: Answer['head']): string[] =>
    fieldValues(headers, 'set-cookie')
      .filter(cookie => !forwarding.ownCookies.has((cookie.split('=', 1)[0] ?? '').trim()))
      .flatMap(cookie => ['set-cookie', cookie])

  /** The head of the gateway's own farewell to an upstream. */
  const ownHead = ({ path, target, requestId }: SessionOrigin, sid: string, length: number): string =>
    `POST ${path}?EIO=4&transport=polling&sid=${sid} HTTP/1.1\r\nhost: ${target.authority}\r\n` +
    `content-type: text/plain;charset=UTF-8\r\ncontent-length: ${length}\r\nx-request-id: ${requestId}\r\n\r\n`

  const unknown = () => new BadRequest({ reason: 'unknown-sid' })

  /** The session of a sid, as its last request left it, wherever that was. */
  const known = async (exchange: Exchange, route: Route, upstream: Upstream, sid: string): Promise<PollingSession> => {
    const local = polled.get(sid)
    if (local !== undefined) {
      if (local.session.origin.route.id !== route.id) throw unknown()
      local.lastSeen = now()
      if (!local.session.over) await local.share?.reload()
      return local
    }
    const record = await shared?.load(sid).catch(storeAway)
    const target = upstream.targets.find(({ url }) => url === record?.target)
    if (record === undefined || target === undefined || record.routeId !== route.id) throw unknown()
    const taken = polled.get(sid) ?? hold(sid, originOf(exchange, route, upstream, target), record)
    try {
      await taken.share?.reload()
    } catch (error) {
      // A right in it has ended while nobody here knew of it.
      taken.session.end(4401)
      throw error
    }
    return taken
  }

  const poll = async (exchange: Exchange, route: Route, upstream: Upstream, sid: string) => {
    const { polling, session } = await known(exchange, route, upstream, sid)
    if (session.over && !polling.hasMail) throw unknown()
    if (exchange.res.destroyed) return
    polling.get(exchange, headFor(exchange, route, session.origin.target))
  }

  const post = async (exchange: Exchange, route: Route, upstream: Upstream, sid: string) => {
    const { polling, session } = await known(exchange, route, upstream, sid)
    if (session.over) throw unknown()
    const maxBytes = route.socketio?.maxMessageBytes ?? 1_000_000
    const limit = session.proven ? maxBytes : Math.min(maxBytes, UNPROVEN_BYTES - session.unprovenBytes)
    try {
      judgeBodyFields(exchange)
      const body = await readBody(exchange, limit)
      if (session.over) throw unknown()
      if (!session.proven) session.unprovenBytes += body.length
      await polling.post(exchange, length => headFor(exchange, route, session.origin.target, length), body)
    } catch (error) {
      // What can't be judged ends the session: the upstream must not be left with half of it.
      session.end(1008)
      throw error
    }
  }

  const request = (exchange: Exchange, route: Route, upstream: Upstream): void | Promise<void> => {
    const { req, head } = exchange
    const asked = readEngineQuery(exchange.query)
    if (req.method !== 'GET' && req.method !== 'POST') {
      throw new MethodNotAllowed({ reason: 'engineio-method', headers: { allow: 'GET, POST' } })
    }
    if (asked?.transport !== 'polling') throw new BadRequest({ reason: 'engineio-query' })
    if (req.method === 'POST') {
      if (asked.sid === undefined) throw new BadRequest({ reason: 'engineio-handshake' })
      return post(exchange, route, upstream, asked.sid)
    }
    if (hasBody(head)) throw new BadRequest({ reason: 'engineio-body' })
    return asked.sid === undefined ? handshake(exchange, route, upstream) : poll(exchange, route, upstream, asked.sid)
  }

  // WebSocket

  const join = (
    session: Session,
    sockets: { request: UpgradeRequest; open: OpenUpstream; target: Target; head: Buffer; leave: () => void },
    taken: PollingSession | undefined
  ) => {
    const { request, open, target, head, leave } = sockets
    const onViolation = taken === undefined ? () => session.end(1008) : violationOf(session, taken)
    let relay: Relay | undefined
    const transport = createWebSocketTransport({
      session,
      relay: () => relay,
      onViolation,
      beforeUpgrade: taken?.share?.takeOver,
      onUpgraded: taken && (() => takeOver(session, taken, transport.carrier))
    })
    if (taken === undefined) session.carrier = transport.carrier
    switchClient(forwarding, request, open, target)
    joinSockets(
      forwarding.relays,
      {
        client: request.socket,
        upstream: open.socket,
        maxMessageBytes: request.route.socketio?.maxMessageBytes ?? 1_000_000,
        idleTimeoutMs: 0,
        onMessage: transport.onMessage,
        onClosed() {
          leave()
          if (session.carrier === transport.carrier) session.leave()
          if (taken !== undefined) taken.upgrading = false
        }
      },
      open,
      head,
      joined => {
        relay = joined
        if (taken !== undefined) taken.relay = joined
      }
    )
  }

  /** Before the upgrade is complete only the new transport is at fault. */
  const violationOf = (session: Session, taken: PollingSession) => () => {
    if (session.carrier !== taken.polling.carrier) return session.end(1008)
    taken.relay?.end({ code: 1008, reason: '' })
  }

  const takeOver = (session: Session, taken: PollingSession, carrier: Session['carrier']) => {
    if (session.over || carrier === undefined) return taken.relay?.end({ code: 1008, reason: '' })
    session.carrier = carrier
    taken.isTakenOver = true
    taken.polling.divertTo(packets => carrier.toClient(packets))
  }

  const upgradeKnown = async (request: UpgradeRequest, sid: string, head: Buffer) => {
    const taken = await known(request.exchange, request.route, request.upstream, sid)
    if (request.exchange.res.destroyed) return
    const { session } = taken
    if (session.over) throw new BadRequest({ reason: 'unknown-sid' })
    if (taken.upgrading || session.carrier !== taken.polling.carrier)
      throw new BadRequest({ reason: 'upgrading-already' })
    taken.upgrading = true
    const leave = () => {
      taken.upgrading = false
    }
    const sticky = { ...request, targets: [session.origin.target] }
    openUpstream(
      forwarding,
      sticky,
      (open, target) => {
        if (session.over) throw new BadRequest({ reason: 'unknown-sid' })
        join(session, { request: sticky, open, target, head, leave: () => undefined }, taken)
      },
      leave
    )
  }

  const upgradeNew = (request: UpgradeRequest, head: Buffer) => {
    const { exchange, route, upstream } = request
    const leaveUnproven = enterUnproven(exchange.client.key)
    let release: (() => void) | undefined
    let left = false
    const leaveOnce = () => {
      if (!left) leaveUnproven()
      left = true
      release?.()
    }
    try {
      release = forwarding.streams.admit({ userId: undefined, ip: exchange.client.key })
    } catch (error) {
      leaveOnce()
      throw error
    }
    openUpstream(
      forwarding,
      request,
      (open, target) => {
        const session = startSession(originOf(exchange, route, upstream, target), () => undefined)
        if (!left) leaveUnproven()
        left = true
        join(session, { request, open, target, head, leave: leaveOnce }, undefined)
      },
      leaveOnce
    )
  }

  const upgrade = (exchange: Exchange, route: Route, upstream: Upstream, socket: Duplex, head: Buffer) => {
    const wrong = judgeClientHandshake(exchange)
    if (wrong !== undefined) throw wrong
    const asked: EngineRequest | undefined = readEngineQuery(exchange.query)
    if (asked?.transport !== 'websocket') throw new BadRequest({ reason: 'engineio-query' })
    const offer = { subprotocols: [], bearerOffered: false }
    const targets = asked.sid === undefined ? targetsInTurn(upstream) : []
    const request: UpgradeRequest = { exchange, route, upstream, socket, offer, targets }
    if (asked.sid === undefined) upgradeNew(request, head)
    else upgradeKnown(request, asked.sid, head).catch(error => fail(exchange, error))
  }

  const sweep = () => {
    const at = now()
    for (const session of [...sessions]) {
      if (at >= session.proveUntil && isProving(session)) void endUnproven(session)
    }
    for (const [sid, entry] of polled) {
      const { session, sessionMs, lastSeen, polling } = entry
      if (session.over && at - lastSeen > FAREWELL_MS) forget(sid)
      else if (!session.over && session.carrier === polling.carrier && at - lastSeen > sessionMs) {
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
  const timer = setInterval(sweep, SWEEP_MS)
  timer.unref()

  return {
    onRequest(exchange, route, upstream) {
      try {
        const pending = request(exchange, route, upstream)
        if (pending !== undefined) pending.catch(error => fail(exchange, error))
      } catch (error) {
        fail(exchange, error)
      }
    },
    onUpgrade(exchange, route, upstream, socket, head) {
      try {
        upgrade(exchange, route, upstream, socket, head)
      } catch (error) {
        fail(exchange, error)
      }
    },
    sweep,
    get size() {
      return sessions.size
    },
    close() {
      clearInterval(timer)
      for (const session of [...sessions]) session.end(1001)
    }
  }
}

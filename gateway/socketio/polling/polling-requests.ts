// Passes handshakes, polls and posts of a Socket.IO route to the session that they name.
import { BadRequest, GatewayError, MethodNotAllowed, Unavailable } from '../../errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { hasBody } from '../../http/head.ts'
import { readBody } from '../../http/read-body.ts'
import { fieldValue, fieldValues } from '../../http/server/request.ts'
import type { Route } from '../../routes/route.ts'
import type { Target, Upstream } from '../../routes/upstream.ts'
import { callUpstream, type UpstreamAnswer } from '../../upstream/call.ts'
import { clientHeadFields, type ResponseContext } from '../../upstream/headers/client-head.ts'
import { bytesLeft } from '../life.ts'
import { isEnginePath, readEngineQuery, readHandshake } from '../protocol/engineio-handshake.ts'
import { endAfter } from '../session.ts'
import { type SessionSource, sourceOf } from '../session-source.ts'
import { type SocketIoSessions, unknownSid } from '../sessions.ts'
import { storeAway } from '../share.ts'
import type { SidSource } from '../sid-store.ts'
import { answerFailure, answerText, clientFields } from './answers.ts'
import type { SocketIoForwarding } from './polling-parts.ts'
import { upgradedAlready } from './polling-session.ts'

const BODY_MS = 30_000
const HANDSHAKE_BYTES = 64 * 1024
const PLAIN_TEXT = /^text\/plain\s*(?:;|$)/i
// Bodies are read here, so they must be uncompressed; the other fields belong to one hop or one transport.
const REWRITTEN: ReadonlySet<string> = new Set(['accept-encoding', 'content-length', 'range', 'if-none-match'])

/** Bodies are read here, so they must be uncompressed text. */
const judgeBodyFields = ({ request: { fields } }: Exchange) => {
  const type = fieldValue(fields, 'content-type')
  if ((type !== undefined && !PLAIN_TEXT.test(type)) || fieldValue(fields, 'content-encoding') !== undefined) {
    throw new BadRequest({ reason: 'content-type' })
  }
}

/** Throws a refusal, or rejects with one. */
export const createPollingRequests = (forwarding: SocketIoForwarding, sessions: SocketIoSessions) => {
  const { now } = forwarding
  const { shared } = forwarding.sidStore

  const headFor = (exchange: Exchange, route: Route, target: Target, length?: number): string => {
    const framing = length === undefined ? '' : `content-length: ${length}\r\n`
    return `${forwarding.headStart(exchange, route, target.authority, REWRITTEN, framing)}\r\n`
  }

  const handshake = async (exchange: Exchange, route: Route, upstream: Upstream) => {
    const leaveUnproven = sessions.enterUnproven(exchange.client.key)
    try {
      const { answer, target } = await firstAnswer(exchange, route, upstream)
      if (exchange.response.isGone) return
      await openPolling(exchange, sourceOf(exchange, route, upstream, target), answer)
    } finally {
      leaveUnproven()
    }
  }

  const firstAnswer = async (exchange: Exchange, route: Route, upstream: Upstream) => {
    const targets = forwarding.upstreams.poolOf(upstream).inTurn()
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

  const openPolling = async (exchange: Exchange, source: SessionSource, { head, body }: UpstreamAnswer) => {
    const opened = head.status === 200 ? readHandshake(body.toString('utf8')) : undefined
    const { route, target, upstream } = source
    if (opened === undefined || sessions.isHeld(opened.sid)) return answerFailure(exchange, forwarding, source, head)
    const { sid, sessionMs, pollMs } = opened
    const fields = clientFields(head, forwarding, source)
    const record: SidSource = { routeId: route.id, target: target.url, createdAt: now(), sessionMs, pollMs, fields }
    const { session } = sessions.hold(sid, source, record)
    const abandon = (cause: unknown): never => {
      session.end(1001)
      return storeAway(cause)
    }
    if (shared !== undefined) await shared.create(sid, record).catch(abandon)
    const cookies = cookiesOf(head, forwarding.responseContext(route, upstream, exchange.host))
    answerText(exchange, forwarding, [...fields, ...cookies], body)
  }

  /** An affinity cookie of the backend, set only in the handshake. */
  const cookiesOf = (head: UpstreamAnswer['head'], context: ResponseContext): string[] =>
    fieldValues(clientHeadFields(head, context), 'set-cookie').flatMap(cookie => ['set-cookie', cookie])

  const poll = async (exchange: Exchange, route: Route, upstream: Upstream, sid: string) => {
    const { polling, session } = await sessions.known(exchange, route, upstream, sid)
    if (session.isOver && !polling.hasMail) throw unknownSid()
    if (exchange.response.isGone) return
    polling.get(exchange, headFor(exchange, route, session.source.target))
  }

  const post = async (exchange: Exchange, route: Route, upstream: Upstream, sid: string) => {
    const { polling, session } = await sessions.known(exchange, route, upstream, sid)
    if (session.isOver) throw unknownSid()
    const maxBytes = route.socketio?.maxMessageBytes ?? 1_000_000
    const limit = Math.min(maxBytes, bytesLeft(session.life))
    try {
      judgeBodyFields(exchange)
      const body = await readBody(exchange, { maxBytes: limit, timeoutMs: BODY_MS })
      if (session.isOver) throw unknownSid()
      if (session.life.phase === 'websocket') throw upgradedAlready()
      session.takeBytes(body.length)
      await polling.post(exchange, length => headFor(exchange, route, session.source.target, length), body)
    } catch (error) {
      // A body that cannot be checked ends the session, so that the upstream is not left with half of it.
      if (session.life.phase !== 'websocket') endAfter(session, error, 1008)
      throw error
    }
  }

  return (exchange: Exchange, route: Route, upstream: Upstream): void | Promise<void> => {
    const { request, head } = exchange
    if (!isEnginePath(route, exchange.path)) throw new BadRequest({ reason: 'engineio-path' })
    const asked = readEngineQuery(exchange.query)
    if (request.method !== 'GET' && request.method !== 'POST') {
      throw new MethodNotAllowed({ reason: 'engineio-method', headers: { allow: 'GET, POST' } })
    }
    if (asked?.transport !== 'polling') throw new BadRequest({ reason: 'engineio-query' })
    if (request.method === 'POST') {
      if (asked.sid === undefined) throw new BadRequest({ reason: 'engineio-handshake' })
      return post(exchange, route, upstream, asked.sid)
    }
    if (hasBody(head)) throw new BadRequest({ reason: 'engineio-body' })
    return asked.sid === undefined ? handshake(exchange, route, upstream) : poll(exchange, route, upstream, asked.sid)
  }
}

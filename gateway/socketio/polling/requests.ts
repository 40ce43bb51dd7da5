// Passes handshakes, polls and posts of a Socket.IO route to the sessions that they name, in whichever process those are.
import { BadRequest, MethodNotAllowed } from '../../errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { readBody } from '../../http/own-endpoints.ts'
import { fieldValue, fieldValues, hasBody } from '../../http/request.ts'
import type { SocketIoRoute } from '../../routes/route.ts'
import { engineFault } from '../../routes/socketio-rules.ts'
import type { Upstream } from '../../routes/upstream.ts'
import { clientHeadFields } from '../../upstream/headers/client-head.ts'
import { createHolder, createHolding, type Holding, SMALL_BYTES } from '../../values/held-memory.ts'
import { endingAfter, type SocketIoForwarding, sourceOf } from '../engine-session.ts'
import type { EngineSessions } from '../engine-sessions.ts'
import { openForClient, readEngineQuery, readHandshake } from '../protocol/engineio-handshake.ts'
import { callUpstream, headTemplate } from './call-upstream.ts'
import { type PollingResponse, textResponse } from './mailbox.ts'
import type { Owners } from './owners.ts'
import { clientFields, failureResponse } from './transport.ts'

const BODY_MS = 30_000
const HANDSHAKE_BYTES = 64 * 1024
const PLAIN_TEXT = /^text\/plain\s*(?:;|$)/i
// Bodies are read here, so they must be uncompressed; the other fields belong to one hop or one transport.
const REWRITTEN: ReadonlySet<string> = new Set(['accept-encoding', 'content-length', 'range', 'if-none-match'])

const readPost = async (exchange: Exchange, maxBytes: number, holding: Holding): Promise<string> => {
  const { fields } = exchange.request
  const type = fieldValue(fields, 'content-type')
  if ((type !== undefined && !PLAIN_TEXT.test(type)) || fieldValue(fields, 'content-encoding') !== undefined)
    throw new BadRequest({ reason: 'content-type' })
  return (await readBody(exchange, { maxBytes, timeoutMs: BODY_MS, holding })).toString()
}

/** The time until an answer, which may be that of a long poll, is the upstream's. */
const timed = async <Answer>(exchange: Exchange, asked: Promise<Answer>): Promise<Answer> => {
  const askedAt = performance.now()
  const answer = await asked
  exchange.noteAnswer(performance.now() - askedAt)
  return answer
}

/** Throws a refusal, or rejects with one. */
export const createPollingRequests = (
  forwarding: SocketIoForwarding,
  engineSessions: EngineSessions,
  owners: Owners
) => {
  /** Release the polls that wait here. */
  const waiting = new Set<() => void>()
  let isDraining = false

  const headFor = (exchange: Exchange, route: SocketIoRoute): string =>
    headTemplate(exchange.request.method, (authority, framing) =>
      forwarding.headStart(exchange, route, authority, REWRITTEN, framing)
    )

  const respond = (exchange: Exchange, { status, fields, text }: PollingResponse, cookies: readonly string[] = []) => {
    exchange.underway = undefined
    const bytes = Buffer.from(text)
    const added = forwarding.pollHeaders(exchange, fields)
    const headers = [...fields, ...cookies, ...added, 'content-length', String(bytes.length)]
    exchange.response.whole({ status, headers }, bytes.toString('latin1'))
  }

  const handshake = async (exchange: Exchange, route: SocketIoRoute, upstream: Upstream) => {
    const leaveUnproven = engineSessions.enterUnproven(exchange.client.key)
    try {
      const { answer } = callUpstream(forwarding.upstreams, {
        upstream,
        method: 'GET',
        head: headFor(exchange, route),
        timeoutMs: route.timeoutMs ?? upstream.timeoutMs,
        maxBytes: HANDSHAKE_BYTES
      })
      const { target, head, body } = await timed(exchange, answer)
      if (exchange.response.isGone) return
      const source = sourceOf(exchange, route, upstream, target)
      const opened = head.status === 200 ? readHandshake(body.toString('utf8')) : undefined
      const fields = clientFields(head, forwarding, source)
      if (opened === undefined || engineSessions.held(opened.sid))
        return respond(exchange, failureResponse(head, fields))
      const { open, ...record } = opened
      engineSessions.hold(source, { ...record, fields })
      // An affinity cookie of the backend, set only in the handshake.
      const context = forwarding.responseContext(route, upstream, exchange.host)
      const cookies = fieldValues(clientHeadFields(head, context), 'set-cookie')
      respond(
        exchange,
        // What follows the open packet would be of a namespace that no one has entered.
        textResponse(fields, openForClient(open, owners.give(opened.sid), route.socketio.maxMessageBytes)),
        cookies.flatMap(cookie => ['set-cookie', cookie])
      )
    } finally {
      leaveUnproven()
    }
  }

  const poll = async (exchange: Exchange, route: SocketIoRoute, given: string) => {
    const { ask, ...named } = owners.read(exchange, route, given)
    const { sid } = named
    const release = () => void ask('releasePoll', { sid }).catch(() => undefined)
    exchange.underway = { abort: () => void ask('abandonPoll', { sid }).catch(() => undefined) }
    waiting.add(release)
    try {
      const response = timed(exchange, ask('poll', { ...named, head: headFor(exchange, route) }))
      if (isDraining) release()
      respond(exchange, await response)
    } finally {
      waiting.delete(release)
    }
  }

  const post = async (exchange: Exchange, route: SocketIoRoute, given: string) => {
    const { ask, ...named } = owners.read(exchange, route, given)
    const allowed = route.socketio.maxMessageBytes
    // Only who has proven themselves may send much, and it counts as theirs: asked before a body is read that may be long.
    const isShort = Number(exchange.head.contentLength ?? Number.NaN) <= SMALL_BYTES
    const known = isShort ? undefined : await ask('bytesLeft', named)
    const maxBytes = Math.min(allowed, known?.left ?? allowed)
    const holder = createHolder()
    if (known?.userId !== undefined) holder.belongsTo(known.userId)
    const fail = (error: unknown): never => {
      ask('failPost', { sid: named.sid, code: endingAfter(error, 1008) }).catch(() => undefined)
      throw error
    }
    const body = await readPost(exchange, maxBytes, createHolding(holder)).catch(fail)
    respond(exchange, await timed(exchange, ask('post', { ...named, head: headFor(exchange, route), body })))
  }

  /** Polls that arrived here get a noop, so that clients whose sessions are elsewhere go on there. */
  const drain = () => {
    isDraining = true
    for (const release of waiting) release()
  }

  const onRequest = (exchange: Exchange, route: SocketIoRoute, upstream: Upstream): void | Promise<void> => {
    const { request, head } = exchange
    const fault = engineFault(route, request.method, exchange.path)
    if (fault === 'engineio-path') throw new BadRequest({ reason: fault })
    if (fault === 'engineio-method') throw new MethodNotAllowed({ reason: fault, headers: { allow: 'GET, POST' } })
    const asked = readEngineQuery(exchange.query)
    if (asked?.transport !== 'polling') throw new BadRequest({ reason: 'engineio-query' })
    if (request.method === 'POST') {
      if (asked.sid === undefined) throw new BadRequest({ reason: 'engineio-handshake' })
      return post(exchange, route, asked.sid)
    }
    if (hasBody(head)) throw new BadRequest({ reason: 'engineio-body' })
    return asked.sid === undefined ? handshake(exchange, route, upstream) : poll(exchange, route, asked.sid)
  }

  return { onRequest, drain }
}

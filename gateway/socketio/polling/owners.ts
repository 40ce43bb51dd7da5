// Answers for the polling sessions of this process, and asks the processes that own others, whose ids are in their sids.
import { BadRequest, BodyTooLarge, GatewayError, Unavailable } from '../../errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { asGatewayError } from '../../http/own-responses.ts'
import { CallFailure } from '../../instances/calls.ts'
import type { Instances } from '../../instances/instances.ts'
import type { Route } from '../../routes/route.ts'
import { ownText } from '../../values/bounded-map.ts'
import { noteFault, task } from '../../values/contain.ts'
import { endingAfter, type HandedSession, type SocketIoForwarding } from '../engine-session.ts'
import { type EngineSessions, type SessionRequest, unknownSid } from '../engine-sessions.ts'
import { queryWithSid } from '../protocol/engineio-handshake.ts'
import type { PollingResponse } from './mailbox.ts'

/** Longer than any poll; a process that ends is noticed earlier. */
const ASK_MS = 2 * 60 * 60_000

/** How a WebSocket that was tried for a session ended. `broken`: its client was told that it works, and may wait for it. */
type ProbeOutcome = 'taken' | 'given-up' | 'broken'

interface ForwardedRequest extends SessionRequest {
  /** From `headTemplate`. */
  readonly head: string
}

/** Requests and results are JSON; everything rejects with a refusal. */
interface Handlers {
  poll(request: ForwardedRequest): Promise<PollingResponse>
  /** The client of the poll that waits has gone. */
  abandonPoll(request: { sid: string }): Promise<void>
  /** The process where the poll waits is ending: it gets a noop. */
  releasePoll(request: { sid: string }): Promise<void>
  /** How many bytes a client may send before it has proven itself, and whose session it is: the release before does not say whose. */
  bytesLeft(request: SessionRequest): Promise<{ left: number | null; userId?: number | undefined }>
  post(request: ForwardedRequest & { body: string }): Promise<PollingResponse>
  /** The body of a post could not be read: the session ends, so that the upstream is not left with half of it. */
  failPost(request: { sid: string; code: number }): Promise<void>
  /** A WebSocket is tried at the process `prober`. @returns the URL of the session's target */
  probe(request: SessionRequest & { prober: string }): Promise<{ target: string }>
  /** Asked of the prober; resolves when it is known. */
  probed(request: { sid: string }): Promise<{ outcome: ProbeOutcome }>
  /** Asked of the prober: the session is not to come back, and so is what is tried for it. */
  probeOver(request: { sid: string }): Promise<void>
  /** The WebSocket that was tried carries the session from now on. `packets`: what its client has not fetched. */
  takeOver(request: { sid: string }): Promise<HandedSession & { packets: string[] }>
}

type Method = keyof Handlers
type Ask = <M extends Method>(method: M, request: Parameters<Handlers[M]>[0]) => ReturnType<Handlers[M]>

export type Owners = ReturnType<typeof createOwners>

const OWNED = /^(.+)\.([0-9a-f]{8})$/

/** @param instances undefined: this process is alone, or its balancer is sticky */
export const createOwners = (instances: SocketIoForwarding['instances'], engineSessions: EngineSessions) => {
  const own = instances?.id ?? ''
  /** The WebSockets that are being tried here. */
  const trials = new Map<string, { outcome: PromiseWithResolvers<ProbeOutcome>; ended: PromiseWithResolvers<void> }>()

  const askOf =
    (id: string): Ask =>
    (method, request) => {
      if (instances === undefined || id === own) return handlers[method](request as never) as never
      return askElsewhere(instances, id, method, request) as never
    }

  /** A client that was told that its WebSocket works may neither poll nor send any more until its ping times out. */
  const awaitProbe = async (sid: string, prober: string) => {
    const { outcome } = await askOf(prober)('probed', { sid }).catch(() => ({ outcome: 'broken' }))
    const entry = engineSessions.held(sid)
    if (entry?.engineSession.phase !== 'probing') return
    entry.onEnded = undefined
    if (outcome === 'given-up') return entry.engineSession.abandonProbe()
    // Once its requests have succeeded, it would wait; if one fails, it connects again at once.
    entry.polling.failPosts()
    entry.engineSession.end(1001)
  }

  const handlers: Handlers = {
    async poll({ head, ...request }) {
      const { polling, engineSession } = engineSessions.find(request)
      if (engineSession.isOver && !polling.hasMail) throw unknownSid()
      return polling.get(head)
    },
    abandonPoll: async ({ sid }) => engineSessions.held(sid)?.polling.abandonPoll(),
    releasePoll: async ({ sid }) => engineSessions.held(sid)?.polling.releasePoll(),
    async bytesLeft(request) {
      const { engineSession } = engineSessions.find(request)
      if (engineSession.isOver) throw unknownSid()
      const left = engineSession.bytesLeft()
      return { left: Number.isFinite(left) ? left : null, userId: engineSession.state.holder.userId }
    },
    async post({ head, body, ...request }) {
      const { polling, engineSession } = engineSessions.find(request)
      if (engineSession.isOver) throw unknownSid()
      try {
        if (!engineSession.takeBytes(Buffer.byteLength(body))) throw new BodyTooLarge({ reason: 'body-too-large' })
        return await polling.post(head, body)
      } catch (error) {
        engineSession.end(endingAfter(error, 1008))
        throw error
      }
    },
    failPost: async ({ sid, code }) => engineSessions.held(sid)?.engineSession.end(code),
    async probe({ prober, ...request }) {
      const entry = engineSessions.find(request)
      const { engineSession } = entry
      if (engineSession.isOver) throw unknownSid()
      if (!engineSession.probe()) throw new BadRequest({ reason: 'upgrading-already' })
      entry.onEnded = task(() => askOf(prober)('probeOver', { sid: request.sid }))
      task(awaitProbe)(request.sid, prober)
      return { target: engineSession.source.target.url }
    },
    async probed({ sid }) {
      return { outcome: (await trials.get(sid)?.outcome.promise) ?? 'given-up' }
    },
    probeOver: async ({ sid }) => trials.get(sid)?.ended.resolve(),
    async takeOver({ sid }) {
      const entry = engineSessions.held(sid)
      if (entry?.engineSession.phase !== 'probing') throw unknownSid()
      // The upstream must not learn of the upgrade earlier: what it answers to a poll comes before what it sends by WebSocket.
      await entry.polling.last()
      if (entry.engineSession.phase !== 'probing') throw unknownSid()
      engineSessions.drop(sid)
      const packets = entry.polling.takeAll()
      return { ...entry.engineSession.handOver(), packets }
    }
  }
  for (const [method, handle] of Object.entries(handlers))
    instances?.answer(nameOf(method), (request: never) => handle(request).catch(plainRefusal))

  return {
    /** The sid for a client of a session that begins here. */
    give: (sid: string) => (instances === undefined ? sid : `${sid}.${own}`),
    /** Names the session of a request, whose query has the upstream's sid from now on, and its owner. Throws a refusal. */
    read(exchange: Exchange, route: Route, given: string): SessionRequest & { readonly ask: Ask } {
      const [, sid, id] = instances === undefined ? [given, given, own] : (OWNED.exec(given) ?? [])
      if (sid === undefined || id === undefined) throw unknownSid()
      exchange.query = queryWithSid(exchange.query, sid)
      // A socket may keep it as long as it is open.
      return { sid: ownText(sid), routeId: route.id, ip: exchange.client.address, ask: askOf(id) }
    },
    /** A WebSocket is tried here for a session: asks its owner. `ended`: the session is not to come back. */
    async tryWebSocket(ask: Ask, request: SessionRequest) {
      const { sid } = request
      if (trials.has(sid)) throw new BadRequest({ reason: 'upgrading-already' })
      const trial = { outcome: Promise.withResolvers<ProbeOutcome>(), ended: Promise.withResolvers<void>() }
      trials.set(sid, trial)
      /** The first outcome counts. */
      const settle = (outcome: ProbeOutcome) => {
        if (trials.get(sid) === trial) trials.delete(sid)
        trial.outcome.resolve(outcome)
      }
      try {
        const { target } = await ask('probe', { ...request, prober: own })
        return { target, settle, ended: trial.ended.promise }
      } catch (error) {
        settle('given-up')
        throw error
      }
    }
  }
}

const nameOf = (method: string): string => `socketio.${method}`

interface Refusal {
  readonly refusal: Pick<GatewayError, 'code' | 'message' | 'statusCode' | 'reason' | 'headers'>
}

const isRefusal = (reply: unknown): reply is Refusal =>
  typeof reply === 'object' && reply !== null && 'refusal' in reply

const plainRefusal = (error: unknown): Refusal => {
  if (!(error instanceof GatewayError)) noteFault('socketio', error)
  const { code, message, statusCode, reason, headers } = asGatewayError(error, 'socketio')
  return { refusal: { code, message, statusCode, reason, headers } }
}

const askElsewhere = async (instances: Pick<Instances, 'ask'>, id: string, method: Method, request: object) => {
  const reply = await instances.ask(id, nameOf(method), request, ASK_MS).catch(cause => {
    // A process that has ended takes its sessions with it; nothing may be allowed on a guess about one that cannot be asked.
    throw cause instanceof CallFailure && cause.reason === 'gone'
      ? unknownSid()
      : new Unavailable({ cause, reason: 'session-owner' })
  })
  if (!isRefusal(reply)) return reply
  const { code, message, statusCode, reason, headers } = reply.refusal
  throw new GatewayError(code, message, statusCode, { ...(reason === undefined ? {} : { reason }), headers })
}

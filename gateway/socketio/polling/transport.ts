// Carries a Socket.IO session by polling: every packet of every body is checked, and none is lost between polls.
import { setTimeout as delay } from 'node:timers/promises'
import { BadRequest, BadUpstreamResponse, type GatewayError, RateLimited, Unavailable } from '../../errors.ts'
import { asGatewayError } from '../../http/own-responses.ts'
import { fieldsWithout } from '../../http/request.ts'
import { clientHeadFields } from '../../upstream/headers/client-head.ts'
import { privateAnswersOf } from '../../upstream/headers/private-answers.ts'
import type { ResponseHead } from '../../upstream/parser.ts'
import { task } from '../../values/contain.ts'
import { createHolding, type Holding, TEXT_BYTES } from '../../values/held-memory.ts'
import { inParts, inTurns, type Parts } from '../../values/in-parts.ts'
import type { EngineSession, EngineSessionSource, SocketIoForwarding } from '../engine-session.ts'
import { NO_ROOM, UNDECIDED } from '../gate/gate-state.ts'
import { burstBytes, ENGINE_CLOSE, readEnginePacket, readEnginePayload, SEPARATOR } from '../protocol/engineio.ts'
import { callUpstream, ownPostHead, type PendingCall, routingLinesOf, type UpstreamAnswer } from './call-upstream.ts'
import { createMailbox, type Mailbox, type PollingResponse, textResponse } from './mailbox.ts'

const MALFORMED = 'upstream-malformed-payload'
const NOT_REPEATED = /^(?:content-.*|transfer-encoding|set-cookie|date|etag|x-request-id|x-ratelimit-.*)$/i

/** `[name, value, …]` of an upstream's response, as far as the client may see them. */
export const clientFields = (
  head: ResponseHead,
  { responseContext }: SocketIoForwarding,
  { route, upstream }: EngineSessionSource
): string[] =>
  fieldsWithout(clientHeadFields(head, responseContext(route, upstream, ''), privateAnswersOf(route)), name =>
    NOT_REPEATED.test(name)
  )

/** The upstream's own refusal, without its body; throws if it answered with something else, such as a page. */
export const failureResponse = ({ status }: ResponseHead, fields: readonly string[]): PollingResponse => {
  if (status < 400) throw new BadUpstreamResponse({ reason: MALFORMED })
  return { status, fields, text: '' }
}

/** Times in milliseconds. */
export interface PollingSource {
  /** The upstream's session id. */
  readonly sid: string
  /** How long the server keeps a session that is not polled, and how long it may hold a poll. */
  readonly sessionMs: number
  readonly pollMs: number
  /** `[name, value, …]` of the handshake's response. */
  readonly fields: readonly string[]
}

interface PollingParts {
  readonly forwarding: SocketIoForwarding
  readonly engineSession: EngineSession
  readonly record: PollingSource
}

/** A server answers its last poll as soon as a WebSocket is tried: within 100 ms, the stock one. */
const LAST_MS = 1000
/** What the session sends of its own accord when nothing else can answer a poll. */
const NOOP = '6'

export type PollingTransport = ReturnType<typeof createPollingTransport>

export const createPollingTransport = (parts: PollingParts) => {
  const { engineSession, record } = parts
  const mailbox = createMailbox(record.fields, engineSession.state.holder)
  const polls = createUpstreamPolls(parts, mailbox)
  const posts = createPollingPosts(parts, mailbox)
  let isClosed = false
  let posted = 0

  return {
    /** @param head from `headTemplate`; rejects with a refusal */
    get(head: string): Promise<PollingResponse> {
      if (mailbox.isAwaited()) {
        engineSession.violate('overlapping-polls')
        throw new BadRequest({ reason: 'overlapping-polls' })
      }
      posts.noteHead(head)
      const response = mailbox.wait()
      // After one of the gateway's own responses, the upstream's earlier poll is still in progress.
      if (mailbox.isEmpty() && !polls.isAsking()) polls.ask(head)
      else mailbox.flush()
      return response
    },
    /** The client of the poll that waits has gone. */
    abandonPoll() {
      // The upstream must see its poll aborted, as it would without a gateway in between.
      polls.abort()
      engineSession.leave()
      mailbox.refuse(new BadRequest({ reason: 'client-gone' }))
    },
    /** The poll that waits is answered, and the upstream's goes on. */
    releasePoll: () => mailbox.respond(NOOP),
    /** @param head from `headTemplate`; rejects with a refusal */
    post(head: string, payload: string): Promise<PollingResponse> {
      posted += Buffer.byteLength(payload)
      return posts.post(head, payload)
    },
    failPosts: posts.failAll,
    /** Waits for the upstream's answers to the last poll and POST. */
    last: () => Promise.race([Promise.all([polls.last(), posts.last()]), delay(LAST_MS, undefined, { ref: false })]),
    /** A WebSocket carries the session from now on: what no poll has fetched. */
    takeAll(): string[] {
      mailbox.respond(NOOP)
      // A noop or a close is about the transport of polls, which is over.
      return mailbox.packets.splice(0).filter(packet => packet !== NOOP && packet !== ENGINE_CLOSE)
    },
    /** The client will not poll again: what waits for it is no longer counted. */
    forget: mailbox.holding.close,
    /** A last packet that waits for the client's next poll. */
    get hasMail() {
      return !mailbox.isEmpty()
    },
    carrier: {
      toClient(packets: readonly string[]) {
        mailbox.put(packets)
        // What else belongs to this goes into the same response.
        if (!isClosed) queueMicrotask(task(mailbox.flush))
      },
      toUpstream: (packets: readonly string[]) => void posts.tell(packets),
      close() {
        isClosed = true
        // A stock client would process a close in the same payload before the DISCONNECT that explains it.
        if (mailbox.isEmpty()) mailbox.put([ENGINE_CLOSE])
        mailbox.flush()
        task(() => posts.tell([ENGINE_CLOSE]).then(polls.abort))()
      },
      bytes: () => posted + polls.bytes()
    }
  }
}

const TOO_LARGE = 'upstream-answer-too-large'
/** So many packets of an answer are checked before what they take is counted again. */
const COUNTED_PACKETS = 1000

/** Makes a polling session's polls to the upstream, one at a time, and checks every packet that it answers. */
const createUpstreamPolls = ({ forwarding, engineSession, record }: PollingParts, mailbox: Mailbox) => {
  const { upstream, target, route } = engineSession.source
  const maxBytes = burstBytes(route.socketio.maxMessageBytes)
  /** What has arrived of the answer to the poll. */
  const holding = createHolding(engineSession.state.holder)
  let poll: PendingCall | undefined
  /** What the upstream answered to the latest poll has been delivered. */
  let answered: Promise<void> = Promise.resolve()
  let bytes = 0

  const finish = () => {
    poll = undefined
    holding.set(0)
  }

  /** The upstream sees its poll aborted. */
  const abort = () => {
    poll?.abort()
    finish()
  }

  const fail = (error: unknown) => {
    abort()
    engineSession.leave()
    mailbox.refuse(asGatewayError(error, 'socketio'))
  }

  /** The session is over at the upstream, which is not the gateway's to explain. */
  const leave = (response: PollingResponse) => {
    finish()
    engineSession.leave()
    mailbox.settle(response)
  }

  const takeAnswer = async ({ head, body }: UpstreamAnswer) => {
    const fields = clientFields(head, forwarding, engineSession.source)
    // It is unknown or broken there: the client gets the same status and starts a new one.
    if (head.status !== 200) return leave(failureResponse(head, fields))
    mailbox.fields = fields
    bytes += body.length
    // How python-engineio ends the poll of a client that has said goodbye.
    if (body.length === 0) return leave(textResponse(fields, ''))
    const { passed, violation } = await inTurns(checkAll(engineSession, body, holding))
    finish()
    if (violation === MALFORMED || violation === TOO_LARGE) return fail(new BadUpstreamResponse({ reason: violation }))
    if (!engineSession.isOver) mailbox.put(passed)
    if (violation !== undefined) return engineSession.violate(violation)
    // The session is over there, unless a WebSocket is about to carry it.
    if (passed.includes(ENGINE_CLOSE) && engineSession.phase === 'polling') engineSession.leave()
    if (mailbox.isEmpty()) mailbox.put([NOOP])
    mailbox.flush()
  }

  return {
    ask(head: string) {
      const [method, isStream, timeoutMs] = ['GET', true, record.pollMs] as const
      const call = { upstream, target, method, head, isStream, timeoutMs, maxBytes, holding }
      poll = callUpstream(forwarding.upstreams, call)
      answered = poll.answer.then(takeAnswer).catch(fail)
    },
    isAsking: () => poll !== undefined,
    abort,
    /** Resolves when the answer to the latest poll has been delivered. */
    last: () => answered,
    bytes: () => bytes
  }
}

/** What may go on to the client, up to the first violation; in parts, because a server may send any number of packets at once. */
function* checkAll(
  engineSession: EngineSession,
  payload: Buffer,
  holding: Holding
): Parts<{ passed: string[]; violation: string | undefined }> {
  const passed: string[] = []
  let violation: string | undefined
  const check = (text: string) => {
    const packet = readEnginePacket(text)
    const checked = packet && engineSession.gate.fromUpstream(packet)
    if (checked === undefined) violation = MALFORMED
    else if (checked.verdict === 'violation') violation = checked.reason
    if (packet === undefined || checked?.verdict !== 'pass') return
    passed.push(checked.text ?? packet.text)
    for (const released of checked.released ?? []) passed.push(released)
    if (passed.length % COUNTED_PACKETS !== 0) return
    holding.set(payload.length + passed.length * TEXT_BYTES)
    if (holding.isTooMuch()) violation = TOO_LARGE
  }
  /** Not all at once: 16 MB of separators would stop everything. Not from one text: a part of it would hold all of it. */
  function* texts() {
    for (let at = 0, end = 0; end !== -1 && violation === undefined; at = end + 1) {
      end = payload.indexOf(SEPARATOR, at)
      yield payload.toString('utf8', at, end === -1 ? undefined : end)
    }
  }
  yield* inParts(texts(), check)
  return { passed, violation }
}

const MAX_ANSWER_BYTES = 64 * 1024
/** What a client may leave for later polls of the gateway's own packets, most of them refusals. */
const UNREAD_LENGTH = 1_000_000

const refusalOf = (reason: string): GatewayError =>
  reason === UNDECIDED || reason === NO_ROOM ? new Unavailable({ reason }) : new BadRequest({ reason })

/** Sends a polling session's POSTs to the upstream one after the other; a client's only if each of its packets may pass. */
const createPollingPosts = ({ forwarding, record: { sid }, engineSession }: PollingParts, mailbox: Mailbox) => {
  const { upstream, target, route } = engineSession.source
  const maxMessages = route.socketio.messagesPerSecond
  let second = 0
  let messages = 0
  /** Both the client's and the gateway's own: an overlap would end the session at the upstream. */
  let last: Promise<unknown> = Promise.resolve()
  let isClientPosting = false
  let isFailing = false
  let routingLines = ''

  const send = (packets: readonly string[], head: string, timeoutMs: number) => {
    const [method, body, maxBytes] = ['POST', Buffer.from(packets.join(SEPARATOR)), MAX_ANSWER_BYTES] as const
    const call = { upstream, target, method, head, body, timeoutMs, maxBytes }
    return callUpstream(forwarding.upstreams, call).answer
  }

  const isFlood = (count: number): boolean => {
    const now = Math.floor(performance.now() / 1000)
    messages = now === second ? messages + count : count
    second = now
    return messages > maxMessages
  }

  /** Checks a body packet by packet; a violation ends the session before any of the body is forwarded. */
  const check = (payload: string): string[] => {
    const count = payload.split(SEPARATOR, maxMessages + 1).length
    if (isFlood(count)) throw new RateLimited({ reason: 'too-many-messages', headers: { 'retry-after': '1' } })
    const packets = readEnginePayload(payload)
    if (packets === undefined) throw new BadRequest({ reason: 'malformed-payload' })
    const passed: string[] = []
    for (const packet of packets) {
      const verdict = engineSession.gate.fromClient(packet)
      if (verdict.verdict === 'violation') throw refusalOf(verdict.reason)
      if (verdict.verdict === 'pass') passed.push(verdict.text ?? packet.text)
      if (verdict.verdict !== 'answer') continue
      mailbox.put([verdict.text])
      mailbox.ownLength += verdict.text.length
    }
    mailbox.flush()
    if (mailbox.ownLength > UNREAD_LENGTH) throw new BadRequest({ reason: 'answers-unread' })
    if (engineSession.state.holder.isTooMuch(mailbox.ownLength)) throw refusalOf(NO_ROOM)
    return passed
  }

  const accepted = (): PollingResponse => textResponse(mailbox.fields, 'ok')

  const forward = async (head: string, packets: readonly string[]): Promise<PollingResponse> => {
    if (packets.length === 0) return accepted()
    const answer = await send(packets, head, route.timeoutMs ?? upstream.timeoutMs)
    if (isFailing) throw new BadRequest({ reason: 'session-over' })
    if (answer.head.status !== 200) {
      engineSession.leave()
      return failureResponse(answer.head, clientFields(answer.head, forwarding, engineSession.source))
    }
    // The client has closed the session, so its places are released at once rather than after a timeout.
    if (packets.some(packet => packet.startsWith(ENGINE_CLOSE))) engineSession.leave()
    return accepted()
  }

  return {
    async post(head: string, payload: string): Promise<PollingResponse> {
      if (isClientPosting) throw new BadRequest({ reason: 'overlapping-posts' })
      isClientPosting = true
      try {
        const packets = check(payload)
        const work = last.then(() => forward(head, packets))
        last = work.catch(() => undefined)
        return await work
      } finally {
        isClientPosting = false
      }
    },
    /** Resolves when the upstream has answered what was sent. */
    last: () => last,
    /** From now on a POST fails, also one that the upstream has accepted. */
    failAll() {
      isFailing = true
    },
    /** The client's latest poll. */
    noteHead(head: string) {
      routingLines = routingLinesOf(head)
    },
    /** Sends one of the gateway's own packets; never rejects. */
    tell(packets: readonly string[]): Promise<unknown> {
      const head = ownPostHead(engineSession.source, sid, routingLines)
      last = last.then(() => send(packets, head, upstream.timeoutMs)).catch(() => undefined)
      return last
    }
  }
}

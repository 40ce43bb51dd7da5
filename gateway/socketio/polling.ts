// The polling transport of a Socket.IO session: every packet of every body is judged, both ways, and nothing gets lost between polls.
import { BadRequest, BadUpstreamResponse, GatewayError, Internal, RateLimited } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { callUpstream, type PendingCall, type UpstreamAnswer } from '../upstream/call.ts'
import type { ResponseHead } from '../upstream/parser.ts'
import { clientFields, type PollingForwarding } from './polling-http.ts'
import { readEnginePayload, SEPARATOR } from './protocol/engineio.ts'
import type { Session } from './session.ts'

const NOOP = '6'
const ENGINE_CLOSE = '1'

/** What instances share of one session; see `SharedSids`. */
export interface PollingShare {
  reload(): Promise<void>
  persist(): Promise<void>
  /** A WebSocket at this instance carries the session from now on. */
  takeOver(): Promise<void>
  mail(packets: readonly string[]): Promise<void>
  collect(): Promise<readonly string[]>
  lease(): Promise<boolean>
  release(): Promise<void>
}

interface PollingOptions {
  readonly share: PollingShare | undefined
  readonly forwarding: PollingForwarding
  readonly session: Session
  /** Fields of answers: those the upstream gave to this client's handshake. */
  readonly fields: readonly string[]
  /** How long the upstream may hold a poll. */
  readonly pollMs: number
  /** The whole head of a request of the gateway's own in this session. */
  readonly ownHead: (contentLength: number) => string
  readonly onViolation: (reason: string) => void
}

export const createPollingTransport = (options: PollingOptions) => {
  const { forwarding, session, share } = options
  const { upstream, target, route } = session.origin
  const maxBytes = route.socketio?.maxMessageBytes ?? 1_000_000
  const maxMessages = route.socketio?.messagesPerSecond ?? 1000
  let second = 0
  let messages = 0
  let fields = options.fields
  let mailbox: string[] = []
  let waiting: Exchange | undefined
  let poll: PendingCall | undefined
  /** POSTs to the upstream follow each other, the client's and the gateway's own: an overlap would end the session there. */
  let posted: Promise<unknown> = Promise.resolve()
  let clientPosts = false
  let closed = false
  let bytes = 0
  /** Set once the WebSocket transport has taken over. */
  let divert: ((packets: readonly string[]) => void) | undefined

  const isFlood = (count: number): boolean => {
    const now = Math.floor(performance.now() / 1000)
    messages = now === second ? messages + count : count
    second = now
    return messages > maxMessages
  }

  const answer = (exchange: Exchange, body: string) => {
    exchange.underway = undefined
    const bytes = Buffer.from(body)
    const type = ['content-type', 'text/plain; charset=UTF-8', 'content-length', String(bytes.length)]
    const headers = [...fields, ...forwarding.pollHeaders(exchange, fields), ...type]
    exchange.response.whole({ status: 200, headers }, bytes.toString('latin1'))
  }

  /** The upstream's own refusal, without its body. */
  const answerFailure = (exchange: Exchange, head: ResponseHead) => {
    const passed = clientFields(head, forwarding, session.origin)
    const headers = [...passed, ...forwarding.pollHeaders(exchange, passed), 'content-length', '0']
    exchange.response.whole({ status: head.status < 400 ? 502 : head.status, headers }, '')
  }

  const flush = () => {
    if (mailbox.length === 0) return
    if (divert !== undefined) {
      divert(mailbox.filter(packet => packet !== NOOP))
      mailbox = []
      if (waiting === undefined) return
    }
    const exchange = waiting
    if (exchange === undefined) return
    waiting = undefined
    const body = mailbox.length === 0 ? NOOP : mailbox.join(SEPARATOR)
    mailbox = []
    answer(exchange, body)
  }

  /** To the poll that waits here, or to wherever the next one will be. */
  const deliver = async () => {
    if (share === undefined || waiting !== undefined || divert !== undefined) return flush()
    const packets = mailbox
    mailbox = []
    if (packets.length > 0) await share.mail(packets)
  }

  const failPoll = (error: unknown) => {
    poll = undefined
    const exchange = waiting
    waiting = undefined
    session.leave()
    if (exchange === undefined) return
    exchange.underway = undefined
    forwarding.refuse(exchange, error instanceof GatewayError ? error : new Internal({ cause: error }))
  }

  /** What the upstream had to say, as far as the client may hear it. */
  const takeAnswer = async ({ head, body }: UpstreamAnswer) => {
    poll = undefined
    await share?.release()
    // Another instance may have let a CONNECT through meanwhile.
    await share?.reload()
    if (head.status !== 200) return passFailure(head)
    fields = clientFields(head, forwarding, session.origin)
    bytes += body.length
    const packets = readEnginePayload(body.toString('utf8'))
    if (packets === undefined) return failPoll(new BadUpstreamResponse({ reason: 'upstream-malformed-payload' }))
    for (const packet of packets) {
      const judged = session.gate.fromUpstream(packet)
      if (judged.verdict === 'violation') return options.onViolation(judged.reason)
      if (judged.verdict === 'pass') mailbox.push(judged.text ?? packet.text, ...(judged.released ?? []))
    }
    await share?.persist()
    if (mailbox.length === 0) mailbox.push(NOOP)
    await deliver()
  }

  /** The session is unknown or broken there: the client hears the same status and starts anew. */
  const passFailure = (head: ResponseHead) => {
    const exchange = waiting
    waiting = undefined
    session.leave()
    if (exchange === undefined) return
    exchange.underway = undefined
    answerFailure(exchange, head)
  }

  const get = (exchange: Exchange, head: string) => {
    if (waiting !== undefined) {
      options.onViolation('overlapping-polls')
      return forwarding.refuse(exchange, new BadRequest({ reason: 'overlapping-polls' }))
    }
    waiting = exchange
    exchange.underway = {
      abort() {
        waiting = undefined
        // The upstream must see its poll broken off, as it would without a gateway between.
        poll?.abort()
        poll = undefined
        if (divert === undefined) session.leave()
      }
    }
    if (share === undefined) return ask(head)
    share
      .collect()
      .then(mail => {
        mailbox.push(...mail)
        // An earlier poll may still be under way, here or at another instance: its answer comes as mail.
        return mailbox.length > 0 || poll !== undefined ? false : share.lease()
      })
      .then(mayAsk => (mayAsk ? ask(head) : flush()))
      .catch(failPoll)
  }

  const ask = (head: string) => {
    if (mailbox.length > 0) return flush()
    // After an answer of the gateway's own the upstream's earlier poll is still under way.
    if (poll !== undefined) return
    poll = callUpstream(forwarding.upstreams, {
      upstream,
      target,
      method: 'GET',
      head,
      body: undefined,
      isStream: true,
      timeoutMs: options.pollMs,
      maxBytes: 2 * maxBytes + 1_000_000
    })
    poll.answer.then(takeAnswer).catch(failPoll)
  }

  const forwardPost = async (exchange: Exchange, headOf: (length: number) => string, packets: readonly string[]) => {
    if (packets.length === 0) return answer(exchange, 'ok')
    const body = Buffer.from(packets.join(SEPARATOR))
    const call = callUpstream(forwarding.upstreams, {
      upstream,
      target,
      method: 'POST',
      head: headOf(body.length),
      body,
      timeoutMs: route.timeoutMs ?? upstream.timeoutMs,
      maxBytes: 64 * 1024
    })
    const { head, body: said } = await call.answer
    if (head.status === 200) return answer(exchange, said.length === 2 ? said.toString('latin1') : 'ok')
    session.leave()
    answerFailure(exchange, head)
  }

  /** Judges a body packet by packet; what a packet in it violates ends the session before any of it is forwarded. */
  const judge = async (payload: string): Promise<string[]> => {
    const packets = readEnginePayload(payload)
    if (packets === undefined) throw new BadRequest({ reason: 'malformed-payload' })
    if (isFlood(packets.length)) throw new RateLimited({ reason: 'too-many-messages', headers: { 'retry-after': '1' } })
    const passed: string[] = []
    for (const packet of packets) {
      const verdict = await session.gate.fromClient(packet)
      if (session.isOver) throw new BadRequest({ reason: 'session-over' })
      if (verdict.verdict === 'violation') throw new BadRequest({ reason: verdict.reason })
      if (verdict.verdict === 'pass') passed.push(verdict.text ?? packet.text)
      if (verdict.verdict === 'answer') mailbox.push(verdict.text)
    }
    return passed
  }

  const post = async (exchange: Exchange, headOf: (length: number) => string, payload: Buffer): Promise<void> => {
    if (clientPosts) throw new BadRequest({ reason: 'overlapping-posts' })
    clientPosts = true
    bytes += payload.length
    try {
      const packets = await judge(payload.toString('utf8'))
      // Before the upstream can answer, to whichever instance.
      await share?.persist()
      await deliver()
      const work = posted.then(() => forwardPost(exchange, headOf, packets))
      posted = work.catch(() => undefined)
      await work
    } finally {
      clientPosts = false
    }
  }

  const tellUpstream = (packets: readonly string[]): Promise<unknown> => {
    const body = Buffer.from(packets.join(SEPARATOR))
    const call = () =>
      callUpstream(forwarding.upstreams, {
        upstream,
        target,
        method: 'POST',
        head: options.ownHead(body.length),
        body,
        timeoutMs: upstream.timeoutMs,
        maxBytes: 64 * 1024
      }).answer
    posted = posted.then(call).catch(() => undefined)
    return posted
  }

  return {
    get,
    post,
    /** From now on packets for the client go this way; a poll that still waits is answered with nothing. */
    divertTo(next: (packets: readonly string[]) => void) {
      divert = next
      if (waiting !== undefined || mailbox.length > 0) {
        mailbox.push(NOOP)
        flush()
      }
    },
    /** Another instance has left something for this client. */
    onMail() {
      if (share === undefined || (waiting === undefined && divert === undefined)) return
      share
        .collect()
        .then(mail => {
          mailbox.push(...mail)
          flush()
        })
        .catch(() => undefined)
    },
    /** A last word that waits for the client's next poll. */
    get hasMail() {
      return mailbox.length > 0
    },
    carrier: {
      toClient(packets: readonly string[]) {
        mailbox.push(...packets)
        if (!closed) queueMicrotask(() => void deliver().catch(() => undefined))
      },
      toUpstream: (packets: readonly string[]) => void tellUpstream(packets),
      close() {
        closed = true
        // A stock client would take a close in the same payload before the DISCONNECT that explains it.
        if (mailbox.length === 0) mailbox.push(ENGINE_CLOSE)
        deliver().catch(() => undefined)
        void tellUpstream([ENGINE_CLOSE]).then(() => poll?.abort())
      },
      bytes: () => bytes
    }
  }
}

export type PollingTransport = ReturnType<typeof createPollingTransport>

// Sends a polling session's POSTs to the upstream one after the other; a client's only if each of its packets may pass.
import { BadRequest, RateLimited } from '../../errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { callUpstream } from '../../upstream/call.ts'
import { ENGINE_CLOSE, readEnginePayload, SEPARATOR } from '../protocol/engineio.ts'
import { ownPostHead } from '../session-source.ts'
import type { Mailbox } from './mailbox.ts'
import type { PollingParts } from './polling-parts.ts'

const MAX_ANSWER_BYTES = 64 * 1024
/** Packets, most of them refusals, that a client may leave for later polls; far more than one body can cause. */
const MAX_UNREAD = 5000

export const createPollingPosts = ({ forwarding, sid, session, share }: PollingParts, mailbox: Mailbox) => {
  const { upstream, target, route } = session.source
  const maxMessages = route.socketio?.messagesPerSecond ?? 1000
  let second = 0
  let messages = 0
  /** Both the client's and the gateway's own: an overlap would end the session at the upstream. */
  let last: Promise<unknown> = Promise.resolve()
  let isClientPosting = false
  let isFailing = false

  const send = (packets: readonly string[], headOf: (length: number) => string, timeoutMs: number) => {
    const body = Buffer.from(packets.join(SEPARATOR))
    const head = headOf(body.length)
    const call = { upstream, target, method: 'POST', head, body, timeoutMs, maxBytes: MAX_ANSWER_BYTES } as const
    return callUpstream(forwarding.upstreams, call).answer
  }

  const isFlood = (count: number): boolean => {
    const now = Math.floor(performance.now() / 1000)
    messages = now === second ? messages + count : count
    second = now
    return messages > maxMessages
  }

  /** Checks a body packet by packet; a violation ends the session before any of the body is forwarded. */
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
      if (verdict.verdict === 'answer') mailbox.put([verdict.text])
    }
    return passed
  }

  const forward = async (exchange: Exchange, headOf: (length: number) => string, packets: readonly string[]) => {
    if (packets.length === 0) return mailbox.answer(exchange, 'ok')
    const { head } = await send(packets, headOf, route.timeoutMs ?? upstream.timeoutMs)
    if (isFailing) throw new BadRequest({ reason: 'session-over' })
    if (head.status === 200) {
      mailbox.answer(exchange, 'ok')
      // The client has closed the session, so its places are released at once rather than after a timeout.
      if (packets.some(packet => packet.startsWith(ENGINE_CLOSE))) session.leave()
      return
    }
    session.leave()
    mailbox.answerFailure(exchange, head)
  }

  return {
    /** @param headOf returns the head for a body of this length; rejects with a refusal */
    async post(exchange: Exchange, headOf: (length: number) => string, payload: Buffer): Promise<void> {
      if (isClientPosting) throw new BadRequest({ reason: 'overlapping-posts' })
      isClientPosting = true
      try {
        const packets = await judge(payload.toString('utf8'))
        // Before the upstream can respond, to any instance.
        await share?.persist()
        if ((await mailbox.deliver()) > MAX_UNREAD) throw new BadRequest({ reason: 'answers-unread' })
        const work = last.then(() => forward(exchange, headOf, packets))
        last = work.catch(() => undefined)
        await work
      } finally {
        isClientPosting = false
      }
    },
    /** From now on a POST fails, also one that the upstream has accepted. */
    failAll() {
      isFailing = true
    },
    /** Sends one of the gateway's own packets; never rejects. */
    tell(packets: readonly string[]): Promise<unknown> {
      const headOf = (length: number) => ownPostHead(session.source, sid, length)
      last = last.then(() => send(packets, headOf, upstream.timeoutMs)).catch(() => undefined)
      return last
    }
  }
}

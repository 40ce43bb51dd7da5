// Sends a polling session's POSTs to the upstream one after the other; a client's only if each of its packets may pass.
import { BadRequest, RateLimited } from '../../errors.ts'
import { ENGINE_CLOSE, readEnginePayload, SEPARATOR } from '../protocol/engineio.ts'
import { ownPostHead } from '../session-source.ts'
import { callUpstream } from './call-upstream.ts'
import { fillHead } from './head-template.ts'
import type { Mailbox } from './mailbox.ts'
import type { PollingParts, PollingResponse } from './polling-parts.ts'
import { clientFields, failureResponse, textResponse } from './responses.ts'

const MAX_ANSWER_BYTES = 64 * 1024
/** What a client may leave for later polls of the gateway's own packets, most of them refusals. */
const UNREAD_LENGTH = 1_000_000

export const createPollingPosts = ({ forwarding, record: { sid }, session }: PollingParts, mailbox: Mailbox) => {
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
  const check = async (payload: string): Promise<string[]> => {
    const count = payload.split(SEPARATOR, maxMessages + 1).length
    if (isFlood(count)) throw new RateLimited({ reason: 'too-many-messages', headers: { 'retry-after': '1' } })
    const packets = readEnginePayload(payload)
    if (packets === undefined) throw new BadRequest({ reason: 'malformed-payload' })
    const passed: string[] = []
    for (const packet of packets) {
      const verdict = await session.gate.fromClient(packet)
      if (session.isOver) throw new BadRequest({ reason: 'session-over' })
      if (verdict.verdict === 'violation') throw new BadRequest({ reason: verdict.reason })
      if (verdict.verdict === 'pass') passed.push(verdict.text ?? packet.text)
      if (verdict.verdict === 'answer') mailbox.putOwn([verdict.text])
    }
    return passed
  }

  const accepted = (): PollingResponse => textResponse(mailbox.fields(), 'ok')

  const forward = async (head: string, packets: readonly string[]): Promise<PollingResponse> => {
    if (packets.length === 0) return accepted()
    const headOf = (length: number) => fillHead(head, target, length)
    const answer = await send(packets, headOf, route.timeoutMs ?? upstream.timeoutMs)
    if (isFailing) throw new BadRequest({ reason: 'session-over' })
    if (answer.head.status !== 200) {
      session.leave()
      return failureResponse(answer.head, clientFields(answer.head, forwarding, session.source))
    }
    // The client has closed the session, so its places are released at once rather than after a timeout.
    if (packets.some(packet => packet.startsWith(ENGINE_CLOSE))) session.leave()
    return accepted()
  }

  return {
    /** @param head for `fillHead`; rejects with a refusal */
    async post(head: string, payload: Buffer): Promise<PollingResponse> {
      if (isClientPosting) throw new BadRequest({ reason: 'overlapping-posts' })
      isClientPosting = true
      try {
        const packets = await check(payload.toString('utf8'))
        mailbox.flush()
        if (mailbox.ownLength() > UNREAD_LENGTH) throw new BadRequest({ reason: 'answers-unread' })
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
    /** Sends one of the gateway's own packets; never rejects. */
    tell(packets: readonly string[]): Promise<unknown> {
      const headOf = (length: number) => ownPostHead(session.source, sid, length)
      last = last.then(() => send(packets, headOf, upstream.timeoutMs)).catch(() => undefined)
      return last
    }
  }
}

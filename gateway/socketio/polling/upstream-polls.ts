// Makes a polling session's polls to the upstream, one at a time, and checks every packet that it answers.
import { setTimeout as delay } from 'node:timers/promises'
import { BadUpstreamResponse, GatewayError, Internal } from '../../errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { callUpstream, type PendingCall, type UpstreamAnswer } from '../../upstream/call.ts'
import { contain } from '../../values/contain.ts'
import { burstBytes, ENGINE_CLOSE, type EnginePacket, readEnginePayload } from '../protocol/engineio.ts'
import type { Session } from '../session.ts'
import { LAST_POLL_MS } from '../share.ts'
import type { Mailbox } from './mailbox.ts'
import type { PollingParts } from './polling-parts.ts'

export const createUpstreamPolls = ({ forwarding, session, share, record }: PollingParts, mailbox: Mailbox) => {
  const { upstream, target, route } = session.source
  const maxBytes = burstBytes(route.socketio?.maxMessageBytes ?? 1_000_000)
  let poll: PendingCall | undefined
  /** What the upstream answered to the latest poll has been delivered. */
  let answered: Promise<void> = Promise.resolve()
  let bytes = 0

  const fail = (error: unknown) => {
    poll?.abort()
    poll = undefined
    const refusal = error instanceof GatewayError ? error : new Internal({ cause: error })
    leaveWith(exchange => contain(exchange, () => forwarding.refuse(exchange, refusal)))
  }

  /** @param answer ends the poll that waits here */
  const leaveWith = (answer: (exchange: Exchange) => void) => {
    const exchange = mailbox.letGo()
    const isNews = !session.isOver
    session.leave()
    if (exchange !== undefined) answer(exchange)
    // One that waits at another instance would wait for what no one asks for any more.
    else if (isNews) share?.mail([ENGINE_CLOSE]).catch(() => undefined)
  }

  /** The upstream's response, as far as the client may see it. */
  const takeAnswer = async ({ head, body }: UpstreamAnswer) => {
    poll = undefined
    // Another instance may have accepted a CONNECT in the meantime; a session that is over has no record any more.
    if (!session.isOver) await share?.reload()
    if (head.status !== 200) {
      // The session is unknown or broken there: the client gets the same status and starts a new one.
      return leaveWith(exchange => mailbox.answerFailure(exchange, head))
    }
    mailbox.useFields(head)
    bytes += body.length
    // How python-engineio ends the poll of a client that has said goodbye.
    if (body.length === 0) return leaveWith(exchange => mailbox.answer(exchange, ''))
    const packets = readEnginePayload(body.toString('utf8'))
    if (packets === undefined) return fail(new BadUpstreamResponse({ reason: 'upstream-malformed-payload' }))
    const { passed, violation } = judgeAll(session, packets)
    if (violation === undefined && !session.isOver) await share?.persist()
    if (violation === undefined) return mailbox.deliverAnswer(passed)
    mailbox.put(passed)
    session.violate(violation)
  }

  const ask = (head: string) => {
    const [method, body, isStream, timeoutMs] = ['GET', undefined, true, record.pollMs] as const
    const call = { upstream, target, method, head, body, isStream, timeoutMs, maxBytes }
    poll = callUpstream(forwarding.upstreams, call)
    answered = poll.answer.then(takeAnswer).catch(fail)
  }

  return {
    ask,
    /** The session has failed: the poll that waits here is refused. */
    fail,
    isAsking: () => poll !== undefined,
    /** The upstream sees its poll aborted. */
    abort() {
      poll?.abort()
      poll = undefined
    },
    /** Waits until the answer to the latest poll has been delivered, for a second at most. */
    async last(): Promise<void> {
      if (poll !== undefined) await Promise.race([answered, delay(LAST_POLL_MS, undefined, { ref: false })])
    },
    bytes: () => bytes
  }
}

/** What may go on to the client, up to the first violation. */
const judgeAll = (session: Session, packets: readonly EnginePacket[]) => {
  const passed: string[] = []
  for (const packet of packets) {
    const judged = session.gate.fromUpstream(packet)
    if (judged.verdict === 'violation') return { passed, violation: judged.reason }
    if (judged.verdict === 'pass') passed.push(judged.text ?? packet.text, ...(judged.released ?? []))
  }
  return { passed, violation: undefined }
}

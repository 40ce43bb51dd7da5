// Makes a polling session's polls to the upstream, one at a time, and checks every packet that it answers.
import { setTimeout as delay } from 'node:timers/promises'
import { BadUpstreamResponse, GatewayError, Internal } from '../../errors.ts'
import { callUpstream, type PendingCall, type UpstreamAnswer } from '../../upstream/call.ts'
import { burstBytes, type EnginePacket, readEnginePayload } from '../protocol/engineio.ts'
import type { Session } from '../session.ts'
import { type Mailbox, NOOP } from './mailbox.ts'
import type { PollingParts } from './polling-parts.ts'
import { clientFields, failureResponse, textResponse } from './responses.ts'

/** A server answers its last poll as soon as a WebSocket is tried: within 100 ms, the stock one. */
const LAST_POLL_MS = 1000

export const createUpstreamPolls = ({ forwarding, session, record }: PollingParts, mailbox: Mailbox) => {
  const { upstream, target, route } = session.source
  const maxBytes = burstBytes(route.socketio?.maxMessageBytes ?? 1_000_000)
  let poll: PendingCall | undefined
  /** What the upstream answered to the latest poll has been delivered. */
  let answered: Promise<void> = Promise.resolve()
  let bytes = 0

  const fail = (error: unknown) => {
    poll?.abort()
    poll = undefined
    session.leave()
    mailbox.refuse(error instanceof GatewayError ? error : new Internal({ cause: error, reason: 'socketio' }))
  }

  const takeAnswer = ({ head, body }: UpstreamAnswer) => {
    poll = undefined
    const fields = clientFields(head, forwarding, session.source)
    if (head.status !== 200) {
      // The session is unknown or broken there: the client gets the same status and starts a new one.
      session.leave()
      return mailbox.respond(failureResponse(head, fields))
    }
    mailbox.useFields(fields)
    bytes += body.length
    if (body.length === 0) {
      // How python-engineio ends the poll of a client that has said goodbye.
      session.leave()
      return mailbox.respond(textResponse(fields, ''))
    }
    const packets = readEnginePayload(body.toString('utf8'))
    if (packets === undefined) return fail(new BadUpstreamResponse({ reason: 'upstream-malformed-payload' }))
    const { passed, violation } = judgeAll(session, packets)
    mailbox.put(passed)
    if (violation !== undefined) return session.violate(violation)
    if (mailbox.isEmpty()) mailbox.put([NOOP])
    mailbox.flush()
  }

  const ask = (head: string) => {
    const [method, body, isStream, timeoutMs] = ['GET', undefined, true, record.pollMs] as const
    const call = { upstream, target, method, head, body, isStream, timeoutMs, maxBytes }
    poll = callUpstream(forwarding.upstreams, call)
    answered = poll.answer.then(takeAnswer).catch(fail)
  }

  return {
    ask,
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
    if (judged.verdict !== 'pass') continue
    passed.push(judged.text ?? packet.text)
    for (const text of judged.released ?? []) passed.push(text)
  }
  return { passed, violation: undefined }
}

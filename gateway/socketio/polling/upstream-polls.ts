// Makes a polling session's polls to the upstream, one at a time, and checks every packet that it answers.
import { BadUpstreamResponse, GatewayError, Internal } from '../../errors.ts'
import { inParts, inTurns, type Parts } from '../../routes/in-parts.ts'
import { burstBytes, readEnginePacket, SEPARATOR } from '../protocol/engineio.ts'
import type { Session } from '../session.ts'
import { callUpstream, type PendingCall, type UpstreamAnswer } from './call-upstream.ts'
import { type Mailbox, NOOP } from './mailbox.ts'
import type { PollingParts } from './polling-parts.ts'
import { clientFields, failureResponse, textResponse } from './responses.ts'

const MALFORMED = 'upstream-malformed-payload'

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

  const takeAnswer = async ({ head, body }: UpstreamAnswer) => {
    const fields = clientFields(head, forwarding, session.source)
    if (head.status !== 200) {
      // The session is unknown or broken there: the client gets the same status and starts a new one.
      poll = undefined
      session.leave()
      return mailbox.respond(failureResponse(head, fields))
    }
    mailbox.useFields(fields)
    bytes += body.length
    if (body.length === 0) {
      // How python-engineio ends the poll of a client that has said goodbye.
      poll = undefined
      session.leave()
      return mailbox.respond(textResponse(fields, ''))
    }
    const { passed, violation } = await inTurns(checkAll(session, body.toString('utf8')))
    poll = undefined
    if (violation === MALFORMED) return fail(new BadUpstreamResponse({ reason: violation }))
    if (!session.isOver) mailbox.put(passed)
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
    /** Resolves when the answer to the latest poll has been delivered. */
    last: () => answered,
    bytes: () => bytes
  }
}

/** What may go on to the client, up to the first violation; in parts, because a server may send any number of packets at once. */
function* checkAll(session: Session, payload: string): Parts<{ passed: string[]; violation: string | undefined }> {
  const passed: string[] = []
  let violation: string | undefined
  const check = (text: string) => {
    const packet = violation === undefined ? readEnginePacket(text) : undefined
    if (packet === undefined) {
      violation ??= MALFORMED
      return
    }
    const checked = session.gate.fromUpstream(packet)
    if (checked.verdict === 'violation') violation = checked.reason
    if (checked.verdict !== 'pass') return
    passed.push(checked.text ?? packet.text)
    for (const released of checked.released ?? []) passed.push(released)
  }
  yield* inParts(payload.split(SEPARATOR), check)
  return { passed, violation }
}

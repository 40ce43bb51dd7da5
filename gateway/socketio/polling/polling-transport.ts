// Carries a Socket.IO session by polling: every packet of every body is checked, and none is lost between polls.
import { BadRequest, BadUpstreamResponse, GatewayError, Internal } from '../../errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { callUpstream, type PendingCall, type UpstreamAnswer } from '../../upstream/call.ts'
import { ENGINE_CLOSE, type EnginePacket, readEnginePayload } from '../protocol/engineio.ts'
import type { Session } from '../session.ts'
import type { PollingShare } from '../share.ts'
import { createMailbox } from './mailbox.ts'
import type { PollingParts } from './polling-parts.ts'
import { createPollingPosts } from './polling-posts.ts'

export const createPollingTransport = (parts: PollingParts) => {
  const { forwarding, session, share, record } = parts
  const { upstream, target, route } = session.source
  const maxBytes = route.socketio?.maxMessageBytes ?? 1_000_000
  const mailbox = createMailbox(parts)
  const posts = createPollingPosts(parts, mailbox)
  let poll: PendingCall | undefined
  let isClosed = false
  let bytes = 0

  const failPoll = (error: unknown) => {
    poll?.abort()
    poll = undefined
    const exchange = mailbox.letGo()
    session.leave()
    const refusal = error instanceof GatewayError ? error : new Internal({ cause: error })
    if (exchange !== undefined) forwarding.refuse(exchange, refusal)
  }

  /** The upstream's response, as far as the client may see it. */
  const takeAnswer = async ({ head, body }: UpstreamAnswer) => {
    poll = undefined
    await share?.release()
    // Another instance may have accepted a CONNECT in the meantime; a session that is over has no record any more.
    if (!session.isOver) await share?.reload()
    if (head.status !== 200) {
      // The session is unknown or broken there: the client gets the same status and starts a new one.
      const exchange = mailbox.letGo()
      session.leave()
      if (exchange !== undefined) mailbox.answerFailure(exchange, head)
      return
    }
    mailbox.useFields(head)
    bytes += body.length
    const packets = readEnginePayload(body.toString('utf8'))
    if (packets === undefined) return failPoll(new BadUpstreamResponse({ reason: 'upstream-malformed-payload' }))
    const { passed, violation } = judgeAll(session, packets)
    if (violation === undefined && !session.isOver) await share?.persist()
    // Not earlier: a poll that arrived in the meantime would take this for its answer, and keep the right to ask.
    mailbox.put(passed)
    if (violation !== undefined) return session.violate(violation)
    if (mailbox.isEmpty()) mailbox.putNothing()
    await mailbox.deliver()
  }

  const ask = (head: string) => {
    const [method, body, isStream, timeoutMs] = ['GET', undefined, true, record.pollMs] as const
    const call = { upstream, target, method, head, body, isStream, timeoutMs, maxBytes: 2 * maxBytes + 1_000_000 }
    poll = callUpstream(forwarding.upstreams, call)
    poll.answer.then(takeAnswer).catch(failPoll)
  }

  /** Mail that cannot be fetched may be lost: the session ends, so that the client starts anew instead of waiting for it. */
  const takeMail = (): Promise<void> =>
    mailbox.collect().then(mailbox.flush, error => (mailbox.isDiverted() ? session.end(1001) : failPoll(error)))

  /** After one of the gateway's own responses, the upstream's earlier poll is still in progress. */
  const needsAsking = () => mailbox.isEmpty() && poll === undefined

  const askOrTakeMail = async (head: string, shared: PollingShare) => {
    await mailbox.collect()
    // Even if this poll has been answered meanwhile: no other instance asks during the lease, and the response becomes mail.
    if (needsAsking() && (await shared.lease())) ask(head)
    mailbox.flush()
  }

  return {
    get(exchange: Exchange, head: string) {
      if (mailbox.isAwaited()) {
        session.violate('overlapping-polls')
        return forwarding.refuse(exchange, new BadRequest({ reason: 'overlapping-polls' }))
      }
      mailbox.wait(exchange, () => {
        // The upstream must see its poll aborted, as it would without a gateway in between.
        poll?.abort()
        poll = undefined
        if (!mailbox.isDiverted()) session.leave()
      })
      if (share !== undefined) askOrTakeMail(head, share).catch(failPoll)
      else if (needsAsking()) ask(head)
      else mailbox.flush()
    },
    post(exchange: Exchange, headOf: (length: number) => string, payload: Buffer): Promise<void> {
      bytes += payload.length
      return posts.post(exchange, headOf, payload)
    },
    failPosts: posts.failAll,
    /** From now on packets for the client go this way, also those that no poll has fetched. */
    divertTo(next: (packets: readonly string[]) => void) {
      mailbox.divertTo(next)
      if (share !== undefined) void takeMail()
    },
    /** Something has been left for this client, by this instance or another. */
    onMail() {
      if (mailbox.isAwaited() || mailbox.isDiverted()) void takeMail()
    },
    /** Something may have been left without an announcement. */
    onMailMissed: async () => (mailbox.mayHaveMail() ? takeMail() : undefined),
    /** A last packet that waits for the client's next poll. */
    get hasMail() {
      return !mailbox.isEmpty()
    },
    carrier: {
      toClient(packets: readonly string[]) {
        mailbox.put(packets)
        // A client that does not learn what has ended would wait for it.
        if (!isClosed) queueMicrotask(() => void mailbox.deliver().catch(() => session.end(1001)))
      },
      toUpstream: (packets: readonly string[]) => void posts.tell(packets),
      close() {
        isClosed = true
        // A stock client would process a close in the same payload before the DISCONNECT that explains it.
        if (mailbox.isEmpty()) mailbox.put([ENGINE_CLOSE])
        mailbox.deliver().catch(() => undefined)
        void posts.tell([ENGINE_CLOSE]).then(() => poll?.abort())
      },
      bytes: () => bytes
    }
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

export type PollingTransport = ReturnType<typeof createPollingTransport>

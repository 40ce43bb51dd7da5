// Carries a Socket.IO session by polling: every packet of every body is checked, and none is lost between polls.
import { BadRequest } from '../../errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { task } from '../../values/contain.ts'
import { ENGINE_CLOSE } from '../protocol/engineio.ts'
import type { PollingShare } from '../share.ts'
import { createMailbox, NOOP } from './mailbox.ts'
import type { PollingParts } from './polling-parts.ts'
import { createPollingPosts } from './polling-posts.ts'
import { createUpstreamPolls } from './upstream-polls.ts'

export const createPollingTransport = (parts: PollingParts) => {
  const { forwarding, session, share } = parts
  const mailbox = createMailbox(parts)
  const polls = createUpstreamPolls(parts, mailbox)
  const posts = createPollingPosts(parts, mailbox)
  let isClosed = false
  let posted = 0

  /** Mail that cannot be fetched may be lost: the session ends, so that the client starts anew instead of waiting for it. */
  const takeMail = (): Promise<void> =>
    mailbox.collect().then(mailbox.flush, error => (mailbox.isDiverted() ? session.end(1001) : polls.fail(error)))

  /** After one of the gateway's own responses, the upstream's earlier poll is still in progress. */
  const needsAsking = () => mailbox.isEmpty() && !polls.isAsking()

  const askOrTakeMail = async (head: string, shared: PollingShare) => {
    await mailbox.collect()
    // Even if this poll has been answered meanwhile: no other instance asks during the lease, and the response becomes mail.
    if (needsAsking() && (await shared.lease()) && !session.isOver) polls.ask(head)
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
        polls.abort()
        if (!mailbox.isDiverted()) session.leave()
      })
      if (share !== undefined) askOrTakeMail(head, share).catch(polls.fail)
      else if (needsAsking()) polls.ask(head)
      else mailbox.flush()
    },
    post(exchange: Exchange, headOf: (length: number) => string, payload: Buffer): Promise<void> {
      posted += payload.length
      return posts.post(exchange, headOf, payload)
    },
    failPosts: posts.failAll,
    /** A WebSocket at another instance carries the session now: a poll that is still waiting gets a noop. */
    letGo() {
      const exchange = mailbox.letGo()
      if (exchange !== undefined) mailbox.answer(exchange, NOOP)
    },
    /**
     * The upstream is about to learn that a WebSocket carries the session: what it has answered to polls by then comes before what it
     * sends that way.
     */
    async beforeUpgrade(): Promise<void> {
      if (share !== undefined) mailbox.put(await share.takeOver())
      else await polls.last()
    },
    /** From now on packets for the client go this way, also those that no poll has fetched. */
    divertTo(next: (packets: readonly string[]) => void) {
      mailbox.divertTo(next)
      if (share !== undefined) task(takeMail)()
    },
    /** Something has been left for this client, by this instance or another. */
    onMail() {
      if (mailbox.isAwaited() || mailbox.isDiverted()) task(takeMail)()
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
        if (!isClosed) queueMicrotask(task(() => mailbox.deliver().catch(() => session.end(1001))))
      },
      toUpstream: (packets: readonly string[]) => void posts.tell(packets),
      close() {
        isClosed = true
        // A stock client would process a close in the same payload before the DISCONNECT that explains it.
        if (mailbox.isEmpty()) mailbox.put([ENGINE_CLOSE])
        mailbox.deliver().catch(() => undefined)
        task(() => posts.tell([ENGINE_CLOSE]).then(polls.abort))()
      },
      bytes: () => posted + polls.bytes()
    }
  }
}

export type PollingTransport = ReturnType<typeof createPollingTransport>

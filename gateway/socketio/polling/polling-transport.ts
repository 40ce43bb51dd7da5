// Carries a Socket.IO session by polling: every packet of every body is checked, and none is lost between polls.
import { setTimeout as delay } from 'node:timers/promises'
import { BadRequest } from '../../errors.ts'
import { task } from '../../values/contain.ts'
import { ENGINE_CLOSE } from '../protocol/engineio.ts'
import { fillHead } from './head-template.ts'
import { createMailbox, NOOP } from './mailbox.ts'
import type { PollingParts, PollingResponse } from './polling-parts.ts'
import { createPollingPosts } from './polling-posts.ts'
import { createUpstreamPolls } from './upstream-polls.ts'

/** A server answers its last poll as soon as a WebSocket is tried: within 100 ms, the stock one. */
const LAST_MS = 1000

export const createPollingTransport = (parts: PollingParts) => {
  const { session, record } = parts
  const mailbox = createMailbox(record.fields)
  const polls = createUpstreamPolls(parts, mailbox)
  const posts = createPollingPosts(parts, mailbox)
  let isClosed = false
  let posted = 0

  return {
    /** @param head for `fillHead`; rejects with a refusal */
    get(head: string): Promise<PollingResponse> {
      if (mailbox.isAwaited()) {
        session.violate('overlapping-polls')
        throw new BadRequest({ reason: 'overlapping-polls' })
      }
      const response = mailbox.wait()
      // After one of the gateway's own responses, the upstream's earlier poll is still in progress.
      if (mailbox.isEmpty() && !polls.isAsking()) polls.ask(fillHead(head, session.source.target))
      else mailbox.flush()
      return response
    },
    /** The client of the poll that waits has gone. */
    abandonPoll() {
      // The upstream must see its poll aborted, as it would without a gateway in between.
      polls.abort()
      session.leave()
      mailbox.refuse(new BadRequest({ reason: 'client-gone' }))
    },
    /** The poll that waits is answered, and the upstream's goes on. */
    releasePoll: mailbox.release,
    post(head: string, payload: Buffer): Promise<PollingResponse> {
      posted += payload.length
      return posts.post(head, payload)
    },
    failPosts: posts.failAll,
    /** Waits for the upstream's answers to the last poll and POST. */
    last: () => Promise.race([Promise.all([polls.last(), posts.last()]), delay(LAST_MS, undefined, { ref: false })]),
    /** A WebSocket carries the session from now on: what no poll has fetched. */
    takeAll(): string[] {
      // A noop or a close is about the transport of polls, which is over.
      return mailbox.takeAll().filter(packet => packet !== NOOP && packet !== ENGINE_CLOSE)
    },
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

export type PollingTransport = ReturnType<typeof createPollingTransport>

// Holds packets for a polling client until its next poll: at this instance, at another, or on a WebSocket.
import type { Exchange } from '../../http/exchange.ts'
import type { ResponseHead } from '../../upstream/parser.ts'
import { contain } from '../../values/contain.ts'
import { ENGINE_CLOSE, SEPARATOR } from '../protocol/engineio.ts'
import { MAIL_MS } from '../sid-store.ts'
import { answerFailure, answerText, clientFields } from './answers.ts'
import type { PollingParts } from './polling-parts.ts'

export const NOOP = '6'

export const createMailbox = ({ share, forwarding, session, record }: PollingParts) => {
  // Those of the handshake at first.
  let { fields } = record
  let packets: string[] = []
  let waiting: Exchange | undefined
  /** Set once the WebSocket transport has taken over. A noop or a close is about the transport of polls, which is over. */
  let diverted: { readonly to: (packets: readonly string[]) => void; readonly at: number } | undefined
  let collected: Promise<void> = Promise.resolve()

  // What waits here belongs to its exchange, and its fault ends only that.
  const answer = (exchange: Exchange, body: string) =>
    contain(exchange, () => answerText(exchange, forwarding, fields, Buffer.from(body)))

  const canPassOn = () => waiting !== undefined || diverted !== undefined

  const put = (more: readonly string[]) => void packets.push(...more)

  const flush = () => {
    if (packets.length === 0) return
    if (diverted !== undefined) {
      diverted.to(packets.filter(packet => packet !== NOOP && packet !== ENGINE_CLOSE))
      packets = []
    }
    const exchange = waiting
    if (exchange === undefined) return
    waiting = undefined
    const body = packets.length === 0 ? NOOP : packets.join(SEPARATOR)
    packets = []
    answer(exchange, body)
  }

  /** To the poll that waits here, or to wherever the next one will arrive; resolves to how many packets wait for that. */
  const deliver = async (): Promise<number> => {
    if (share === undefined || canPassOn()) {
      flush()
      return packets.length
    }
    const mail = packets
    packets = []
    return mail.length === 0 ? 0 : share.mail(mail)
  }

  return {
    answer,
    answerFailure: (exchange: Exchange, head: ResponseHead) =>
      contain(exchange, () => answerFailure(exchange, forwarding, session.source, head)),
    /** Uses the fields of the upstream's latest response from now on. */
    useFields(head: ResponseHead) {
      fields = clientFields(head, forwarding, session.source)
    },
    put,
    isEmpty: () => packets.length === 0,
    flush,
    deliver,
    /** Delivers what the upstream answered to a poll. The right to make the next one is given back before the client can ask. */
    async deliverAnswer(answer: readonly string[]): Promise<void> {
      const isAway = share !== undefined && !canPassOn()
      if (!isAway) await share?.release()
      // Not earlier: a poll that arrived in the meantime would take this for its answer.
      put(answer)
      if (packets.length === 0) put([NOOP])
      if (isAway) await share.mail(packets.splice(0), true)
      else await deliver()
    },
    /**
     * Fetches what other instances have left for this client, if it can be passed on: the next poll may arrive at another
     * instance. One fetch ends before the next begins, because the first may answer the poll.
     */
    collect(): Promise<void> {
      const fetched = collected.then(async () => {
        if (share !== undefined && canPassOn()) put(await share.collect())
      })
      collected = fetched.catch(() => undefined)
      return fetched
    },
    /** A poll waits for mail. @param onAbort its client has gone */
    wait(exchange: Exchange, onAbort: () => void) {
      waiting = exchange
      exchange.underway = {
        abort() {
          waiting = undefined
          onAbort()
        }
      }
    },
    isAwaited: () => waiting !== undefined,
    /** The waiting poll must be answered in another way. */
    letGo(): Exchange | undefined {
      const exchange = waiting
      waiting = undefined
      if (exchange !== undefined) exchange.underway = undefined
      return exchange
    },
    isDiverted: () => diverted !== undefined,
    /** Whether something may be left that can be passed on now; after an upgrade only what was under way then. */
    mayHaveMail: () => waiting !== undefined || (diverted !== undefined && forwarding.now() - diverted.at <= MAIL_MS),
    /** From now on packets for the client go this way; a poll that is still waiting gets a noop. */
    divertTo(next: (packets: readonly string[]) => void) {
      diverted = { to: next, at: forwarding.now() }
      if (waiting === undefined && packets.length === 0) return
      packets.push(NOOP)
      flush()
    }
  }
}

export type Mailbox = ReturnType<typeof createMailbox>

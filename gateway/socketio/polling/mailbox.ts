// Holds packets for a polling client until its next poll.
import { SEPARATOR } from '../protocol/engineio.ts'
import type { PollingResponse } from './polling-parts.ts'
import { textResponse } from './responses.ts'

export const NOOP = '6'
/** A response ends with the packet that exceeds this; what is left waits for the next poll. */
const RESPONSE_LENGTH = 1_000_000

interface WaitingPoll {
  readonly resolve: (response: PollingResponse) => void
  readonly reject: (error: unknown) => void
}

/** @param handshakeFields of responses, `[name, value, …]`, until the upstream sends others */
export const createMailbox = (handshakeFields: readonly string[]) => {
  let fields = handshakeFields
  const packets: string[] = []
  let waiting: WaitingPoll | undefined
  /** Of the gateway's own packets since all were last fetched. */
  let ownLength = 0

  const put = (more: readonly string[]) => {
    for (const packet of more) packets.push(packet)
  }

  const nextCount = (): number => {
    let length = 0
    const last = packets.findIndex(packet => {
      length += packet.length
      return length >= RESPONSE_LENGTH
    })
    return last === -1 ? packets.length : last + 1
  }

  /** Answers the poll that waits, if any. */
  const respond = (response: PollingResponse) => {
    const poll = waiting
    waiting = undefined
    poll?.resolve(response)
  }

  const release = () => respond(textResponse(fields, NOOP))

  return {
    put,
    /** Packets of the gateway itself, which a client may cause without fetching them. */
    putOwn(more: readonly string[]) {
      put(more)
      for (const packet of more) ownLength += packet.length
    },
    ownLength: () => ownLength,
    isEmpty: () => packets.length === 0,
    /** Passes on what can be passed on. */
    flush() {
      if (waiting === undefined || packets.length === 0) return
      const fetched = packets.splice(0, nextCount())
      if (packets.length === 0) ownLength = 0
      respond(textResponse(fields, fetched.join(SEPARATOR)))
    },
    respond,
    /** A poll waits for mail. */
    wait: () =>
      new Promise<PollingResponse>((resolve, reject) => {
        waiting = { resolve, reject }
      }),
    isAwaited: () => waiting !== undefined,
    /** The poll that waits, if any, is refused. */
    refuse(error: unknown) {
      const poll = waiting
      waiting = undefined
      poll?.reject(error)
    },
    useFields(latest: readonly string[]) {
      fields = latest
    },
    fields: () => fields,
    release,
    /** Everything that waits, which now goes another way; a poll that waits too gets a noop. */
    takeAll(): string[] {
      release()
      return packets.splice(0)
    }
  }
}

export type Mailbox = ReturnType<typeof createMailbox>

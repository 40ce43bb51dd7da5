// Holds what a polling client has not fetched yet, and answers its polls.
import { createHolding, type Holder, TEXT_BYTES } from '../../values/held-memory.ts'
import { SEPARATOR } from '../protocol/engineio.ts'

/** The response to a poll or a post, without the fields that belong to one exchange. */
export interface PollingResponse {
  readonly status: number
  /** `[name, value, …]` of the upstream, as far as the client may see them. */
  readonly fields: readonly string[]
  readonly text: string
}

export const textResponse = (fields: readonly string[], text: string): PollingResponse => ({
  status: 200,
  fields: [...fields, 'content-type', 'text/plain; charset=UTF-8'],
  text
})

/** A response ends with the packet that exceeds this; what is left waits for the next poll. */
const RESPONSE_LENGTH = 1_000_000

export type Mailbox = ReturnType<typeof createMailbox>

/** Holds packets for a polling client until its next poll. @param fields of responses, until the upstream sends others */
export const createMailbox = (fields: readonly string[], holder: Holder) => {
  const packets: string[] = []
  let waiting: PromiseWithResolvers<PollingResponse> | undefined

  /** The poll that waits, if any, is answered. */
  const settle = (response: PollingResponse) => {
    waiting?.resolve(response)
    waiting = undefined
  }
  const respond = (text: string) => settle(textResponse(mailbox.fields, text))

  const mailbox = {
    packets,
    fields,
    holding: createHolding(holder),
    /** Of the gateway's own packets since all were last fetched: a client may cause them without fetching any. */
    ownLength: 0,
    put(more: readonly string[]) {
      let length = mailbox.holding.bytes + more.length * TEXT_BYTES
      for (const packet of more) {
        packets.push(packet)
        length += packet.length
      }
      mailbox.holding.set(length)
    },
    isEmpty: () => packets.length === 0,
    isAwaited: () => waiting !== undefined,
    wait() {
      waiting = Promise.withResolvers()
      return waiting.promise
    },
    flush() {
      if (waiting === undefined || packets.length === 0) return
      let length = 0
      const last = packets.findIndex(packet => {
        length += packet.length
        return length >= RESPONSE_LENGTH
      })
      const fetched = packets.splice(0, last === -1 ? packets.length : last + 1)
      if (packets.length === 0) mailbox.ownLength = 0
      const left = mailbox.holding.bytes - length - fetched.length * TEXT_BYTES
      mailbox.holding.set(packets.length === 0 ? 0 : left)
      respond(fetched.join(SEPARATOR))
    },
    settle,
    respond,
    /** The poll that waits, if any, is refused. */
    refuse(error: unknown) {
      waiting?.reject(error)
      waiting = undefined
    }
  }
  return mailbox
}

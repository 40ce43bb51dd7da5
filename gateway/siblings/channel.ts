// Lets two processes call each other by name over the channel between them; every call ends with a result or an error.
import { task } from '../values/contain.ts'

export interface Calls {
  /** Rejects if the other side fails, ends, or does not respond within `timeoutMs`. */
  call(name: string, args?: readonly unknown[], timeoutMs?: number): Promise<unknown>
  /** Registers the handler for calls of this name from the other side. */
  answer(name: string, handler: Handler): void
  /** Processes a message from the channel; ignores messages that are not ours. */
  receive(message: unknown): void
  /** The other side has ended: pending calls are rejected, and so are later ones. */
  close(): void
}

export type Handler = (...args: never[]) => unknown

interface Question {
  readonly portaria: 'call'
  readonly id: number
  readonly name: string
  readonly args: readonly unknown[]
}

interface Reply {
  readonly portaria: 'answer'
  readonly id: number
  readonly value?: unknown
  readonly failure?: string
}

const TIMEOUT_MS = 5000

const isOurs = (message: unknown): message is Question | Reply =>
  typeof message === 'object' && message !== null && 'portaria' in message && 'id' in message

/** @param send must not throw when the channel is closed */
export const createCalls = (send: (message: object) => void): Calls => {
  const handlers = new Map<string, Handler>()
  const open = new Map<number, (answer: Reply) => void>()
  let serial = 0
  let isClosed = false

  const reply = async ({ id, name, args }: Question) => {
    try {
      const handler = handlers.get(name)
      if (handler === undefined) throw new Error(`no handler for ${name}`)
      send({ portaria: 'answer', id, value: await handler(...(args as never[])) } satisfies Reply)
    } catch (error) {
      send({ portaria: 'answer', id, failure: error instanceof Error ? error.message : 'failed' } satisfies Reply)
    }
  }

  return {
    call(name, args = [], timeoutMs = TIMEOUT_MS) {
      if (isClosed) return Promise.reject(new Error('the other process is gone'))
      const id = ++serial
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => settle({ portaria: 'answer', id, failure: `${name}: no reply` }), timeoutMs)
        const settle = ({ value, failure }: Reply) => {
          clearTimeout(timer)
          open.delete(id)
          if (failure === undefined) resolve(value)
          else reject(new Error(failure))
        }
        open.set(id, settle)
        send({ portaria: 'call', id, name, args } satisfies Question)
      })
    },
    answer: (name, handler) => void handlers.set(name, handler),
    receive(message) {
      if (!isOurs(message)) return
      if (message.portaria === 'call') task(reply)(message)
      else open.get(message.id)?.(message)
    },
    close() {
      isClosed = true
      for (const [id, settle] of [...open]) settle({ portaria: 'answer', id, failure: 'the other process is gone' })
    }
  }
}

// Lets processes call each other by name, whatever carries the messages; every call ends with a result or an error.
import { task } from '../values/contain.ts'
import { isRecord } from '../values/records.ts'

/** `gone`: the other process has ended. `away`: it cannot be asked at the moment. `failed`: its handler threw, or it has none. */
type FailureReason = 'gone' | 'away' | 'timeout' | 'failed'

export class CallFailure extends Error {
  readonly reason: FailureReason

  constructor(reason: FailureReason, message: string) {
    super(message)
    this.name = 'CallFailure'
    this.reason = reason
  }
}

export const gone = (): CallFailure => new CallFailure('gone', 'the other process is gone')

type Handler = (body: never) => unknown

interface Call {
  readonly kind: 'call'
  readonly id: number
  readonly name: string
  readonly body?: unknown
}

interface Reply {
  readonly kind: 'reply'
  readonly id: number
  readonly body?: unknown
  readonly failure?: string
}

export type CallMessage = Call | Reply

export type Calls = ReturnType<typeof createCalls>

const TIMEOUT_MS = 5000

const isOurs = (message: unknown): message is CallMessage =>
  isRecord(message) && 'id' in message && (message.kind === 'call' || message.kind === 'reply')

/** @param send what it rejects with, the call that is sent is rejected with */
export const createCalls = (send: (message: CallMessage, to: string) => unknown) => {
  const handlers = new Map<string, Handler>()
  const pending = new Map<number, { to: string; settle(result: unknown, failure?: unknown): void }>()
  let serial = 0
  let isClosed = false

  const reply = async ({ id, name, body }: Call, from: string) => {
    const respond = async () => {
      const handler = handlers.get(name)
      if (handler === undefined) throw new Error(`no handler for ${name}`)
      return handler(body as never)
    }
    const result = await respond().then(
      found => ({ body: found }),
      error => ({ failure: error instanceof Error ? error.message : 'failed' })
    )
    // The caller notices by itself that it cannot be reached.
    await Promise.resolve(send({ kind: 'reply', id, ...result }, from)).catch(() => undefined)
  }

  /** Rejects the calls that await a reply of one process. */
  const fail = (failure: CallFailure, to: string): void => {
    for (const call of [...pending.values()]) if (call.to === to) call.settle(undefined, failure)
  }

  return {
    /** Rejects with a {@link CallFailure}. `to` may be left out if there is only one other process. */
    call(name: string, body?: unknown, { to = '', timeoutMs = TIMEOUT_MS } = {}): Promise<unknown> {
      if (isClosed) return Promise.reject(gone())
      const id = ++serial
      return new Promise((resolve, reject) => {
        const settle = (result: unknown, failure?: unknown) => {
          clearTimeout(timer)
          pending.delete(id)
          if (failure === undefined) resolve(result)
          else reject(failure)
        }
        const onLate = () => settle(undefined, new CallFailure('timeout', `${name}: no reply`))
        const timer = setTimeout(task(onLate), timeoutMs)
        pending.set(id, { to, settle })
        Promise.resolve(send({ kind: 'call', id, name, body }, to)).catch(error => settle(undefined, error))
      })
    },
    /** Registers the handler of the calls of this name that arrive here. */
    answer: (name: string, handler: Handler) => void handlers.set(name, handler),
    /** Processes a message; ignores those that are not ours. */
    receive(message: unknown, from = ''): void {
      if (!isOurs(message)) return
      if (message.kind === 'call') task(reply)(message, from)
      else {
        const { id, body, failure } = message
        pending.get(id)?.settle(body, failure === undefined ? undefined : new CallFailure('failed', failure))
      }
    },
    /** The processes whose replies are awaited. */
    awaited: (): ReadonlySet<string> => new Set([...pending.values()].map(({ to }) => to)),
    fail,
    /** The other side has ended: all calls are rejected, now and later. */
    close() {
      isClosed = true
      for (const call of [...pending.values()]) call.settle(undefined, gone())
    }
  }
}

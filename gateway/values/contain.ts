// Contains faults: whatever a callback throws ends what it was called for, is logged with its stack, and is counted.
import type { Log } from './log.ts'

/** What a fault has ended; `task`: one run of something that no client waits for, such as a timer. The next run comes as usual. */
type FaultPlace = 'request' | 'client' | 'upstream' | 'stream' | 'socketio' | 'task'

/** What callbacks are called for, and what a fault in one of them ends. */
export interface Contained {
  /** Notes the fault and ends this, in whatever state it is. */
  onThrown(error: unknown): void
}

// One for the process, like the faults that cannot be placed.
let log: Pick<Log, 'error'> | undefined
const counts: Record<FaultPlace, number> = { request: 0, client: 0, upstream: 0, stream: 0, socketio: 0, task: 0 }

/** Where the faults of this process are logged from now on; on standard error before. */
export const logFaultsTo = (to: Pick<Log, 'error'>): void => {
  log = to
}

/** Logs a fault that has been contained, and counts it. */
export const noteFault = (place: FaultPlace, error: unknown, requestId?: string): void => {
  counts[place]++
  const fields = { err: error, place, ...(requestId === undefined ? {} : { requestId }) }
  if (log === undefined) console.error(error)
  else
    log.error(fields, 'a fault in the gateway ended what it was working on; all else goes on: report it with its stack')
}

/** How many faults have ended something, by what it was. */
export const faultCounts = (): Readonly<Record<FaultPlace, number>> => counts

/** Ends what a fault belongs to. */
export const endThrown = (owner: Contained, error: unknown): void => {
  try {
    owner.onThrown(error)
  } catch (further) {
    noteFault('task', further)
  }
}

/** Runs a callback for its owner, which a fault ends. The callers of hot paths write this out. */
export const contain = <T extends Contained>(owner: T, call: (owner: T) => void): void => {
  try {
    call(owner)
  } catch (error) {
    endThrown(owner, error)
  }
}

/** The owner of what happens on a socket before anything else owns it. */
export const ending = (socket: { destroy(): unknown }): Contained => ({
  onThrown(error) {
    noteFault('client', error)
    socket.destroy()
  }
})

/** The callback of a timer, a subscription or a watcher, made so that it neither throws nor rejects. */
export const task =
  <A extends unknown[]>(work: (...args: A) => unknown) =>
  (...args: A): void => {
    try {
      const pending = work(...args)
      if (pending instanceof Promise) pending.catch(noteTask)
    } catch (error) {
      noteTask(error)
    }
  }

const noteTask = (error: unknown) => noteFault('task', error)

/** Runs a task again and again without keeping the process alive. @returns what stops it */
export const every = (ms: number, work: () => unknown): (() => void) => {
  const timer = setInterval(task(work), ms).unref()
  return () => clearInterval(timer)
}

/** The same for work that may hang, as on a mount whose server is away: it must not pile up, so a run waits for the one before. */
export const everyInTurn = (ms: number, work: () => Promise<unknown>): (() => void) => {
  let isRunning = false
  return every(ms, async () => {
    if (isRunning) return
    isRunning = true
    await work().finally(() => {
      isRunning = false
    })
  })
}

// Checks in the background whether a service that logins need can be reached, and logs each change once.
import { task } from '../values/contain.ts'
import type { Log } from '../values/log.ts'

export type Reachability = 'ok' | 'away' | 'unknown'

interface WatchParts {
  /** Resolves if the service can be reached; must limit its own time. */
  reach: () => Promise<void>
  log: Log
  /** The messages for when it becomes unreachable and when it recovers. */
  away: string
  back: string
  okPauseMs?: number
  awayPauseMs?: number
}

const OK_PAUSE_MS = 30_000
const AWAY_PAUSE_MS = 3_000

export const watchReachability = (parts: WatchParts) => {
  const { reach, log, away, back, okPauseMs = OK_PAUSE_MS, awayPauseMs = AWAY_PAUSE_MS } = parts
  let state: Reachability = 'unknown'
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  const look = async (): Promise<void> => {
    const failure = await reach().then(
      () => undefined,
      (error: unknown) => ({ error })
    )
    if (isClosed) return
    const next = failure === undefined ? 'ok' : 'away'
    if (next === 'away' && state !== 'away') log.warn({ err: failure?.error, reason: 'login-provider-away' }, away)
    if (next === 'ok' && state === 'away') log.warn({ reason: 'login-provider-back' }, back)
    state = next
    timer = setTimeout(task(look), next === 'ok' ? okPauseMs : awayPauseMs)
    timer.unref()
  }
  task(look)()
  return {
    state: (): Reachability => state,
    close(): void {
      isClosed = true
      clearTimeout(timer)
    }
  }
}

// Decides whether requests are counted in Redis or by each instance alone, and probes Redis until it is available again.
import type { RedisFault } from '../redis/redis-failure.ts'
import { task } from '../values/contain.ts'

export type LimiterLog = Record<'info' | 'warn', (fields: object, message: string) => void>

/** @param reason why Redis is not used: a word of `RedisFault`; `since`: ms since the epoch */
export const stateNow = (reason?: string) => ({ up: reason === undefined, since: Date.now(), reason })

export const REDIS_UNAVAILABLE = 'rate limit: Redis is unavailable; each instance counts requests on its own'
export const REDIS_AVAILABLE = 'rate limit: counting in Redis again'

const FIRST_PROBE_MS = 100
const LAST_PROBE_MS = 1000
/** After this much uptime, the next failure counts as a new one and is probed quickly again. */
const STABLE_MS = 10_000

/**
 * @param probe asks Redis whether the slot of the failed key is writable; rejects if not
 * @param faultOf names the rejection of a probe
 * @param onUp Redis is available again
 */
export const createCircuit = (
  probe: (key: string) => Promise<unknown>,
  faultOf: (error: unknown) => RedisFault,
  log: LimiterLog,
  onUp: () => void
) => {
  let state = stateNow()
  let delayMs = FIRST_PROBE_MS
  let upAt = performance.now()
  let timer: NodeJS.Timeout | undefined
  let closed = false

  const probeLater = (key: string) => {
    if (closed) return
    timer = setTimeout(task(ask), delayMs * (0.75 + Math.random() / 2), key).unref()
    delayMs = Math.min(delayMs * 2, LAST_PROBE_MS)
  }

  const ask = (key: string) =>
    probe(key).then(
      () => {
        if (closed) return
        upAt = performance.now()
        log.info({ downMs: Date.now() - state.since }, REDIS_AVAILABLE)
        state = stateNow()
        task(onUp)()
      },
      (error: unknown) => {
        // The current reason is shown; a reason that changes during an outage is not a change of state.
        state = { ...state, reason: faultOf(error).reason }
        probeLater(key)
      }
    )

  return {
    /** True while requests are counted in Redis. */
    isUp: () => state.up && !closed,
    state: () => state,
    /** Redis failed for this key; from now on no request waits for it. */
    fail(fault: RedisFault, key: string) {
      if (!state.up || closed) return
      if (performance.now() - upAt > STABLE_MS) delayMs = FIRST_PROBE_MS
      log.warn({ ...fault }, REDIS_UNAVAILABLE)
      state = stateNow(fault.reason)
      probeLater(key)
    },
    close() {
      closed = true
      clearTimeout(timer)
    }
  }
}

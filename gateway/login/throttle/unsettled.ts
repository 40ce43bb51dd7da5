// Stores outcomes of logins that the database did not take at first, so that no right password is counted as a failure.
import { setTimeout as delay } from 'node:timers/promises'

const RETRY_MS = 1000
/** Those that come first matter: while the database is away, no further login begins. */
const MAX_WAITING = 1000

export const createUnsettled = <Settlement>(settle: (settlement: Settlement) => Promise<void>) => {
  const waiting = new Map<string, Settlement>()
  let isRetrying = false

  const retry = async (): Promise<void> => {
    isRetrying = true
    while (waiting.size > 0) {
      await delay(RETRY_MS, undefined, { ref: false })
      try {
        for (const [id, settlement] of waiting) {
          await settle(settlement)
          waiting.delete(id)
        }
      } catch {
        // The database is still away.
      }
    }
    isRetrying = false
  }

  return {
    add: (id: string, settlement: Settlement): void => {
      if (waiting.size < MAX_WAITING) waiting.set(id, settlement)
      if (!isRetrying) void retry()
    }
  }
}

// Stores outcomes of logins that the database did not take at first, so that no right password is counted as a failure.

interface Unsettled<Settlement> {
  add(id: string, settlement: Settlement): void
}

const RETRY_MS = 1000
/** Those that come first matter: while the database is away, no further login begins. */
const MAX_WAITING = 1000

export const createUnsettled = <Settlement>(
  settle: (settlement: Settlement) => Promise<void>
): Unsettled<Settlement> => {
  const waiting = new Map<string, Settlement>()
  let isRetrying = false

  const retryLater = (): void => {
    if (isRetrying || waiting.size === 0) return
    isRetrying = true
    setTimeout(retry, RETRY_MS).unref()
  }

  const retry = async (): Promise<void> => {
    try {
      for (const [id, settlement] of waiting) {
        await settle(settlement)
        waiting.delete(id)
      }
    } catch {
      // The database is still away.
    }
    isRetrying = false
    retryLater()
  }

  return {
    add: (id, settlement) => {
      if (waiting.size < MAX_WAITING) waiting.set(id, settlement)
      retryLater()
    }
  }
}

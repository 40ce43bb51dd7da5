// Reads from a response how long its upstream keeps an idle connection.
import type { ResponseHead } from './response-head.ts'

// Node's own servers close after 5 s, when a request must not be in transit.
export const DEFAULT_KEEP_ALIVE_MS = 4000

/** Milliseconds; 0: do not reuse. */
export const keepAliveHint = (head: ResponseHead): number => {
  for (let i = head.kinds.indexOf('keep-alive'); i !== -1; i = head.kinds.indexOf('keep-alive', i + 1)) {
    const seconds = /(?:^|[,\s])timeout=(\d{1,6})/i.exec(head.headers[2 * i + 1] ?? '')?.[1]
    // Half a second of margin for latency.
    if (seconds !== undefined) return Math.max(0, Number(seconds) * 1000 - 500)
  }
  return DEFAULT_KEEP_ALIVE_MS
}

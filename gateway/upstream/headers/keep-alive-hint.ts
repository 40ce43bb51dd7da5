// Reads from a response how long its upstream keeps an idle connection.
import { fieldValue } from '../../http/server/request.ts'
import type { ResponseHead } from '../parser.ts'

// Node's own servers close after 5 s, when a request must not be in transit.
export const DEFAULT_KEEP_ALIVE_MS = 4000

/** Milliseconds; 0: do not reuse. */
export const keepAliveHint = ({ headers }: ResponseHead): number => {
  const hint = fieldValue(headers, 'keep-alive')
  const seconds = hint === undefined ? undefined : /(?:^|[,\s])timeout=(\d{1,6})/i.exec(hint)?.[1]
  // Half a second of margin for latency.
  return seconds === undefined ? DEFAULT_KEEP_ALIVE_MS : Math.max(0, Number(seconds) * 1000 - 500)
}

// Reads from a response how long its upstream keeps an idle connection.
import { MARKS_PER_LINE } from '../field-lines.ts'
import { KEEP_ALIVE } from './response-fields.ts'
import type { ResponseHead } from './response-head.ts'

// Node's own servers close after 5 s, when a request must not be in transit.
export const DEFAULT_KEEP_ALIVE_MS = 4000

/** Milliseconds; 0: do not reuse. */
export const keepAliveHint = (head: ResponseHead): number => {
  const { text, marks } = head
  for (let i = 0; i < marks.length; i += MARKS_PER_LINE) {
    if (marks[i] !== KEEP_ALIVE) continue
    const seconds = /(?:^|[,\s])timeout=(\d{1,6})/i.exec(text.slice(marks[i + 3], marks[i + 4]))?.[1]
    // Half a second of margin for latency.
    if (seconds !== undefined) return Math.max(0, Number(seconds) * 1000 - 500)
  }
  return DEFAULT_KEEP_ALIVE_MS
}

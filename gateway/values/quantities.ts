// Parses durations and sizes as people write them, into milliseconds and bytes; and dates and times as RFC 3339 writes them.

export const DURATION_UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000
}
export const SIZE_UNITS: Readonly<Record<string, number>> = { B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 }

export const DURATION_PATTERN = '^[1-9][0-9]{0,8}(ms|s|m|h|d)$'
export const DURATION_OR_ZERO_PATTERN = '^(0|[1-9][0-9]{0,8}(ms|s|m|h|d))$'
export const SIZE_PATTERN = '^[1-9][0-9]{0,8}(B|KB|MB|GB)$'

/** Longest delay of a Node timer, about 24.8 days. */
export const MAX_TIMER_MS = 2 ** 31 - 1
/** For what is added to or stretched: beyond the longest delay, a timer fires at once. */
export const timerMs = (ms: number): number => Math.min(ms, MAX_TIMER_MS)

/** `500ms`, `30s`, `2m`, `8h`, `1d` or `0` as milliseconds; NaN for anything else. */
export const parseDuration = (text: string | number): number => {
  if (text === 0 || text === '0') return 0
  const [, amount, unit] = /^([0-9]+)(ms|s|m|h|d)$/.exec(String(text)) ?? []
  return Number(amount) * (DURATION_UNITS[unit ?? ''] ?? Number.NaN)
}

/** `512B`, `64KB`, `10MB`, `1GB` (1 KB is 1024 bytes) or a number of bytes; NaN for anything else. */
export const parseSize = (text: string | number): number => {
  if (typeof text === 'number') return text
  const [, amount, unit] = /^([0-9]+)(B|KB|MB|GB)$/.exec(text) ?? []
  return Number(amount) * (SIZE_UNITS[unit ?? ''] ?? Number.NaN)
}

const DATE = String.raw`(\d{4})-(\d\d)-(\d\d)`
const TIMESTAMP = new RegExp(
  `^${DATE}(?:T(\\d\\d):(\\d\\d):(\\d\\d)(?:\\.\\d{1,9})?(?:Z|[+-](\\d\\d):(\\d\\d)))?$`,
  'i'
)

/** A `full-date`, meaning its beginning in UTC, or a `date-time`; undefined for anything else, and for dates that do not exist. */
export const parseTimestamp = (text: string): Date | undefined => {
  const match = TIMESTAMP.exec(text)
  if (match === null) return undefined
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, offsetHour = 0, offsetMinute = 0] = match
    .slice(1)
    .map(digits => Number(digits ?? 0))
  const daysInMonth = new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate()
  const exists = month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth
  if (!exists || hour > 23 || minute > 59 || second > 59 || offsetHour > 23 || offsetMinute > 59) return undefined
  return new Date(text.toUpperCase())
}

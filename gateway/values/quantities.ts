// Parses durations and sizes as people write them, into milliseconds and bytes.

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

// Says in response fields how much of a request limit is left.
import type { Verdict } from '../limits/limiter.ts'

/** Until the window ends; at least 1. */
export const secondsLeft = ({ resetMs }: Verdict): number => Math.max(1, Math.ceil(resetMs / 1000))

/** `[name, value, …]` */
export const limitHeaders = (verdict: Verdict): string[] => [
  'x-ratelimit-limit',
  String(verdict.limit),
  'x-ratelimit-remaining',
  String(verdict.remaining),
  'x-ratelimit-reset',
  String(secondsLeft(verdict))
]

/** Whether both give the same fields. */
export const sameLimitHeaders = (one: Verdict, other: Verdict): boolean =>
  one.limit === other.limit && one.remaining === other.remaining && secondsLeft(one) === secondsLeft(other)

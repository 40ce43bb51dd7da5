// Decides when a target is down, how long it is left alone, and how slowly it returns, without side effects.
import type { TargetFault } from './faults.ts'

/**
 * What took a target out of service: no connection could be opened, its checks failed, or too many requests in a row
 * failed or were answered with 502, 503 or 504.
 */
type OutBy = 'connect' | 'check' | 'errors'

/** What is known about a target; changed in place by the steps below. */
interface TargetStanding {
  /** `returning`: in service again, with a growing share of its turns. */
  state: 'up' | 'returning' | 'down'
  outBy: OutBy
  /** Milliseconds since the epoch. */
  since: number
  /** Why it is, or was last, out of service. */
  reason: string | undefined
  /** Monotonic ms, like all following times. */
  outAt: number
  returnedAt: number
  backOffMs: number
  errorsInRow: number
  passedInRow: number
  failedInRow: number
  /** Turns that it has accumulated while returning. */
  credit: number
  readonly faults: Record<TargetFault, number>
}

/** Errors in a row after which a target that has just returned goes out again. */
const ERRORS_WHILE_RETURNING = 2
const FIRST_BACK_OFF_MS = 500
const LAST_BACK_OFF_MS = 5000
const SLOW_START_MS = 10_000
const LEAST_SHARE = 0.1
/** After this much time in service, the next outage counts as a new one and is probed quickly again. */
const STABLE_MS = 30_000

export const beginStanding = (since: number): TargetStanding => ({
  state: 'up',
  outBy: 'connect',
  since,
  reason: undefined,
  outAt: 0,
  returnedAt: Number.NEGATIVE_INFINITY,
  backOffMs: FIRST_BACK_OFF_MS,
  errorsInRow: 0,
  passedInRow: 0,
  failedInRow: 0,
  credit: 0,
  faults: { unreachable: 0, reset: 0, 'bad-response': 0, timeout: 0 }
})

/** `returning` ends by itself. */
export const stateOf = (standing: TargetStanding, at: number): TargetStanding['state'] => {
  if (standing.state === 'returning' && at - standing.returnedAt >= SLOW_START_MS) standing.state = 'up'
  return standing.state
}

/** Whether a returning target takes this turn; it takes more and more of them. */
export const takesTurn = (standing: TargetStanding, at: number): boolean => {
  if (stateOf(standing, at) !== 'returning') return true
  standing.credit += Math.max(LEAST_SHARE, (at - standing.returnedAt) / SLOW_START_MS)
  if (standing.credit < 1) return false
  standing.credit -= 1
  return true
}

/** A request has failed, or was answered with 502, 503 or 504; returns whether too many were. 0 as a limit: never. */
export const errsTooOften = (standing: TargetStanding, limit: number, at: number): boolean => {
  standing.errorsInRow++
  if (limit === 0) return false
  return (
    standing.errorsInRow >= (stateOf(standing, at) === 'returning' ? Math.min(ERRORS_WHILE_RETURNING, limit) : limit)
  )
}

/** A check has passed; returns whether this brings a target that is down back into service. */
export const passesCheck = (standing: TargetStanding, rise: number): boolean => {
  standing.failedInRow = 0
  return ++standing.passedInRow >= rise && standing.state === 'down'
}

/** A check has failed; returns whether this takes a target that is in service out of it. */
export const failsCheck = (standing: TargetStanding, fall: number): boolean => {
  standing.passedInRow = 0
  return ++standing.failedInRow >= fall && standing.state !== 'down'
}

/** Takes it out of service; returns how long it is left alone. */
export const leaveUse = (
  standing: TargetStanding,
  out: { by: OutBy; reason: string; restMs?: number },
  at: number,
  since: number
): number => {
  standing.backOffMs = at - standing.returnedAt < STABLE_MS ? longer(standing.backOffMs) : FIRST_BACK_OFF_MS
  standing.state = 'down'
  standing.outBy = out.by
  standing.reason = out.reason
  standing.outAt = at
  standing.since = since
  standing.passedInRow = 0
  return out.restMs ?? standing.backOffMs
}

/** A check of a target that is down has failed; returns how long it is left alone now. */
export const stayOut = (standing: TargetStanding, why: string): number => {
  standing.reason = why
  standing.backOffMs = longer(standing.backOffMs)
  return standing.backOffMs
}

export const enterUse = (standing: TargetStanding, at: number, since: number): void => {
  standing.state = 'returning'
  standing.returnedAt = at
  standing.since = since
  standing.errorsInRow = 0
  standing.failedInRow = 0
  standing.credit = 0
}

const longer = (backOffMs: number): number => Math.min(backOffMs * 2, LAST_BACK_OFF_MS)

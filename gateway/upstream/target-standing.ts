// Decides when a target is down, how long it is left alone, and how slowly it returns, without side effects.
import type { UpstreamFault } from './faults.ts'

/** What is known about a target; changed in place by the steps below, because requests hold a reference to it. */
interface TargetStanding {
  /** In service, and no longer on probation. */
  isSettled: boolean
  isOutByCheck: boolean
  /** Milliseconds since the epoch. */
  since: number
  reason: string | undefined
  /** Monotonic ms, like all following times. */
  outAt: number
  returnedAt: number
  backOffMs: number
  faultsInRow: number
  failedChecks: number
  /** Turns that it has accumulated while returning. */
  credit: number
  readonly faults: Record<UpstreamFault, number>
}

/** Consecutive faults, without a response between them, after which a target is taken out of service. */
const FAULTS_IN_ROW = 5
/** The same for one that has just returned. */
const FAULTS_WHILE_RETURNING = 2
const FAILED_CHECKS = 2
const FIRST_BACK_OFF_MS = 500
const LAST_BACK_OFF_MS = 5000
const SLOW_START_MS = 10_000
const LEAST_SHARE = 0.1
/** After this much time in service, the next outage counts as a new one and is probed quickly again. */
const STABLE_MS = 30_000

export const beginStanding = (since: number): TargetStanding => ({
  isSettled: true,
  isOutByCheck: false,
  since,
  reason: undefined,
  outAt: 0,
  returnedAt: Number.NEGATIVE_INFINITY,
  backOffMs: FIRST_BACK_OFF_MS,
  faultsInRow: 0,
  failedChecks: 0,
  credit: 0,
  faults: { unreachable: 0, reset: 0, 'bad-response': 0, timeout: 0 }
})

export const isReturning = (standing: TargetStanding, at: number): boolean => {
  if (!standing.isSettled && at - standing.returnedAt >= SLOW_START_MS) standing.isSettled = true
  return !standing.isSettled
}

/** Whether a returning target takes this turn; it takes more and more of them. */
export const takesTurn = (standing: TargetStanding, at: number): boolean => {
  if (!isReturning(standing, at)) return true
  standing.credit += Math.max(LEAST_SHARE, (at - standing.returnedAt) / SLOW_START_MS)
  if (standing.credit < 1) return false
  standing.credit -= 1
  return true
}

/** A request has failed; returns whether too many did without a response between them. */
export const faultsTooOften = (standing: TargetStanding, at: number): boolean =>
  ++standing.faultsInRow >= (isReturning(standing, at) ? FAULTS_WHILE_RETURNING : FAULTS_IN_ROW)

/** A check has failed; returns whether this takes the target out of service. */
export const failsCheck = (standing: TargetStanding): boolean => ++standing.failedChecks >= FAILED_CHECKS

/** Takes it out of service; returns how long it is left alone. */
export const leaveUse = (
  standing: TargetStanding,
  why: string,
  byCheck: boolean,
  at: number,
  since: number
): number => {
  standing.backOffMs = at - standing.returnedAt < STABLE_MS ? longer(standing.backOffMs) : FIRST_BACK_OFF_MS
  standing.isOutByCheck = byCheck
  standing.outAt = at
  standing.since = since
  standing.reason = why
  return standing.backOffMs
}

/** A probe has failed; returns how long the target is left alone now. */
export const stayOut = (standing: TargetStanding, why: string): number => {
  standing.reason = why
  standing.backOffMs = longer(standing.backOffMs)
  return standing.backOffMs
}

export const enterUse = (standing: TargetStanding, at: number, since: number): void => {
  standing.isSettled = false
  standing.returnedAt = at
  standing.since = since
  standing.faultsInRow = 0
  standing.failedChecks = 0
  standing.credit = 0
}

const longer = (backOffMs: number): number => Math.min(backOffMs * 2, LAST_BACK_OFF_MS)

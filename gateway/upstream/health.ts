// Decides whether a target is in, out, or coming back slowly, by what becomes of requests, checks and probes.
import type { Target } from '../routes/route.ts'
import type { UpstreamFault } from './faults.ts'

/** `returning`: in again, with a growing share of its turns. */
type TargetState = 'up' | 'returning' | 'down'

/** Asks the target once; `done` gets what was wrong, or undefined. Returns what gives up. */
export type HealthProbe = (done: (failure: string | undefined) => void) => () => void

interface TargetHealthOptions {
  readonly probe: HealthProbe
  /** Of the active checks; undefined: the target is probed only while it is out. */
  readonly checkEveryMs: number | undefined
  /** Monotonic ms. */
  readonly now: () => number
  readonly onChange: (state: 'down' | 'returning', reason: string) => void
}

export interface TargetHealth {
  /** Requests go elsewhere as long as there is an elsewhere. */
  readonly isOut: boolean
  /** Whether a target that comes back takes this turn of its own; always true for one that is up. */
  takesTurn(): boolean
  /** A response head came on a connection opened at `openedAt`. An HTTP 5xx is an answer too. */
  answered(openedAt: number): void
  failed(fault: UpstreamFault, nothingSent: boolean): void
  status(): TargetHealthStatus
  close(): void
}

export interface TargetHealthStatus {
  readonly state: TargetState
  /** Milliseconds since the epoch. */
  readonly since: number
  /** Why it is or was out last; a stable word. */
  readonly reason: string | undefined
  /** Requests that failed so far, by what went wrong. */
  readonly faults: Readonly<Record<UpstreamFault, number>>
}

/** Faults in a row, without an answer between them, after which a target is out. */
const FAULTS_IN_ROW = 5
/** The same for one that has just come back. */
const FAULTS_WHILE_RETURNING = 2
const FAILED_CHECKS = 2
const FIRST_BACK_OFF_MS = 500
const LAST_BACK_OFF_MS = 5000
const RECHECK_MS = 1000
const SLOW_START_MS = 10_000
const LEAST_SHARE = 0.1
/** In for so long, the next outage is a new one and probed quickly again. */
const STABLE_MS = 30_000

const known = new WeakMap<Target, TargetHealth>()

/** The health of a target of a table in use; undefined: it is not watched. */
export const healthOf = (target: Target): TargetHealth | undefined => known.get(target)

/** Those that are in before those that are out; else in the order given. */
export const healthyFirst = (targets: readonly Target[]): readonly Target[] =>
  targets.some(target => known.get(target)?.isOut === true)
    ? targets.toSorted((a, b) => Number(known.get(a)?.isOut ?? false) - Number(known.get(b)?.isOut ?? false))
    : targets

// Not all instances and targets at the same moment.
const jittered = (ms: number): number => ms * (0.8 + Math.random() * 0.4)

export const watchTarget = (target: Target, options: TargetHealthOptions): TargetHealth => {
  const { probe, checkEveryMs, now, onChange } = options
  const faults: Record<UpstreamFault, number> = { unreachable: 0, reset: 0, 'bad-response': 0, timeout: 0 }
  let isSettled = true
  let isCheckOut = false
  let since = Date.now()
  let reason: string | undefined
  let outAt = 0
  let returnedAt = Number.NEGATIVE_INFINITY
  let backOffMs = FIRST_BACK_OFF_MS
  let faultsInRow = 0
  let failedChecks = 0
  let credit = 0
  let timer: NodeJS.Timeout | undefined
  let abort: (() => void) | undefined
  let isClosed = false

  const isReturning = (): boolean => {
    if (!isSettled && now() - returnedAt >= SLOW_START_MS) isSettled = true
    return !isSettled
  }

  const probeIn = (ms: number) => {
    clearTimeout(timer)
    abort?.()
    if (!isClosed) timer = setTimeout(ask, ms).unref()
  }
  const ask = () => {
    abort = probe(failure => {
      abort = undefined
      if (failure === undefined) passed()
      else missed(failure)
    })
  }
  const passed = () => {
    failedChecks = 0
    if (health.isOut) comeBack()
    else if (checkEveryMs !== undefined) probeIn(jittered(checkEveryMs))
  }
  const missed = (failure: string) => {
    if (health.isOut) {
      reason = failure
      backOffMs = Math.min(backOffMs * 2, LAST_BACK_OFF_MS)
      return probeIn(jittered(backOffMs))
    }
    failedChecks++
    if (failedChecks >= FAILED_CHECKS) return goOut(failure, true)
    probeIn(Math.min(checkEveryMs ?? RECHECK_MS, RECHECK_MS))
  }

  const goOut = (why: string, byCheck: boolean) => {
    const at = now()
    backOffMs = at - returnedAt < STABLE_MS ? Math.min(backOffMs * 2, LAST_BACK_OFF_MS) : FIRST_BACK_OFF_MS
    health.isOut = true
    isCheckOut = byCheck
    outAt = at
    since = Date.now()
    reason = why
    probeIn(jittered(backOffMs))
    onChange('down', why)
  }
  const comeBack = () => {
    health.isOut = false
    isSettled = false
    returnedAt = now()
    since = Date.now()
    faultsInRow = 0
    failedChecks = 0
    credit = 0
    if (checkEveryMs === undefined) {
      clearTimeout(timer)
      abort?.()
    } else probeIn(jittered(checkEveryMs))
    onChange('returning', reason ?? '')
  }

  // Plain, like that of a connection: requests ask it.
  const health: TargetHealth & { isOut: boolean } = {
    isOut: false,
    takesTurn() {
      if (isSettled || !isReturning()) return true
      credit += Math.max(LEAST_SHARE, (now() - returnedAt) / SLOW_START_MS)
      if (credit < 1) return false
      credit -= 1
      return true
    },
    answered(openedAt) {
      if (faultsInRow > 0) faultsInRow = 0
      // It was asked because no other target was there. What finishes on older connections of a closing server says nothing.
      if (health.isOut && !isCheckOut && openedAt > outAt) comeBack()
    },
    failed(fault, nothingSent) {
      // A warm connection that was closed meanwhile is how HTTP/1.1 works (RFC 9112 §9.5).
      if (fault === 'reset' && nothingSent) return
      faults[fault]++
      if (health.isOut) return
      faultsInRow++
      const most = isReturning() ? FAULTS_WHILE_RETURNING : FAULTS_IN_ROW
      if (nothingSent || faultsInRow >= most) goOut(nothingSent ? 'unreachable' : fault, false)
    },
    status: () => ({
      state: health.isOut ? 'down' : isReturning() ? 'returning' : 'up',
      since,
      reason,
      faults: { ...faults }
    }),
    close() {
      isClosed = true
      clearTimeout(timer)
      abort?.()
    }
  }
  known.set(target, health)
  if (checkEveryMs !== undefined) probeIn(Math.random() * Math.min(checkEveryMs, RECHECK_MS))
  return health
}

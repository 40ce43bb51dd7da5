// Takes targets out of service and back in, by the results of requests, checks and probes.

import type { Target } from '../routes/upstream.ts'
import { noteFault } from '../values/contain.ts'
import type { UpstreamFault } from './faults.ts'
import {
  beginStanding,
  enterUse,
  failsCheck,
  faultsTooOften,
  isReturning,
  leaveUse,
  stayOut,
  takesTurn
} from './target-standing.ts'

/** `returning`: back in service, with a growing share of its turns. */
type TargetState = 'up' | 'returning' | 'down'

/** Checks the target once; `done` receives what was wrong, or undefined. Returns a function that aborts it. */
export type HealthProbe = (done: (failure: string | undefined) => void) => () => void

interface TargetHealthOptions {
  readonly probe: HealthProbe
  /** Interval of the active checks; undefined: the target is probed only while it is out of service. */
  readonly checkEveryMs: number | undefined
  /** Monotonic ms. */
  readonly now: () => number
  readonly onChange: (state: 'down' | 'returning', reason: string) => void
}

export interface TargetHealth {
  /** Requests use other targets as long as there are any. */
  readonly isOut: boolean
  /** Whether a returning target takes this turn; always true for one that is up. */
  takesTurn(): boolean
  /** A response head arrived on a connection opened at `openedAt`. An HTTP 5xx is a response too. */
  answered(openedAt: number): void
  failed(fault: UpstreamFault, nothingSent: boolean): void
  status(): TargetHealthStatus
  close(): void
}

export interface TargetHealthStatus {
  readonly state: TargetState
  /** Milliseconds since the epoch. */
  readonly since: number
  /** Why it is, or was last, out of service; a stable word. */
  readonly reason: string | undefined
  /** Number of failed requests so far, by kind of failure. */
  readonly faults: Readonly<Record<UpstreamFault, number>>
}

/** Delay before the next check after one that failed. */
const RECHECK_MS = 1000

const known = new WeakMap<Target, TargetHealth>()

/** The health of a target of a table in use; undefined: it is not watched. */
export const healthOf = (target: Target): TargetHealth | undefined => known.get(target)

/** Targets in service before those that are out; otherwise in the given order. */
export const healthyFirst = (targets: readonly Target[]): readonly Target[] =>
  targets.some(target => known.get(target)?.isOut === true)
    ? targets.toSorted((a, b) => Number(known.get(a)?.isOut ?? false) - Number(known.get(b)?.isOut ?? false))
    : targets

// Not all instances and targets at the same moment.
const jittered = (ms: number): number => ms * (0.8 + Math.random() * 0.4)

export const watchTarget = (target: Target, options: TargetHealthOptions): TargetHealth => {
  const { probe, checkEveryMs, now, onChange } = options
  const standing = beginStanding(Date.now())
  let timer: NodeJS.Timeout | undefined
  let abort: (() => void) | undefined
  let isClosed = false

  const stopProbing = () => {
    clearTimeout(timer)
    abort?.()
  }
  const probeIn = (ms: number) => {
    stopProbing()
    if (!isClosed) timer = setTimeout(ask, ms).unref()
  }
  const ask = () => {
    try {
      abort = probe(failure => {
        abort = undefined
        if (failure === undefined) passed()
        else missed(failure)
      })
    } catch (error) {
      noteFault('task', error)
      missed('check-fault')
    }
  }
  const passed = () => {
    standing.failedChecks = 0
    if (health.isOut) comeBack()
    else if (checkEveryMs !== undefined) probeIn(jittered(checkEveryMs))
  }
  const missed = (failure: string) => {
    if (health.isOut) return probeIn(jittered(stayOut(standing, failure)))
    if (failsCheck(standing)) return goOut(failure, true)
    probeIn(Math.min(checkEveryMs ?? RECHECK_MS, RECHECK_MS))
  }

  const goOut = (why: string, byCheck: boolean) => {
    health.isOut = true
    probeIn(jittered(leaveUse(standing, why, byCheck, now(), Date.now())))
    onChange('down', why)
  }
  const comeBack = () => {
    health.isOut = false
    enterUse(standing, now(), Date.now())
    if (checkEveryMs === undefined) stopProbing()
    else probeIn(jittered(checkEveryMs))
    onChange('returning', standing.reason ?? '')
  }

  // A plain property, like those of a connection, because requests read it.
  const health: TargetHealth & { isOut: boolean } = {
    isOut: false,
    takesTurn: () => standing.isSettled || takesTurn(standing, now()),
    answered(openedAt) {
      if (standing.faultsInRow > 0) standing.faultsInRow = 0
      // It was used because there was no other target. Responses on older connections of a closing server prove nothing.
      if (health.isOut && !standing.isOutByCheck && openedAt > standing.outAt) comeBack()
    },
    failed(fault, nothingSent) {
      // A warm connection that was closed in the meantime is normal in HTTP/1.1 (RFC 9112 §9.5).
      if (fault === 'reset' && nothingSent) return
      standing.faults[fault]++
      if (health.isOut) return
      const isTooOften = faultsTooOften(standing, now())
      if (nothingSent || isTooOften) goOut(nothingSent ? 'unreachable' : fault, false)
    },
    status: () => ({
      state: health.isOut ? 'down' : isReturning(standing, now()) ? 'returning' : 'up',
      since: standing.since,
      reason: standing.reason,
      faults: { ...standing.faults }
    }),
    close() {
      isClosed = true
      stopProbing()
    }
  }
  known.set(target, health)
  if (checkEveryMs !== undefined) probeIn(Math.random() * Math.min(checkEveryMs, RECHECK_MS))
  return health
}

// Takes targets out of service and back in, by the results of requests, checks and probes.
import type { Target } from '../routes/route.ts'
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

/** After a check that failed, the next comes so soon. */
const RECHECK_MS = 1000

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
    abort = probe(failure => {
      abort = undefined
      if (failure === undefined) passed()
      else missed(failure)
    })
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

  // Plain, like that of a connection: requests ask it.
  const health: TargetHealth & { isOut: boolean } = {
    isOut: false,
    takesTurn: () => standing.isSettled || takesTurn(standing, now()),
    answered(openedAt) {
      if (standing.faultsInRow > 0) standing.faultsInRow = 0
      // It was asked because no other target was there. What finishes on older connections of a closing server says nothing.
      if (health.isOut && !standing.isOutByCheck && openedAt > standing.outAt) comeBack()
    },
    failed(fault, nothingSent) {
      // A warm connection that was closed meanwhile is how HTTP/1.1 works (RFC 9112 §9.5).
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

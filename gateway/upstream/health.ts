// Takes a target out of service and back in, by the results of requests, checks and probes.
import { noteFault, task } from '../values/contain.ts'
import { EXHAUSTED, type TargetFault, type UpstreamFault } from './faults.ts'
import {
  beginStanding,
  enterUse,
  errsTooOften,
  failsCheck,
  leaveUse,
  passesCheck,
  stateOf,
  stayOut,
  takesTurn
} from './target-standing.ts'

/** Checks the target once; `done` receives what was wrong, or undefined. Returns a function that aborts it. */
export type HealthProbe = (done: (failure: string | undefined) => void) => () => void

/** Of the route table in use. */
interface HealthSettings {
  /** undefined: the target is probed only while it is out of service. */
  readonly checks: { readonly intervalMs: number; readonly rise: number; readonly fall: number } | undefined
  /** So many errors in a row take the target out of service for so long; 0 errors: never. */
  readonly outlier: { readonly errors: number; readonly restMs: number }
}

interface TargetHealthOptions {
  readonly probe: HealthProbe
  readonly settings: () => HealthSettings
  /** Whether requests have another target that is in service. */
  readonly hasOther: () => boolean
  /** Monotonic ms. */
  readonly now: () => number
  readonly onChange: (state: 'down' | 'returning', reason: string) => void
}

export interface TargetHealth {
  /** Requests use other targets as long as there are any. */
  readonly isOut: boolean
  /** It is out because of its errors, and may still be reached: better than one that cannot. */
  readonly isResting: boolean
  /** Whether a returning target takes this turn; always true for one that is up. */
  takesTurn(): boolean
  /** A response head arrived on a connection opened at `openedAt`. */
  answered(status: number, openedAt: number): void
  failed(fault: UpstreamFault, nothingSent: boolean): void
  /** The settings may have changed: checks of a target in service begin, end, or go on at another interval. */
  resettle(): void
  status(): TargetHealthStatus
  close(): void
}

export interface TargetHealthStatus {
  readonly state: 'up' | 'returning' | 'down'
  /** Milliseconds since the epoch. */
  readonly since: number
  /** Why it is, or was last, out of service; a stable word. */
  readonly reason: string | undefined
  /** Number of failed requests so far, by kind of failure. */
  readonly faults: Readonly<Record<TargetFault, number>>
}

/** Delay before the next check after one that failed. */
const RECHECK_MS = 1000

/** The backend, or a gateway between, has no answer of its own. */
const isError = (status: number): boolean => status === 502 || status === 503 || status === 504

// Not all instances and targets at the same moment.
const jittered = (ms: number): number => ms * (0.8 + Math.random() * 0.4)

export const watchTarget = (options: TargetHealthOptions): TargetHealth => {
  const { probe, settings, hasOther, now, onChange } = options
  const standing = beginStanding(Date.now())
  let timer: NodeJS.Timeout | undefined
  let abort: (() => void) | undefined
  let isClosed = false

  const stopProbing = () => {
    clearTimeout(timer)
    abort?.()
    abort = undefined
  }
  const probeIn = (ms: number) => {
    stopProbing()
    if (!isClosed) timer = setTimeout(task(ask), ms).unref()
  }
  const ask = () => {
    try {
      abort = probe(failure => {
        abort = undefined
        if (failure === undefined) passed()
        else if (failure === EXHAUSTED) probeIn(RECHECK_MS)
        else missed(failure)
      })
    } catch (error) {
      noteFault('task', error)
      missed('check-fault')
    }
  }
  const recheckMs = () => Math.min(settings().checks?.intervalMs ?? RECHECK_MS, RECHECK_MS)
  const passed = () => {
    if (passesCheck(standing, settings().checks?.rise ?? 1)) return comeBack()
    if (health.isOut) probeIn(recheckMs())
    else resettle()
  }
  const missed = (failure: string) => {
    const isOver = failsCheck(standing, settings().checks?.fall ?? 1)
    if (health.isOut) {
      health.isResting = false
      probeIn(jittered(stayOut(standing, failure)))
    } else if (isOver) goOut({ by: 'check', reason: failure })
    else probeIn(recheckMs())
  }
  const resettle = () => {
    if (health.isOut) return
    const { checks } = settings()
    if (checks === undefined) stopProbing()
    else probeIn(jittered(checks.intervalMs))
  }

  const goOut = (out: Parameters<typeof leaveUse>[1]) => {
    if (isClosed) return
    const aloneMs = leaveUse(standing, out, now(), Date.now())
    health.isOut = true
    health.isResting = out.by === 'errors'
    probeIn(out.restMs === undefined ? jittered(aloneMs) : aloneMs)
    onChange('down', out.reason)
  }
  const comeBack = () => {
    if (isClosed) return
    health.isOut = false
    health.isResting = false
    enterUse(standing, now(), Date.now())
    resettle()
    onChange('returning', standing.reason ?? '')
  }
  const erred = (reason: string) => {
    const { errors, restMs } = settings().outlier
    if (errsTooOften(standing, errors, now()) && !health.isOut && hasOther()) goOut({ by: 'errors', reason, restMs })
  }

  // Plain properties, because requests read them.
  const health: TargetHealth & { isOut: boolean; isResting: boolean } = {
    isOut: false,
    isResting: false,
    takesTurn: () => standing.state === 'up' || takesTurn(standing, now()),
    answered(status, openedAt) {
      if (isError(status)) return erred(`status-${status}`)
      standing.errorsInRow = 0
      // It was used because there was no other target. Responses on older connections of a closing server prove nothing.
      if (health.isOut && standing.outBy !== 'check' && openedAt > standing.outAt) comeBack()
    },
    failed(fault, nothingSent) {
      // No fault of the target. A warm connection that was closed in the meantime is normal in HTTP/1.1 (RFC 9112 §9.5).
      if (fault === EXHAUSTED || (fault === 'reset' && nothingSent)) return
      standing.faults[fault]++
      if (!nothingSent) erred(fault)
      else if (!health.isOut) goOut({ by: 'connect', reason: 'unreachable' })
    },
    resettle,
    status: () => ({
      state: stateOf(standing, now()),
      since: standing.since,
      reason: standing.reason,
      faults: { ...standing.faults }
    }),
    close() {
      isClosed = true
      stopProbing()
    }
  }
  const { checks } = settings()
  if (checks !== undefined) probeIn(Math.random() * Math.min(checks.intervalMs, RECHECK_MS))
  return health
}

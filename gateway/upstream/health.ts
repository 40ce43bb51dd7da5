// Takes a target out of service and, slowly, back in, by the results of requests, checks and probes.
import { noteFault, task } from '../values/contain.ts'
import { timerMs } from '../values/quantities.ts'
import { EXHAUSTED, type TargetFault, type UpstreamFault } from './faults.ts'

/** Checks the target once; `done` receives what was wrong, or undefined. Returns a function that aborts it. */
export type HealthProbe = (done: (failure: string | undefined) => void) => () => void

interface TargetHealthOptions {
  readonly probe: HealthProbe
  /** Of the route table in use. */
  readonly settings: () => {
    /** undefined: the target is probed only while it is out of service. */
    readonly checks: { readonly intervalMs: number; readonly rise: number; readonly fall: number } | undefined
    /** So many errors in a row take the target out of service for so long; 0 errors: never. */
    readonly outlier: { readonly errors: number; readonly restMs: number }
  }
  /** Whether requests have another target that is in service. */
  readonly hasOther: () => boolean
  /** Monotonic ms. */
  readonly now: () => number
  readonly onChange: (state: 'down' | 'returning', reason: string) => void
}

export type TargetHealth = ReturnType<typeof watchTarget>

/** Errors in a row after which a target that has just returned goes out again. */
const ERRORS_WHILE_RETURNING = 2
const FIRST_BACK_OFF_MS = 500
const LAST_BACK_OFF_MS = 5000
/** After its return, a target takes a growing share of its turns. */
const SLOW_START_MS = 10_000
const LEAST_SHARE = 0.1
/** After this much time in service, the next outage counts as a new one and is probed quickly again. */
const STABLE_MS = 30_000
/** Delay before the next check after one that failed. */
const RECHECK_MS = 1000

/** The backend, or a gateway between, has no answer of its own. */
const isError = (status: number): boolean => status === 502 || status === 503 || status === 504

// Not all instances and targets at the same moment.
const jittered = (ms: number): number => timerMs(ms * (0.8 + Math.random() * 0.4))
const longer = (backOffMs: number): number => Math.min(backOffMs * 2, LAST_BACK_OFF_MS)

export const watchTarget = ({ probe, settings, hasOther, now, onChange }: TargetHealthOptions) => {
  const faults: Record<TargetFault, number> = { unreachable: 0, reset: 0, 'bad-response': 0, timeout: 0 }
  let since = Date.now()
  let reason: string | undefined
  let isOutByChecks = false
  let outAt = 0
  let returnedAt = Number.NEGATIVE_INFINITY
  let isReturning = false
  /** Turns that it has accumulated while returning. */
  let credit = 0
  let backOffMs = FIRST_BACK_OFF_MS
  let [errorsInRow, passedInRow, failedInRow] = [0, 0, 0]
  let timer: NodeJS.Timeout | undefined
  let abort: (() => void) | undefined
  let isClosed = false

  const probeIn = (ms: number) => {
    stopProbing()
    if (!isClosed) timer = setTimeout(task(ask), ms).unref()
  }
  const stopProbing = () => {
    clearTimeout(timer)
    abort?.()
    abort = undefined
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
    failedInRow = 0
    passedInRow++
    if (!health.isOut) resettle()
    else if (passedInRow >= (settings().checks?.rise ?? 1)) comeBack()
    else probeIn(recheckMs())
  }
  const missed = (failure: string) => {
    passedInRow = 0
    failedInRow++
    if (health.isOut) {
      health.isResting = false
      reason = failure
      backOffMs = longer(backOffMs)
      probeIn(jittered(backOffMs))
    } else if (failedInRow >= (settings().checks?.fall ?? 1)) goOut('check', failure)
    else probeIn(recheckMs())
  }
  const resettle = () => {
    if (health.isOut) return
    const { checks } = settings()
    if (checks === undefined) stopProbing()
    else probeIn(jittered(checks.intervalMs))
  }

  const goOut = (by: 'connect' | 'check' | 'errors', why: string, restMs?: number) => {
    if (isClosed) return
    outAt = now()
    backOffMs = outAt - returnedAt < STABLE_MS ? longer(backOffMs) : FIRST_BACK_OFF_MS
    health.isOut = true
    health.isResting = by === 'errors'
    isOutByChecks = by === 'check'
    isReturning = false
    reason = why
    since = Date.now()
    passedInRow = 0
    probeIn(restMs ?? jittered(backOffMs))
    onChange('down', why)
  }
  const comeBack = () => {
    if (isClosed) return
    health.isOut = false
    health.isResting = false
    isReturning = true
    returnedAt = now()
    since = Date.now()
    errorsInRow = failedInRow = credit = 0
    resettle()
    onChange('returning', reason ?? '')
  }
  const erred = (why: string) => {
    errorsInRow++
    const { errors, restMs } = settings().outlier
    const most = state() === 'returning' ? Math.min(ERRORS_WHILE_RETURNING, errors) : errors
    if (errors > 0 && errorsInRow >= most && !health.isOut && hasOther()) goOut('errors', why, restMs)
  }
  const state = (): 'up' | 'returning' | 'down' => {
    if (isReturning && now() - returnedAt >= SLOW_START_MS) isReturning = false
    return health.isOut ? 'down' : isReturning ? 'returning' : 'up'
  }

  // Plain properties, because requests read them.
  const health = {
    /** Requests use other targets as long as there are any. */
    isOut: false,
    /** It is out because of its errors, and may still be reached: better than one that cannot. */
    isResting: false,
    /** Whether a returning target takes this turn; always true for one that is up. */
    takesTurn(): boolean {
      if (!isReturning || state() !== 'returning') return true
      credit += Math.max(LEAST_SHARE, (now() - returnedAt) / SLOW_START_MS)
      if (credit < 1) return false
      credit -= 1
      return true
    },
    /** A response head arrived on a connection opened at `openedAt`. */
    answered(status: number, openedAt: number): void {
      if (isError(status)) {
        erred(`status-${status}`)
        return
      }
      errorsInRow = 0
      // It was used because there was no other target. Responses on older connections of a closing server prove nothing.
      if (health.isOut && !isOutByChecks && openedAt > outAt) comeBack()
    },
    failed(fault: UpstreamFault, nothingSent: boolean): void {
      // No fault of the target. A warm connection that was closed in the meantime is normal in HTTP/1.1 (RFC 9112 §9.5).
      if (fault === EXHAUSTED || (fault === 'reset' && nothingSent)) return
      faults[fault]++
      if (!nothingSent) erred(fault)
      else if (!health.isOut) goOut('connect', 'unreachable')
    },
    /** The settings may have changed: checks of a target in service begin, end, or go on at another interval. */
    resettle,
    status: () => ({
      state: state(),
      /** Milliseconds since the epoch. */
      since,
      /** Why it is, or was last, out of service; a stable word. */
      reason,
      /** Number of failed requests so far, by kind of failure. */
      faults: { ...faults }
    }),
    close(): void {
      isClosed = true
      stopProbing()
    }
  }
  const { checks } = settings()
  if (checks !== undefined) probeIn(Math.random() * Math.min(checks.intervalMs, RECHECK_MS))
  return health
}

// Keeps the traffic of the last hour in steps of five seconds, in bounded memory, for live views.
import type { Exchange } from '../http/exchange.ts'
import { outcomeOf } from './access-log.ts'
import { answeredAfterMs } from './request-counters.ts'

export type TrafficPoint = ReturnType<typeof pointOf>

export const STEP_MS = 5000
const STEPS = 720
/** Bounds of latency buckets grow by a quarter from 0.1 ms; the last is over a minute. */
const LEAST_MS = 0.1
const GROWTH = Math.log(1.25)
const BUCKETS = 62

interface Step {
  /** Start ÷ STEP_MS. */
  number: number
  allow: number
  refuse: number
  fail: number
  logins: number
  loginsRefused: number
  readonly codes: Record<string, number>
  readonly buckets: number[]
}

/** The counts of a step, which can be sent to another process as JSON and added up there. */
export type StepCounts = Readonly<Step>

const bucketOf = (ms: number): number =>
  ms <= LEAST_MS ? 0 : Math.min(BUCKETS - 1, Math.ceil(Math.log(ms / LEAST_MS) / GROWTH))

const quantile = ({ buckets }: Step, total: number, share: number): number => {
  let seen = 0
  for (let i = 0; i < BUCKETS; i++) {
    seen += buckets[i] ?? 0
    if (seen > 0 && seen >= total * share) return Math.round(LEAST_MS * Math.exp(i * GROWTH) * 100) / 100
  }
  return 0
}

const pointOf = (step: Step) => {
  const { allow, refuse, fail, codes, logins, loginsRefused } = step
  const requests = allow + refuse + fail
  return {
    /** Start of the step, ms since the epoch. */
    at: step.number * STEP_MS,
    requests,
    allowed: allow,
    refused: refuse,
    /** Allowed, but the upstream or the gateway could not serve it. */
    failed: fail,
    codes,
    /** Until the response head, accurate to a quarter; 0 without requests. */
    p50Ms: quantile(step, requests, 0.5),
    p95Ms: quantile(step, requests, 0.95),
    logins,
    loginsRefused
  }
}

const emptyStep = (number: number): Step => ({
  number,
  allow: 0,
  refuse: 0,
  fail: 0,
  logins: 0,
  loginsRefused: 0,
  codes: {},
  buckets: Array<number>(BUCKETS).fill(0)
})

const addTo = (step: Step, counts: StepCounts): void => {
  for (const name of ['allow', 'refuse', 'fail', 'logins', 'loginsRefused'] as const) step[name] += counts[name]
  for (const [code, count] of Object.entries(counts.codes)) step.codes[code] = (step.codes[code] ?? 0) + count
  counts.buckets.forEach((count, i) => {
    step.buckets[i] = (step.buckets[i] ?? 0) + count
  })
}

/** The combined traffic of several processes, oldest first. */
export const addTraffic = (processes: readonly (readonly StepCounts[])[]): TrafficPoint[] => {
  const steps = new Map<number, Step>()
  for (const counts of processes.flat()) {
    const step = steps.get(counts.number) ?? emptyStep(counts.number)
    addTo(step, counts)
    steps.set(counts.number, step)
  }
  return [...steps.values()].sort((a, b) => a.number - b.number).map(pointOf)
}

/** @param now ms since the epoch */
export const createTraffic = (now: () => number = Date.now) => {
  // By number: a clock that is set back leads to steps that are there already.
  const steps = new Map<number, Step>()

  const current = (): Step => {
    const number = Math.floor(now() / STEP_MS)
    const known = steps.get(number)
    if (known !== undefined) return known
    const step = emptyStep(number)
    steps.set(number, step)
    if (steps.size > STEPS) steps.delete(steps.keys().next().value ?? number)
    return step
  }

  return {
    /** @param at monotonic ms */
    record(exchange: Exchange, at: number): void {
      const step = current()
      const { error } = exchange
      step[outcomeOf(exchange)]++
      const bucket = bucketOf(answeredAfterMs(exchange, at))
      step.buckets[bucket] = (step.buckets[bucket] ?? 0) + 1
      if (error !== undefined) step.codes[error.code] = (step.codes[error.code] ?? 0) + 1
    },
    recordLogin(ok: boolean): void {
      current()[ok ? 'logins' : 'loginsRefused']++
    },
    /** Steps of the last hour that ended after `since` (ms since the epoch); one of them may still be growing. */
    counts(since: number): StepCounts[] {
      // A step without traffic is none, so those that are kept may reach further back.
      const first = Math.floor(now() / STEP_MS) - STEPS + 1
      return [...steps.values()].filter(({ number }) => number >= first && (number + 1) * STEP_MS > since)
    }
  }
}

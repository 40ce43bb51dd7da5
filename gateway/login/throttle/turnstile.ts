// Admits a login only with a permit, taken atomically from a store that all instances share.
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { Unavailable } from '../../errors.ts'
import type { PermitStore } from '../../store/login-permits.ts'
import { boundedMap } from '../../values/bounded-map.ts'
import {
  type DirectoryReading,
  decodePermits,
  encodePermits,
  livePermits,
  mergePermits,
  type PermitOutcome,
  type PermitRules,
  type Permits,
  type PermitVerdict,
  reservePermit,
  settlePermit
} from './permits.ts'

interface PermitEntry {
  /** Fixed length and alphabet, whatever it represents. */
  readonly key: string
  /** Whether the last permit may be used. */
  readonly known: boolean
  /** When to stop waiting, by `performance.now()`. */
  readonly deadline: number
  /** An upper limit on permits, whatever the rules allow. */
  readonly most?: number | undefined
  /** The directory's own count; `readAt` by the turnstile's clock. */
  readonly count?: Omit<DirectoryReading, 'ageMs'> & { readonly readAt: number }
}

export interface Turnstile {
  /** @returns the function that ends the permit. @throws {NoPermit}, and whatever the store throws. */
  enter(entry: PermitEntry): Promise<(outcome: PermitOutcome) => Promise<void>>
  /** Whether anyone was refused a moment ago. */
  mayRefuse(): boolean
  /** What `enter` would throw, judging by what it threw a moment ago, without asking the store. */
  refusal(key: string, known: boolean): NoPermit | undefined
  /** Adds the permits in use under `from` to those under `to`. */
  merge(from: string, to: string): Promise<void>
  /** Releases all permits of `key`. */
  release(key: string): Promise<void>
}

/** No permit now, and none before `retryAfterMs`. */
export class NoPermit extends Error {
  readonly retryAfterMs: number

  constructor(retryAfterMs: number) {
    super('no permit is free')
    this.name = 'NoPermit'
    this.retryAfterMs = retryAfterMs
  }
}

interface TurnstileParts {
  readonly store: PermitStore
  readonly rules: PermitRules
  /** Monotonic ms. */
  readonly clock: () => number
}

/** How long a refusal is repeated without asking the store: another instance may have released a permit by then. */
const REMEMBERED_MS = 1000
const MAX_REMEMBERED = 10_000
/** Callers that wait at once for the same account on the same terms. */
const MAX_QUEUE = 250
const FIRST_POLL_MS = 20
const LAST_POLL_MS = 200
const MAX_SWAPS = 200

export const createTurnstile = ({ store, rules, clock }: TurnstileParts): Turnstile => {
  const change = createChanges(store, rules)
  const queue = createQueues()
  const wakers = new Map<string, Set<() => void>>()
  const closed = boundedMap<string, { readonly since: number; readonly retryAfterMs: number }>(MAX_REMEMBERED)

  const remember = (lane: string, retryAfterMs: number): NoPermit => {
    closed.set(lane, { since: clock(), retryAfterMs })
    return new NoPermit(retryAfterMs)
  }

  const recall = (lane: string): NoPermit | undefined => {
    const { since, retryAfterMs } = closed.get(lane) ?? { since: 0, retryAfterMs: 0 }
    const ageMs = clock() - since
    if (ageMs < Math.min(REMEMBERED_MS, retryAfterMs)) return new NoPermit(retryAfterMs - ageMs)
    closed.delete(lane)
    return undefined
  }

  const take = async ({ key, known, deadline, most, count }: PermitEntry, lane: string, id: string): Promise<void> => {
    for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(pollMs * 2, LAST_POLL_MS)) {
      const remembered = recall(lane)
      if (remembered !== undefined) throw remembered
      const woken = wait(wakers, key)
      try {
        const verdict = await change<PermitVerdict>(key, (permits, now) => {
          const reading = count && { ...count, ageMs: clock() - count.readAt }
          const reserved = reservePermit(permits, now, rules, { id, known, most, reading })
          return [reserved.permits, reserved.verdict]
        })
        if (verdict.kind === 'granted') return
        if (verdict.kind === 'refused') throw remember(lane, verdict.retryAfterMs)
        const leftMs = deadline - performance.now()
        if (leftMs <= 0) throw new NoPermit(REMEMBERED_MS)
        await Promise.race([woken.done, delay(Math.min(pollMs, leftMs))])
      } finally {
        woken.stop()
      }
    }
  }

  const settle = async (key: string, id: string, outcome: PermitOutcome): Promise<void> => {
    await change(key, (permits, now) => [settlePermit(permits, now, rules, id, outcome), undefined])
    if (outcome !== 'failed' && outcome !== 'lost') for (const known of [true, false]) closed.delete(laneOf(key, known))
    for (const wake of wakers.get(key) ?? []) wake()
  }

  return {
    enter: async entry => {
      const lane = laneOf(entry.key, entry.known)
      const id = randomBytes(9).toString('base64url')
      await queue(lane, () => take(entry, lane, id))
      return outcome => settle(entry.key, id, outcome)
    },
    mayRefuse: () => closed.size() > 0,
    refusal: (key, known) => recall(laneOf(key, known)),
    merge: async (from, to) => {
      const used = await change<Permits>(from, permits => [permits, permits])
      if (used.length === 0) return
      await change(to, permits => [mergePermits(permits, used), undefined])
      await change(from, () => [[], undefined])
    },
    release: async key => {
      await change(key, () => [[], undefined])
      for (const known of [true, false]) closed.delete(laneOf(key, known))
      for (const wake of wakers.get(key) ?? []) wake()
    }
  }
}

const laneOf = (key: string, known: boolean): string => `${known ? 'known' : 'stranger'} ${key}`

/** The first waiter asks the store on behalf of all behind it, so that a crowd costs no more than one. */
const createQueues = () => {
  const lanes = new Map<string, { last: Promise<unknown>; length: number }>()
  return async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const lane = lanes.get(name) ?? { last: Promise.resolve(), length: 0 }
    if (lane.length >= MAX_QUEUE) throw new NoPermit(REMEMBERED_MS)
    lanes.set(name, lane)
    lane.length += 1
    const result = lane.last.then(work)
    lane.last = result.catch(() => {})
    try {
      return await result
    } finally {
      lane.length -= 1
      if (lane.length === 0) lanes.delete(name)
    }
  }
}

const wait = (wakers: Map<string, Set<() => void>>, key: string) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const waiting = wakers.get(key) ?? new Set()
  wakers.set(key, waiting.add(resolve))
  const stop = () => {
    waiting.delete(resolve)
    if (waiting.size === 0 && wakers.get(key) === waiting) wakers.delete(key)
  }
  return { done: promise, stop }
}

type Change = <Result>(
  key: string,
  next: (permits: Permits, now: number) => readonly [Permits, Result]
) => Promise<Result>

/** Reads, decides and swaps; retries if another instance was faster. One at a time within this instance. */
const createChanges = (store: PermitStore, rules: PermitRules): Change => {
  const last = new Map<string, Promise<unknown>>()
  const ttlMs = rules.windowMs + rules.patienceMs

  const swap: Change = async (key, next) => {
    for (let round = 0; round < MAX_SWAPS; round++) {
      const { text, now } = await store.read(key)
      const live = livePermits(text === undefined ? [] : decodePermits(text), now, rules)
      const [permits, result] = next(live, now)
      if (permits === live) return result
      const after = permits.length === 0 ? undefined : encodePermits(permits)
      if (after === text || (await store.swap(key, text, after, ttlMs))) return result
      await delay(Math.random() * Math.min(2 ** round, 20))
    }
    throw new Unavailable({ reason: 'login-permits-contended' })
  }

  return (key, next) => {
    const result = (last.get(key) ?? Promise.resolve()).then(() => swap(key, next))
    const settled: Promise<unknown> = result
      .catch(() => {})
      .finally(() => {
        if (last.get(key) === settled) last.delete(key)
      })
    last.set(key, settled)
    return result
  }
}

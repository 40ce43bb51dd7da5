// Compares the clock of this machine with those of the database and of Redis in the background, and logs each change once.
import { setTimeout as delay } from 'node:timers/promises'
import { task } from '../values/contain.ts'
import type { Log } from '../values/log.ts'

export interface ClockState {
  /** `unknown`: none of the clocks could be read yet. */
  readonly state: 'ok' | 'degraded' | 'unknown'
  /** How far each clock is ahead of this machine's, in seconds; 0 within what could be measured. */
  readonly aheadS: ReadonlyMap<string, number>
}

interface ClockWatchOptions {
  readonly clocks: Readonly<Record<string, () => Promise<number>>>
  readonly log: Log
  readonly now?: () => number
  readonly everyMs?: number
}

const EVERY_MS = 30_000
/** Tokens of other instances are accepted only if `iat` is at most a few seconds ahead, and expire by the clock of each. */
const MOST_S = 2

export const watchClocks = ({ clocks, log, now = Date.now, everyMs = EVERY_MS }: ClockWatchOptions) => {
  const aheadS = new Map<string, number>()
  const closing = new AbortController()
  const { signal } = closing
  let isSkewed = false

  const look = async (): Promise<void> => {
    for (const [name, read] of Object.entries(clocks)) {
      const before = now()
      const theirs = await read().catch(() => undefined)
      if (theirs !== undefined) aheadS.set(name, beyond(theirs, before, now()) / 1000)
    }
    if (signal.aborted) return
    const wasSkewed = isSkewed
    isSkewed = [...aheadS.values()].some(s => Math.abs(s) > MOST_S)
    if (isSkewed && !wasSkewed) log.warn({ aheadS: Object.fromEntries(aheadS), reason: 'clock-skewed' }, SKEWED)
    if (wasSkewed && !isSkewed) log.warn({ reason: 'clock-ok' }, 'the clocks agree again')
  }
  const watch = async (): Promise<void> => {
    while (!signal.aborted) {
      await look()
      await delay(everyMs, undefined, { signal, ref: false }).catch(() => undefined)
    }
  }
  task(watch)()

  return {
    state: (): ClockState => ({
      state: aheadS.size === 0 ? 'unknown' : isSkewed ? 'degraded' : 'ok',
      aheadS
    }),
    close: (): void => closing.abort()
  }
}

const SKEWED =
  'the clock of this machine differs by more than 2 s from that of the database or of Redis: instances may refuse the tokens of each other, and tokens end too early or too late. Synchronise the clocks of all machines (NTP)'

/** How far a clock is from the time between sending a question and receiving its answer. */
const beyond = (theirs: number, before: number, after: number): number =>
  theirs < before ? theirs - before : theirs > after ? theirs - after : 0

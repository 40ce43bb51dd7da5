// Keeps the young generation of V8's heap small; it would otherwise grow to 64 MB within seconds of load, and stay there.
import v8 from 'node:v8'
import { nodeOptions } from '../settings/node-options.ts'

/** Size of each of its two halves: enough for a thousand requests in progress. */
const HALF_MB = 8
const MEGABYTE = 1024 * 1024
/** Threads have heaps of their own, which no longer grow either; they begin with this size. */
const THREAD_HALF_MB = 16
const GROWTH = '--semi-space-growth-factor'
const DEFAULT_GROWTH = 2

const KEPT_LENGTH = 2048
const KEPT_BYTES = KEPT_LENGTH * 8
/** To make it grow, as much must be in use as it can hold. */
const MOST_KEPT_BYTES = 8 * MEGABYTE

const halfMb = (): number => {
  const space = v8.getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')
  return space === undefined ? 0 : Math.round((space.space_used_size + space.space_available_size) / MEGABYTE)
}

/**
 * To be called before much is allocated: the size itself can be set only on the command line, but the factor by which it
 * grows can be changed at any time. The first collection with much in use grows it to this size, then the factor becomes 1.
 * Returns the size of a half in MB, which differs if the command line sets it or V8 did not follow.
 */
export const boundYoungGeneration = (): number => {
  const first = halfMb()
  // A given size is kept.
  if ([...process.execArgv, nodeOptions()].some(flags => /semi[-_]space/.test(flags))) return first
  if (first === 0 || first * 2 > HALF_MB) return first
  v8.setFlagsFromString(`${GROWTH}=${Math.floor(HALF_MB / first)}`)
  const kept: number[][] = []
  while (halfMb() === first && kept.length * KEPT_BYTES < MOST_KEPT_BYTES) kept.push(new Array(KEPT_LENGTH).fill(0))
  const grown = halfMb()
  v8.setFlagsFromString(`${GROWTH}=${grown === first ? DEFAULT_GROWTH : 1}`)
  v8.setFlagsFromString(`--min-semi-space-size=${THREAD_HALF_MB}`)
  return grown
}

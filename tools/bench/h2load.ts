// One run of h2load from the load core, and what it printed as numbers.
import { LOAD_CORE, runPinned } from './processes.ts'
import type { Load, LoadResult } from './wrk.ts'

/** Of each connection at once. */
const STREAMS = 10

/** It prints no percentiles. */
export const runH2load = async ({ url, seconds, connections, token = '' }: Load): Promise<LoadResult> => {
  const args = ['-t1', `-c${Math.ceil(connections / STREAMS)}`, `-m${STREAMS}`, `-D${seconds}`]
  args.push('-H', `authorization: Bearer ${token}`, url)
  const text = await runPinned({ name: 'h2load', core: LOAD_CORE, command: 'h2load', args })
  const number = (pattern: RegExp) => Number(pattern.exec(text)?.[1] ?? Number.NaN)
  const requests = number(/requests: .* (\d+) done/)
  return {
    requests,
    perSecond: requests / seconds,
    p50Ms: Number.NaN,
    p99Ms: Number.NaN,
    refused: number(/ (\d+) 4xx/) + number(/ (\d+) 5xx/),
    socketErrors: number(/(\d+) errored/),
    poolWraps: 0
  }
}

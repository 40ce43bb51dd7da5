// One run of wrk from the load core, and what it printed as numbers.
import { fileURLToPath } from 'node:url'
import { LOAD_CORE, runPinned } from './processes.ts'

export interface Load {
  readonly url: string
  readonly seconds: number
  readonly connections: number
  /** Sent with every request, unless `pool` is given. */
  readonly token?: string
  /** File of lines `path token`, sent one after the other. */
  readonly pool?: string
  /** POSTs of 5 bytes. */
  readonly isPost?: boolean
}

export interface LoadResult {
  readonly requests: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Responses outside 2xx and 3xx. */
  readonly refused: number
  readonly socketErrors: number
  /** How often the pool was read to its end. */
  readonly poolWraps: number
}

const postScript = fileURLToPath(new URL('./load/post.lua', import.meta.url))
const poolScript = fileURLToPath(new URL('./load/pool.lua', import.meta.url))

export const runWrk = async (load: Load): Promise<LoadResult> => {
  const args = ['-t1', `-c${load.connections}`, `-d${load.seconds}s`, '--latency', '--timeout', '10s']
  if (load.token !== undefined) args.push('-H', `Authorization: Bearer ${load.token}`)
  if (load.isPost === true) args.push('-s', postScript)
  if (load.pool === undefined) args.push(load.url)
  else args.push('-s', poolScript, load.url, '--', load.pool)
  return parseWrk(await runPinned({ name: 'wrk', core: LOAD_CORE, command: 'wrk', args }))
}

const UNIT_MS: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1000, m: 60_000 }

const number = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1] ?? 0)

const percentile = (text: string, percent: number): number => {
  const found = new RegExp(`^\\s+${percent}%\\s+([\\d.]+)(us|ms|s|m)\\s*$`, 'm').exec(text)
  return Number(found?.[1] ?? Number.NaN) * (UNIT_MS[found?.[2] ?? ''] ?? Number.NaN)
}

const parseWrk = (text: string): LoadResult => {
  const errors = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(text)
  return {
    requests: number(text, /^\s*(\d+) requests in/m),
    perSecond: number(text, /Requests\/sec:\s+([\d.]+)/),
    p50Ms: percentile(text, 50),
    p99Ms: percentile(text, 99),
    refused: number(text, /Non-2xx or 3xx responses: (\d+)/),
    socketErrors: errors === null ? 0 : errors.slice(1).reduce((sum, count) => sum + Number(count), 0),
    poolWraps: number(text, /pool-wraps: (\d+)/)
  }
}

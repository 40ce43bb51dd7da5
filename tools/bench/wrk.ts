// One run of wrk or h2load from the load core, and what it printed as numbers.
import { join } from 'node:path'
import { runOnLoadCore } from './processes.ts'

/** Of a run that saturates what it asks. */
export const CONNECTIONS = 64

export interface Load {
  readonly url: string
  /** Sent with every request, unless `pool` is given. */
  readonly token?: string
  /** File of lines `path token`, sent one after the other. */
  readonly pool?: string
  /** POSTs of 5 bytes. */
  readonly isPost?: boolean
}

export type LoadResult = Awaited<ReturnType<typeof runWrk>>

const script = (name: string): string => join(import.meta.dirname, 'load', name)

const number = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1] ?? 0)

export const runWrk = async (
  { url, token, pool, isPost = false }: Load,
  seconds: number,
  connections = CONNECTIONS
) => {
  const text = await runOnLoadCore('wrk', [
    ...['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '--timeout', '10s'],
    ...(token === undefined ? [] : ['-H', `Authorization: Bearer ${token}`]),
    ...(isPost ? ['-s', script('post.lua')] : []),
    ...(pool === undefined ? [url] : ['-s', script('pool.lua'), url, '--', pool])
  ])
  const errors = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(text) ?? []
  return {
    requests: number(text, /^\s*(\d+) requests in/m),
    perSecond: number(text, /Requests\/sec:\s+([\d.]+)/),
    /** By column; h2load prints no percentiles. */
    latency: { 'p50 ms': percentile(text, 50), 'p99 ms': percentile(text, 99) } as Readonly<Record<string, number>>,
    /** Responses outside 2xx and 3xx. */
    refused: number(text, /Non-2xx or 3xx responses: (\d+)/),
    socketErrors: errors.slice(1).reduce((sum, count) => sum + Number(count), 0),
    /** How often the pool was read to its end. */
    poolWraps: number(text, /pool-wraps: (\d+)/)
  }
}

const UNIT_MS: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1000, m: 60_000 }

const percentile = (text: string, percent: number): number => {
  const [, value, unit = ''] = new RegExp(`^\\s+${percent}%\\s+([\\d.]+)(us|ms|s|m)\\s*$`, 'm').exec(text) ?? []
  return Number(value) * (UNIT_MS[unit] ?? Number.NaN)
}

/** Of each connection at once. */
const STREAMS = 10

export const runH2load = async ({ url, token = '' }: Load, seconds: number): Promise<LoadResult> => {
  const args = ['-t1', `-c${Math.ceil(CONNECTIONS / STREAMS)}`, `-m${STREAMS}`, `-D${seconds}`]
  const text = await runOnLoadCore('h2load', [...args, '-H', `authorization: Bearer ${token}`, url])
  const requests = number(text, /requests: .* (\d+) done/)
  return {
    requests,
    perSecond: requests / seconds,
    latency: {},
    refused: number(text, / (\d+) 4xx/) + number(text, / (\d+) 5xx/),
    socketErrors: number(text, /(\d+) errored/),
    poolWraps: 0
  }
}

// One paced run of requests from the load core, and its figures.
import { fileURLToPath } from 'node:url'
import { LOAD_CORE, runPinned } from './processes.ts'

export interface PacedLoad {
  readonly port: number
  readonly path: string
  readonly token: string
  /** Requests per second. */
  readonly rate: number
  readonly seconds: number
  /** Seconds at the start that do not count. */
  readonly skip: number
}

export interface PacedResult {
  readonly requests: number
  /** Other than 200, broken, or without an answer. */
  readonly failed: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /** The longest that the generator itself did not run while it counted. */
  readonly heldUpMs: number
}

const script = fileURLToPath(new URL('./load/paced.ts', import.meta.url))

export const runPaced = async (load: PacedLoad): Promise<PacedResult> => {
  const args = Object.entries(load).map(([name, value]) => `--${name}=${value}`)
  const text = await runPinned({
    name: 'paced load',
    core: LOAD_CORE,
    command: process.execPath,
    args: [script, ...args]
  })
  return JSON.parse(text) as PacedResult
}

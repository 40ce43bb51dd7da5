// Every test has run (or those named as arguments), and the last line says how many assertions passed and failed.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { provision } from './support/provision.ts'

const ROOT = dirname(import.meta.dirname)
const JOBS = 2

interface Counts {
  passed: number
  failed: number
}

const main = async (): Promise<number> => {
  try {
    provision(line => console.log(line))
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return finish({ passed: 0, failed: 1 }, 1)
  }
  const { counts, exitCode } = await runTap(process.argv.slice(2))
  return finish(counts, exitCode)
}

const runTap = async (files: readonly string[]): Promise<{ counts: Counts | undefined; exitCode: number }> => {
  const bin = join(ROOT, 'node_modules/.bin')
  const options = ['--reporter=tap', `--jobs=${JOBS}`, ...files]
  const tap = spawn(process.execPath, [join(bin, 'tap'), ...options], {
    cwd: ROOT,
    // What a test starts as `node` is the Node of this project, whatever the machine has.
    env: {
      NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/portaria'),
      ...process.env,
      PATH: `${bin}${delimiter}${process.env.PATH ?? ''}`
    },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => tap.kill(signal))
  const ended = once(tap, 'close')
  const counts = await show(tap)
  const [code] = await ended
  return { counts, exitCode: typeof code === 'number' ? code : 1 }
}

/**
 * Prints the files as they end, and whatever is not ok with its diagnosis; what passed within a file is left out.
 * Returns tap's own count of assertions, which ends its TAP: `# { total: 9, pass: 4, fail: 3, skip: 1 }`.
 */
const show = async (tap: ChildProcess): Promise<Counts | undefined> => {
  let counts: Counts | undefined
  if (tap.stdout === null) return counts
  for await (const line of createInterface({ input: tap.stdout })) {
    if (/^# \{ total: .*\}$/.test(line)) counts = readCounts(line)
    if (!/^\s+(ok |#|\d+\.\.\d)|^\s*$|^TAP version|^# (No coverage|Subtest)/.test(line)) console.log(line)
  }
  return counts
}

const readCounts = (summary: string): Counts => {
  const count = (name: string) => Number(new RegExp(`\\b${name}: (\\d+)`).exec(summary)?.[1] ?? 0)
  return { passed: count('pass'), failed: count('fail') }
}

/** No count, or no reason given for a failed run, is a failure of its own. */
const finish = (counts: Counts | undefined, exitCode: number): number => {
  const { passed, failed } = counts ?? { passed: 0, failed: 1 }
  const shown = exitCode === 0 ? failed : Math.max(failed, 1)
  console.log(`${passed} passed, ${shown} failed`)
  return exitCode === 0 && failed > 0 ? 1 : exitCode
}

process.exitCode = await main()

// Runs one test file as a plain Node process, reads the TAP that it prints, and ends it when it does not end by itself.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

export interface FileResult {
  readonly passed: number
  readonly failed: number
  readonly durationMs: number
  /** How much of it the process lived on after its last assertion was counted: something was left open. */
  readonly lingeredMs: number
  /** What is not ok, with its diagnosis; what passed is left out. */
  readonly report: readonly string[]
}

/**
 * Each file loads a thousand modules. Asking the file system for each of them whether it is a link takes a fifth of that,
 * and npm installs none. An embedded database lives for seconds: optimizing its WebAssembly takes longer than it saves.
 */
const FLAGS = ['--preserve-symlinks', '--liftoff-only', '--import', import.meta.resolve('./untracked-promises.ts')]

/** Time for tap to print which handles are open before the process is killed. */
const DIAGNOSIS_MS = 2000

/**
 * A process of its own without tap's runner: that adds loader hooks to every process which a test starts, directly or
 * not, and they take as long as the gateway itself takes to load. tap counts the assertions of a file at its end:
 * `# { total: 9, pass: 4, fail: 3, skip: 1 }`.
 */
export const runTestFile = async (
  file: string,
  options: {
    readonly cwd: string
    readonly env: NodeJS.ProcessEnv
    readonly limitMs: number
    /** Ends the process, and with it the file's result is a failure. */
    readonly signal: AbortSignal
  }
): Promise<FileResult> => {
  const began = performance.now()
  const child = spawn(process.execPath, [...FLAGS, file], {
    cwd: options.cwd,
    env: options.env,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc']
  })
  const limit = limitTime(child, options.limitMs)
  const stop = () => child.kill()
  options.signal.addEventListener('abort', stop)
  const closed = once(child, 'close')
  const { summary, report, endedAt } = await read(child)
  const [code, signal] = await closed
  limit.clear()
  options.signal.removeEventListener('abort', stop)
  const counts = countsOf(summary)
  const fault = faultOf({ counts, code, signal, isLate: limit.isOver() })
  if (fault !== undefined) report.push(`not ok - ${file}: ${fault}`)
  return {
    passed: counts?.passed ?? 0,
    failed: Math.max(counts?.failed ?? 0, fault === undefined ? 0 : 1),
    durationMs: performance.now() - began,
    lingeredMs: endedAt === undefined ? 0 : performance.now() - endedAt,
    report
  }
}

const faultOf = (end: {
  readonly counts: { readonly passed: number; readonly failed: number } | undefined
  readonly code: unknown
  readonly signal: unknown
  readonly isLate: boolean
}): string | undefined => {
  if (end.isLate) return 'did not end in time'
  if (end.signal !== null) return `was ended by ${end.signal}`
  if (end.counts === undefined) return 'ended without a count of its assertions'
  if (end.counts.passed + end.counts.failed === 0) return 'holds no assertion'
  if (end.code !== 0) return `ended with exit code ${end.code}`
}

const read = async (child: ChildProcess) => {
  const report: string[] = []
  let summary: string | undefined
  let endedAt: number | undefined
  if (child.stdout === null) return { summary, report, endedAt }
  for await (const line of createInterface({ input: child.stdout })) {
    if (/^# time=/.test(line)) endedAt = performance.now()
    if (/^# \{ total: .*\}$/.test(line)) summary = line
    else if (!/^\s*(?:ok |#|\d+\.\.\d|TAP version|$)/.test(line)) report.push(line)
  }
  return { summary, report, endedAt }
}

const countsOf = (summary: string | undefined) => {
  if (summary === undefined) return undefined
  const count = (name: string) => Number(new RegExp(`\\b${name}: (\\d+)`).exec(summary)?.[1] ?? 0)
  return { passed: count('pass'), failed: count('fail') }
}

/** A file sets another limit for itself with `t.setTimeout`: tap sends it (@tapjs/core, `TAP.setTimeout`). */
const limitTime = (child: ChildProcess, limitMs: number) => {
  let isOver = false
  const end = () => {
    isOver = true
    child.send({ tapAbort: 'timeout' }, () => undefined)
    timer = setTimeout(() => child.kill('SIGKILL'), DIAGNOSIS_MS)
  }
  let timer = setTimeout(end, limitMs)
  child.on('message', (message: { readonly setTimeout?: number }) => {
    if (isOver || message.setTimeout === undefined || message.setTimeout <= limitMs) return
    clearTimeout(timer)
    timer = setTimeout(end, message.setTimeout)
  })
  return { clear: () => clearTimeout(timer), isOver: () => isOver }
}

// Runs a server as a process that a test may stop, kill, freeze and start again, in a folder that goes with the test.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { accepts } from './ports.ts'
import { until } from './until.ts'

/** A temporary folder; the last processes of a server may still write there for a moment at its end. */
export const makeFolder = (t: Pick<Test, 'teardown'>, name = 'test'): string => {
  const folder = mkdtempSync(join(tmpdir(), `portaria-${name}-`))
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }))
  return folder
}

/** npm installs no links, and asking the file system for each module whether it is one takes a seventh of a start. */
const FLAGS = ['--preserve-symlinks']

const KEPT = ['PATH', 'HOME', 'TMPDIR', 'NODE_COMPILE_CACHE'] as const

/** Node with these arguments, until the teardown. Nothing of the test's environment gets through but what a process needs. */
export const spawnNode = (
  t: Pick<Test, 'teardown'>,
  args: readonly string[],
  { env, cwd, input = '' }: { env: Readonly<Record<string, string>>; cwd: string | undefined; input?: string }
) => {
  const kept = Object.fromEntries(KEPT.map(name => [name, process.env[name]]))
  const child = spawn(process.execPath, [...FLAGS, ...args], { cwd, env: { ...kept, ...env } })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', chunk => {
    stdout += chunk
  })
  child.stderr.on('data', chunk => {
    stderr += chunk
  })
  child.stdin.on('error', () => undefined).end(input)
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals)
  t.teardown(() => {
    child.kill('SIGKILL')
    return ended
  })
  return {
    pid: child.pid ?? 0,
    stdout: () => stdout,
    stderr: () => stderr,
    signal: (signal: NodeJS.Signals) => void child.kill(signal),
    /** Exit code, or the signal that ended it. */
    ended
  }
}

/** proc_pid_children(5); none of a process that has ended. */
export const childrenOf = (pid: number): number[] => {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

/** Memory of a process in KB, now (VmRSS) or at its peak (VmHWM); 0 once it has ended. */
export const memoryKb = (pid: number, field: 'VmRSS' | 'VmHWM'): number => {
  try {
    return Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}

interface ServerProcess extends Pick<SpawnOptions, 'cwd' | 'env' | 'uid' | 'gid' | 'detached'> {
  readonly command: string
  readonly args: readonly string[]
  readonly isUp: () => boolean | Promise<boolean>
  readonly limitMs?: number
}

const OUTPUT_KEPT = 8192

/** With `detached`, signals go to its whole process group. */
export const createServerProcess = ({ command, args, isUp, limitMs, ...options }: ServerProcess) => {
  let child: ChildProcess | undefined
  let output = ''
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString('latin1')).slice(-OUTPUT_KEPT)
  }
  const isRunning = () => child !== undefined && child.exitCode === null && child.signalCode === null
  const signal = (name: NodeJS.Signals) => {
    if (options.detached && child?.pid !== undefined) process.kill(-child.pid, name)
    else child?.kill(name)
  }
  return {
    pid: () => (isRunning() ? child?.pid : undefined),
    /** The end of what it has written since its last start. */
    output: () => output,
    /** Resolves when it is up. */
    async start() {
      output = ''
      child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
      child.stdout?.on('data', keep)
      child.stderr?.on('data', keep)
      const isReady = () => {
        if (!isRunning()) throw new Error(`${command} did not start: ${output}`)
        return isUp()
      }
      await until(isReady, () => `${command} is up: ${output}`, limitMs)
    },
    signal,
    /** Resolves when it is gone. */
    async end(name: NodeJS.Signals) {
      if (child === undefined || !isRunning()) return
      const exited = once(child, 'exit')
      signal('SIGCONT')
      signal(name)
      await exited
    }
  }
}

/** Starts a program that ends at the teardown; resolves when its port accepts connections. */
export const startProgram = async (
  t: Pick<Test, 'teardown'>,
  command: string,
  args: readonly string[],
  port: number,
  options: Pick<SpawnOptions, 'cwd' | 'env'> = {}
): Promise<void> => {
  const server = createServerProcess({ ...options, command, args, isUp: () => accepts(port) })
  t.teardown(() => server.end('SIGKILL'))
  await server.start()
}

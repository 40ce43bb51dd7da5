// Processes of a benchmark run, each pinned to one core; all of them end with the run, whatever happens.
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { accepts, freePort } from '../../test/support/ports.ts'

/** The process under test has this core for itself. */
export const GATEWAY_CORE = 0
/** Load generator, upstream and stores share this one. */
export const LOAD_CORE = 1

export interface Running {
  readonly name: string
  readonly pid: number
  /** The end of what it wrote to stdout and stderr. */
  output(): string
  hasExited(): boolean
  signal(name: NodeJS.Signals): void
  stop(): Promise<void>
}

interface Start {
  readonly name: string
  readonly core: number
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly uid?: number
  readonly gid?: number
  readonly cwd?: string
}

const OUTPUT_KEPT = 8192
const alive = new Set<ChildProcess>()

process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

/** What every child sees of our environment; settings of the gateway never leak in from the caller's shell. */
const baseEnv = (): Record<string, string> => ({
  PATH: process.env.PATH ?? '/usr/bin:/bin:/usr/sbin:/sbin',
  HOME: process.env.HOME ?? '/tmp',
  NODE_ENV: 'production'
})

const spawnPinned = ({ name: _, core, command, args, env, ...account }: Start) =>
  spawn('taskset', ['-c', String(core), command, ...args], {
    env: { ...baseEnv(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...account
  })

export const startPinned = (start: Start): Running => {
  const child = spawnPinned(start)
  if (child.pid === undefined) throw new Error(`${start.name} could not be started: is ${start.command} installed?`)
  alive.add(child)

  let kept = ''
  const keep = (chunk: Buffer) => {
    kept = (kept + chunk.toString('latin1')).slice(-OUTPUT_KEPT)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  child.on('error', error => keep(Buffer.from(String(error))))

  const exited = new Promise<void>(resolve => {
    child.once('exit', () => {
      alive.delete(child)
      resolve()
    })
  })
  const hasExited = () => child.exitCode !== null || child.signalCode !== null

  return {
    name: start.name,
    pid: child.pid,
    output: () => kept,
    hasExited,
    signal: name => void child.kill(name),
    stop: () => stop(child, exited, hasExited)
  }
}

const stop = async (child: ChildProcess, exited: Promise<void>, hasExited: () => boolean): Promise<void> => {
  if (hasExited()) return
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), 3000)
  await exited
  clearTimeout(timer)
}

/** Runs a process to its end and returns its stdout; the rest of the run waits for it. */
export const runPinned = (start: Start): Promise<string> =>
  new Promise((resolve, reject) => {
    const child = spawnPinned(start)
    alive.add(child)
    const out: Buffer[] = []
    const err: Buffer[] = []
    child.stdout.on('data', chunk => out.push(chunk))
    child.stderr.on('data', chunk => err.push(chunk))
    child.once('error', reject)
    child.once('close', code => {
      alive.delete(child)
      const text = Buffer.concat(out).toString()
      if (code === 0) resolve(text)
      else reject(new Error(`${start.name} ended with ${code}: ${Buffer.concat(err).toString()}${text}`))
    })
  })

/** Waits until `isReady`; fails at once when the process ends, and after `timeoutMs`. */
export const waitUntil = async (
  running: Running,
  isReady: () => Promise<boolean>,
  timeoutMs = 20_000,
  everyMs = 20
): Promise<void> => {
  const deadline = performance.now() + timeoutMs
  while (!(await isReady())) {
    if (running.hasExited()) throw new Error(`${running.name} ended at start:\n${running.output()}`)
    if (performance.now() > deadline) throw new Error(`${running.name} is not ready:\n${running.output()}`)
    await delay(everyMs)
  }
}

const LOAD = join(import.meta.dirname, 'load')

/** Flags as a program of `load/` reads them. */
const flagsOf = (flags: Readonly<Record<string, string | number>>) =>
  Object.entries(flags).map(([name, value]) => `--${name}=${value}`)

/** A program of `load/`, on the load core. */
const loadProgram = (file: string, flags: Readonly<Record<string, string | number>> = {}) => ({
  name: file,
  core: LOAD_CORE,
  command: process.execPath,
  args: [join(LOAD, file), ...flagsOf(flags)]
})

/** Runs a program of `load/` to its end and returns what it printed; `nice` gives way to others on the load core. */
export const runLoad = (file: string, flags: Readonly<Record<string, string | number>>, nice = 0): Promise<string> => {
  const { command, args, ...program } = loadProgram(file, flags)
  return runPinned({ ...program, command: 'nice', args: ['-n', `${nice}`, command, ...args] })
}

/** Starts a program of `load/`, which ends with the world. */
export const startLoad = (
  { defer }: { defer(action: () => Promise<unknown>): void },
  file: string,
  flags: Readonly<Record<string, string | number>>
): Running => {
  const running = startPinned(loadProgram(file, flags))
  defer(running.stop)
  return running
}

/** Starts a process that listens on a free port, until it takes connections; it ends with the world. */
export const startListening = async (
  { defer }: { defer(action: () => Promise<unknown>): void },
  start: (port: number) => Start
): Promise<{ readonly port: number; readonly running: Running }> => {
  const port = await freePort()
  const running = startPinned(start(port))
  defer(running.stop)
  await waitUntil(running, () => accepts(port))
  return { port, running }
}

/** Starts an upstream of `load/`; resolves with its port. */
export const startLoadUpstream = async (
  world: { defer(action: () => Promise<unknown>): void },
  file: string
): Promise<number> => (await startListening(world, port => ({ ...loadProgram(file), env: { PORT: `${port}` } }))).port

// Processes of a benchmark run, each pinned to one core; all of them end with the run, whatever happens.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { accepts, freePort } from '../../test/support/ports.ts'
import type { Place } from './world.ts'

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
  stop(): Promise<void>
}

interface Start {
  readonly name: string
  readonly core: number
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

const OUTPUT_KEPT = 8192
const alive = new Set<ChildProcess>()

process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

const watch = (child: ChildProcess) => {
  alive.add(child)
  child.once('exit', () => alive.delete(child))
}

/** What every child sees of our environment; settings of the gateway never leak in from the caller's shell. */
const BASE_ENV = {
  PATH: process.env.PATH ?? '/usr/bin:/bin:/usr/sbin:/sbin',
  HOME: process.env.HOME ?? '/tmp',
  NODE_ENV: 'production'
}

export const startPinned = ({ name, core, command, args, env, ...options }: Start): Running => {
  const child = spawn('taskset', ['-c', `${core}`, command, ...args], {
    env: { ...BASE_ENV, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...options
  })
  if (child.pid === undefined) throw new Error(`${name} could not be started: is taskset installed?`)
  watch(child)
  let kept = ''
  const keep = (chunk: Buffer) => {
    kept = (kept + chunk.toString('latin1')).slice(-OUTPUT_KEPT)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const hasExited = () => child.exitCode !== null || child.signalCode !== null
  return { name, pid: child.pid, output: () => kept, hasExited, stop: () => stop(child, hasExited) }
}

const stop = async (child: ChildProcess, hasExited: () => boolean): Promise<void> => {
  if (hasExited()) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), 3000)
  await exited
  clearTimeout(timer)
}

const run = promisify(execFile)

/** Runs a program to its end and returns its stdout; the rest of the run waits for it. */
export const runOnLoadCore = async (command: string, args: readonly string[]): Promise<string> => {
  const running = run('taskset', ['-c', `${LOAD_CORE}`, command, ...args], { env: BASE_ENV, maxBuffer: 2 ** 26 })
  watch(running.child)
  return (await running).stdout
}

/** Waits until `isReady`; fails at once when the process ends, and after `timeoutMs`. */
export const waitUntil = async (
  running: Running,
  isReady: () => Promise<boolean>,
  timeoutMs = 30_000,
  everyMs = 20
): Promise<void> => {
  const deadline = performance.now() + timeoutMs
  while (!(await isReady())) {
    if (running.hasExited()) throw new Error(`${running.name} ended at start:\n${running.output()}`)
    if (performance.now() > deadline) throw new Error(`${running.name} is not ready:\n${running.output()}`)
    await delay(everyMs)
  }
}

type Flags = Readonly<Record<string, unknown>>

/** A program of `load/`; it reads its flags as JSON. */
const loadArgs = (file: string, flags: Flags) => [join(import.meta.dirname, 'load', file), JSON.stringify(flags)]

/** Runs a program of `load/` to its end and returns the last line, which is JSON; `nice` gives way to others on the load core. */
export const runLoad = async <T>(file: string, flags: Flags, nice = 0): Promise<T> => {
  const text = await runOnLoadCore('nice', ['-n', `${nice}`, process.execPath, ...loadArgs(file, flags)])
  return JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as T
}

/** Starts a program of `load/`, which ends with the world, and waits until all that it opens is open. */
export const openLoad = async ({ teardown }: Place, file: string, flags: Flags): Promise<Running> => {
  const running = startPinned({ name: file, core: LOAD_CORE, command: process.execPath, args: loadArgs(file, flags) })
  teardown(running.stop)
  await waitUntil(running, async () => running.output().includes('"opened"'), 120_000)
  return running
}

/** Starts a process that listens on a free port, until it takes connections; it ends with the world. */
export const startListening = async (
  { teardown }: Pick<Place, 'teardown'>,
  start: (port: number) => Start
): Promise<{ readonly name: string; readonly port: number; readonly running: Running }> => {
  const port = await freePort()
  const running = startPinned(start(port))
  teardown(running.stop)
  await waitUntil(running, () => accepts(port))
  return { name: running.name, port, running }
}

interface Configured extends Pick<Start, 'name' | 'core' | 'command'> {
  config(port: number, folder: string): string
  args(file: string, folder: string): readonly string[]
}

/** The same for a program that reads a file, in a folder of its own. */
export const startConfigured = async (place: Place, { config, args, ...program }: Configured) => {
  const folder = await place.folder(program.command)
  const file = join(folder, `${program.command}.conf`)
  const env = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  return startListening(place, port => {
    writeFileSync(file, config(port, folder))
    return { ...program, args: args(file, folder), env }
  })
}

/** Starts an upstream of `load/`; resolves with its port. */
export const startLoadUpstream = async (place: Place, file: string): Promise<number> => {
  const program = { name: file, core: LOAD_CORE, command: process.execPath, args: loadArgs(file, {}) }
  return (await startListening(place, port => ({ ...program, env: { PORT: `${port}` } }))).port
}

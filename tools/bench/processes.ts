// Starts the processes of a benchmark, each pinned to one core; all of them end with the world.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { accepts, freePort } from '../../test/support/ports.ts'
import { createServerProcess, makeFolder } from '../../test/support/server-process.ts'
import type { Teardown } from '../teardown.ts'

/** The process under test has this core for itself. */
export const GATEWAY_CORE = 0
/** Load generator, upstream and stores share this one. */
export const LOAD_CORE = 1

export type Running = Awaited<ReturnType<typeof startPinned>>

interface Start {
  readonly name: string
  readonly core: number
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** What every child sees of our environment; settings of the gateway never leak in from the caller's shell. */
const BASE_ENV = {
  PATH: process.env.PATH ?? '/usr/bin:/bin:/usr/sbin:/sbin',
  HOME: process.env.HOME ?? '/tmp',
  NODE_ENV: 'production'
}

/** Resolves when it is up. */
export const startPinned = async (
  { teardown }: Teardown,
  { name, core, command, args, env, ...options }: Start,
  isUp: (output: string) => boolean | Promise<boolean>
) => {
  const server = createServerProcess({
    command: 'taskset',
    args: ['-c', `${core}`, command, ...args],
    env: { ...BASE_ENV, ...env },
    ...options,
    isUp: () => isUp(server.output())
  })
  const stop = () => server.end('SIGTERM')
  teardown(stop)
  await server.start()
  return { name, pid: server.pid() ?? 0, output: server.output, stop } as const
}

/** Runs a program to its end and returns its stdout; the rest of the run waits for it. */
export const runOnLoadCore = async (command: string, args: readonly string[]): Promise<string> => {
  const options = { env: BASE_ENV, maxBuffer: 2 ** 26 }
  return (await promisify(execFile)('taskset', ['-c', `${LOAD_CORE}`, command, ...args], options)).stdout
}

type Flags = Readonly<Record<string, unknown>>

/** A program of `load/`; it reads its flags as JSON. */
const loadProgram = (file: string, flags: Flags = {}) => ({
  name: file,
  core: LOAD_CORE,
  command: process.execPath,
  args: [join(import.meta.dirname, 'load', file), JSON.stringify(flags)]
})

/** Runs a program of `load/`, which gives way to others on the load core, to its end and returns the last line, which is JSON. */
export const runLoad = async <T>(file: string, flags: Flags): Promise<T> => {
  const { command, args } = loadProgram(file, flags)
  const text = await runOnLoadCore('nice', ['-n', '10', command, ...args])
  return JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as T
}

/** Starts a program of `load/`; resolves when all that it opens is open. */
export const openLoad = (t: Teardown, file: string, flags: Flags): Promise<Running> =>
  startPinned(t, loadProgram(file, flags), output => output.includes('"opened"'))

export type Listening = Awaited<ReturnType<typeof startListening>>

/** Starts a process that listens on a free port, until it takes connections. */
export const startListening = async (t: Teardown, start: (port: number) => Start) => {
  const port = await freePort()
  return { ...(await startPinned(t, start(port), () => accepts(port))), port }
}

interface Configured extends Pick<Start, 'name' | 'core' | 'command'> {
  config(port: number, folder: string): string
  args(file: string, folder: string): readonly string[]
}

/** The same for a program that reads a file, in a folder of its own. */
export const startConfigured = (t: Teardown, { config, args, ...program }: Configured): Promise<Listening> => {
  const folder = makeFolder(t, program.command)
  const file = join(folder, `${program.command}.conf`)
  const env = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  return startListening(t, port => {
    writeFileSync(file, config(port, folder))
    return { ...program, args: args(file, folder), env }
  })
}

/** Starts an upstream of `load/`; resolves with its port. */
export const startLoadUpstream = async (t: Teardown, file: string): Promise<number> =>
  (await startListening(t, port => ({ ...loadProgram(file), env: { PORT: `${port}` } }))).port

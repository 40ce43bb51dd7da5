// Runs the demo as a person at a terminal does: through npm, in a process group and a temporary folder of its own.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { delimiter, join } from 'node:path'
import type { Test } from 'tap'
import { makeFolder } from './server-process.ts'
import { succeeds, until } from './until.ts'

export const ROOT = join(import.meta.dirname, '../..')

/** A folder that demos of this test take for the system's temporary one. */
export const temporaryFolder = (t: Pick<Test, 'teardown'>): { path: string; left: () => string[] } => {
  const path = makeFolder(t, 'test-demo')
  // Node's own cache of compiled files is not ours to remove.
  return { path, left: () => readdirSync(path).filter(name => name !== 'node-compile-cache') }
}

interface StartOptions {
  readonly temporary: string
  readonly cwd?: string
  readonly env?: Record<string, string>
}

export const spawnDemo = (t: Pick<Test, 'teardown'>, { temporary, cwd = ROOT, env = {} }: StartOptions) => {
  const { PORT: _port, http_proxy: _http, all_proxy: _all, ALL_PROXY: _upper, ...rest } = process.env
  const child = spawn('npm', ['run', '--silent', 'demo'], {
    cwd,
    detached: true,
    env: { ...rest, TMPDIR: temporary, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => killGroup(child, 'SIGKILL'))
  return child
}

export const startDemo = async (t: Pick<Test, 'teardown'>, options: StartOptions) => {
  const child = spawnDemo(t, options)
  const text = await printed(child, /^Portaria demo ready[\s\S]*without one[\s\S]*\n\n$/m)
  const lines = text.split('\n')
  const group = child.pid ?? 0
  return {
    /** What it printed until it was ready. */
    text,
    url: /http:\/\/localhost:\d+/.exec(text)?.[0] ?? '',
    /** The three lines to paste, then those after `$`. */
    curlLines: lines.filter(line => line.startsWith('curl')),
    moreLines: lines.filter(line => line.startsWith('  $ ')).map(line => line.slice(4)),
    group,
    /** Sends a signal to all of its processes (Ctrl-C does), or to npm alone; resolves with npm's exit code. */
    async end(signal: NodeJS.Signals, who: 'group' | 'npm' = 'group'): Promise<{ code: number | null; ms: number }> {
      const began = performance.now()
      const exited = child.exitCode === null ? once(child, 'exit') : Promise.resolve([child.exitCode])
      if (who === 'npm') child.kill(signal)
      else killGroup(child, signal)
      const [code] = await exited
      return { code, ms: performance.now() - began }
    },
    /** Resolves when none of its processes is there any more. */
    gone: () => until(async () => (await processesOf(group)).length === 0, 'all processes are gone')
  }
}

const killGroup = (child: ChildProcess, signal: NodeJS.Signals): void => {
  try {
    process.kill(-(child.pid ?? 0), signal)
  } catch {
    // All gone.
  }
}

/** Resolves with all that was printed once it fits; rejects when the demo ends before. */
export const printed = (child: ChildProcess, fits: RegExp): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = ''
    const take = (chunk: Buffer) => {
      text += chunk.toString()
      if (fits.test(text)) resolve(text)
    }
    child.stdout?.on('data', take)
    child.stderr?.on('data', take)
    child.once('exit', () => reject(new Error(`the demo ended: ${text}`)))
  })

const processesOf = async (group: number): Promise<number[]> => {
  const { stdout } = await run('ps -A -o pid=,pgid=,stat=')
  return stdout
    .split('\n')
    .map(line => line.trim().split(/\s+/))
    .filter(([, pgid, stat]) => Number(pgid) === group && stat?.startsWith('Z') === false)
    .map(([pid]) => Number(pid))
}

/** A line in a fresh shell, from this folder. */
export const run = (line: string): Promise<{ stdout: string; stderr: string }> =>
  new Promise(resolve => {
    const path = `${join(ROOT, 'node_modules/.bin')}${delimiter}${process.env.PATH ?? ''}`
    const options = { cwd: ROOT, timeout: 20_000, env: { PATH: path, HOME: process.env.HOME ?? '/' } }
    execFile('sh', ['-c', line], options, (_error, stdout, stderr) => resolve({ stdout, stderr }))
  })

/** Listens there as soon as nobody else does. The kernel closes a killed process's ports late. */
export const occupy = async (t: Pick<Test, 'teardown'>, port: number): Promise<Server> => {
  const server = createServer()
  t.teardown(() => server.close())
  const isOurs = () => succeeds(once(server.listen(port, '127.0.0.1'), 'listening'))
  await until(isOurs, `port ${port} is free`)
  return server
}

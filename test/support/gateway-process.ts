// Runs the gateway as operators do: a process with an environment, signals, an exit code and lines on its outputs.
import { readFileSync, writeFileSync } from 'node:fs'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Test } from 'tap'
import { WebSocketServer } from 'ws'
import { stringify } from 'yaml'
import { CACHE_FOLDER } from '../../gateway/values/package-files.ts'
import { listen } from './ports.ts'
import { childrenOf, makeFolder, spawnNode } from './server-process.ts'
import { TEST_SECRET } from './test-secret.ts'
import { until } from './until.ts'

const ENTRY = join(import.meta.dirname, '../../gateway/main.ts')
const DEADLINE_MS = 120_000

export interface ProcessLine {
  readonly pid: number
  readonly level: number
  readonly msg: string
  readonly [field: string]: unknown
}

export type GatewayProcess = ReturnType<typeof spawnGateway>

export const isAlive = (pid: number): boolean => {
  try {
    // A zombie has ended.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return false
  }
}

const linesOf = (text: string): ProcessLine[] =>
  text
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as ProcessLine)

const completeLines = (text: string): ProcessLine[] => linesOf(text.slice(0, text.lastIndexOf('\n') + 1))

/** A child that has not yet become a worker may not be stopped: its parent waits for it. */
const isWorker = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('workers/worker.ts')
  } catch {
    return false
  }
}

/** A .env is read only from `cwd`. */
export const spawnGateway = (
  t: Pick<Test, 'teardown'>,
  env: Readonly<Record<string, string>>,
  cwd?: string,
  args: readonly string[] = cwd === undefined ? ['--env-file=/dev/null'] : []
) => {
  const gateway = spawnNode(t, ['--', ENTRY, ...args], { cwd, env: { NODE_COMPILE_CACHE: CACHE_FOLDER, ...env } })
  const { stdout, stderr } = gateway
  let isOver = false
  void gateway.ended.then(() => {
    isOver = true
  })
  const find = (msg: string) => completeLines(stdout()).find(line => line.msg === msg)
  return {
    ...gateway,
    /** Every line of standard output; throws when one is no JSON. */
    lines: () => linesOf(stdout()),
    /** The first line that says so; fails when the process ends before. */
    async logged(msg: string): Promise<ProcessLine> {
      await until(
        () => find(msg) !== undefined || isOver,
        () => `${msg} in ${stdout()}${stderr()}`,
        DEADLINE_MS
      )
      const line = find(msg)
      if (line === undefined) throw new Error(`ended without saying ${msg}: ${stdout()}${stderr()}`)
      return line
    },
    /** Process ids of its workers, oldest first. */
    workers: () => childrenOf(gateway.pid).filter(isWorker)
  }
}

/** With an environment beyond {@link baseEnv}; on a free port, unless that names another. Resolves when it listens. */
export const startGatewayProcess = async (
  t: Pick<Test, 'teardown'>,
  folder: string,
  env: Readonly<Record<string, string>>
) => {
  const gateway = spawnGateway(t, { ...baseEnv(folder), PORT: '0', ...env })
  const { port } = await gateway.logged('listening')
  return { ...gateway, port: Number(port) }
}

/** A folder with one route file, which can be replaced. */
export const routeFile = (t: Pick<Test, 'teardown'>, config: object | string) => {
  const folder = makeFolder(t, 'process')
  const write = (next: object | string) =>
    writeFileSync(join(folder, 'routes.yaml'), typeof next === 'string' ? next : stringify(next))
  write(config)
  return { folder, write }
}

/** Environment of a gateway for tests; PORT 0 is a free one. */
export const baseEnv = (folder: string): Record<string, string> => ({
  JWT_SECRET: TEST_SECRET,
  UPSTREAM_CONFIG: folder,
  HOST: '127.0.0.1',
  RATE_LIMIT_MAX: '1000000',
  DRAIN_TIMEOUT: '2s'
})

/** A backend that answers at once, or under `/slow` when the test says so, and echoes WebSocket messages. */
export const startBackend = async (t: Pick<Test, 'teardown'>) => {
  const held: ServerResponse[] = []
  const server = http.createServer((req: IncomingMessage, res: ServerResponse) => {
    if (req.url?.startsWith('/slow')) held.push(res)
    else res.end('ok')
  })
  // A request on a connection that is closed at that moment would be lost.
  server.keepAliveTimeout = 0
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', socket => {
    socket.on('error', () => undefined)
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
  })
  const url = `http://127.0.0.1:${await listen(t, server)}`
  return {
    url,
    /** Resolves when so many requests wait under `/slow`. */
    holds: (count: number) => until(() => held.length >= count),
    release() {
      for (const res of held.splice(0)) res.end('late')
    }
  }
}

/** Does something while only one worker takes connections, for each in turn. */
export const eachAlone = async (gateway: GatewayProcess, act: () => Promise<unknown>) => {
  for (const stopped of gateway.workers()) {
    process.kill(stopped, 'SIGSTOP')
    try {
      await act()
    } finally {
      process.kill(stopped, 'SIGCONT')
    }
  }
}

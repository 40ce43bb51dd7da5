// Starts a real Redis for a test (single, or a Cluster), gone when the test ends.
import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { freePort } from './ports.ts'
import { createServerProcess, makeFolder } from './server-process.ts'
import { until } from './until.ts'

export type TestRedis = Awaited<ReturnType<typeof startRedis>>

const run = promisify(execFile)

/** Starts a Redis on a free port, without persistence; `options` are further `--name value` words. */
export const startRedis = async (
  t: Pick<Test, 'teardown'>,
  options: readonly string[] = [],
  program = 'redis-server'
) => {
  const folder = makeFolder(t, 'redis')
  const { server, port } = await startSomewhere(async free => {
    const words = ['--port', `${free}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder]
    const server = createServerProcess({
      command: program,
      args: [...words, ...options],
      isUp: () => isAnswering(free)
    })
    t.teardown(() => server.end('SIGKILL'))
    await server.start()
    return { server, port: free }
  })
  return {
    url: `redis://127.0.0.1:${port}`,
    host: '127.0.0.1',
    port,
    /** Nothing is saved. */
    kill: () => server.end('SIGKILL'),
    /** On the same port, empty. */
    restart: server.start,
    /** Connections stay open, and nothing answers. */
    freeze: () => server.signal('SIGSTOP'),
    thaw: () => server.signal('SIGCONT'),
    /** Freezes it after `delayMs` for `frozenMs`, by a process of its own; resolves to the milliseconds that it took. */
    async freezeIn(delayMs: number, frozenMs: number): Promise<number> {
      const args = [
        join(import.meta.dirname, 'freezer.ts'),
        `${server.pid()}`,
        `${Date.now() + delayMs}`,
        `${frozenMs}`
      ]
      return Number((await run(process.execPath, args)).stdout)
    },
    /** Runs a command through redis-cli; resolves to its output, trimmed. */
    command: async (...words: string[]) => (await run('redis-cli', ['-p', `${port}`, ...words])).stdout.trim()
  }
}

/** Three masters, each with `replicas` replicas (none by default: losing a master then loses its slots). */
export const startRedisCluster = async (t: Pick<Test, 'teardown'>, { replicas = 0 } = {}) => {
  const words = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000', '--repl-diskless-sync-delay', '0']
  const servers: TestRedis[] = []
  for (let index = 0; index < 3 * (1 + replicas); index++) servers.push(await startRedis(t, words))
  const addresses = servers.map(({ host, port }) => `${host}:${port}`)
  const create = ['--cluster', 'create', ...addresses, '--cluster-replicas', `${replicas}`, '--cluster-yes']
  await run('redis-cli', create)
  /** The server that is master of a key's slot now. */
  const masterOf = async (key: string): Promise<TestRedis> => {
    const slot = Number(await firstAnswer(servers, 'cluster', 'keyslot', key))
    const nodes = (await firstAnswer(servers, 'cluster', 'nodes')).split('\n').map(line => line.split(' '))
    const owner = nodes.find(
      ([, , flags = '', , , , , , ...slots]) => !flags.includes('fail') && slots.some(holds(slot))
    )
    const port = Number(/:(\d+)@/.exec(owner?.[1] ?? '')?.[1])
    const server = servers.find(candidate => candidate.port === port)
    if (server === undefined) throw new Error(`nobody serves slot ${slot}`)
    return server
  }
  for (const server of servers) {
    await until(async () => {
      const state = await server.command('cluster', 'info')
      const known = await server.command('cluster', 'nodes')
      const replicating = known.split('\n').filter(line => line.includes('slave')).length === 3 * replicas
      return state.includes('cluster_state:ok') && replicating
    })
    if ((await server.command('role')).startsWith('slave'))
      await until(async () => (await server.command('info', 'replication')).includes('master_link_status:up'))
  }
  return { nodes: servers.map(({ host, port }) => ({ host, port })), servers, masterOf }
}

const holds = (slot: number) => (range: string) => {
  const [first, last] = range.split('-').map(Number)
  return first !== undefined && first <= slot && slot <= (last ?? first)
}

const firstAnswer = async (servers: readonly TestRedis[], ...words: string[]): Promise<string> => {
  for (const server of servers) {
    const answer = await server.command(...words).catch(() => undefined)
    if (answer !== undefined) return answer
  }
  throw new Error('no server answers')
}

const isAnswering = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
    socket.setTimeout(500, () => socket.destroy())
    socket.once('data', chunk => {
      resolve(`${chunk}`.startsWith('+PONG'))
      socket.destroy()
    })
    socket.on('error', () => resolve(false))
    socket.on('close', () => resolve(false))
  })

/** What was a free port may be taken before a server has it: then another. */
const startSomewhere = async <T>(start: (port: number) => Promise<T>, tries = 5): Promise<T> => {
  try {
    return await start(await freePort())
  } catch (error) {
    if (tries <= 1) throw error
    return startSomewhere(start, tries - 1)
  }
}

// A socket that systemd holds (socket activation) is served, and a restart of the gateway refuses nobody.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { baseEnv, routeFile } from '../support/gateway-process.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { childrenOf } from '../support/server-process.ts'
import { until } from '../support/until.ts'

const ENTRY = join(import.meta.dirname, '../../gateway/main.ts')

interface TcpHandle {
  readonly fd: number
  bind(address: string, port: number): number
  close(): void
}

interface TcpBinding {
  readonly TCP: new (type: number) => TcpHandle
  readonly constants: { readonly SERVER: number }
}

/** A bound socket that this process does not accept from, as systemd has one. */
const bindSocket = (t: Test, port: number): TcpHandle => {
  const { binding } = process as unknown as { binding(name: 'tcp_wrap'): TcpBinding }
  const { TCP, constants } = binding('tcp_wrap')
  const handle = new TCP(constants.SERVER)
  t.equal(handle.bind('127.0.0.1', port), 0)
  t.teardown(() => handle.close())
  return handle
}

const stop = async (gateway: ChildProcess) => {
  const ended = gateway.exitCode ?? gateway.signalCode
  if (ended !== null) return ended
  const exit = once(gateway, 'exit')
  gateway.kill('SIGTERM')
  return (await exit)[0]
}

for (const workers of ['1', '2'])
  t.test(`a request that arrives while no gateway runs is answered by the next one: WORKERS=${workers}`, async t => {
    const [postgres, redis, port] = [await startPostgres(t), await startRedis(t), await freePort()]
    const socket = bindSocket(t, port)
    const redirectPort = await freePort()
    const second = bindSocket(t, redirectPort)
    const { folder } = routeFile(t, { routes: [] })
    const env = {
      ...baseEnv(folder),
      ...{ PATH: process.env.PATH, DATABASE_URL: postgres.url, REDIS_URL: redis.url, WORKERS: workers },
      ...{ PORT: '1', LISTEN_FDS: '2', NODE: process.execPath, ENTRY }
    }
    const start = async () => {
      // The process id is that of the shell, which Node.js replaces.
      const gateway = spawn('sh', ['-c', 'LISTEN_PID=$$ exec "$NODE" "$ENTRY"'], {
        env,
        stdio: ['ignore', 'pipe', 'inherit', socket.fd, second.fd]
      })
      t.teardown(() => stop(gateway))
      let printed = ''
      gateway.stdout?.on('data', chunk => {
        printed += chunk
      })
      await until(() => printed.includes('"msg":"listening"') || gateway.exitCode !== null, 'the gateway listens')
      return { gateway, printed: () => printed }
    }
    const ask = async () =>
      (await fetch(`http://127.0.0.1:${port}/auth/login`, { headers: { connection: 'close' } })).status

    const first = await start()
    t.equal(await ask(), 200)
    const redirected = await fetch(`http://127.0.0.1:${redirectPort}/x`, { redirect: 'manual' })
    t.equal(redirected.status, 308, 'the second socket redirects, with or without REDIRECT_PORT')
    t.equal(await stop(first.gateway), 0)
    const waiting = ask()
    const next = await start()
    t.equal(await waiting, 200)
    if (workers === '1') return t.equal(await stop(next.gateway), 0)
    const exit = once(next.gateway, 'exit')
    for (const pid of childrenOf(next.gateway.pid ?? Number.NaN)) process.kill(pid, 'SIGKILL')
    t.equal((await exit)[0], 75, 'without workers it has lost the socket')
    t.notMatch(next.printed(), /"failure":/, 'no replacement was tried in vain')
  })

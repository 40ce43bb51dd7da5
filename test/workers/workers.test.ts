// Several workers are one gateway: one exact limit, one reload, one drain, and nobody missed for long. DF-15, DF-17, DF-19, RX-24
import { fork } from 'node:child_process'
import cluster from 'node:cluster'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createConnection, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createCalls } from '../../gateway/instances/calls.ts'
import { REDIS_UNAVAILABLE } from '../../gateway/limits/circuit.ts'
import { moduleUrl } from '../../gateway/values/package-files.ts'
import { createMembers } from '../../gateway/workers/members.ts'
import { createRestarts } from '../../gateway/workers/primary.ts'
import {
  baseEnv,
  eachAlone,
  type GatewayProcess,
  isAlive,
  routeFile,
  spawnGateway,
  startBackend
} from '../support/gateway-process.ts'
import { freePort, listen } from '../support/ports.ts'
import { startOwnPostgres, startPostgres } from '../support/postgres.ts'
import { rawExchange } from '../support/raw-client.ts'
import { type RawWebSocket, rawWebSocket } from '../support/raw-websocket.ts'
import { startRedis } from '../support/redis.ts'
import { routesTo } from '../support/routes.ts'
import { signToken } from '../support/signed-tokens.ts'
import { TEST_SECRET } from '../support/test-secret.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { succeeds, until } from '../support/until.ts'

const config = (url: string, more: object[] = []) =>
  routesTo(url, [
    { path: '/open/*', public: true },
    { path: '/slow/*', public: true },
    { path: '/ws', websocket: {} },
    ...more
  ])

const startWorld = async (t: Test, env: Record<string, string> = {}) => {
  const { DATABASE_URL = (await startPostgres(t)).url } = env
  const [redis, backend] = await Promise.all([startRedis(t), startBackend(t)])
  const [port, opsPort] = [await freePort(), await freePort()]
  const files = routeFile(t, config(backend.url))
  const all = {
    ...baseEnv(files.folder),
    DATABASE_URL,
    REDIS_URL: redis.url,
    PORT: String(port),
    OPS_PORT: String(opsPort),
    WORKERS: '2',
    ...env
  }
  // A connection each, so that either worker may take it.
  const get = (path: string) => fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })
  const ops = async (path: string) => (await fetch(`http://127.0.0.1:${opsPort}${path}`)).text()
  const metric = async (name: string) =>
    (await ops('/metrics'))
      .split('\n')
      .filter(line => line.startsWith(name) && !line.startsWith('#'))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
  const start = async () => {
    const gateway = spawnGateway(t, all)
    await gateway.logged('listening')
    return gateway
  }
  return { redis, backend, port, opsPort, files, env: all, start, get, ops, metric }
}

const KEPT_ALIVE = 'GET /open/x HTTP/1.1\r\nHost: gw\r\n\r\n'

const stop = async (t: Test, gateway: GatewayProcess) => {
  const workers = gateway.workers()
  gateway.signal('SIGTERM')
  t.equal(await gateway.ended, 0)
  t.notOk(workers.some(isAlive), 'no worker is left')
}

t.test('two workers say once that they listen, share the connections and admit exactly the limit together', async t => {
  const { world, gateway, asked } = await undisturbed(Number.POSITIVE_INFINITY, async () => {
    const world = await startWorld(t, { RATE_LIMIT_MAX: '30', RATE_LIMIT_TTL_MS: '3600000' })
    const gateway = await world.start()
    t.equal(gateway.lines().filter(({ msg }) => msg === 'listening').length, 1)
    t.equal(gateway.workers().length, 2)

    let [asked, admitted] = [0, 0]
    const ask = async (count: number) => {
      const answers = await Promise.all(Array.from({ length: count }, () => world.get('/open/x')))
      asked += count
      admitted += answers.filter(({ status }) => status === 200).length
      t.ok(answers.every(({ status }) => status === 200 || status === 429))
    }
    await eachAlone(gateway, () => ask(8))
    while (asked < 100 || (admitted < 30 && asked < 1000)) await ask(12)
    const first = admitted
    await eachAlone(gateway, () => ask(10))
    if (gateway.stdout().includes(REDIS_UNAVAILABLE)) {
      // A machine too busy to answer within 100 ms: then each worker counts for itself.
      await stop(t, gateway)
      return undefined
    }
    t.equal(first, 30)
    t.equal(admitted, 30)
    return { world, gateway, asked }
  })
  const pids = gateway.lines().flatMap(({ msg, pid }) => (msg === 'request' ? [pid] : []))
  t.equal(new Set(pids).size, 2, 'both workers took part')

  // Without those of a worker that is not scheduled in time.
  await until(async () => (await world.metric('portaria_requests_total')) === asked, 'metrics are those of all workers')
  t.equal(await world.metric('portaria_workers'), 2)
  t.equal(await world.metric('portaria_ready'), 1)
  t.equal(await world.ops('/ready'), 'ready\n')
  t.equal(await world.ops('/live'), 'live\n')
  await stop(t, gateway)
  t.equal(gateway.stderr(), '')
})

// RX-17
t.test('what a client address and a person may hold is bounded in all workers', async t => {
  const { files, port, start, get } = await startWorld(t, {
    CONNECTIONS_PER_IP: '16',
    // 3 and 6 of the 16,384 streams of one target.
    STREAMS_PER_USER: '0.02%',
    STREAMS_PER_IP: '0.04%',
    TRUST_PROXY: '127.0.0.1'
  })
  const gateway = await start()

  await t.test('each worker keeps to the shares of streams', async t => {
    // Each process has a budget of its own: the caps hold in both, and leave room in both.
    const held: RawWebSocket[] = []
    const open = async (id: number, from: string) => {
      const authorization = `Bearer ${await signToken(TEST_SECRET, { id })}`
      const socket = await rawWebSocket(port, { headers: { authorization, 'x-forwarded-for': from } })
      held.push(socket)
      return Number(socket.head().slice(9, 12))
    }
    await eachAlone(gateway, async () => {
      const first = [await open(7, '192.0.2.1'), await open(7, '192.0.2.1'), await open(7, '192.0.2.2')]
      t.same([...first, await open(7, '192.0.2.3')], [101, 101, 101, 429], 'a person has their share')
      const second = [await open(8, '192.0.2.1'), await open(8, '192.0.2.1'), await open(8, '192.0.2.1')]
      t.same(second, [101, 101, 101], 'another opens streams, from the same address too')
      t.equal(await open(9, '192.0.2.1'), 101)
      t.same([await open(9, '192.0.2.1'), await open(9, '192.0.2.9')], [429, 101], 'an address has its share')
      t.equal((await get('/open/x')).status, 200, 'and requests take no place of a stream')
    })
    for (const { socket } of held) socket.destroy()
  })

  // Connections of a trusted proxy are not counted.
  const localAddress = '127.0.0.2'
  /** Undefined: it is closed without an answer. */
  const connect = () =>
    new Promise<Socket | undefined>(resolve => {
      const socket = createConnection({ port, host: '127.0.0.1', localAddress }, () => socket.write(KEPT_ALIVE))
      t.teardown(() => socket.destroy())
      socket.once('data', () => resolve(socket))
      socket.once('close', () => resolve(undefined))
      socket.on('error', () => undefined)
    })
  const held: (Socket | undefined)[] = []
  await eachAlone(gateway, async () => {
    for (let i = 0; i < 8; i++) held.push(await connect())
  })
  t.notOk(held.includes(undefined))
  const areRefused = async (): Promise<boolean> => {
    const more = [await connect(), await connect(), await connect(), await connect()]
    for (const socket of more) socket?.destroy()
    return more.every(socket => socket === undefined)
  }
  await until(areRefused, 'each worker knows what the other holds')
  for (const socket of held) socket?.destroy()
  await until(async () => (await connect()) !== undefined)

  await t.test('when every worker is gone and none can be started again the gateway exits with 75', async t => {
    // RX-24
    files.write('routes: [')
    await gateway.logged('route files not reloaded; the previous table stays in use')
    for (const pid of gateway.workers()) process.kill(pid, 'SIGKILL')
    t.equal(await gateway.ended, 75)
    t.match(gateway.stderr(), /^No worker can be started$/m)
  })
})

t.test('a reload reaches all workers, a broken file none, nor a replacement; then DRAIN_DELAY holds', async t => {
  const { files, backend, port, start, get, ops } = await startWorld(t, {
    DRAIN_DELAY: '5s',
    // The longest, to which more is added.
    DRAIN_TIMEOUT: '2147483s'
  })
  const gateway = await start()
  t.not((await rawExchange(port, KEPT_ALIVE)).headers.connection, 'close')
  const statuses = async (path: string) =>
    new Set(await Promise.all(Array.from({ length: 8 }, async () => (await get(path)).status)))
  t.same(await statuses('/new/x'), new Set([401]))
  gateway.signal('SIGHUP')
  await until(() => gateway.lines().filter(({ msg }) => msg.startsWith('route files unchanged')).length >= 2)

  files.write(config(backend.url, [{ path: '/new/*', public: true }]))
  gateway.signal('SIGHUP')
  await until(() => gateway.lines().filter(({ msg }) => msg === 'route files reloaded').length >= 2)
  t.same(await statuses('/new/x'), new Set([200]))

  files.write('routes: [')
  await until(() => gateway.lines().filter(({ msg }) => msg.startsWith('route files not reloaded')).length >= 2)
  t.same(await statuses('/new/x'), new Set([200]))
  process.kill(gateway.workers()[0] ?? Number.NaN, 'SIGKILL')
  await gateway.logged('a worker has been replaced')
  await eachAlone(gateway, async () => t.equal((await get('/new/x')).status, 200, 'a replacement has that table too'))
  // No signal: the watchers see it.
  files.write(config(backend.url))
  await until(async () => [...(await statuses('/new/x'))].join() === '401')

  // DF-15. As a service manager does it: to all processes.
  const workers = gateway.workers()
  const from = performance.now()
  for (const pid of workers) process.kill(pid, 'SIGUSR1')
  for (const pid of workers) process.kill(pid, 'SIGTERM')
  gateway.signal('SIGTERM')
  await until(async () => (await ops('/ready')) === 'draining\n')
  const [metrics, served, ...kept] = await Promise.all([
    ops('/metrics'),
    statuses('/open/x'),
    ...Array.from({ length: 8 }, () => rawExchange(port, KEPT_ALIVE))
  ])
  t.match(metrics, /^portaria_ready 0$/m)
  t.same(served, new Set([200]), 'new connections are served while balancers notice')
  // Each worker hears of the end: whichever takes a connection says so in its answer.
  t.ok(kept.every(({ headers }) => headers.connection === 'close'))
  t.equal(await gateway.ended, 0)
  t.ok(performance.now() - from >= 4990, 'the listener stays as long as it was told to')
  t.notOk(workers.some(isAlive), 'no worker is left')
  t.notMatch(gateway.stderr(), /Debugger/, 'SIGUSR1 opens no debugger')
})

t.test('a worker that ends is replaced, with what it was given at the start', async t => {
  const { env, backend, files, get, metric, ops } = await startWorld(t)
  const file = join(t.testdir(), 'env')
  writeFileSync(
    file,
    Object.entries(env)
      .map(([name, value]) => `${name}='${value}'\n`)
      .join('')
  )
  const gateway = spawnGateway(t, {}, undefined, ['--env-file', file])
  await gateway.logged('listening')
  rmSync(file)

  // RX-24, DF-19
  await t.test('killed under load, while the other serves, and nothing counted is lost', async t => {
    const [victim = 0] = gateway.workers()
    let isLoading = true
    let [served, failed] = [0, 0]
    const client = async () => {
      while (isLoading) {
        if ((await get('/open/x').catch(() => undefined))?.status === 200) served++
        else failed++
      }
    }
    const clients = [client(), client(), client(), client()]
    await until(() => served > 50)
    const before = await metric('portaria_requests_total')
    process.kill(victim, 'SIGKILL')
    await until(() => !isAlive(victim))
    const atDeath = served
    await until(() => served > atDeath + 20)
    await gateway.logged('a worker has been replaced')
    isLoading = false
    await Promise.all(clients)

    t.ok(failed <= 4, `at most what it had under way failed (${failed})`)
    t.equal(gateway.workers().length, 2)
    t.notOk(gateway.workers().includes(victim))
    t.ok((await metric('portaria_requests_total')) >= before)
    t.equal(await metric('portaria_worker_restarts_total'), 1)
    t.equal(await ops('/ready'), 'ready\n')
  })

  await t.test('what it has counted of a route goes with the route, as the counts of the others do', async () => {
    files.write(JSON.stringify(config(backend.url)).replace('/open/', '/other/'))
    gateway.signal('SIGHUP')
    await until(async () => !/route="[^"]*open/.test(await ops('/metrics')))
    files.write(config(backend.url))
    gateway.signal('SIGHUP')
    await until(async () => (await get('/open/x').catch(() => undefined))?.status === 200)
  })

  await t.test('nor does one that is too busy to answer count on of a route that is gone', async t => {
    const [busy = 0, other = 0] = gateway.workers()
    const counted = async () => {
      const text = await ops('/metrics')
      return [...text.matchAll(/^portaria_requests_total\{.*open.* (\d+)$/gm)].reduce(
        (sum, [, n]) => sum + Number(n),
        0
      )
    }
    const before = await counted()
    for (const stopped of [busy, other]) {
      process.kill(stopped, 'SIGSTOP')
      // That one worker has the new rules does not say that the other has them.
      await until(async () => (await get('/open/x')).status === 200, 'the other worker serves it')
      process.kill(stopped, 'SIGCONT')
    }
    await until(async () => (await counted()) >= before + 2, 'both have counted')
    process.kill(busy, 'SIGSTOP')
    files.write(JSON.stringify(config(backend.url)).replace('/open/', '/other/'))
    gateway.signal('SIGHUP')
    await until(async () => (await get('/other/x')).status === 200)
    for (const when of ['at first', 'and later']) t.equal(await counted(), 0, when)
    process.kill(busy, 'SIGCONT')
    files.write(config(backend.url))
    gateway.signal('SIGHUP')
    await until(async () => (await get('/open/x')).status === 200)
  })

  await t.test('killed together, with the settings of the file that was read at the start', async () => {
    const before = gateway.workers()
    for (const pid of before) process.kill(pid, 'SIGKILL')
    await until(() => gateway.workers().length === 2 && gateway.workers().every(pid => !before.includes(pid)))
    await until(async () => (await get('/open/x').catch(() => undefined))?.status === 200, 'a new worker serves')
  })
  await stop(t, gateway)
})

t.test('two workers without their database', async t => {
  const { world, gateway, postgres, during } = await undisturbed(1000, async () => {
    const postgres = await startOwnPostgres(t)
    const world = await startWorld(t, { DATABASE_URL: postgres.url })
    const gateway = await world.start()
    postgres.freeze()
    // They begin to wait for the database a little later than the primary for them.
    for (const pid of gateway.workers()) process.kill(pid, 'SIGSTOP')
    const asked = world.ops('/metrics')
    await world.ops('/live')
    for (const pid of gateway.workers()) process.kill(pid, 'SIGCONT')
    return { world, gateway, postgres, during: await asked }
  })
  const { get, ops, metric, files, backend } = world

  await t.test('while it hangs, the metrics keep the gauges of the workers', async t => {
    t.match(during, /^portaria_database_up 0$/m, 'its alert can fire')
    postgres.thaw()
    let after = ''
    await until(async () => {
      after = await ops('/metrics')
      return /^portaria_database_up 1$/m.test(after)
    })
    const descriptors = /^process_max_fds (\d+)$/m
    t.equal(descriptors.exec(during)?.[1], descriptors.exec(after)?.[1], 'the sum is that of all workers')
  })

  await t.test(
    'while a worker cannot be replaced, /ready holds for those that serve, and fails without any',
    async t => {
      await postgres.stop()
      const [first = Number.NaN, second = Number.NaN] = gateway.workers()
      process.kill(first, 'SIGKILL')
      await gateway.logged('a worker has ended')
      t.equal((await get('/open/x')).status, 200)
      t.equal(await ops('/ready'), 'ready\n')
      // The one that starts has read the route files, and waits.
      await gateway.logged('the database is not available yet; trying again')
      files.write(config(backend.url, [{ path: '/new/*', public: true }]))
      await gateway.logged('route files reloaded')
      process.kill(second, 'SIGKILL')
      await until(async () => (await ops('/ready')) === 'starting\n', 'no worker serves')
      t.match(await ops('/metrics'), /^portaria_ready 0$/m)
      await postgres.start()
      await until(async () => (await metric('portaria_workers')) === 2)
      t.equal(await ops('/ready'), 'ready\n')
      await eachAlone(gateway, async () =>
        t.equal((await get('/new/x')).status, 200, 'a change during its start counts')
      )
    }
  )

  await t.test('workers end when their primary is killed', async t => {
    const workers = gateway.workers()
    t.equal(workers.length, 2)
    gateway.signal('SIGKILL')
    await until(() => !workers.some(isAlive))
  })
})

/** One process, and two workers. */
const KINDS: readonly (readonly [kind: string, WORKERS: string])[] = [
  ['one process', '1'],
  ['two workers', '2']
]

for (const [kind, WORKERS] of KINDS) {
  t.test(`${kind}: SIGTERM lets requests finish, closes WebSockets with 1012 and exits with 0`, async t => {
    // DF-15. The sockets are closed within most of it, and the requests wait for that.
    const { backend, port, start, get } = await startWorld(t, { WORKERS, DRAIN_TIMEOUT: '10s' })
    const gateway = await start()
    const headers = { authorization: `Bearer ${await signToken(TEST_SECRET)}` }
    const sockets: RawWebSocket[] = []
    const slow: Promise<Response>[] = []
    const ask = async () => {
      sockets.push(await rawWebSocket(port, { headers }))
      slow.push(get('/slow/1'), get('/slow/2'))
      await backend.holds(slow.length)
    }
    if (WORKERS === '1') await ask()
    else await eachAlone(gateway, ask)
    for (const socket of sockets) t.match(socket.head(), /^HTTP\/1.1 101/)
    const workers = gateway.workers()
    // As a service manager or a terminal does it: to all processes.
    for (const pid of workers) process.kill(pid, 'SIGTERM')
    gateway.signal('SIGTERM')
    for (const socket of sockets) {
      await until(() => socket.closeCode() !== undefined)
      t.equal(socket.closeCode(), 1012)
      socket.close(1012)
    }
    await until(async () => !(await succeeds(get('/open/x'))))
    backend.release()
    for (const answer of await Promise.all(slow)) t.match([answer.status, await answer.text()], [200, 'late'])
    t.equal(await gateway.ended, 0)
    t.notOk(workers.some(isAlive))
    t.equal(gateway.lines().at(-1)?.msg, 'stopped')
    t.equal(gateway.stderr(), '')
  })

  t.test(`${kind}: SIGTERM during the start leaves nothing behind, and a second one ends all at once`, async t => {
    const postgres = await startOwnPostgres(t)
    const { env, start, get, backend } = await startWorld(t, {
      ...{ DATABASE_URL: postgres.url, WORKERS, DRAIN_TIMEOUT: '60s' }
    })
    postgres.freeze()
    const { REDIS_URL: _, ...alone } = env
    const starting = spawnGateway(t, WORKERS === '1' ? alone : env)
    // Said when signals are obeyed already, and nothing that needs the database.
    if (WORKERS === '1') await starting.logged('REDIS_URL is not set: requests are counted in memory')
    else await until(() => starting.workers().length === 1)
    const begun = starting.workers()
    starting.signal('SIGTERM')
    t.equal(await starting.ended, 0)
    await until(() => !begun.some(isAlive))
    postgres.thaw()

    const running = await start()
    const workers = running.workers()
    const slow = get('/slow/1').catch(() => 'cut')
    await backend.holds(1)
    running.signal('SIGTERM')
    await running.logged('stopping')
    await until(() => {
      running.signal('SIGTERM')
      return !isAlive(running.pid)
    })
    t.equal(await running.ended, 143)
    t.equal(await slow, 'cut')
    await until(() => !workers.some(isAlive))
  })
}

t.test('SIGTERM between the first worker and the others lets the requests of the first finish', async t => {
  // RW-82, RW-29
  const { backend, env, get } = await startWorld(t, { DRAIN_TIMEOUT: '60s' })
  const gateway = spawnGateway(t, env)
  let workers: readonly number[] = []
  await until(() => {
    workers = gateway.workers()
    return workers.length === 2
  })
  const [first = Number.NaN, second = Number.NaN] = workers
  process.kill(second, 'SIGSTOP')
  const slow = get('/slow/1')
  await backend.holds(1)
  gateway.signal('SIGTERM')
  await gateway.logged('stopping')
  await until(() => !isAlive(second))
  backend.release()
  t.equal(await slow.then(answer => answer.text()), 'late')
  t.equal(await gateway.ended, 0)
  t.notOk(isAlive(first))
  t.notMatch(gateway.stdout(), /"listening"/)
})

t.test('a worker that ends during the start is replaced; one that starts during DRAIN_DELAY says so', async t => {
  const { env, port, get, ops } = await startWorld(t, { DRAIN_DELAY: '60s' })
  const gateway = spawnGateway(t, env)
  const { workers } = gateway
  await until(() => workers().length === 2)
  const [first = Number.NaN, second = Number.NaN] = workers()
  process.kill(second, 'SIGSTOP')
  process.kill(first, 'SIGKILL')
  const newcomer = () => workers().find(pid => pid !== first && pid !== second)
  await until(() => newcomer() !== undefined)
  process.kill(newcomer() ?? Number.NaN, 'SIGKILL')
  await gateway.logged('a worker has been replaced')
  t.match(await ops('/metrics'), /^portaria_ready 0$/m, 'as long as one has not started')
  process.kill(second, 'SIGCONT')
  await gateway.logged('listening')
  t.equal((await get('/open/x')).status, 200)
  t.match(await ops('/metrics'), /^portaria_workers 2$/m)

  const before = workers()
  process.kill(second, 'SIGKILL')
  const last = () => workers().find(pid => !before.includes(pid))
  await until(() => last() !== undefined)
  const late = last() ?? Number.NaN
  process.kill(late, 'SIGSTOP')
  gateway.signal('SIGTERM')
  await until(async () => (await ops('/ready')) === 'draining\n')
  process.kill(late, 'SIGCONT')
  await until(async () => /^portaria_workers 2$/m.test(await ops('/metrics')), 'it serves before DRAIN_DELAY is over')
  await eachAlone(gateway, async () => {
    const { headers } = await rawExchange(port, KEPT_ALIVE)
    t.equal(headers.connection, 'close', 'its responses too say that they are the last')
  })
})

t.test('what keeps workers from starting is said once', async t => {
  const { env } = await startWorld(t)
  const taken = String(await listen(t, createServer()))
  for (const name of ['PORT', 'OPS_PORT']) {
    const gateway = spawnGateway(t, { ...env, [name]: taken })
    t.equal(await gateway.ended, 75, name)
    t.match(gateway.stderr(), /^The gateway cannot start: .*EADDRINUSE.*\n$/)
  }
})

t.test('a worker that is not given its settings says so', async t => {
  const worker = fork(fileURLToPath(moduleUrl('gateway/workers/worker.ts')), {
    serialization: 'advanced',
    silent: true
  })
  t.teardown(() => worker.kill('SIGKILL'))
  const failures: unknown[] = []
  const primary = createCalls(message => void worker.send(message))
  primary.answer('settings', () => Promise.reject(new Error('busy')))
  primary.answer('failed', failure => void failures.push(failure))
  worker.on('message', message => primary.receive(message))
  t.same((await once(worker, 'exit'))[0], 75)
  t.same(failures, [{ text: 'The gateway cannot start: busy', status: 75 }])
})

t.test('a worker is replaced at once, then ever later, and after six vain starts without others never', async t => {
  // RX-24
  const served = createRestarts()
  const crash = { wasReady: true, livedMs: 100, othersReady: 1 }
  t.same(
    Array.from({ length: 10 }, () => served.next(crash)),
    [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
  )
  t.equal(served.next({ ...crash, livedMs: 60_000 }), 0, 'a long life is a fresh start')
  t.equal(served.count(), 11)

  const vain = { wasReady: false, livedMs: 100, othersReady: 0 }
  const alone = createRestarts()
  t.same(
    Array.from({ length: 6 }, () => alone.next(vain) === undefined),
    [false, false, false, false, false, true]
  )
  const notAlone = createRestarts()
  t.notOk(Array.from({ length: 50 }, () => notAlone.next({ ...vain, othersReady: 1 })).includes(undefined))
})

t.test('a process that cannot be started counts as a worker that has ended', async t => {
  const ended: number[] = []
  const members = createMembers({
    settings: {} as never,
    certificates: undefined,
    reload: async () => true,
    onEnded: (_member, code) => ended.push(code)
  })
  cluster.setupPrimary({ cwd: join(t.testdir(), 'absent') })
  await t.rejects(members.fork(true), /a worker ended/)
  t.same([ended, members.all()], [[-1], []])
})

// Administrators see and end what all instances and workers have, whichever they ask, and are told which did not reply.
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { startInstances } from '../../gateway/instances/instances.ts'
import { routesTo, signToken, startGateway, TEST_SECRET } from '../support/gateway.ts'
import {
  baseEnv,
  eachAlone,
  type GatewayProcess,
  routeFile,
  spawnGateway,
  startBackend
} from '../support/gateway-process.ts'
import { openStore } from '../support/limiters.ts'
import { freePort } from '../support/ports.ts'
import { startOwnPostgres, startPostgres } from '../support/postgres.ts'
import { type RawWebSocket, rawWebSocket } from '../support/raw-websocket.ts'
import { startRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

interface Sockets {
  readonly items: readonly { readonly id: string; readonly instance: string }[]
  readonly total: number
  readonly missing: readonly string[]
}

interface Status {
  readonly checks: { readonly database: string }
  readonly streams: { readonly websocket: number }
  readonly instances: readonly {
    readonly instance: string
    readonly checks: { readonly database: string }
    readonly checksum: string
  }[]
  readonly missing: readonly string[]
}

interface Traffic {
  readonly points: readonly { readonly allowed: number }[]
  readonly instances: readonly string[]
  readonly missing: readonly string[]
}

interface Started {
  readonly port: number
  readonly gateway: GatewayProcess
}

/** Two instances of two workers each. */
const startWorld = async () => {
  const [postgres, redis, backend] = await Promise.all([startPostgres(t), startRedis(t), startBackend(t)])
  const files = routeFile(
    t,
    routesTo(backend.url, [
      { path: '/open/*', public: true },
      { path: '/ws', websocket: {} }
    ])
  )
  const start = async (): Promise<Started> => {
    const port = await freePort()
    const env = { ...baseEnv(files.folder), DATABASE_URL: postgres.url, REDIS_URL: redis.url, PORT: String(port) }
    const gateway = spawnGateway(t, { ...env, WORKERS: '2' })
    await gateway.logged('listening')
    return { port, gateway }
  }
  const [token, root] = await Promise.all([
    signToken(TEST_SECRET),
    signToken(TEST_SECRET, { id: 1, username: 'root', profiles: ['Admin'] })
  ])
  // A connection each, so that either worker may take it.
  const ask = (port: number, path: string, method = 'GET') =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: { connection: 'close', authorization: `Bearer ${root}` }
    })
  const admin = async <T>(port: number, path: string) => (await (await ask(port, `/auth/admin/${path}`)).json()) as T
  const open = (port: number) => rawWebSocket(port, { headers: { authorization: `Bearer ${token}` } })
  const [one, two] = [await start(), await start()]
  return { postgres, redis, one, two, ask, admin, open, sockets: (port: number) => admin<Sockets>(port, 'sockets') }
}

const { postgres, redis, one, two, ask, admin, open, sockets } = await startWorld()

/** The first reply in which nothing is missing: a process that a busy machine keeps from replying for a second is. */
const whole = async <T extends { readonly missing: readonly string[] }>(read: () => Promise<T>): Promise<T> => {
  for (const start = performance.now(); ; ) {
    const reply = await read()
    if (reply.missing.length === 0 || performance.now() - start > 60_000) return reply
  }
}

const pidOf = (instance: string) => Number(instance.split(':')[1])
const instancesOf = ({ items }: Sockets) => items.map(({ instance }) => instance)

// RV-103
t.test('every view and every ending is that of all instances and workers', async t => {
  const workers = [...one.gateway.workers(), ...two.gateway.workers()].sort((a, b) => a - b)
  const held: RawWebSocket[] = []
  for (const { port, gateway } of [one, two]) await eachAlone(gateway, async () => void held.push(await open(port)))
  for (const socket of held) t.match(socket.head(), /^HTTP\/1.1 101/)

  const all = await whole(() => sockets(one.port))
  t.match(all, { total: 4, missing: [] })
  t.same(
    instancesOf(all)
      .map(pidOf)
      .sort((a, b) => a - b),
    workers,
    'each names its instance, as the log does'
  )
  for (const { port } of [one, two]) {
    t.same(await whole(() => sockets(port)), all, 'whichever is asked')
    const pages = [1, 2, 3].map(page => whole(() => admin<Sockets>(port, `sockets?page=${page}&pageSize=2`)))
    t.same(
      (await Promise.all(pages)).flatMap(({ items }) => items),
      all.items
    )
  }

  const status = await whole(() => admin<Status>(one.port, 'status'))
  t.match(status, { streams: { websocket: 4 }, missing: [] })
  t.same(
    status.instances.map(({ instance }) => pidOf(instance)).sort((a, b) => a - b),
    workers
  )
  t.equal(new Set(status.instances.map(({ checksum }) => checksum)).size, 1)

  for (const { port } of [one, two]) for (let i = 0; i < 10; i++) await ask(port, '/open/x')
  await until(async () => {
    const { points, instances } = await whole(() => admin<Traffic>(two.port, 'traffic'))
    t.equal(instances.length, 4)
    return points.reduce((sum, { allowed }) => sum + allowed, 0) >= 20
  }, 'the traffic of both')

  for (const { id } of all.items) t.equal((await ask(one.port, `/auth/admin/sockets/${id}`, 'DELETE')).status, 204)
  for (const socket of held) {
    await until(() => socket.closeCode() !== undefined)
    t.equal(socket.closeCode(), 4403)
    socket.close(4403)
  }
  await until(async () => (await whole(() => sockets(two.port))).total === 0)
  const ended = "SELECT target FROM audit_events WHERE action = 'stream.end' ORDER BY id"
  t.same(
    (await postgres.query(ended)).map(({ target }) => target),
    all.items.map(({ id }) => `stream:${id}`)
  )
  t.equal((await ask(one.port, `/auth/admin/sockets/${all.items.at(-1)?.id}`, 'DELETE')).status, 404)
})

t.test('what replies in another form, or without a field, is missing, and the views show the others', async t => {
  const store = await openStore(t, redis.url)
  const foreign = await startInstances(store, 'foreign:1')
  t.teardown(() => foreign.close())
  const isMissing = async (view: string, body: unknown) => {
    await until(
      // A process that a busy machine keeps from replying for a second is missing as well.
      async () => isDeepStrictEqual((await admin<{ missing?: string[] }>(one.port, view)).missing, ['foreign:1']),
      () => `${view} beside ${JSON.stringify(body)}`
    )
    t.pass(`${view} ${JSON.stringify(body)}`)
  }
  for (const body of [null, {}, [{ id: 7 }], 'many']) {
    for (const name of ['streams.count', 'status', 'traffic']) foreign.answer(name, () => body)
    for (const view of ['sockets', 'status', 'traffic']) await isMissing(view, body)
  }

  const own = async (name: string) => {
    const { replies } = await whole(() => foreign.askAll(name, 0))
    return replies.find(({ id }) => id !== foreign.id)?.body as Readonly<Record<string, object>>
  }
  const without = (value: object | undefined, key: string) => ({ ...value, [key]: undefined })
  const status = await own('status')
  const step = { number: 1, allow: 0, refuse: 0, fail: 0, logins: 0, loginsRefused: 0, codes: {}, buckets: [] }
  const stream = { id: 'x', kind: 'sse', route: 'r', since: new Date().toISOString(), ip: '192.0.2.1' }
  const partial = [
    ...Object.keys(status).map(key => ['status', without(status, key)] as const),
    ['status', { ...status, limiter: without(status.limiter, 'reason') }],
    ...Object.keys(step).map(key => ['traffic', [without(step, key)]] as const),
    ...Object.keys(stream).map(key => ['sockets', [without(stream, key)]] as const)
  ] as const
  foreign.answer('streams.count', () => 1)
  for (const [view, body] of partial) {
    foreign.answer(view === 'sockets' ? 'streams.list' : view, () => body)
    await isMissing(view, body)
  }
  for (const [view, body] of [
    ['status', status],
    ['traffic', [step]],
    ['streams.list', [stream]]
  ] as const)
    foreign.answer(view, () => body)
  for (const view of ['sockets', 'status', 'traffic'])
    t.same((await whole(() => admin<{ missing: string[] }>(one.port, view))).missing, [], `${view} of a whole reply`)
})

t.test('an instance that does not reply, or was killed, is missing; without Redis others may be', async t => {
  for (const { port, gateway } of [one, two]) await eachAlone(gateway, () => open(port))
  const all = await whole(() => sockets(one.port))
  t.equal(all.total, 4)
  const end = async (id = '') => (await ask(one.port, `/auth/admin/sockets/${id}`, 'DELETE')).status

  const [frozen = 0] = two.gateway.workers()
  const ofFrozen = all.items.find(({ instance }) => pidOf(instance) === frozen)
  process.kill(frozen, 'SIGSTOP')
  await until(async () => {
    const { missing, total } = await sockets(one.port)
    return missing.join() === ofFrozen?.instance && total === 3
  }, 'only the frozen one is missing')
  t.equal(await end(ofFrozen?.id), 503, 'whether it still exists is not known')
  process.kill(frozen, 'SIGCONT')
  await until(async () => (await sockets(one.port)).total === 4)

  await redis.kill()
  await until(async () => (await sockets(one.port)).missing.includes('*'))
  const own = await sockets(one.port)
  t.equal(own.total, 1)
  const others = all.items.filter(({ instance }) => instance !== own.items[0]?.instance)
  // Which others there are, each worker has learned by itself.
  const known = new Set(['*', ...others.map(({ instance }) => instance)])
  t.ok(own.missing.every(name => known.has(name)))
  t.equal(await end(others.find(({ instance }) => two.gateway.workers().includes(pidOf(instance)))?.id), 503)
  await redis.restart()
  // Each worker of the first instance finds the others again by itself, so what one says may differ from the other for seconds.
  const shows = (expected: Omit<Sockets, 'total'>) =>
    until(async () => {
      const { items, missing } = await sockets(one.port)
      return JSON.stringify({ items, missing }) === JSON.stringify(expected)
    })
  await shows({ items: all.items, missing: [] })

  const isOfOther = ({ instance }: { instance: string }) => two.gateway.workers().includes(pidOf(instance))
  const [killed, left] = [all.items.filter(isOfOther), all.items.filter(item => !isOfOther(item))]
  two.gateway.signal('SIGKILL')
  await two.gateway.ended
  await shows({ items: left, missing: [] })
  for (const { id } of killed) await until(async () => (await end(id)) === 404)
})

t.test('REVOCATION_MAX_STALENESS refuses private routes once the database is away, and not before', async t => {
  const postgres = await startOwnPostgres(t)
  const env = { REVOCATION_MAX_STALENESS: '800ms', RATE_LIMIT_MAX: '100000' }
  const world = await startGateway(t, { postgres, env })
  const token = await world.tokenFor()
  const status = async (path: string) => (await world.fetch(path, { token })).status
  let acceptedSince = performance.now()
  await until(async () => {
    if ((await status('/auth/me')) !== 200) acceptedSince = performance.now()
    // Longer than between two readings without the setting. On a busy machine the database may seem away for a moment.
    return performance.now() - acceptedSince > 2500
  }, 'accepted without a gap')
  postgres.freeze()
  t.teardown(postgres.thaw)
  await until(async () => (await status('/auth/me')) === 503)
  t.equal(await status('/health'), 200, 'public ones are not')
})

t.test('instances whose database does not respond still reply, and say that it does not', async t => {
  const [postgres, redis] = await Promise.all([startOwnPostgres(t), startRedis(t)])
  const shared = { postgres, env: { REDIS_URL: redis.url } }
  const [one, two] = [await startGateway(t, shared), await startGateway(t, shared)]
  const token = await two.tokenFor({ profiles: ['Admin'] })
  const status = async () => (await (await one.fetch('/auth/admin/status', { token })).json()) as Status
  await until(async () => (await status()).checks.database === 'ok')
  postgres.freeze()
  t.teardown(postgres.thaw)
  // On a busy machine one may notice later than the other, or reply later than within a second.
  const areKnown = async () => {
    const { instances, missing } = await status()
    const known = [instances.map(({ checks }) => checks.database), missing]
    return isDeepStrictEqual(known, [['degraded', 'degraded'], []])
  }
  await until(areKnown)
  t.pass('both say so')
})

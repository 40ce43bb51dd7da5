// The store answers or fails in time, survives every loss of Redis, and hears channels again after one; what its connections lead to. DF-07, DF-09
import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { openRedis } from '../../gateway/redis/redis.ts'
import { RedisTimeout, redisFault } from '../../gateway/redis/redis-failure.ts'
import { shiftClocks } from '../support/clocks.ts'
import { openStore, recordingLog } from '../support/limiters.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { freePort, listen } from '../support/ports.ts'
import { startRedis, startRedisCluster, type TestRedis } from '../support/redis.ts'
import { startRelay } from '../support/relay.ts'
import { makeFolder } from '../support/server-process.ts'
import { until } from '../support/until.ts'

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => 'none',
    error => redisFault(error).reason
  )

/** Subscribes to the channel `news`; what it has heard, and every report of its connection. */
const listenTo = (store: Pick<Awaited<ReturnType<typeof openStore>>, 'subscribe'>) => {
  const heard: string[] = []
  const connected: boolean[] = []
  const leave = store.subscribe(
    'news',
    message => heard.push(`${message}`),
    state => connected.push(state)
  )
  return { heard, connected, leave }
}

t.test('values are kept for their time', async t => {
  const redis = await startRedis(t)
  const store = await openStore(t, redis.url)

  t.equal(await store.get('a'), null)
  await store.set('a', '3', 5000)
  t.equal(await store.get('a'), '3')
  t.ok(Number(await redis.command('pttl', 'portaria:a')) <= 5000)
})

t.test('a script is sent by its digest, and whole where Redis does not know it', async t => {
  const redis = await startRedis(t)
  const store = await openStore(t, redis.url)
  const run = () => store.evalScript('return {KEYS[1], ARGV[1]}', ['k'], [7], 1000)

  t.same(await run(), ['portaria:k', '7'])
  await redis.command('script', 'flush')
  t.same(await run(), ['portaria:k', '7'])
  t.match(await redis.command('info', 'commandstats'), /cmdstat_evalsha:calls=2/)
  t.equal(await failure(store.evalScript('return redis.error_reply("READONLY x")', ['k'], [], 1000)), 'readonly')
})

t.test('a Cluster that has not been found yet is not taken for one without subscribers', async t => {
  const nodes = [{ host: '127.0.0.1', port: await freePort() }]
  const access = { username: undefined, password: undefined, tls: false, certificates: {} }
  const store = openRedis({ kind: 'cluster', nodes, prefix: '', ...access }, recordingLog())
  t.teardown(store.close)
  t.equal(await failure(store.channels('')), 'connection')
})

t.test('nothing goes on after a close, not even when a Cluster was just asked for its slots', async t => {
  const timers = () => process.getActiveResourcesInfo().filter(one => one === 'Timeout').length
  const redis = await startRedis(t, ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'])
  await redis.command('cluster', 'addslotsrange', '0', '16383')
  await until(async () => (await redis.command('cluster', 'info')).includes('cluster_state:ok'))
  const before = timers()
  const closed = Promise.withResolvers<void>()
  const onError = () => store.close().then(closed.resolve)
  const log = { ...recordingLog(), debug: onError }
  const store = await openStore(t, `redis-cluster://${redis.host}:${redis.port}`, 30_000, { log })
  t.equal(store.isReady(), true)
  redis.freeze()
  await closed.promise
  await until(() => timers() === before, 'the timers have ended', 20_000)
})

t.test('a silent Redis fails commands in time, a dead one at once, and it is used again when it is back', async t => {
  const redis = await startRedis(t)
  const store = await openStore(t, redis.url)
  redis.freeze()
  await t.rejects(store.evalScript('return 1', ['k'], [], 20), RedisTimeout)
  redis.thaw()
  t.equal(await store.get('a'), null)

  await redis.kill()
  await until(() => !store.isReady())
  const ownTimeMs = measureOwnTime()
  t.equal(await failure(store.get('a')), 'connection')
  t.ok(ownTimeMs() < 500, 'without waiting for a reply')
  t.equal(await store.ready(10), false)
  await redis.restart()
  t.equal(await store.ready(30_000), true)
  t.equal(await store.get('a'), null)
})

t.test('messages are heard until one stops to listen; a lost and a regained subscription are reported', async t => {
  const redis = await startRedis(t)
  const store = await openStore(t, redis.url)
  const { heard, connected, leave } = listenTo(store)
  await until(() => connected.length === 1)
  t.same(await store.channels('ne'), { names: ['ws'] })
  t.same([await store.publish('other', 'none'), await store.publish('news', 'one')], [0, 1])
  await until(() => heard.length === 1)
  await redis.kill()
  await until(() => connected.length === 2)
  await redis.restart()
  await until(() => connected.length >= 3)
  await store.ready(30_000)
  await store.publish('news', 'two')
  await until(() => heard.length === 2)
  leave()
  await until(async () => (await store.channels('news')).names.length === 0)

  t.same(heard, ['one', 'two'])
  t.same(connected, [true, false, true])
})

t.test('a subscriber to a Redis that is away hears as soon as it is there', async t => {
  const redis = await startRedis(t)
  await redis.kill()
  const store = await openStore(t, redis.url, 0)
  const { heard, connected } = listenTo(store)
  await redis.restart()
  await until(() => connected.at(-1) === true && store.isReady())
  await store.publish('news', 'one')
  await until(() => heard.length === 1)
  t.same(heard, ['one'])
})

t.test('a subscriber follows to the new primary when the old one is demoted and keeps its connections', async t => {
  const [old, next] = [await startRedis(t), await startRedis(t)]
  const relay = await startRelay(t, old.port)
  const store = await openStore(t, `redis://127.0.0.1:${relay.port}`)
  const { connected } = listenTo(store)
  await until(() => connected.length === 1)
  await old.command('replicaof', next.host, `${next.port}`)
  relay.redirect(next.port)
  await until(async () => (await failure(store.set('a', '1', 60_000))) === 'none')
  await until(() => connected.length >= 3, 'it listens there')
  t.same(connected, [true, false, true])
  t.same(await store.channels('n'), { names: ['ews'] })
})

t.test('a refused subscription is logged once, and made as soon as Redis allows it', async t => {
  const redis = await startRedis(t)
  await redis.command('acl', 'setuser', 'default', 'resetchannels')
  const log = recordingLog()
  const { connected } = listenTo(await openStore(t, redis.url, undefined, { log }))
  const refused = async () =>
    /cmdstat_subscribe:.*rejected_calls=(\d+)/.exec(await redis.command('info', 'commandstats'))
  await until(async () => Number((await refused())?.[1]) > 2, 'it tries again')
  await redis.command('acl', 'setuser', 'default', 'allchannels')
  await until(() => connected.length === 1)
  t.same(
    log.lines.map(({ message }) => message),
    ['Redis refuses to let this process subscribe to its channel, so that others cannot ask it']
  )
})

/** They wait for seconds: beside each other. */
t.test('servers that fail over, leave or load', { jobs: 5 }, async t => {
  t.test('with Sentinel the store follows a fail-over', async t => {
    const master = await startRedis(t)
    const replica = await startRedis(t, [
      '--replicaof',
      '127.0.0.1',
      `${master.port}`,
      '--repl-diskless-sync-delay',
      '0'
    ])
    await until(async () => (await replica.command('info', 'replication')).includes('master_link_status:up'))
    const port = await freePort()
    const file = join(makeFolder(t, 'sentinel'), 'sentinel.conf')
    await writeFile(
      file,
      `port ${port}
      sentinel monitor main 127.0.0.1 ${master.port} 1
      sentinel down-after-milliseconds main 500
      sentinel failover-timeout main 2000`
    )
    const sentinel = spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' })
    t.teardown(() => sentinel.kill('SIGKILL'))
    const store = await openStore(t, `redis-sentinel://127.0.0.1:${port}/main`)
    await until(() => store.isReady())
    await store.set('a', '1', 60_000)
    // Sentinel learns of the replica from the master, which it asks every ten seconds at most.
    await until(async () => (await replica.command('get', 'portaria:a')) === '1')
    const { connected } = listenTo(store)
    await until(() => connected.length === 1)
    const silent = await listen(t, createServer())
    const beside = await openStore(t, `redis-sentinel://127.0.0.1:${silent},127.0.0.1:${port}/main`)
    t.equal(beside.isReady(), true, 'the next Sentinel is asked when one says nothing')
    await master.kill()
    await until(async () => (await failure(store.set('a', '2', 60_000))) === 'none')
    await until(() => connected.length >= 3)

    t.equal(await replica.command('get', 'portaria:a'), '2')
  })

  t.test('in a Cluster keys may be on any node, messages arrive, and a replica takes over', async t => {
    const cluster = await startRedisCluster(t, { replicas: 1 })
    const store = await openStore(
      t,
      `redis-cluster://nowhere.invalid,${cluster.nodes.map(({ host, port }) => `${host}:${port}`).join(',')}`
    )
    for (let index = 0; index < 20; index++) await store.set(`k${index}`, `${index}`, 60_000)
    t.equal(await store.get('k7'), '7')
    const { heard, connected } = listenTo(store)
    await until(() => connected.at(-1) === true)
    await store.publish('news', 'one')
    await until(() => heard.length === 1)
    t.same(await store.channels('n'), { names: ['ews'] }, 'whichever node the subscriber has chosen')

    const master = await cluster.masterOf('k7')
    await master.kill()
    await until(async () => (await failure(store.set('k7', 'seven', 60_000))) === 'none')
    t.equal(await store.get('k7'), 'seven')
  })

  t.test('a redirection to a node that cannot be reached fails one command', async t => {
    const cluster = await startRedisCluster(t, { replicas: 1 })
    const store = await openStore(
      t,
      `redis-cluster://${cluster.nodes.map(({ host, port }) => `${host}:${port}`).join(',')}`
    )
    const from = await cluster.masterOf('portaria:new')
    const slot = await from.command('cluster', 'keyslot', 'portaria:new')
    const nodes = (await from.command('cluster', 'nodes')).split('\n').map(line => line.split(' '))
    const [id = '', address = ''] = nodes.find(([, , flags = '']) => flags === 'master') ?? []
    await from.command('cluster', 'setslot', slot, 'migrating', id)
    await cluster.servers.find(({ port }) => address.includes(`:${port}@`))?.kill()
    t.not(await failure(store.set('new', '1', 60_000)), 'none')
    await from.command('cluster', 'setslot', slot, 'stable')
    await until(async () => (await failure(store.set('new', '1', 60_000))) === 'none')
  })

  t.test('a subscriber leaves a node that has left the Cluster', async t => {
    const cluster = await startRedisCluster(t, { replicas: 1 })
    // All of them: the one that leaves knows no other any more.
    const nodes = cluster.nodes.map(({ host, port }) => `${host}:${port}`)
    const store = await openStore(t, `redis-cluster://${nodes}`)
    const { heard } = listenTo(store)
    const subscribed = async (nodes: readonly TestRedis[]) => {
      const channels = await Promise.all(nodes.map(node => node.command('pubsub', 'channels')))
      return nodes.find((_node, index) => channels[index]?.includes('news'))
    }
    await until(async () => (await subscribed(cluster.servers)) !== undefined)
    const holder = (await subscribed(cluster.servers)) as TestRedis
    const id = await holder.command('cluster', 'myid')
    const isReplica = async () => (await holder.command('role')).startsWith('slave')
    if (!(await isReplica())) {
      const nodes = (await holder.command('cluster', 'nodes')).split('\n').map(line => line.split(' '))
      const port = /:(\d+)@/.exec(nodes.find(([, , , primary]) => primary === id)?.[1] ?? '')?.[1]
      await cluster.servers.find(node => `${node.port}` === port)?.command('cluster', 'failover')
      await until(isReplica)
    }
    await holder.command('cluster', 'reset', 'hard')
    const others = cluster.servers.filter(node => node !== holder)
    for (const node of others) await node.command('cluster', 'forget', id)
    await until(async () => (await subscribed(others)) !== undefined, 'it subscribes at another node')
    await until(() => store.publish('news', 'one').then(() => heard.length > 0))
  })

  t.test('a server that still loads its data after 5 s is left for the one that is at its address then', async t => {
    // A key takes it a second to load; after each it answers.
    const slowly = ['--key-load-delay', '1000000', '--loading-process-events-interval-bytes', '1024']
    const [old, next] = [await startRedis(t, [...slowly, '--rdbcompression', 'no']), await startRedis(t)]
    await old.command('eval', 'for i = 1, 80 do redis.call("SET", i, ("x"):rep(2000)) end', '0')
    await old.command('save')
    await old.kill()
    const relay = await startRelay(t, old.port)
    const restarting = old.restart().catch(() => undefined)
    await until(async () => (await old.command('ping').catch(() => '')).startsWith('LOADING'))
    const store = await openStore(t, `redis://127.0.0.1:${relay.port}`, 0)
    listenTo(store)
    const asks = /connected_clients:[3-9]/
    await until(async () => asks.test(await old.command('info', 'clients').catch(() => '')), 'both connections wait')
    relay.redirect(next.port)
    t.equal(await store.ready(60_000), true)
    t.equal(await store.get('1'), null)
    await until(
      async () => (await store.channels('news').catch(() => ({ names: [] }))).names.length === 1,
      'it listens there'
    )
    await old.kill()
    await restarting
  })
})

t.test('every way to fail has one word', async t => {
  const reasonOf = (text: string, parts: object = {}) => redisFault(Object.assign(new Error(text), parts)).reason
  for (const [text, reason] of [
    ['OOM command not allowed', 'oom'],
    ["READONLY You can't write", 'readonly'],
    // As Redis 6 says it of a command in a script.
    ['ERR Error running script (call to f_x): @user_script:9: -READONLY You cannot write', 'readonly'],
    ['LOADING Redis is loading', 'loading'],
    ['CLUSTERDOWN The cluster is down', 'clusterdown'],
    ['Too many Cluster redirections. Last error: ReplyError: CLUSTERDOWN Hash slot', 'clusterdown'],
    ['Ready check failed: NOAUTH Authentication required.', 'noauth'],
    ['Connection is closed.', 'connection'],
    ['Reached the max retries per request limit (which is 0). Refer to "maxRetriesPerRequest" option', 'connection'],
    ['Socket timeout. Expecting data, but didn’t receive any in 5000ms.', 'connection'],
    ['nonsense', 'error']
  ] as const)
    t.equal(reasonOf(text), reason, text)
  t.same(
    [
      'CERT_HAS_EXPIRED',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'ERR_SSL_WRONG_VERSION_NUMBER'
    ].map(code => redisFault(Object.assign(new Error('x'), { code }))),
    [
      { reason: 'tls-expired', code: 'CERT_HAS_EXPIRED' },
      { reason: 'tls-unknown-ca', code: 'DEPTH_ZERO_SELF_SIGNED_CERT' },
      { reason: 'tls-wrong-name', code: 'ERR_TLS_CERT_ALTNAME_INVALID' },
      { reason: 'tls', code: 'ERR_SSL_WRONG_VERSION_NUMBER' }
    ]
  )
  t.equal(reasonOf('connect', { code: 'ENOENT' }), 'connection')
  t.same(redisFault(new RedisTimeout(5)), { reason: 'timeout' })
  t.same(redisFault('no error at all'), { reason: 'error' })
})

// RV-44
t.test('a connection is silent once a command goes unanswered for 5 s, however long none was sent', async t => {
  const redis = await startRedis(t)
  const store = await openStore(t, redis.url)
  await store.get('a')
  const [before] = (await redis.command('client', 'list')).match(/id=\d+(?=.* name=portaria)/) ?? []
  const clocks = shiftClocks(t)
  clocks.monotonicMs = 6000
  redis.freeze()
  t.equal(await failure(store.evalScript('return 1', ['k'], [], 100)), 'timeout')
  const asked = store.evalScript('return 1', ['k'], [], 60_000)
  redis.thaw()
  t.equal(await failure(asked), 'none', 'another command waits for its reply')
  t.equal(/id=\d+(?=.* name=portaria)/.exec(await redis.command('client', 'list'))?.[0], before)

  redis.freeze()
  t.equal(await failure(store.get('a')), 'timeout')
  clocks.monotonicMs = 12_000
  t.equal(await failure(store.evalScript('return 1', ['k'], [], 10)), 'timeout')
  await until(() => !store.isReady(), 'the connection ends')
  redis.thaw()
  t.equal(await store.ready(120_000), true)
})

t.test('a Redis is reached by its Unix socket, in the database named', async t => {
  const path = join(makeFolder(t, 'socket'), 'redis.sock')
  const redis = await startRedis(t, ['--unixsocket', path])
  const store = await openStore(t, `unix:${path}?db=3`)
  await store.set('a', '1', 60_000)
  t.equal(await redis.command('-n', '3', 'get', 'portaria:a'), '1')
})

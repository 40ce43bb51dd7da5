// When a connection to Redis ends by our will, which socket and database it leads to, and what its keys begin with.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { redisFault } from '../../gateway/redis/redis-failure.ts'
import { shiftClocks } from '../support/clocks.ts'
import { openStore } from '../support/limiters.ts'
import { startRedis } from '../support/redis.ts'
import { startRelay } from '../support/relay.ts'
import { until } from '../support/until.ts'

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => 'none',
    error => redisFault(error).reason
  )

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
  relay.redirect(next.port)
  t.equal(await store.ready(60_000), true)
  t.equal(await store.get('1'), null)
  await old.kill()
  await restarting
})

t.test('a Redis is reached by its Unix socket, in the database named', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'portaria-socket-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'redis.sock')
  const redis = await startRedis(t, ['--unixsocket', path])
  const store = await openStore(t, `unix:${path}?db=3`)
  await store.set('a', '1', 60_000)
  t.equal(await redis.command('-n', '3', 'get', 'portaria:a'), '1')
})

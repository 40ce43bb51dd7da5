// All processes of an installation can ask each other, and each question ends: with a reply, or with the reason for none.
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { CallFailure, createCalls } from '../../gateway/instances/calls.ts'
import { type Instances, startInstances } from '../../gateway/instances/instances.ts'
import { openStore } from '../support/limiters.ts'
import { startRedis, startRedisCluster } from '../support/redis.ts'
import { until } from '../support/until.ts'

const open = async (t: Test, url: string, name: string) => {
  const redis = await openStore(t, url)
  const instances = await startInstances(redis, name)
  t.teardown(() => instances.close())
  instances.answer('name', () => ({ of: name }))
  await until(async () => (await redis.channels('instance:')).names.includes(instances.id), 'it has subscribed')
  return Object.assign(instances, { redis })
}

type Opened = Awaited<ReturnType<typeof open>>

const reasonOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'none',
    error => (error instanceof CallFailure ? error.reason : String(error))
  )

const namesOf = async (asker: Instances) => {
  const { replies, missing } = await asker.askAll('name')
  return { replied: replies.map(({ name }) => name).sort(), missing }
}

/** In the end: on a busy machine a process may be listed late, or reply later than within a second. */
const sees = async (t: Test, asker: Instances, expected: Awaited<ReturnType<typeof namesOf>>, what?: string) => {
  await until(
    async () => isDeepStrictEqual(await namesOf(asker), expected),
    () => JSON.stringify({ what, expected })
  )
  t.pass(what ?? 'seen')
}

t.test('each asks one or all, whatever they are named; replies may be large', async t => {
  const { url } = await startRedis(t)
  const [one, two, three] = [await open(t, url, 'a:1'), await open(t, url, 'b:1'), await open(t, url, 'b:1')]
  t.equal(new Set([one.id, two.id, three.id]).size, 3)
  t.match(one.id, /^[0-9a-f]{8}$/, 'fit for a public identifier')
  await sees(t, one, { replied: ['a:1', 'b:1', 'b:1'], missing: [] })

  two.answer('echo', (body: unknown) => body)
  const large = { text: 'é\x1e'.repeat(1_000_000), of: [1, null] }
  // A process that is busy with it for seconds does not read the reply to its ping, and subscribes anew.
  const replied = () =>
    one.ask(two.id, 'echo', large, 30_000).catch(error => (error.reason === 'away' ? 'away' : Promise.reject(error)))
  await until(async () => isDeepStrictEqual(await replied(), large), 'the large reply')
  t.same(await one.ask(one.id, 'name'), { of: 'a:1' }, 'itself too')
  t.equal(await two.ask(three.id, 'name').then(() => 'ok'), 'ok')
})

t.test('a process that starts while Redis takes its time can be reached once it has started', async t => {
  const redis = await startRedis(t)
  const store = await openStore(t, redis.url)
  // What waits for a second waits for a minute here, because the machine may be slow.
  const { setTimeout: once } = globalThis
  t.intercept(globalThis, 'setTimeout', {
    value: (act: () => void, ms?: number, ...more: []) => once(act, ms === 1000 ? 60_000 : ms, ...more)
  })
  await redis.command('CLIENT', 'PAUSE', '1500')
  const late = await startInstances(store, 'b:1')
  t.teardown(() => late.close())
  t.match(await redis.command('pubsub', 'numsub', `portaria:instance:${late.id}`), /1$/)
})

t.test('a question that cannot be answered says why', async t => {
  const { url } = await startRedis(t)
  const [one, two] = [await open(t, url, 'a:1'), await open(t, url, 'b:1')]
  two.answer('throws', () => {
    throw new Error('no')
  })
  two.answer('sleeps', () => new Promise(() => undefined))
  t.equal(await reasonOf(one.ask(two.id, 'throws')), 'failed')
  await t.rejects(one.ask(two.id, 'throws'), { message: 'no' })
  t.equal(await reasonOf(one.ask(two.id, 'unknown')), 'failed')
  t.equal(await reasonOf(one.ask(one.id, 'unknown')), 'failed')
  t.equal(await reasonOf(one.ask(two.id, 'sleeps', undefined, 20)), 'timeout')
  const { missing } = await one.askAll('sleeps').catch(() => ({ missing: ['own'] }))
  t.same(missing, ['own'], 'a fault of its own handler is not hidden')
})

t.test('one that ends is gone at once, also for those that already wait, whether it said goodbye or not', async t => {
  const redis = await startRedis(t)
  const [one, two, three] = [
    await open(t, redis.url, 'a:1'),
    await open(t, redis.url, 'b:1'),
    await open(t, redis.url, 'c:1')
  ]
  // Soon after the start it is not certain that a process without a subscription has ended.
  await until(async () => (await reasonOf(one.ask('ffffffff', 'name'))) === 'gone')
  two.answer('sleeps', () => new Promise(() => undefined))
  const waiting = reasonOf(one.ask(two.id, 'sleeps', undefined, 60_000))
  await until(async () => (await redis.command('pubsub', 'numsub', `portaria:instance:${two.id}`)).endsWith('1'))
  const from = performance.now()
  // As when the process is killed: its connections end.
  await two.redis.close()
  t.equal(await waiting, 'gone')
  t.ok(performance.now() - from < 30_000, 'not after the minute that was allowed')
  t.equal(await reasonOf(one.ask(two.id, 'name', undefined, 60_000)), 'gone')
  t.equal(await reasonOf(one.ask('ffffffff', 'name', undefined, 60_000)), 'gone')
  await sees(t, one, { replied: ['a:1', 'c:1'], missing: [] })

  await three.close()
  await sees(t, one, { replied: ['a:1'], missing: [] })
  t.equal(await reasonOf(three.ask(one.id, 'name')), 'gone', 'it asks nobody any more')
})

t.test('a process that subscribes anew is not taken for gone by those that ask it meanwhile', async t => {
  const { url, command } = await startRedis(t)
  const subscribers = async () =>
    [...(await command('CLIENT', 'LIST', 'TYPE', 'pubsub')).matchAll(/^id=(\d+)/gm)].map(([, id = '']) => id)
  const { setTimeout: once, setInterval: often } = globalThis
  // What watches those that wait has its own test.
  const watch = t.intercept(globalThis, 'setInterval', {
    value: (act: () => void, ms: number) => often(ms === 200 ? () => undefined : act, ms)
  })
  const store = await openStore(t, url)
  let isBack = Promise.withResolvers<void>()
  let onPublish = async (): Promise<void> => undefined
  const publish = async (...message: Parameters<typeof store.publish>) => {
    await onPublish()
    return store.publish(...message)
  }
  const returns = async () => {
    isBack.resolve()
    await until(async () => (await store.channels('instance:')).names.includes(two.id))
  }
  const one = await startInstances({ ...store, publish }, 'a:1')
  t.teardown(() => one.close())
  watch.restore()
  one.answer('name', () => ({ of: 'a:1' }))
  const before = await subscribers()
  const two = await open(t, url, 'b:1')
  const both = { replied: ['a:1', 'b:1'], missing: [] }
  await sees(t, one, both)
  // What waits for a second waits for a minute here, because the machine may be slow.
  t.intercept(globalThis, 'setTimeout', {
    value: (act: () => void, ms = 0, ...more: []) =>
      once(ms < 10 ? () => void isBack.promise.then(act) : act, ms === 1000 ? 60_000 : ms, ...more)
  })
  const loseConnection = async () => {
    isBack = Promise.withResolvers()
    onPublish = async () => undefined
    for (const id of await subscribers()) if (!before.includes(id)) await command('CLIENT', 'KILL', 'ID', id)
    await until(async () => !(await store.channels('instance:')).names.includes(two.id), 'it has lost its connection')
  }
  await loseConnection()
  onPublish = async () => {
    onPublish = returns
  }
  t.equal(await reasonOf(one.ask(two.id, 'name', undefined, 60_000)), 'none')
  await loseConnection()
  const asked: Awaited<ReturnType<typeof namesOf>>[] = []
  onPublish = async () => {
    onPublish = returns
    asked.push(await namesOf(one))
    await returns()
  }
  asked.push(await namesOf(one))
  t.same(asked, [both, both], 'nor left out by those that ask all, one after the other')
})

t.test('a process that does not reply is missing after a second, and the others are not held up longer', async t => {
  const { url } = await startRedis(t)
  const [one, two] = [await open(t, url, 'a:1'), await open(t, url, 'b:1')]
  await sees(t, one, { replied: ['a:1', 'b:1'], missing: [] })
  two.answer('busy', () => new Promise(() => undefined))
  one.answer('busy', () => 'idle')
  const isMissing = async () => {
    const { replies, missing } = await one.askAll('busy')
    const bodies = replies.map(({ body }) => body)
    return isDeepStrictEqual([bodies, missing], [['idle'], ['b:1']])
  }
  await until(isMissing)
  t.pass('missing')
})

t.test('without Redis a process is alone; while Redis is away it misses the others, and finds them again', async t => {
  const alone = await startInstances(undefined, 'a:1')
  alone.answer('name', () => 'alone')
  await sees(t, alone, { replied: ['a:1'], missing: [] })
  t.equal(await alone.ask(alone.id, 'name'), 'alone')
  t.equal(await reasonOf(alone.ask('ffffffff', 'name')), 'gone')

  const redis = await startRedis(t)
  const [one, two] = [await open(t, redis.url, 'a:1'), await open(t, redis.url, 'b:1')]
  await sees(t, one, { replied: ['a:1', 'b:1'], missing: [] })
  two.answer('sleeps', () => new Promise(() => undefined))
  const waiting = reasonOf(one.ask(two.id, 'sleeps', undefined, 60_000))
  const { promise: later, resolve } = Promise.withResolvers<string>()
  one.answer('later', () => later)
  const ofItself = one.ask(one.id, 'later', undefined, 60_000)
  await redis.kill()
  t.equal(await waiting, 'away', 'its reply would be lost')
  resolve('later')
  t.equal(await ofItself, 'later', 'what it asks itself needs no Redis')
  t.equal(await reasonOf(one.ask(two.id, 'name')), 'away')
  await sees(t, one, { replied: ['a:1'], missing: ['*', 'b:1'] })
  t.equal(await one.ask(one.id, 'name').then(() => 'ok'), 'ok')

  await redis.restart()
  const reasons = new Set<string>()
  await until(async () => reasons.add(await reasonOf(one.ask(two.id, 'name'))).has('none'))
  t.notOk(reasons.has('gone'), 'it was never taken for gone')
  for (const each of [one, two]) await sees(t, each, { replied: ['a:1', 'b:1'], missing: [] })

  redis.freeze()
  t.match(await namesOf(one), { replied: ['a:1'], missing: ['*', 'b:1'] }, 'a silent Redis holds up no view')
  redis.thaw()
})

t.test('in a Cluster they find each other whichever nodes they are connected to, and whichever is away', async t => {
  const { nodes, servers } = await startRedisCluster(t)
  const [seed, ...others] = servers
  for (const server of servers) await server.command('config', 'set', 'cluster-require-full-coverage', 'no')
  const all: Opened[] = []
  for (const name of ['a:1', 'b:1', 'c:1', 'd:1'])
    all.push(await open(t, `redis-cluster://${nodes[0]?.host}:${nodes[0]?.port}`, name))
  for (const asker of all)
    for (const { id } of all) t.equal(await reasonOf(asker.ask(id, 'name', undefined, 30_000)), 'none')
  await sees(t, all[0] as Instances, { replied: ['a:1', 'b:1', 'c:1', 'd:1'], missing: [] })

  await seed?.kill()
  const subscribers = async () => {
    const channels = others.map(server => server.command('pubsub', 'channels'))
    return (await Promise.all(channels)).join('\n')
  }
  const [first, second] = all as [Opened, Opened]
  const areBack = async () => {
    const listed = await subscribers()
    return all.every(({ id }) => listed.includes(id)) && (await reasonOf(first.ask(second.id, 'name'))) === 'none'
  }
  await until(areBack, 'they listen at the other nodes')
  const failures = new Set<string>()
  await until(async () => {
    for (let n = 0; n < 10; n++)
      for (const { id } of all) failures.add(await reasonOf(first.ask(id, 'name', undefined, 30_000)))
    return (await first.redis.channels('instance:').catch(failure => ({ failure }))).failure !== undefined
  }, 'the one that is away is listed still')
  t.same([...failures], ['none'])

  for (const server of others)
    for (const type of ['normal', 'pubsub']) await server.command('client', 'kill', 'type', type)
  for (const { id } of all)
    await until(async () => (await reasonOf(first.ask(id, 'name'))) === 'none', 'they find it without the seed')
})

t.test('a message on the channel that is none of ours is ignored', async t => {
  const redis = await startRedis(t)
  const one = await open(t, redis.url, 'a:1')
  for (const text of ['', 'x', '{"kind":"call"}', '[]', '\u007f']) await one.redis.publish(`instance:${one.id}`, text)
  t.equal(await one.ask(one.id, 'name').then(() => 'ok'), 'ok')
})

t.test('a question to another process always ends: with an answer, an error, the time, or the process', async t => {
  const near = createCalls(message => far.receive(message))
  const far = createCalls(message => near.receive(message))
  far.answer('double', (n: number) => n * 2)
  far.answer('fails', () => {
    throw new Error('no')
  })
  far.answer('sleeps', () => new Promise(() => undefined))
  near.receive('nothing of ours')
  near.receive({ kind: 'reply', id: 99 })
  t.equal(await near.call('double', 21), 42)
  await t.rejects(near.call('fails'), { message: 'no' })
  await t.rejects(near.call('unknown'), { message: 'no handler for unknown' })
  await t.rejects(near.call('sleeps', undefined, { timeoutMs: 20 }), { message: 'sleeps: no reply' })
  const open = near.call('sleeps')
  near.close()
  await t.rejects(open, { message: 'the other process is gone' })
  await t.rejects(near.call('double', 1), { message: 'the other process is gone' })
})

// What runs by a clock, a subscription or a watcher goes on after a fault: with the others of its loop, and with its next run.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createOpenStreams } from '../../gateway/forward/open-streams.ts'
import { createHttpServer } from '../../gateway/http/server.ts'
import { createCircuit } from '../../gateway/limits/circuit.ts'
import { createFront } from '../../gateway/listener/front.ts'
import { fingerprint, watchFolder } from '../../gateway/route-files/watch.ts'
import { listenAccessChanges } from '../../gateway/store/access-changes.ts'
import { createRevocations } from '../../gateway/tokens/revocations.ts'
import { watchTarget } from '../../gateway/upstream/health.ts'
import { createSharedLookup } from '../../gateway/upstream/lookup.ts'
import { faultCounts, logFaultsTo } from '../../gateway/values/contain.ts'
import { placesFor } from '../support/http-listener.ts'
import { openStore } from '../support/limiters.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { startRedis } from '../support/redis.ts'
import { routeAt, upstreamAt } from '../support/routes.ts'
import { makeFolder } from '../support/server-process.ts'
import { holdSessions } from '../support/socketio-sessions.ts'
import { openStore as openDatabase } from '../support/store.ts'
import { until } from '../support/until.ts'

const lines: { place?: string; requestId?: string; err?: { stack?: string } }[] = []
logFaultsTo({ error: (fields: object) => void lines.push(fields) } as never)

const planted = (): never => {
  throw new Error('planted')
}

/** Exactly one fault is logged with its stack and counted. */
const hasOne = async (t: Test, place: keyof ReturnType<typeof faultCounts>, before: number, requestId?: string) => {
  await until(() => faultCounts()[place] > before)
  t.equal(faultCounts()[place], before + 1)
  const line = lines.splice(0).at(-1)
  t.match(line, { place, err: { stack: /planted\n.*contained-tasks/ } })
  t.equal(line?.requestId, requestId)
}

t.test('open streams: the one that cannot be ended or checked is dropped, the others end as they should', async t => {
  let now = 1_800_000_000_000
  let isSwapped = false
  const ends: string[] = []
  const streams = createOpenStreams({
    instance: '0a1b2c3d',
    revocations: createRevocations(() => now),
    freshAccess: async () => new Map(),
    checkAgain: ({ route, requestId }) => (isSwapped && requestId === 'r3' ? planted() : route),
    now: () => now,
    monotonicNow: () => now
  })
  t.teardown(() => streams.close())
  const open = (
    requestId: string,
    maxLifetimeMs: number,
    end = (code: number) => void ends.push(`${requestId} ${code}`)
  ) =>
    streams.register(
      {
        ...{ kind: 'sse', identity: undefined, route: routeAt('/', upstreamAt(1)), path: '/', hostName: '' },
        ...{ requestId, ip: '192.0.2.1', maxLifetimeMs }
      },
      { end, destroy: () => ends.push(`${requestId} dropped`) }
    )
  open('r1', 1000, planted)
  open('r2', 1000)
  open('r3', 60_000)
  open('r4', 60_000)
  now += 2000
  let before = faultCounts().stream
  streams.tick()
  t.same(ends.splice(0), ['r1 dropped', 'r2 1001'])
  await hasOne(t, 'stream', before, 'r1')
  before = faultCounts().stream
  isSwapped = true
  streams.onTableSwapped()
  t.same(ends, ['r3 dropped'])
  await hasOne(t, 'stream', before, 'r3')
  t.same(streams.counts(), { websocket: 0, socketio: 0, sse: 1 })
  // What cannot be decided is not allowed.
  t.throws(() => open('r3', 60_000))
})

t.test('Socket.IO sessions: the one whose carrier fails is over, the others are told that they end', async t => {
  const { engineSessions, open } = holdSessions(t)
  const first = await open('/a')
  const second = await open('/a')
  const before = faultCounts().socketio
  Object.defineProperty(first.told, 'push', { value: planted, configurable: true })
  engineSessions.close()
  t.ok(first.engineSession.isOver)
  t.ok(second.engineSession.isOver)
  t.ok(second.told.includes('close 1001'))
  t.ok(faultCounts().socketio > before)
  t.match(lines.splice(0)[0], { place: 'socketio', requestId: 'r', err: { stack: /planted/ } })
})

t.test('a CONNECT of Socket.IO that fails is refused, with its fault in the log', async t => {
  const { forwarding, open } = holdSessions(t)
  Object.assign(forwarding, { identify: planted })
  const before = faultCounts().socketio
  const { engineSession } = await open()
  const verdict = await engineSession.gate.fromClient({ type: '4', text: '40/a,{"token":"token-x"}' })
  t.match(verdict, { verdict: 'answer', text: /GW_INTERNAL/ })
  await hasOne(t, 'socketio', before, 'r')
})

t.test('a listener closes the connection that it fails to pass on, and takes the next one', async t => {
  let accepted = 0
  const front = createFront({
    accept: socket => (accepted++ === 0 ? planted() : void socket.end('served')),
    quota: placesFor(Number.POSITIVE_INFINITY),
    certificates: undefined,
    sendsProxyHeader: undefined,
    onRefused: () => undefined
  })
  const port = await listen(t, front.server)
  const before = faultCounts().client
  const first = net.connect(port, '127.0.0.1').on('error', () => undefined)
  await once(first.resume(), 'close')
  await hasOne(t, 'client', before)
  const second = net.connect(port, '127.0.0.1')
  t.equal(String(await once(second, 'data')), 'served')
})

t.test('a connection that cannot be told that its time is over is cut, and the others are told', async t => {
  let faults = 0
  const server = createHttpServer({
    limits: { headMs: 50 },
    handler: {
      onRequest: () => undefined,
      onFault(_connection, _fault, response) {
        if (faults++ === 0) planted()
        response?.whole({ status: 408, hasDate: true }, '')
      }
    }
  })
  const listener = net.createServer({ allowHalfOpen: true }, socket => server.accept(socket))
  const port = await listen(t, listener)
  t.teardown(server.close)
  const before = faultCounts().client
  const clients = [0, 1].map(() => {
    const client = net.connect(port, '127.0.0.1').on('error', () => undefined)
    client.write('GET / HT')
    const said: string[] = []
    client.on('data', data => said.push(String(data)))
    return once(client, 'end').then(() => said.join(''))
  })
  t.same((await Promise.all(clients)).toSorted(), ['', 'HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n'])
  await hasOne(t, 'client', before)
})

t.test('a health check that fails by itself counts as failed, and is made again', async t => {
  let asked = 0
  const health = watchTarget({
    probe(done) {
      if (asked++ === 0) planted()
      done(undefined)
      return () => undefined
    },
    settings: () => ({ checks: { intervalMs: 1, rise: 1, fall: 1 }, outlier: { errors: 5, restMs: 1 } }),
    hasOther: () => true,
    now: () => performance.now(),
    onChange: () => undefined
  })
  t.teardown(() => health.close())
  const before = faultCounts().task
  await until(() => asked > 2)
  await hasOne(t, 'task', before)
})

t.test('an answer of the resolver reaches the others that wait for it', async t => {
  const before = faultCounts().task
  const found: unknown[] = []
  const lookup = createSharedLookup({
    resolve: (_name, done) => setImmediate(done, null, [{ address: '192.0.2.1', family: 4 }])
  })
  lookup('backend', {}, planted)
  lookup('backend', {}, (_error, address) => found.push(address))
  await until(() => found.length > 0)
  t.same(found, ['192.0.2.1'])
  await hasOne(t, 'task', before)
})

t.test('a watcher of route files calls again after a fault', async t => {
  const folder = makeFolder(t, 'watched')
  const seen = await fingerprint(folder)
  let calls = 0
  const watched = watchFolder({
    folder,
    alsoWatched: () => [],
    quietMs: 1,
    pollMs: 5,
    seen: () => seen,
    onChange: () => (calls++ === 0 ? planted() : undefined),
    onUnrest: () => undefined
  })
  t.teardown(() => watched.close())
  const before = faultCounts().task
  writeFileSync(join(folder, 'a.yaml'), 'routes: []')
  await until(() => calls > 0)
  writeFileSync(join(folder, 'b.yaml'), 'routes: []')
  await until(() => calls > 1)
  await hasOne(t, 'task', before)
})

t.test('the message of Redis after one that failed is heard', async t => {
  const redis = await startRedis(t)
  const store = await openStore(t, redis.url)
  const heard: string[] = []
  let isFirst = true
  store.subscribe(
    'news',
    message => {
      if (isFirst) planted()
      heard.push(`${message}`)
    },
    connected => connected && heard.push('connected')
  )
  await until(() => heard.includes('connected'))
  const before = faultCounts().task
  await store.publish('news', 'one')
  await until(() => faultCounts().task > before)
  isFirst = false
  await store.publish('news', 'two')
  await until(() => heard.includes('two'))
  await hasOne(t, 'task', before)
})

t.test('Redis counts again although what follows from that fails', async t => {
  const circuit = createCircuit(
    async () => undefined,
    () => ({ reason: 'error' }),
    { info: () => undefined, warn: () => undefined },
    planted
  )
  t.teardown(() => circuit.close())
  const before = faultCounts().task
  circuit.fail({ reason: 'timeout' }, 'key')
  await until(() => circuit.isUp())
  await hasOne(t, 'task', before)
})

t.test('LISTEN goes on after a change that could not be taken in', async t => {
  const store = await openDatabase(t, await startPostgres(t))
  const heard: unknown[] = []
  let isFirst = true
  let isListening = false
  const listener = listenAccessChanges(store.database, {
    onChange(change) {
      if (isFirst) {
        isFirst = false
        planted()
      }
      heard.push(change)
    },
    onRestored() {
      isListening = true
    },
    log: quiet
  })
  t.teardown(() => listener.close())
  await until(() => isListening)
  const before = faultCounts().task
  const actor = { id: null, username: 'test' }
  const expiresAt = Math.floor(Date.now() / 1000) + 600
  for (const jti of ['jti-1', 'jti-2'])
    await store.tokenState.revokeToken(jti, expiresAt, { actor, action: 'logout', target: `token:${jti}` })
  await until(() => heard.length > 0)
  t.match(heard, [{ jti: 'jti-2' }])
  await hasOne(t, 'task', before)
})

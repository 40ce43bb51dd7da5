// Sessions end with their accesses, their clients and the process, and what they leave behind is bounded.
import t, { type Test } from 'tap'
import { type GatewayError, Unauthenticated } from '../../gateway/errors.ts'
import { createOpenStreams } from '../../gateway/forward/open-streams.ts'
import { createMailbox } from '../../gateway/socketio/polling/mailbox.ts'
import type { SocketIoForwarding } from '../../gateway/socketio/polling/polling-parts.ts'
import { createPollingRequests } from '../../gateway/socketio/polling/polling-requests.ts'
import { createSocketIoSessions } from '../../gateway/socketio/sessions.ts'
import { createMemorySidStore, hashId, type SharedSids } from '../../gateway/socketio/sid-store.ts'
import { createWebSocketTransport } from '../../gateway/socketio/websocket.ts'
import { createRevocations } from '../../gateway/tokens/revocations.ts'
import { createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { quiet } from '../support/quiet.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { person, routeAt, targetAt, upstreamAt } from '../support/routes.ts'
import { until } from '../support/until.ts'

const START = 1_800_000_000_000
const NAMESPACES = ['/a', '/b'].map(name => ({ name, pattern: undefined, roles: undefined, events: undefined }))

const world = (t: Test, shared?: SharedSids) => {
  const clock = { now: START }
  const now = () => clock.now
  const revocations = createRevocations(now)
  const streams = createOpenStreams({
    revocations,
    freshAccess: async () => new Map(),
    mayPass: () => true,
    rejudge: ({ route }) => route,
    now
  })
  t.teardown(() => streams.close())
  revocations.onChange(() => streams.onRevocationsChanged())
  // What carries packets to an upstream is not needed here.
  const forwarding = {
    streams,
    sidStore: { ...createMemorySidStore(now), shared },
    now,
    log: quiet,
    countRefusedEvent: () => undefined,
    judge: () => undefined,
    identify(token: string) {
      if (!token.startsWith('token-')) throw new Unauthenticated()
      const life = { issuedAt: START / 1000, expiresAt: START / 1000 + 600, authenticatedAt: START / 1000 }
      return { user: person(), subject: '7', tokenId: token, version: 0, kind: 'login', ...life }
    }
  } as unknown as SocketIoForwarding
  const sessions = createSocketIoSessions(forwarding)
  const socketio = { maxMessageBytes: 1e6, messagesPerSecond: 1000, namespaces: NAMESPACES }
  const upstream = upstreamAt(1)
  const source = {
    route: routeAt('/socket.io/', upstream, { socketio }),
    upstream,
    target: targetAt(1),
    path: '/socket.io/',
    requestId: 'r',
    ip: '192.0.2.1',
    ipKey: '192.0.2.1'
  }
  /** A session with an open namespace for each name, each by a token of its own. */
  const open = async (...names: string[]) => {
    const told: string[] = []
    const session = sessions.start(source, from => told.push(`over from ${from}`))
    session.openSocket({
      toClient: packets => told.push(...packets),
      toUpstream: packets => told.push(...packets.map(packet => `up ${packet}`)),
      close: code => told.push(`close ${code}`),
      bytes: () => 0
    })
    for (const name of names) {
      const asked = await session.gate.fromClient({ type: '4', text: `40${name},{"token":"token-${name}"}` })
      const opened = session.gate.fromUpstream({ type: '4', text: `40${name},{"sid":"s"}` })
      t.same([asked.verdict, opened.verdict], ['pass', 'pass'])
    }
    return { session, told }
  }
  const revoke = (name: string) =>
    revocations.learn({ tokens: [{ jti: `token-${name}`, expiresAt: START / 1000 + 600 }] })
  return { clock, streams, forwarding, sessions, source, open, revoke }
}

t.test('a namespace ends alone with its access, and the session with its last one', async t => {
  const { open, revoke } = world(t)
  const { session, told } = await open('/a', '/b')
  revoke('/a')
  await until(() => told.length > 1)
  t.same(told, ['up 41/a,', '41/a,'])
  t.equal(session.isOver, false)
  revoke('/b')
  await until(() => session.isOver)
  t.same(told.slice(2).toSorted(), ['41/b,', 'close 4401', 'over from websocket', 'up 41/b,'])
  t.equal(session.isOver, true)
})

t.test('sessions end with the process, whichever of its parts ends first', async t => {
  for (const end of ['sessions', 'streams'] as const) {
    const { [end]: part, open } = world(t)
    const { session, told } = await open('/a')
    part.close()
    t.equal(session.isOver, true, end)
    t.ok(told.includes('close 1001'), end)
  }
})

t.test('a session that is no longer polled ends', async t => {
  const { clock, sessions, source } = world(t)
  const record = { routeId: source.route.id, target: source.target.url, createdAt: START, fields: [] }
  const { session } = sessions.hold('sid', source, { ...record, sessionMs: 1000, pollMs: 1000 })
  clock.now += 1000
  sessions.sweep()
  t.equal(session.isOver, false)
  clock.now += 1
  sessions.sweep()
  t.equal(session.isOver, true)
})

t.test('a poll that its upstream answers with what is no payload is refused, and the session is over', async t => {
  const { forwarding, sessions, source } = world(t)
  const raw = await startRawUpstream(t)
  raw.respond(() => 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx')
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const refused = new Promise<GatewayError>(resolve =>
    Object.assign(forwarding, {
      upstreams,
      refuse: (_: unknown, refusal: GatewayError) => resolve(refusal),
      responseContext: () => createResponseContext({ has: () => false })(source.route, source.upstream, 'x')
    })
  )
  const upstream = upstreamAt(raw.port)
  const record = { routeId: source.route.id, target: 'x', createdAt: START, fields: [], sessionMs: 1000, pollMs: 1000 }
  const { session, polling } = sessions.hold('sid', { ...source, upstream, target: targetAt(raw.port) }, record)
  polling.get(exchangeOf(), 'GET /socket.io/ HTTP/1.1\r\nhost: x\r\n\r\n')
  t.match(await refused, { code: 'GW_BAD_UPSTREAM_RESPONSE', reason: 'upstream-malformed-payload' })
  t.equal(session.isOver, true)
})

/** A store of which everything works but what is replaced. */
const storeWith = (replaced: Partial<SharedSids>): SharedSids => ({
  create: async () => undefined,
  load: async () => undefined,
  save: async () => undefined,
  dropNamespace: async () => true,
  remove: async () => undefined,
  mail: async () => undefined,
  collect: async () => [],
  lease: async () => false,
  release: async () => undefined,
  onMail: () => undefined,
  ...replaced
})

t.test(
  'a poll is refused as long as the store of sessions is away, and is not left waiting when its mail is lost',
  async t => {
    // RW-68
    const away = () => Promise.reject(new Error('Redis is away'))
    const heard: ((hash: string) => void)[] = []
    const missed: (() => void)[] = []
    let collects = 0
    const announced = () => heard.at(-1)?.(hashId('sid'))
    const stores: Record<string, [Partial<SharedSids>, () => void]> = {
      collect: [{ collect: away }, () => undefined],
      lease: [{ lease: away }, () => undefined],
      'collect, when told of mail': [{ collect: async () => (collects++ === 0 ? [] : away()) }, announced],
      'collect, when connected again': [
        { collect: async () => (collects++ === 0 ? [] : away()) },
        () => missed.at(-1)?.()
      ]
    }
    for (const [name, [replaced, then]] of Object.entries(stores)) {
      collects = 0
      const onMail = (listener: (hash: string) => void, onMissed: () => void) => {
        heard.push(listener)
        missed.push(onMissed)
      }
      const { forwarding, sessions, source } = world(t, storeWith({ ...replaced, onMail }))
      const refused = new Promise<GatewayError>(resolve =>
        Object.assign(forwarding, { refuse: (_: unknown, refusal: GatewayError) => resolve(refusal) })
      )
      const record = {
        routeId: source.route.id,
        target: 'x',
        createdAt: START,
        fields: [],
        sessionMs: 1000,
        pollMs: 1000
      }
      const { session, polling } = sessions.hold('sid', source, record)
      polling.get(exchangeOf(), 'GET /socket.io/ HTTP/1.1\r\nhost: x\r\n\r\n')
      await new Promise(setImmediate)
      then()
      t.match(await refused, { code: 'GW_UNAVAILABLE', reason: 'sid-store' }, name)
      t.equal(session.isOver, true, name)
    }
  }
)

t.test('mail that no poll has fetched goes over the WebSocket after an upgrade, or the session ends', async t => {
  // RW-68
  const mail = [['42/a,["late"]']]
  const collect = async () => mail.shift() ?? Promise.reject(new Error('Redis is away'))
  for (const isLost of [false, true]) {
    const { sessions, source } = world(t, storeWith({ collect }))
    const record = {
      routeId: source.route.id,
      target: 'x',
      createdAt: START,
      fields: [],
      sessionMs: 1000,
      pollMs: 1000
    }
    const { session, polling } = sessions.hold('sid', source, record)
    const told: unknown[] = []
    const carrier = {
      toClient: (packets: readonly string[]) => void told.push(...packets),
      toUpstream: () => undefined,
      close: (code: number) => void told.push(code),
      bytes: () => 0
    }
    session.probe()
    session.upgrade(carrier)
    polling.divertTo(carrier.toClient)
    await until(() => told.length > 0)
    t.same([told, session.isOver], isLost ? [[1001], true] : [['42/a,["late"]'], false])
  }
})

t.test('a handshake goes to the next target while one cannot be reached, and tells of the last one', async t => {
  const { forwarding, sessions, source } = world(t)
  const raw = await startRawUpstream(t)
  const opening = { sid: 'sid-1', upgrades: ['websocket'], pingInterval: 25_000, pingTimeout: 20_000, maxPayload: 1e6 }
  const body = `0${JSON.stringify(opening)}`
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const answers: string[] = []
  const requests = createPollingRequests(
    {
      ...forwarding,
      upstreams,
      headStart: () => 'GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nhost: x\r\n',
      responseContext: () => createResponseContext({ has: () => false })(source.route, source.upstream, 'x'),
      pollHeaders: () => []
    } as SocketIoForwarding,
    sessions
  )
  const ask = (...ports: number[]) => {
    const exchange = exchangeOf({ target: '/socket.io/?EIO=4&transport=polling' })
    Object.assign(exchange.response, { whole: (_: object, text: string) => answers.push(text) })
    const upstream = upstreamAt(...ports)
    return requests(exchange, { ...source.route, upstream }, upstream)
  }
  await ask(1, raw.port)
  t.same(answers, [body])
  await t.rejects(Promise.resolve(ask(1)), { code: 'GW_UPSTREAM_UNREACHABLE' })
  await t.rejects(Promise.resolve(ask(1, 2)), { code: 'GW_UPSTREAM_UNREACHABLE' })
  raw.respond(() => 'HTTP/1.1 2x0 OK\r\n\r\n')
  await t.rejects(Promise.resolve(ask(raw.port, 1)), { code: 'GW_BAD_UPSTREAM_RESPONSE' })
})

t.test('a poll whose client has gone is waited with no longer', async t => {
  const mailbox = createMailbox({ record: { fields: [] } } as never)
  const exchange = exchangeOf()
  let aborted = 0
  mailbox.wait(exchange, () => aborted++)
  t.ok(mailbox.isAwaited())
  exchange.onClosed()
  t.same([aborted, mailbox.isAwaited()], [1, false])
})

t.test('a WebSocket is closed with the reason of an ended access, and without one for a violation', async t => {
  const ends: object[] = []
  const relay = { end: (ending: object) => ends.push(ending) }
  const { carrier } = createWebSocketTransport({ session: {}, relay: () => relay } as never)
  for (const code of [1001, 1008, 4401]) carrier.close(code)
  t.same(ends, [
    { code: 1001, reason: '' },
    { code: 1008, reason: '' },
    { code: 4401, reason: 'token no longer valid' }
  ])
})

t.test('recovery ids are kept to a bound, the oldest leaves first', async t => {
  const store = createMemorySidStore(() => 0, 2)
  const owner = { userId: 7 } as never
  for (const pid of ['one', 'two', 'one', 'three']) await store.bindPid(pid, owner, 1000)
  const owners = await Promise.all(['one', 'two', 'three'].map(pid => store.pidOwner(pid)))
  t.same(owners, [owner, undefined, owner])
})

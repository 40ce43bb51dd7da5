// What instances leave for a polling client at each other reaches it once, or the session ends; and it is bounded.
import t, { type Test } from 'tap'
import { BadRequest, RequestTimeout, Unavailable } from '../../gateway/errors.ts'
import { NOTHING_DUE } from '../../gateway/socketio/gate/gate-state.ts'
import { endAfter } from '../../gateway/socketio/session.ts'
import type { SessionSource } from '../../gateway/socketio/session-source.ts'
import { hashId, type SharedSids, type SidRecord } from '../../gateway/socketio/sid-store.ts'
import { createWebSocketTransport } from '../../gateway/socketio/websocket.ts'
import { createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { targetAt, upstreamAt } from '../support/routes.ts'
import { holdSessions, storeWith } from '../support/socketio-sessions.ts'
import { until } from '../support/until.ts'

const away = () => Promise.reject(new Error('Redis is away'))

/** A session of which nothing is known yet but where it began. */
const recordFor = ({ route, target }: SessionSource): SidRecord => {
  const source = { routeId: route.id, target: target.url, createdAt: 0, fields: [], sessionMs: 1000, pollMs: 1000 }
  return { ...source, bytes: 0, proven: false, upgraded: false, due: NOTHING_DUE, namespaces: {} }
}

/** A store whose announcements are made by the test. */
const announcingStore = (replaced: Partial<SharedSids>) => {
  const announce: Record<'mail' | 'missed', () => void> = { mail: () => undefined, missed: () => undefined }
  const store = storeWith({
    ...replaced,
    onMail(listener, onMissed) {
      announce.mail = () => listener(hashId('sid'))
      announce.missed = onMissed
    }
  })
  return { announce, store }
}

t.test(
  'a poll is refused as long as the store of sessions is away, and is not left waiting when its mail is lost',
  async t => {
    // RW-68
    const onceMore = () => {
      let collects = 0
      return { collect: async () => (collects++ === 0 ? [] : away()) }
    }
    const stores: Record<string, [Partial<SharedSids>, 'mail' | 'missed' | undefined]> = {
      collect: [{ collect: away }, undefined],
      lease: [{ lease: away }, undefined],
      'collect, when told of mail': [onceMore(), 'mail'],
      'collect, when connected again': [onceMore(), 'missed']
    }
    for (const [name, [replaced, news]] of Object.entries(stores)) {
      const { announce, store } = announcingStore(replaced)
      const { sessions, refused, hold } = holdSessions(t, store)
      const { session, ask } = hold()
      ask()
      await new Promise(setImmediate)
      if (news !== undefined) announce[news]()
      sessions.sweep()
      await until(() => refused.length > 0, name)
      t.match(refused, [{ code: 'GW_UNAVAILABLE', reason: 'sid-store' }], name)
      t.equal(session.isOver, true, name)
    }
  }
)

t.test('a stock client connects again, unless its access has ended or it broke a rule', async t => {
  // RW-75, RW-90
  const [again, never] = ['1', '41/a,']
  for (const [reason, told] of [
    ['sid-store', again],
    ['body-too-slow', again],
    ['client-gone', again],
    ['malformed-payload', never],
    ['upstream-malformed-packet', again],
    ['malformed-packet', never]
  ] as const) {
    const { enter, hold } = holdSessions(t, storeWith({}))
    const { session, ask, answers } = hold()
    await enter(session, '/a')
    ask()
    if (reason.endsWith('packet')) session.violate(reason)
    else if (reason === 'sid-store') endAfter(session, new Unavailable({ reason }), 1008)
    else if (reason === 'body-too-slow') endAfter(session, new RequestTimeout({ reason }), 1008)
    else endAfter(session, new BadRequest({ reason }), 1008)
    await until(() => answers.length > 0)
    t.same([answers, session.isOver], [[told], true], reason)
  }
})

t.test('a packet that cannot be read is the fault of the side that sent it', async t => {
  for (const [side, text, reason] of [
    ['upstream', 'x', 'upstream-malformed-packet'],
    ['client', 'x', 'malformed-packet'],
    ['client', '0{}', 'malformed-packet']
  ] as const) {
    const violations: string[] = []
    const session = { life: { phase: 'websocket' }, violate: (broken: string) => violations.push(broken) }
    createWebSocketTransport({ session, relay: () => undefined } as never).onMessage(side, true, Buffer.from(text))
    t.same(violations, [reason], `${text} from the ${side}`)
  }
})

t.test('a session that an instance takes over ends there with its access, or starts anew without a store', async t => {
  // RW-75
  for (const isAway of [false, true]) {
    const mailed: string[] = []
    const loads = [async () => record, isAway ? away : async () => record]
    const store = storeWith({
      mail: async (_, packets) => mailed.push(...packets),
      load: async () => loads.shift()?.()
    })
    const { forwarding, sessions, source, revoke } = holdSessions(t, store)
    const identity = forwarding.identify('token-/a', '192.0.2.1')
    const { route, upstream, target } = source
    const life = { createdAt: 0, sessionMs: 1000, pollMs: 1000, bytes: 0, proven: true, upgraded: false }
    const namespaces = { '/a': { phase: 'open', identity } } as const
    const record = { ...life, routeId: route.id, target: target.url, fields: [], due: { ...NOTHING_DUE }, namespaces }
    revoke('/a')
    const taken = sessions.known(exchangeOf(), route, upstream, 'sid')
    await t.rejects(taken, { code: isAway ? 'GW_UNAVAILABLE' : 'GW_TOKEN_REVOKED' })
    await until(() => mailed.length > 0)
    t.same(mailed, isAway ? ['1'] : ['41/a,'])
  }
})

/** A WebSocket that records what goes to its client. */
const recorder = () => {
  const told: unknown[] = []
  const carrier = {
    toClient: (packets: readonly string[]) => void told.push(...packets),
    toUpstream: () => undefined,
    close: (code: number) => void told.push(code),
    bytes: () => 0
  }
  return { told, carrier }
}

t.test('mail that no poll has fetched goes over the WebSocket after an upgrade, or the session ends', async t => {
  // RW-68
  const mail = [['42/a,["late"]']]
  const collect = async () => mail.shift() ?? away()
  for (const isLost of [false, true]) {
    const { session, polling } = holdSessions(t, storeWith({ collect })).hold()
    const { told, carrier } = recorder()
    session.probe()
    session.upgrade(carrier)
    polling.divertTo(carrier.toClient)
    await until(() => told.length > 0)
    t.same([told, session.isOver], isLost ? [[1001], true] : [['42/a,["late"]'], false])
  }
})

const toClientOf = (told: string[]) => (side: string, _: number, payload: Buffer) => told.push(`${side} ${payload}`)

t.test('what instances have left for a client comes before what its upstream sends to its WebSocket', async t => {
  // RW-79
  const left: string[] = []
  const asked: string[] = []
  const store = storeWith({
    // Another instance is still judging what the upstream answered to a poll.
    async lease() {
      asked.push('lease')
      if (asked.length < 3) return false
      left.push('42/a,["old"]')
      return true
    },
    save: async () => void asked.push('save'),
    collect: async () => left.splice(0)
  })
  const { session, polling } = holdSessions(t, store).hold()
  const told: string[] = []
  const transport = createWebSocketTransport({
    session,
    relay: () => ({ hold: () => undefined, send: toClientOf(told) }) as never,
    beforeUpgrade: polling.beforeUpgrade,
    onUpgraded() {
      session.upgrade(transport.carrier)
      polling.divertTo(packets => transport.carrier.toClient(packets))
    }
  })
  session.probe()
  transport.onMessage('client', true, Buffer.from('5'))
  await until(() => told.includes('upstream 5'), 'the upstream learns of the upgrade')
  t.same(told, ['client 42/a,["old"]', 'upstream 5'])
  t.same(asked, ['lease', 'lease', 'lease', 'save'], 'other instances drop the session after that')
})

/** A session whose upstream says what the test wants. */
const polled = async (t: Test, store?: SharedSids) => {
  const raw = await startRawUpstream(t)
  raw.respond(({ method }) => (method === 'POST' ? OK : undefined))
  const held = holdSessions(t, store)
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const { route, upstream } = held.source
  const responseContext = () => createResponseContext({ has: () => false })(route, upstream, 'x')
  Object.assign(held.forwarding, { upstreams, responseContext })
  return { raw, ...held, ...held.hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) }) }
}

t.test('what the upstream has answered to a poll comes before what it sends to the WebSocket', async t => {
  // RW-79
  const { raw, enter, session, polling, ask, answers } = await polled(t)
  await enter(session, '/a')
  ask()
  const first = await raw.request()
  polling.carrier.toClient(['41/b,'])
  await until(() => answers.length === 1, 'the gateway itself answers the poll')
  const { told, carrier } = recorder()
  session.probe()
  const ready = polling.beforeUpgrade()
  // A stock server closes the transport of polls that the WebSocket replaces.
  first.socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n42/a,["old"]\x1e1`)
  await ready
  session.upgrade(carrier)
  polling.divertTo(carrier.toClient)
  t.same([answers, told], [['41/b,'], ['42/a,["old"]']])
})

t.test('sessions on WebSockets outlive a restart of Redis, which may answer later than it announces', async t => {
  // RW-70
  let isReady = true
  let collects = 0
  const collect = async () => (collects++ === 0 ? [] : away())
  const { announce, store } = announcingStore({ collect, isReady: () => isReady })
  const { clock, sessions, enter, hold } = holdSessions(t, store)
  const { session, polling } = hold()
  await enter(session, '/a')
  const { carrier } = recorder()
  session.probe()
  session.upgrade(carrier)
  polling.divertTo(carrier.toClient)
  await until(() => collects === 1)
  isReady = false
  announce.missed()
  sessions.sweep()
  await new Promise(setImmediate)
  t.equal(session.isOver, false, 'just upgraded, but there is no connection that could fetch anything')
  clock.now += 15_001
  isReady = true
  sessions.sweep()
  await new Promise(setImmediate)
  t.same([session.isOver, collects], [false, 1], 'upgraded long ago, so that nothing can be left for it')
})

t.test('mail is fetched only while a poll can take it to the client', async t => {
  // RW-71
  const left = [[], ['41/a,'], ['42/b,["next"]']]
  const fetches: (() => void)[] = []
  const collect = () => new Promise<string[]>(resolve => fetches.push(() => resolve(left.shift() ?? [])))
  const { announce, store } = announcingStore({ collect })
  const { answers, ask, polling } = holdSessions(t, store).hold()
  const settle = async () => {
    await new Promise(setImmediate)
    for (const fetch of fetches.splice(0)) fetch()
    await new Promise(setImmediate)
  }
  ask()
  await settle()
  announce.mail()
  announce.mail()
  await settle()
  t.same([answers, left, polling.hasMail], [['41/a,'], [['42/b,["next"]']], false], 'the next may come elsewhere')
  ask()
  await settle()
  t.same(answers, ['41/a,', '42/b,["next"]'])
})

t.test(
  'a poll that arrives while the answer to an earlier one is being judged does not keep the next from asking',
  async t => {
    // RW-74
    const raw = await startRawUpstream(t)
    raw.respond(() => undefined)
    const packet = 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2'
    let isLeased = false
    const release = async () => {
      isLeased = false
    }
    const gates = { load: Promise.withResolvers<void>(), lease: Promise.withResolvers<void>() }
    const asked: string[] = []
    const { forwarding, source, hold } = holdSessions(
      t,
      storeWith({
        release,
        async lease() {
          const isOurs = !isLeased
          isLeased = true
          asked.push(`lease ${isOurs}`)
          if (asked.includes('load')) await gates.lease.promise
          return isOurs
        },
        async load() {
          asked.push('load')
          await gates.load.promise
          return recordFor(source)
        },
        async save() {
          asked.push('save')
          gates.lease.resolve()
          // Until the poll has been told that it may ask.
          await new Promise(setImmediate)
        }
      })
    )
    const upstreams = createUpstreams()
    t.teardown(upstreams.close)
    const responseContext = () => createResponseContext({ has: () => false })(source.route, source.upstream, 'x')
    Object.assign(forwarding, { upstreams, responseContext })
    const { ask, polling, answers } = hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) })
    ask()
    const first = await raw.request()
    polling.carrier.toClient(['41/a,'])
    await until(() => answers.length === 1, 'the gateway itself answers the first poll')
    first.socket.write(packet)
    await until(() => asked.includes('load'))
    ask()
    await until(() => asked.length === 3, 'the second may ask')
    gates.load.resolve()
    await until(() => answers.length === 2, 'and is answered by what the upstream said to the first')
    ask()
    await until(() => raw.requests.length === 2, 'the upstream is asked again')
    raw.requests[1]?.socket.write(packet)
    await until(() => answers.length === 3)
    t.same(answers, ['41/a,', '2', '2'])
  }
)

t.test('the instance that may ask the upstream does so, even if the poll is answered at the same moment', async t => {
  // RW-91
  const raw = await startRawUpstream(t)
  raw.respond(() => undefined)
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  for (let turns = 0; turns < 6; turns++) {
    const lease = async () => {
      void after(turns).then(() => polling.carrier.toClient(['41/a,']))
      return true
    }
    const { forwarding, hold } = holdSessions(t, storeWith({ lease }))
    Object.assign(forwarding, { upstreams, responseContext: createResponseContext({ has: () => false }) })
    const { ask, polling, answers } = hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) })
    ask()
    await raw.request(turns + 1)
    t.same(answers, ['41/a,'], `${turns}`)
  }
})

const after = async (turns: number) => {
  for (let turn = 0; turn < turns; turn++) await undefined
}

t.test(
  'a poll that waits at another instance learns that the upstream is gone or does not know the session',
  async t => {
    // RW-93
    for (const said of ['HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n', undefined]) {
      const mailed: string[] = []
      const mail = async (_: string, packets: readonly string[]) => mailed.push(...packets)
      const { raw, source, session, polling, ask, answers } = await polled(
        t,
        storeWith({ mail, lease: async () => true, load: async () => recordFor(source) })
      )
      ask()
      const first = await raw.request()
      polling.carrier.toClient(['41/b,'])
      await until(() => answers.length === 1, 'the gateway itself answers the poll')
      if (said === undefined) first.socket.destroy()
      else first.socket.write(said)
      await until(() => session.isOver)
      t.same(mailed, ['1'], 'the client connects again')
    }
  }
)

t.test('a poll that waits where its session is dropped, because it upgraded elsewhere, gets a noop', async t => {
  // RW-96
  let isUpgraded = false
  let announce = () => undefined as unknown
  const store = storeWith({
    load: async () => ({ ...recordFor(source), upgraded: isUpgraded }),
    onUpgraded(listener) {
      announce = () => listener(hashId('sid'))
    }
  })
  const { source, hold } = holdSessions(t, store)
  const { session, ask, answers } = hold()
  ask()
  isUpgraded = true
  announce()
  await until(() => session.isOver)
  t.same(answers, ['6'])
})

t.test('a CONNECT that is being judged outlives what another request reads of its session', async t => {
  // RW-94
  const owner = Promise.withResolvers<undefined>()
  const { session, share, forwarding, source, polling } = await polled(
    t,
    storeWith({ load: async () => recordFor(source) })
  )
  t.capture(forwarding.sidStore, 'pidOwner', () => owner.promise)
  const verdict = session.gate.fromClient({ type: '4', text: '40/a,{"token":"token-/a","pid":"p"}' })
  await share?.reload()
  owner.resolve(undefined)
  t.match(await verdict, { verdict: 'pass' })
  t.ok(session.state.namespaces.has('/a'))
  t.ok(polling)
})

t.test('a session whose client cannot be told that an access has ended is over', async t => {
  // RW-71
  const { session, polling } = holdSessions(t, storeWith({ mail: away })).hold()
  polling.carrier.toClient(['41/a,'])
  await new Promise(setImmediate)
  t.equal(session.isOver, true)
})

t.test('a client that never polls cannot have more than some thousand refusals kept for it', async t => {
  // RW-72
  let length = 0
  const mail = async (_: string, packets: readonly string[]) => {
    length += packets.length
    return length
  }
  const body = Buffer.from(Array.from({ length: 1000 }, () => '42/b,7["closed"]').join('\x1e'))
  for (const store of [undefined, storeWith({ mail })]) {
    const { enter, hold } = holdSessions(t, store)
    const { polling, session, answers } = hold()
    await enter(session, '/b')
    const post = () => {
      const exchange = exchangeOf()
      Object.assign(exchange.response, { whole: (_: object, text: string) => answers.push(text) })
      return polling.post(exchange, () => '', body)
    }
    for (let posted = 0; posted < 5; posted++) await post()
    t.same(answers, ['ok', 'ok', 'ok', 'ok', 'ok'])
    await t.rejects(post(), { code: 'GW_BAD_REQUEST', reason: 'answers-unread' })
  }
})

t.test('a client that does not read what its WebSocket answers is disconnected', t => {
  // RW-72
  const { source } = holdSessions(t)
  const violations: string[] = []
  const sent: string[] = []
  let unread = 3_000_000
  const relay = { send: (side: string) => sent.push(side), unreadBy: () => unread }
  const session = {
    source,
    life: { phase: 'websocket' },
    takeBytes: () => true,
    violate: (reason: string) => violations.push(reason),
    gate: { fromClient: () => ({ verdict: 'answer', text: '43/b,7[]' }) }
  }
  const { onMessage } = createWebSocketTransport({ session, relay: () => relay } as never)
  onMessage('client', true, Buffer.from('42/b,7["closed"]'))
  t.same([sent, violations], [['client'], []], 'as much as its upstream may have sent')
  unread++
  onMessage('client', true, Buffer.from('42/b,7["closed"]'))
  t.same(violations, ['answers-unread'])
  t.end()
})

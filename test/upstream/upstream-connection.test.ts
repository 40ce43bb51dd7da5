// A connection to a backend carries one request after another, and loses none that could be sent again, for as long as it is kept.
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Upstream } from '../../gateway/routes/upstream.ts'
import { callUpstream } from '../../gateway/socketio/polling/call-upstream.ts'
import type { UpstreamConnection } from '../../gateway/upstream/connection.ts'
import { EXHAUSTED, mayTryAgain } from '../../gateway/upstream/faults.ts'
import { keepAliveHint, type Requester, ResponseParser, type ResponseSink } from '../../gateway/upstream/parser.ts'
import { mustBeRead } from '../../gateway/upstream/pool.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { listen } from '../support/ports.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { inUse, upstreamAt } from '../support/routes.ts'
import { until } from '../support/until.ts'
import { GET, openConnection, parseHead, requesterOf } from '../support/upstream-connections.ts'

t.test('a connection paused on the last bytes of an answer carries the next request all the same', async t => {
  const raw = await startRawUpstream(t)
  const connection = openConnection(t, upstreamAt(raw.port))
  const ask = (pauseOnBody: boolean) =>
    new Promise<number>((resolve, reject) => {
      let status = 0
      const requester = requesterOf({
        onHead: head => {
          status = head.status
        },
        onBody: () => {
          if (pauseOnBody) connection.pause()
        },
        onEnd: () => resolve(status),
        onFault: (_fault, cause) => reject(cause)
      })
      connection.send('GET', GET, requester, 1000)
      connection.finish()
    })
  raw.respond(() => 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n')
  t.equal(await ask(true), 200)
  raw.respond(() => OK)
  t.equal(await ask(false), 200)
  t.equal(raw.accepted(), 1)
  t.ok(connection.waitedMs >= 0)
  raw.respond(() => 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n')
  const upgraded = ask(false)
  t.equal(connection.waitedMs, -1, 'what the upstream took to answer belongs to one request')
  await t.rejects(upgraded, { message: 'unasked upgrade' })
})

const SIDES: readonly [what: string, act: (upstreamSide: Socket) => void, isFlushed: boolean][] = [
  ['the upstream has closed it', side => side.destroy(), false],
  ['the upstream has reset it, so that a write is refused at once', side => side.resetAndDestroy(), true],
  ['bytes have come, which are no answer to it', side => side.write(OK), false]
]
for (const [what, act, isFlushed] of SIDES)
  t.test(`of a request that is sent just after ${what}, nothing was sent`, async t => {
    const server = createServer(socket => socket.on('error', () => undefined))
    const upstream = upstreamAt(await listen(t, server))
    const connection = openConnection(t, upstream)
    const [upstreamSide] = (await once(server, 'connection')) as [Socket]
    const told = await new Promise((resolve, reject) => {
      // From here the loop reads before it writes: what the upstream did is seen first.
      setImmediate(() => {
        act(upstreamSide)
        const requester = requesterOf({
          onHead: () => reject(new Error('it was taken for an answer')),
          onFault: (fault, _cause, nothingSent) => resolve({ fault, nothingSent, received: upstreamSide.bytesRead })
        })
        connection.send('GET', GET, requester, 1000)
        connection.finish()
        if (isFlushed) connection.flush()
      })
    })
    t.strictSame(told, { fault: 'reset', nothingSent: true, received: 0 })
  })

t.test('a chunk is sent as it was when it was written, although its memory is used again at once', async t => {
  const raw = await startRawUpstream(t)
  const connection = openConnection(t, upstreamAt(raw.port))
  raw.respond(() => OK)
  const letters = [...'abcdefghijklmnopqrstuvwxyz'.repeat(2)]
  const memory = Buffer.alloc(65_536)
  for (const size of [1000, 40_000, 65_536]) {
    const head = `PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: ${letters.length * size}\r\n\r\n`
    await new Promise<void>((resolve, reject) => {
      const requester = requesterOf({ onEnd: () => resolve(), onFault: (_fault, cause) => reject(cause) })
      connection.send('PUT', head, requester, 1000)
      for (const letter of letters) connection.write(memory.subarray(0, size).fill(letter))
      connection.finish()
    })
    t.ok(raw.requests.at(-1)?.body === letters.map(letter => letter.repeat(size)).join(''), `chunks of ${size} bytes`)
  }
})

/** Calls of an upstream in use. */
const callsTo = (t: Test, upstream: Upstream, now?: () => number) => {
  const upstreams = createUpstreams(now === undefined ? {} : { now })
  t.teardown(upstreams.close)
  upstreams.retain(inUse(upstream))
  return async (method: 'GET' | 'POST', body?: Buffer) => {
    const head = `${method} / HTTP/1.1\r\nhost: x\r\ncontent-length: ${body?.length ?? 0}\r\n\r\n`
    const call = { upstream, method, head, ...(body && { body }), timeoutMs: 1000, maxBytes: 100 }
    return (await callUpstream(upstreams, call).answer).head.status
  }
}

t.test('a request with a body is not lost on a warm connection that the upstream has just closed', async t => {
  const raw = await startRawUpstream(t)
  // Idle since the process began.
  let now = Number.MIN_VALUE
  const call = callsTo(t, upstreamAt(raw.port), () => now)
  raw.respond(() => OK)
  await call('GET')
  now = 1001
  await until(() => performance.now() > 1001)
  const status = await new Promise((resolve, reject) => {
    setImmediate(() => {
      raw.requests[0]?.socket.destroy()
      call('POST', Buffer.from('body')).then(resolve, reject)
    })
  })
  t.equal(status, 200)
  t.match(raw.requests, [{ method: 'GET' }, { method: 'POST', body: 'body' }])
})

t.test('a request reaches the target that is left, however many warm connections are found closed before', async t => {
  const [left, gone] = [await startRawUpstream(t), await startRawUpstream(t)]
  const call = callsTo(t, upstreamAt(left.port, gone.port))
  // They take turns.
  t.same([await call('GET'), await call('GET')], [200, 200])
  const [[warm], [stale]] = [left.requests, gone.requests]
  const answeredAt = performance.now()
  await until(() => performance.now() > answeredAt + 60)
  const status = await new Promise((resolve, reject) => {
    setImmediate(() => {
      gone.close().catch(reject)
      call('POST', Buffer.from('body')).then(resolve, reject)
      // When the request has left the one for the other.
      setImmediate(() => warm?.socket.destroy())
    })
  })
  t.equal(status, 200)
  t.ok(stale?.socket.destroyed)
  t.match(left.requests, [{ method: 'GET' }, { method: 'POST', body: 'body' }])
})

t.test('a request that comes at the moment at which all warm connections close is sent on a new one', async t => {
  const raw = await startRawUpstream(t)
  const call = callsTo(t, upstreamAt(raw.port))
  raw.respond(() => () => undefined)
  const first = [call('GET'), call('GET'), call('GET')]
  await raw.request(3)
  for (const { socket } of raw.requests) socket.write(OK)
  t.same(await Promise.all(first), [200, 200, 200])
  raw.respond(() => OK)
  const answeredAt = performance.now()
  await until(() => performance.now() > answeredAt + 60)
  const status = await new Promise((resolve, reject) => {
    // From here the loop reads before it writes; the one used last is taken first.
    setImmediate(() => {
      for (const { socket } of raw.requests.toReversed()) socket.destroy()
      call('GET').then(resolve, reject)
    })
  })
  t.equal(status, 200)
  t.equal(raw.accepted(), 4)
})

t.test('no request waits behind a body that its backend has answered and does not read', async t => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.pause().write(OK))
    t.teardown(() => socket.destroy())
  })
  const call = callsTo(t, upstreamAt(await listen(t, server)))
  t.equal(await call('POST', Buffer.alloc(32 * 1024 * 1024)), 200)
  const answeredAt = performance.now()
  await until(() => performance.now() > answeredAt + 60)
  t.equal(await call('GET'), 200)
})

t.test('of a body that arrives byte by byte, no more than a few wait for a backend that takes none', async t => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    t.teardown(() => socket.destroy())
  })
  const plain = upstreamAt(await listen(t, server))
  // What is behind the handshake of TLS, which never ends here, waits.
  const upstream = { ...plain, targets: plain.targets.map(target => ({ ...target, tls: true })) }
  const connection = openConnection(t, upstream)
  connection.send('PUT', 'PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n', requesterOf({}), 1000)
  let pieces = 1
  for (; pieces < 1000 && connection.write(Buffer.from('x')); pieces++) await nextTurn()
  t.ok(pieces < 10, `${pieces} pieces`)
})

t.test('a backend may say for hours that it is still working, but not without pause', async t => {
  // SM-26
  const statusAfter = (interims: number, everyMs: number) => {
    const parser = new ResponseParser()
    let status = 0
    const onHead: Requester['onHead'] = head => {
      status = head.status
    }
    parser.begin('COPY', requesterOf({ onInterim: () => undefined, onHead, onEnd: () => undefined }) as ResponseSink)
    for (let i = 0; i < interims; i++) parser.take(Buffer.from('HTTP/1.1 102 Processing\r\n\r\n'), i * everyMs)
    parser.take(Buffer.from(OK), interims * everyMs)
    return status
  }
  t.equal(statusAfter(540, 20_000), 200)
  t.equal(statusAfter(32, 0), 200)
  t.throws(() => statusAfter(33, 0), { message: 'endless interim responses' })
  t.throws(() => statusAfter(1000, 100), { message: 'endless interim responses' })
})

t.test('a connection is kept for as long as the backend announces, less half a second', async t => {
  const hint = (fields: string) => keepAliveHint(parseHead(`HTTP/1.1 200 OK\r\n${fields}`, 'GET'))
  t.equal(hint('A: b\r\nKeep-Alive: max=9, timeout=5\r\n'), 4500)
  t.equal(hint('Keep-Alive: timeout=0\r\n'), 0)
  t.equal(hint('Keep-Alive: max=9\r\n'), 4000)
  t.equal(mustBeRead({ idleSince: 0 } as UpstreamConnection, true), false, 'it was not used before')
  t.equal(mustBeRead({ idleSince: performance.now() } as UpstreamConnection, false), false)
  t.equal(mustBeRead({ idleSince: performance.now() } as UpstreamConnection, true), true)
  t.equal(mustBeRead({ idleSince: performance.now() - 1001 } as UpstreamConnection, false), performance.now() > 1001)
  const keeps = (version: string, connection: string) =>
    parseHead(`HTTP/1.${version} 200 OK\r\nContent-Length: 0\r\nConnection: ${connection}\r\n`, 'GET').keepAlive
  t.same(
    [keeps('0', 'a, keep-alive'), keeps('0', 'a'), keeps('1', 'a, close'), keeps('1', 'a')],
    [true, false, false, true]
  )
})

t.test('a request is tried again while a target is left that could be reached', async t => {
  const rows: readonly (readonly [what: string, yes: boolean, ...asked: Parameters<typeof mayTryAgain>])[] = [
    ['closed warm connections of the only target', true, 'reset', 0, 0, 1],
    ['a new connection of it that is closed at once', true, 'reset', 1, 0, 1],
    ['a second one', false, 'reset', 2, 0, 1],
    ['the only target refuses', false, 'unreachable', 1, 1, 1],
    ['one of two refuses', true, 'unreachable', 1, 1, 2],
    ['both refuse', false, 'unreachable', 2, 2, 2],
    ['a new connection of one was closed, and the other refuses', true, 'unreachable', 2, 1, 2],
    ['one refuses, and a new connection of the other was closed', true, 'reset', 2, 1, 2],
    ['no descriptor is left', false, EXHAUSTED, 1, 0, 2]
  ]
  for (const [what, yes, ...asked] of rows) t.equal(mayTryAgain(...asked), yes, what)
})

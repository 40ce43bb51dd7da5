// A connection to a backend carries one request after another, and loses none that could be sent again.
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import t, { type Test as Tap } from 'tap'
import type { Upstream } from '../../gateway/routes/upstream.ts'
import { callUpstream } from '../../gateway/socketio/polling/call-upstream.ts'
import { UpstreamConnection } from '../../gateway/upstream/connection.ts'
import type { Requester } from '../../gateway/upstream/parser.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { listen } from '../support/ports.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { inUse, upstreamAt } from '../support/routes.ts'
import { onThrown } from '../support/thrown.ts'
import { until } from '../support/until.ts'

t.test('a connection paused on the last bytes of an answer carries the next request all the same', async t => {
  const raw = await startRawUpstream(t)
  const upstream = upstreamAt(raw.port)
  const [target] = upstream.targets
  if (target === undefined) return t.fail('no target')
  const connection: UpstreamConnection = new UpstreamConnection(upstream, target, {
    now: () => performance.now(),
    onFree: () => undefined,
    onClosed: () => undefined
  })
  t.teardown(() => connection.destroy())
  const ask = (pauseOnBody: boolean) =>
    new Promise<number>((resolve, reject) => {
      let status = 0
      const requester: Requester = {
        onInterim: () => undefined,
        onThrown,
        onHead: head => {
          status = head.status
        },
        onBody: () => {
          if (pauseOnBody) connection.pause()
        },
        onEnd: () => resolve(status),
        onFault: (_fault, cause) => reject(cause),
        onDrain: () => undefined
      }
      connection.send('GET', 'GET / HTTP/1.1\r\nhost: x\r\n\r\n', requester, 1000)
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

/** What happens to a request that is sent right after the upstream did something, of which nothing has been read yet. */
const askJustAfter = async (
  t: Tap,
  act: (upstreamSide: Socket) => void,
  andThen: (connection: UpstreamConnection) => void = () => undefined
) => {
  const accepted: Socket[] = []
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    accepted.push(socket)
  })
  const port = await listen(t, server)
  const upstream = upstreamAt(port)
  const [target] = upstream.targets
  if (target === undefined) throw new Error('no target')
  const connection = new UpstreamConnection(upstream, target, {
    now: () => performance.now(),
    onFree: () => undefined,
    onClosed: () => undefined
  })
  t.teardown(() => connection.destroy())
  const [upstreamSide] = (await once(server, 'connection')) as [Socket]
  return new Promise<{ fault: string; nothingSent: boolean; received: number }>((resolve, reject) => {
    // From here the loop reads before it writes: what the upstream did is seen first.
    setImmediate(() => {
      act(upstreamSide)
      connection.send(
        'GET',
        'GET / HTTP/1.1\r\nhost: x\r\n\r\n',
        {
          onInterim: () => undefined,
          onThrown,
          onHead: () => reject(new Error('it was taken for an answer')),
          onBody: () => undefined,
          onEnd: () => undefined,
          onFault: (fault, _cause, nothingSent) => resolve({ fault, nothingSent, received: upstreamSide.bytesRead }),
          onDrain: () => undefined
        },
        1000
      )
      connection.finish()
      andThen(connection)
    })
  })
}

t.test('a connection that was closed just before its request left has sent nothing', async t => {
  const told = await askJustAfter(t, upstreamSide => upstreamSide.destroy())
  t.strictSame(told, { fault: 'reset', nothingSent: true, received: 0 })
})

t.test('a write that the kernel refuses at once has sent nothing', async t => {
  const told = await askJustAfter(
    t,
    upstreamSide => upstreamSide.resetAndDestroy(),
    connection => connection.flush()
  )
  t.strictSame(told, { fault: 'reset', nothingSent: true, received: 0 })
})

t.test('bytes that came before the request left are no answer to it', async t => {
  const told = await askJustAfter(t, upstreamSide => upstreamSide.write(OK))
  t.strictSame(told, { fault: 'reset', nothingSent: true, received: 0 })
})

t.test('a chunk is sent as it was when it was written, although its memory is used again at once', async t => {
  const raw = await startRawUpstream(t)
  const upstream = upstreamAt(raw.port)
  const [target] = upstream.targets
  if (target === undefined) return t.fail('no target')
  const connection = new UpstreamConnection(upstream, target, {
    now: () => performance.now(),
    onFree: () => undefined,
    onClosed: () => undefined
  })
  t.teardown(() => connection.destroy())
  raw.respond(() => OK)
  const letters = [...'abcdefghijklmnopqrstuvwxyz'.repeat(2)]
  const memory = Buffer.alloc(65_536)
  for (const size of [1000, 40_000, 65_536]) {
    const head = `PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: ${letters.length * size}\r\n\r\n`
    await new Promise<void>((resolve, reject) => {
      const requester: Requester = {
        onInterim: () => undefined,
        onThrown,
        onHead: () => undefined,
        onBody: () => undefined,
        onEnd: () => resolve(),
        onFault: (_fault, cause) => reject(cause),
        onDrain: () => undefined
      }
      connection.send('PUT', head, requester, 1000)
      for (const letter of letters) connection.write(memory.subarray(0, size).fill(letter))
      connection.finish()
    })
    t.ok(raw.requests.at(-1)?.body === letters.map(letter => letter.repeat(size)).join(''), `chunks of ${size} bytes`)
  }
})

/** Calls of an upstream whose clock stands still. */
const callsTo = (t: Tap, upstream: Upstream, now: () => number) => {
  const upstreams = createUpstreams({ now })
  t.teardown(upstreams.close)
  upstreams.retain(inUse(upstream))
  const [target] = upstream.targets
  if (target === undefined) throw new Error('no target')
  const call = (method: 'GET' | 'POST', body?: Buffer) => {
    const length = body === undefined ? '' : `content-length: ${body.length}\r\n`
    const head = `${method} / HTTP/1.1\r\nhost: x\r\n${length}\r\n`
    const [targets, timeoutMs, maxBytes] = [[target], 1000, 100]
    return callUpstream(upstreams, { upstream, targets, method, head, ...(body && { body }), timeoutMs, maxBytes })
      .answer
  }
  return { upstreams, call }
}

t.test('a request with a body is not lost on a warm connection that the upstream has just closed', async t => {
  const raw = await startRawUpstream(t)
  // Idle since the process began.
  let now = Number.MIN_VALUE
  const { call } = callsTo(t, upstreamAt(raw.port), () => now)
  raw.respond(() => OK)
  await call('GET')
  now = 1001
  await until(() => performance.now() > 1001)
  const answer = await new Promise<{ head: { status: number } }>((resolve, reject) => {
    setImmediate(() => {
      raw.requests[0]?.socket.destroy()
      call('POST', Buffer.from('body')).then(resolve, reject)
    })
  })
  t.equal(answer.head.status, 200)
  t.match(raw.requests, [{ method: 'GET' }, { method: 'POST', body: 'body' }])
})

t.test('no request waits behind a body that its backend has answered and does not read', async t => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.pause().write(OK))
    t.teardown(() => socket.destroy())
  })
  const upstream = upstreamAt(await listen(t, server))
  const [target] = upstream.targets
  if (target === undefined) return t.fail('no target')
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  upstreams.retain(inUse(upstream))
  const ask = async (method: 'GET' | 'POST', body: Buffer | undefined) => {
    const head = `${method} / HTTP/1.1\r\nhost: x\r\ncontent-length: ${body?.length ?? 0}\r\n\r\n`
    const [targets, timeoutMs, maxBytes] = [[target], 1000, 10]
    const call = { upstream, targets, method, head, ...(body && { body }), timeoutMs, maxBytes }
    return (await callUpstream(upstreams, call).answer).head.status
  }
  t.equal(await ask('POST', Buffer.alloc(32 * 1024 * 1024)), 200)
  const answeredAt = performance.now()
  await until(() => performance.now() > answeredAt + 60)
  t.equal(await ask('GET', undefined), 200)
})

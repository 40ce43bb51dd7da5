import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t, { type Test as Tap } from 'tap'
import type { Upstream } from '../../gateway/routes/route.ts'
import { UpstreamConnection } from '../../gateway/upstream/connection.ts'
import type { Requester } from '../../gateway/upstream/requester.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'

const upstreamAt = (port: number): Upstream => ({
  name: 'raw',
  targets: [
    {
      url: `http://127.0.0.1:${port}`,
      tls: false,
      host: '127.0.0.1',
      port,
      socketPath: undefined,
      authority: `127.0.0.1:${port}`
    }
  ],
  timeoutMs: 1000,
  idleTimeoutMs: 1000,
  connectTimeoutMs: 1000,
  ca: undefined,
  clientCertificate: undefined,
  serverName: undefined,
  preserveHost: false,
  assertion: false,
  sharedCache: false,
  requestHeaders: undefined,
  responseHeaders: undefined,
  identityHeaders: undefined,
  healthCheck: undefined,
  place: { file: 'test', line: 1, column: 1 }
})

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
})

/** What happens to a request that is sent right after the upstream did something, of which nothing has been read yet. */
const askJustAfter = async (t: Tap, act: (upstreamSide: Socket) => void) => {
  const accepted: Socket[] = []
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    accepted.push(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of accepted) socket.destroy()
    server.close()
  })
  const upstream = upstreamAt((server.address() as AddressInfo).port)
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
          onHead: () => reject(new Error('it was taken for an answer')),
          onBody: () => undefined,
          onEnd: () => undefined,
          onFault: (fault, _cause, nothingSent) => resolve({ fault, nothingSent, received: upstreamSide.bytesRead }),
          onDrain: () => undefined
        },
        1000
      )
      connection.finish()
    })
  })
}

t.test('a connection that was closed just before its request left has sent nothing', async t => {
  const told = await askJustAfter(t, upstreamSide => upstreamSide.destroy())
  t.strictSame(told, { fault: 'reset', nothingSent: true, received: 0 })
})

t.test('bytes that came before the request left are no answer to it', async t => {
  const told = await askJustAfter(t, upstreamSide => upstreamSide.write(OK))
  t.strictSame(told, { fault: 'reset', nothingSent: true, received: 0 })
})

t.test('what is given away is sent whole and its memory freed; what is only written stays', async t => {
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
  const size = 100_000
  const given = Buffer.alloc(size, 'g')
  const written = Buffer.alloc(size, 'w')
  const partOf = Buffer.alloc(2 * size, 'p')
  const part = partOf.subarray(0, size)
  const head = `PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: ${3 * size}\r\n\r\n`
  await new Promise<void>((resolve, reject) => {
    const requester: Requester = {
      onInterim: () => undefined,
      onHead: () => undefined,
      onBody: () => undefined,
      onEnd: () => resolve(),
      onFault: (_fault, cause) => reject(cause),
      onDrain: () => undefined
    }
    connection.send('PUT', head, requester, 1000)
    connection.give(given)
    connection.give(part)
    connection.write(written)
    connection.finish()
  })
  t.equal((await raw.request()).body, 'g'.repeat(size) + 'p'.repeat(size) + 'w'.repeat(size))
  t.equal(given.length, 0)
  t.strictSame([part.length, partOf.length, written.length], [size, 2 * size, size])
})

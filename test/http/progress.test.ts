// A client that takes its response steadily is served to the end, however large the response; one that takes nothing is cut off.
import { EventEmitter, once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { progressOf } from '../../gateway/http/progress.ts'
import type { HttpRequest } from '../../gateway/http/request.ts'
import { createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { startTlsServer } from '../support/http-listener.ts'
import { connectFrames, connectHttp2, FRAMES, frame, literal } from '../support/http2-client.ts'
import { listen } from '../support/ports.ts'
import { takeBytes, takeSome, untilFull } from '../support/slow-reader.ts'
import { until } from '../support/until.ts'

const STALL_MS = 3_600_000
const SIZE = 80_000_000

/** A server that sends large responses; `look` checks for stalls as the passing of time would. */
const startServer = async (t: Test, isHttp2: boolean) => {
  const accepting = new EventEmitter<{ accepted: [net.Socket] }>()
  const looks: (() => void)[] = []
  const { setInterval: again } = globalThis
  globalThis.setInterval = ((work: () => void, ms: number) => {
    if (ms === STALL_MS) looks.push(work)
    return again(work, ms)
  }) as typeof again
  const onRequest = ({ target, response }: HttpRequest) => {
    if (target !== '/half')
      return response.whole({ status: 200, headers: ['content-length', String(SIZE)] }, 'x'.repeat(SIZE))
    response.begin({ status: 200 }, -1)
    response.write(Buffer.alloc(SIZE / 2, 'x'))
    response.end()
  }
  const onAccepted = (socket: net.Socket) => void accepting.emit('accepted', socket)
  const starting = startTlsServer(t, onRequest, { limits: { stallMs: STALL_MS }, isHttp2, onAccepted })
  globalThis.setInterval = again
  return { place: (await starting).place, accepting, look: () => looks[0]?.() }
}

for (const over of ['TCP', 'TLS'])
  t.test(`node:net shows how far it has got with one large write: ${over}`, async t => {
    const authority = createCertificateAuthority(t.testdir({}))
    const server = over === 'TCP' ? net.createServer() : tls.createServer(pemOf(authority.issue('one')))
    const accepting = once(server, over === 'TCP' ? 'connection' : 'secureConnection')
    const port = await listen(t, server)
    const options = { port, host: '127.0.0.1', ca: authority.ca, servername: 'localhost' }
    const client = over === 'TCP' ? net.connect(options) : tls.connect(options)
    t.teardown(() => client.destroy())
    const [socket] = (await accepting) as [net.Socket]
    t.equal(progressOf(socket), undefined, 'nothing is waiting')
    socket.on('error', () => undefined)
    socket.write('x'.repeat(SIZE), 'latin1')
    for (let round = 0; round < 3; round++) await takeSome(socket, client)
    t.ok(socket.writableLength > 0, 'in the middle of it')
    client.resume()
    await until(() => progressOf(socket) === undefined)
  })

t.test('HTTP/1.1: one response in one piece', async t => {
  const { place, accepting, look } = await startServer(t, false)
  const connect = async () => {
    const client = tls.connect({ ...place, host: '127.0.0.1', servername: 'localhost' })
    t.teardown(() => client.destroy())
    client.on('error', () => undefined)
    client.write('GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n')
    const [socket] = await once(accepting, 'accepted')
    await until(() => socket.writableLength > 0)
    return { client, socket }
  }
  const { client, socket } = await connect()
  for (let round = 0; round < 4; round++) {
    await untilFull(socket)
    look()
    await takeSome(socket, client)
  }
  look()
  t.notOk(socket.destroyed)
  client.resume()
  await once(client, 'end')
  t.ok(client.bytesRead > SIZE, 'it is complete')

  const idle = await connect()
  await untilFull(idle.socket)
  look()
  t.notOk(idle.socket.destroyed)
  look()
  t.ok(idle.socket.destroyed, 'nothing was taken')
})

t.test('HTTP/2: one response in one piece', async t => {
  const { place, look } = await startServer(t, true)
  const session = await connectHttp2(t, place)
  const [steady, idle] = [session.request({ ':path': '/' }), session.request({ ':path': '/' })]
  for (const stream of [steady, idle]) stream.on('error', () => undefined)
  await Promise.all([once(steady, 'response'), once(idle, 'response')])
  let taken = 0
  steady.on('data', (data: Buffer) => {
    taken += data.length
  })
  for (let round = 0; round < 4; round++) {
    await takeBytes(steady, 1_000_000)
    look()
  }
  await until(() => idle.closed)
  t.equal(idle.rstCode, 8, 'CANCEL: nothing was taken')
  steady.resume()
  await until(() => steady.destroyed)
  t.same([steady.rstCode, taken], [0, SIZE])
})

t.test('HTTP/2: two responses in one large write', async t => {
  const { place, accepting, look } = await startServer(t, true)
  const accepted = once(accepting, 'accepted')
  const { socket: client, frames } = await connectFrames(t, place)
  const [socket] = await accepted
  const head = [':method=GET', ':path=/half', ':scheme=https', ':authority=gw'].map(field =>
    literal(...(field.split('=') as [string, string]))
  )
  const largeWindows = [
    frame(FRAMES.settings, 0, 0, Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff])),
    frame(FRAMES.windowUpdate, 0, 0, Buffer.from([0x70, 0, 0, 0]))
  ]
  client.pause()
  client.write(
    Buffer.concat([...largeWindows, ...[1, 3].map(id => frame(FRAMES.headers, 0x5, id, Buffer.concat(head)))])
  )
  await until(() => socket.writableLength > SIZE / 2)
  for (let round = 0; round < 4; round++) {
    await untilFull(socket)
    look()
    await takeSome(socket, client)
  }
  client.resume()
  const ended = () => frames.filter(({ type, flags }) => type === FRAMES.resetStream || (flags === 1 && type === 0))
  await until(() => ended().length === 2)
  t.same(
    ended().map(({ type }) => type),
    [FRAMES.data, FRAMES.data]
  )
  t.equal(
    frames.reduce((sum, { type, payload }) => sum + (type === FRAMES.data ? payload.length : 0), 0),
    SIZE
  )
})

// A server that drains closes what is idle at once, and serves nothing afterwards.
import { once } from 'node:events'
import net from 'node:net'
import t from 'tap'
import { createHttpServer } from '../../../gateway/http/server.ts'

t.test('a drain closes idle connections at once, spares new ones for a moment, and then all is over', async t => {
  const server = createHttpServer({
    handler: {
      onRequest: ({ response }) => response.whole({ status: 204, headers: [] }, ''),
      onFault: () => undefined
    }
  })
  const accepted: net.Socket[] = []
  const listener = net.createServer({ allowHalfOpen: true, pauseOnConnect: true }, socket => {
    accepted.push(socket)
    server.accept(socket)
  })
  t.teardown(() => listener.close())
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const { port } = listener.address() as net.AddressInfo
  const connectAndWait = async () => {
    const client = net.connect(port, '127.0.0.1')
    await Promise.all([once(client, 'connect'), once(listener, 'connection')])
    return client
  }
  const used = await connectAndWait()
  used.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(used, 'data')
  const fresh = await connectAndWait()
  t.equal(server.count(), 2)
  const closed = once(used.resume(), 'close')
  const drained = server.drain(60_000)
  await closed
  t.equal(server.count(), 1, 'the new one may have sent a request by now')
  fresh.destroy()
  await drained
  const late = new net.Socket()
  const told: unknown[] = []
  server.accept(late, { peer: '192.0.2.1', onClosed: peer => told.push(peer) })
  t.ok(late.destroyed)
  t.same(told, ['192.0.2.1'])
})

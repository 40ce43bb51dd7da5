// One address has a number of connections, over all processes and listeners; a drain answers those that wait.
// RX-17, RW-01, DF-17
import { once } from 'node:events'
import net, { createConnection } from 'node:net'
import t from 'tap'
import { createClientAddress } from '../../gateway/http/client-address.ts'
import { type ConnectionQuota, createConnectionQuota } from '../../gateway/listener/connection-quota.ts'
import { collectGarbage } from '../support/garbage.ts'
import { startGateway } from '../support/gateway.ts'
import { placesFor, startListener } from '../support/http-listener.ts'

const clientAddress = createClientAddress(['10.0.0.0/8'])
const entered = (quota: ConnectionQuota, peer: string, count: number) =>
  Array.from({ length: count }, () => quota.enter(peer)).filter(Boolean).length

t.test('an address has its quota and no more, whatever others have', async t => {
  const told: [string, number][] = []
  let clock = 0
  const quota = createConnectionQuota({
    most: 10,
    clientAddress,
    onRefused: (key, count) => told.push([key, count]),
    now: () => clock
  })
  t.equal(entered(quota, '192.0.2.1', 12), 10)
  t.equal(entered(quota, '192.0.2.2', 12), 10)
  t.equal(entered(quota, '2001:db8::1', 6) + entered(quota, '2001:db8::2', 6), 10, 'one /64 is one address')
  t.equal(entered(quota, '10.1.2.3', 100), 100, 'trusted proxies are exempt')
  quota.leave('192.0.2.1')
  t.equal(entered(quota, '192.0.2.1', 2), 1)
  t.same(told, [['192.0.2.1', 1]], 'said once a minute')
  clock = 60_001
  t.notOk(quota.enter('192.0.2.1'))
  t.equal(told.length, 2)
  t.equal(told[1]?.[1], 7)
})

t.test('of many processes, each asks before they could hold more than the quota together', async t => {
  const asked: unknown[] = []
  const ask = async (claims: unknown) => {
    asked.push(claims)
    return []
  }
  const quota = createConnectionQuota({ most: 1000, clientAddress, ask, processes: 100 })
  entered(quota, '192.0.2.1', 9)
  t.same(asked, [])
  entered(quota, '192.0.2.1', 1)
  t.same(asked, [[['192.0.2.1', 10]]])
  for (let left = 10; left > 0; left--) quota.leave('192.0.2.1')
})

t.test('what other processes have asked about is forgotten', async t => {
  let clock = 0
  const quota = createConnectionQuota({ most: 1000, clientAddress, ask: async () => [], now: () => clock })
  t.same(quota.answer([['192.0.2.1', 999]]), [0])
  t.equal(entered(quota, '192.0.2.1', 5), 1, 'it counts at first')
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let n = 0; n < 2000; n++) {
    clock += 1001
    quota.answer(Array.from({ length: 100 }, (_, i) => [`2001:db8:${n}:${i}::/64`, 1]))
  }
  collectGarbage()
  t.ok(process.memoryUsage().heapUsed - before < 10_000_000)
  t.equal(entered(quota, '192.0.2.1', 5), 5)
})

t.test('a connection too many is closed at once, and one that ends makes room', async t => {
  const world = await startGateway(t, { env: { CONNECTIONS_PER_IP: '3' } })
  const held = [await world.connect(), await world.connect(), await world.connect()]
  const refused = await world.connect()
  t.equal(await refused.closed(), '')
  await world.logged(line => line.level === 40 && line.address === '127.0.0.1')
  held[0]?.destroy()
  for (;;) {
    const answer = await world.raw('GET /health HTTP/1.1\r\nHost: gw\r\n\r\n').catch(() => undefined)
    if (answer === undefined) continue
    t.equal(answer.status, 200)
    break
  }
  for (const connection of held) connection.destroy()
})

t.test('the listener that redirects counts with the other one', async t => {
  const onRequest = () => t.fail('asked')
  const { port, listener } = await startListener(t, onRequest, { quota: placesFor(2), redirectPort: 0 })
  const dial = async (to: number) => {
    const socket = net.connect(to, '127.0.0.1')
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    return socket
  }
  const redirectPort = Number(listener.redirectPort)
  await dial(port)
  await dial(redirectPort)
  for (const refused of [await dial(port), await dial(redirectPort)]) {
    const [isError] = await once(refused.resume(), 'close')
    t.notOk(isError)
  }
})

const COUNT = 60

/** Everything that comes, or the code of the error that ends it. */
const readAll = async (socket: ReturnType<typeof createConnection>): Promise<string> => {
  let text = ''
  socket.on('data', chunk => {
    text += chunk
  })
  try {
    await once(socket, 'close')
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code)
  }
  return text
}

t.test('connections that wait in the listen queue when a drain begins are answered', async t => {
  const { port, listener } = await startListener(t, request =>
    request.response.whole({ status: 200, headers: ['content-length', '0'] }, '')
  )
  const clients = Array.from({ length: COUNT }, () => createConnection({ port, host: '127.0.0.1', noDelay: true }))
  const answers = clients.map(readAll)
  for (const client of clients) client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  // By now the kernel has completed all handshakes, and this process has accepted none.
  await new Promise(resolve => process.nextTick(resolve))
  const drained = listener.drain(5000)
  const texts = await Promise.all(answers)
  t.same([...new Set(texts.map(text => text.split('\r\n')[0]))], ['HTTP/1.1 200 OK'])
  await drained
})

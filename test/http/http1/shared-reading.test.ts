// Sockets that read into shared memory behave as others do.
// RX-20, RX-23
import { once } from 'node:events'
import net from 'node:net'
import t, { type Test } from 'tap'
import { createReadTurns, type Turns } from '../../../gateway/http/http1/read-turns.ts'
import { readEvents, readShared } from '../../../gateway/http/server.ts'

const startServer = async (test: Test, onSocket: (socket: net.Socket) => void) => {
  const server = net.createServer({ allowHalfOpen: true }, onSocket)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  test.teardown(() => server.close())
  return { server, port: (server.address() as net.AddressInfo).port }
}

t.test('node:net lets a connection move to a socket that reads into a given buffer', async t => {
  let moved: net.Socket | undefined
  const taken: string[] = []
  const { server, port } = await startServer(t, socket => {
    const take = (bytes: Buffer) => taken.push(String(bytes)) > 0
    moved = readShared(socket, take, createReadTurns())
    moved?.on('end', () => moved?.end('bye'))
  })
  const client = net.connect(port, '127.0.0.1')
  await once(client, 'connect')
  client.write('hello')
  while (taken.length === 0) await new Promise(resolve => setImmediate(resolve))
  t.ok(moved, 'the handle is where it was, and takes a buffer')
  t.same(taken, ['hello'])
  t.equal(moved?.remoteAddress, '127.0.0.1')
  client.end()
  const [answer] = (await once(client, 'data')) as [Buffer]
  t.equal(String(answer), 'bye')
  await once(client, 'close')
  await new Promise(resolve => server.close(resolve))
  t.pass('the listener counts the connection to its end')
})

t.test('reading stops when its reader says so, and goes on when asked to', async t => {
  let moved: net.Socket | undefined
  let count = 0
  const { port } = await startServer(t, socket => {
    const take = (bytes: Buffer) => {
      count += bytes.length
      return false
    }
    moved = readShared(socket, take, createReadTurns())
  })
  const client = net.connect(port, '127.0.0.1')
  await once(client, 'connect')
  const total = 4 * 1024 * 1024
  client.write(Buffer.alloc(total, 'x'))
  while (count === 0) await new Promise(resolve => setImmediate(resolve))
  const first = count
  for (let turn = 0; turn < 50; turn++) await new Promise(resolve => setImmediate(resolve))
  t.equal(count, first, 'one read and no more')
  while (count < total) {
    moved?.resume()
    await new Promise(resolve => setImmediate(resolve))
  }
  t.equal(count, total)
  client.destroy()
})

type Read = (socket: net.Socket, take: (bytes: Buffer) => boolean, turns: Turns) => net.Socket | undefined
const ways: [name: string, read: Read][] = [
  ['that moved', readShared],
  ['that emit `data`', readEvents]
]

for (const [name, read] of ways)
  t.test(`bulky reads of many sockets ${name} wait for their turn, and nothing is lost or mixed up`, async t => {
    // RW-06
    const turns = createReadTurns()
    const sums = new Map<net.Socket, number>()
    let takenInTurn = 0
    const { port } = await startServer(t, socket => {
      let isFirst = true
      const take = (bytes: Buffer) => {
        const at = sums.get(socket) ?? 0
        for (let i = (4 - (at % 4)) % 4; i + 4 <= bytes.length; i += 4096)
          if (bytes.readUInt32LE(i) !== at + i) throw new Error(`${bytes.readUInt32LE(i)} at ${at + i}`)
        sums.set(socket, at + bytes.length)
        takenInTurn++
        // A read that is costly.
        for (const until = performance.now() + 0.5; performance.now() < until; );
        const goesOn = !isFirst
        if (isFirst) setImmediate(() => moved?.resume())
        isFirst = false
        return goesOn
      }
      const moved = read(socket, take, turns)
      // What resumes a socket does not know that its bytes wait.
      setImmediate(() => moved?.resume())
    })
    const sent = Buffer.alloc(512 * 1024)
    for (let at = 0; at < sent.length; at += 4) sent.writeUInt32LE(at, at)
    const clients = Array.from({ length: 20 }, () => net.connect(port, '127.0.0.1').end(sent))
    const total = () => [...sums.values()].reduce((sum, bytes) => sum + bytes, 0)
    let most = 0
    while (total() < 20 * sent.length) {
      await new Promise(resolve => setImmediate(resolve))
      most = Math.max(most, takenInTurn)
      takenInTurn = 0
    }
    // Two milliseconds at once, and as many for those that waited.
    t.ok(most <= 14, `${most} reads of half a millisecond in one turn`)
    t.ok([...sums.values()].every(sum => sum === sent.length))
    for (const client of clients) client.destroy()
  })

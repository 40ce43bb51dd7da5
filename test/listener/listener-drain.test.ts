// DF-17
import { once } from 'node:events'
import { createConnection } from 'node:net'
import t from 'tap'
import { startListener } from '../support/http-listener.ts'

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

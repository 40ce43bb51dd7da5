// Opens authorised WebSockets; then either holds them open or plays ping-pong on all of them for a while.
//
// Prints `{"opened":N}` once all are open, and with --seconds `{"messages":N}` (answers received) at the end.
import { parseArgs } from 'node:util'
import { WebSocket } from 'ws'

const { values } = parseArgs({
  options: {
    port: { type: 'string' },
    token: { type: 'string' },
    count: { type: 'string' },
    /** Length of the ping-pong; without it the sockets stay open until SIGTERM. */
    seconds: { type: 'string' }
  }
})

const AT_ONCE = 50
const MESSAGE = 'x'.repeat(128)
const print = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`)

const open = (): Promise<WebSocket> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${values.port}/live`, {
      headers: { authorization: `Bearer ${values.token}` },
      perMessageDeflate: false
    })
    socket.once('open', () => resolve(socket))
    socket.once('error', reject)
    socket.once('unexpected-response', (_, response) => reject(new Error(`refused with ${response.statusCode}`)))
  })

const openAll = async (count: number): Promise<WebSocket[]> => {
  const sockets: WebSocket[] = []
  const work = async () => {
    while (sockets.length + pending < count) {
      pending += 1
      sockets.push(
        await open().finally(() => {
          pending -= 1
        })
      )
    }
  }
  let pending = 0
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return sockets
}

const sockets = await openAll(Number(values.count))
for (const socket of sockets) {
  socket.on('close', (code, reason) => {
    console.error(`closed: ${code} ${reason}`)
    process.exit(1)
  })
}
print({ opened: sockets.length })

if (values.seconds !== undefined) {
  let messages = 0
  for (const socket of sockets) {
    socket.on('message', () => {
      messages += 1
      socket.send(MESSAGE)
    })
    socket.send(MESSAGE)
  }
  setTimeout(() => {
    print({ messages })
    process.exit(0)
  }, Number(values.seconds) * 1000)
}

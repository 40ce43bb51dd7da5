// Opens authorised WebSockets; then either holds them open or plays ping-pong on all of them for a while.
//
// Prints `{"opened":N}` once all are open, and with `seconds` `{"messages":N}` (answers received) at the end.
import { WebSocket } from 'ws'

interface Flags {
  readonly port: number
  readonly token: string
  readonly count: number
  /** Length of the ping-pong; without it the sockets stay open until SIGTERM. */
  readonly seconds?: number
}

const { port, token, count, seconds } = JSON.parse(process.argv[2] ?? '{}') as Flags

const AT_ONCE = 50
const MESSAGE = 'x'.repeat(128)
const print = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`)

const open = (): Promise<WebSocket> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/live`, {
      headers: { authorization: `Bearer ${token}` },
      perMessageDeflate: false
    })
    socket.once('open', () => resolve(socket))
    socket.once('error', reject)
    socket.once('unexpected-response', (_, response) => reject(new Error(`refused with ${response.statusCode}`)))
  })

const sockets: WebSocket[] = []
while (sockets.length < count)
  sockets.push(...(await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - sockets.length) }, open))))
for (const socket of sockets) {
  socket.on('close', (code, reason) => {
    console.error(`closed: ${code} ${reason}`)
    process.exit(1)
  })
}
print({ opened: sockets.length })

if (seconds !== undefined) {
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
  }, seconds * 1000)
}

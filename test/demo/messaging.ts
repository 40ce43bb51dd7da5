// Serves /messaging as a Socket.IO backend without any login of its own: a QR code to pair with, a status, and messages.
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { Server, type Socket } from 'socket.io'
import type { Test } from 'tap'
import { renderSVG } from 'uqr'
import { listen } from '../support/ports.ts'

const MAX_TEXT = 500

/** Resolves to its URL. */
export const startDemoMessaging = async (t: Pick<Test, 'teardown'>): Promise<string> => {
  const server = createServer()
  const sockets = new Server(server, { serveClient: false, connectionStateRecovery: {} })
  const messaging = sockets.of('/messaging')
  messaging.on('connection', socket => {
    const name = nameOf(socket)
    const code = `https://demo.example/pair/${randomBytes(9).toString('base64url')}`
    const say = (from: string, text: string) => ({ from, text, at: new Date().toISOString() })
    socket.emit('status', { state: 'waiting', user: name })
    socket.emit('qr', { code, svg: renderSVG(code) })
    socket.emit('message', say('Messaging', `Welcome, ${name}.`))
    socket.on('pair', () => socket.emit('status', { state: 'paired', user: name }))
    socket.on('message', (text: unknown) => {
      if (typeof text === 'string' && text.trim() !== '') messaging.emit('message', say(name, text.slice(0, MAX_TEXT)))
    })
  })
  const port = await listen(t, server)
  t.teardown(() => sockets.disconnectSockets(true))
  return `http://127.0.0.1:${port}`
}

/** Who connects, as the gateway says it; a client's own `auth.user` never gets here. */
const nameOf = ({ handshake }: Socket): string => {
  const user: unknown = handshake.auth.user
  return typeof user === 'object' && user !== null && 'name' in user ? String(user.name) : 'somebody'
}

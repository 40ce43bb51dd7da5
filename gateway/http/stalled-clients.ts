// Clients that take nothing of what waits for them have been cut off, whatever the answer was.
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/** A client that takes nothing for so long is cut off. */
export const CLIENT_STALL_MS = 60_000

/** What the kernel has taken of this socket's bytes; -1 when nothing waits. */
const taken = (socket: Socket): number =>
  socket.writableLength === 0 ? -1 : socket.bytesWritten - socket.writableLength

/**
 * Destroys connections on which bytes wait and none has left for `stallMs` (at most twice that), in the middle of
 * an answer and after it. Ends with the server.
 */
export const cutStalledClients = (server: Server, stallMs: number): void => {
  const lastTaken = new Map<Socket, number>()
  const sweep = () => {
    for (const [socket, before] of lastTaken) {
      const now = taken(socket)
      if (now !== -1 && now === before) socket.destroy()
      else lastTaken.set(socket, now)
    }
  }
  server.on('connection', socket => {
    lastTaken.set(socket, -1)
    socket.on('close', () => lastTaken.delete(socket))
  })
  const timer = setInterval(sweep, stallMs).unref()
  server.on('close', () => clearInterval(timer))
}

// One event of a Socket.IO client has come, or the test ends with its name.
import type { Socket } from 'socket.io-client'

/** Rejects after 8 s. */
export const once = (socket: Socket, event: string): Promise<unknown[]> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${event}`)), 8000)
    socket.once(event, (...args: unknown[]) => {
      clearTimeout(timer)
      resolve(args)
    })
  })

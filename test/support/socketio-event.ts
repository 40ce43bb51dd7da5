// Waits for one event of a Socket.IO client, or ends the test with its name.
import type { Socket } from 'socket.io-client'

/** Long enough for a machine that does ten other things. */
const LIMIT_MS = 120_000

/** Rejects when the connection fails or ends instead, with the reason. */
export const once = (socket: Socket, event: string): Promise<unknown[]> =>
  new Promise((resolve, reject) => {
    const fail = (reason: string) => {
      if (event !== 'connect_error' && event !== 'disconnect') reject(new Error(`no ${event}: ${reason}`))
    }
    const timer = setTimeout(() => reject(new Error(`no ${event}`)), LIMIT_MS)
    const onError = ({ message }: Error) => fail(message)
    socket.once('connect_error', onError)
    socket.once('disconnect', fail)
    socket.once(event, (...args: unknown[]) => {
      clearTimeout(timer)
      socket.off('connect_error', onError)
      socket.off('disconnect', fail)
      resolve(args)
    })
  })

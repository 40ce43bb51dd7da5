// The listener takes connections, and gives them up again without cutting a request that could have finished.
import net, { type AddressInfo } from 'node:net'
import type { Settings } from '../settings/settings.ts'
import type { HttpServer } from './server/server.ts'

interface Listener {
  readonly port: number
  /** Takes no more connections; requests under way may finish, and after `timeoutMs` what is left is cut. */
  drain(timeoutMs: number): Promise<void>
}

export const listen = async (
  server: HttpServer,
  { port, host }: Pick<Settings, 'port' | 'host'>
): Promise<Listener> => {
  const listener = net.createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, socket =>
    server.accept(socket)
  )
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject)
    listener.listen(port, host, () => {
      listener.off('error', reject)
      resolve()
    })
  })
  return {
    port: (listener.address() as AddressInfo).port,
    async drain(timeoutMs) {
      const closed = new Promise(resolve => listener.close(resolve))
      await server.drain(timeoutMs)
      await closed
    }
  }
}

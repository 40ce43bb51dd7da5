// The listener takes connections, and gives them up again without cutting a request that could have finished.
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Settings } from '../settings/settings.ts'

export const listen = (server: Server, { port, host }: Settings): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      const address = server.address() as AddressInfo
      resolve(address.port)
    })
  })

const IDLE_CHECK_MS = 50

/** Requests under way may finish; after `timeoutMs` their connections are cut. */
export const drain = (server: Server, timeoutMs: number): Promise<void> =>
  new Promise(resolve => {
    // A connection that becomes idle after its last answer is closed at once.
    const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS)
    const late = setTimeout(() => server.closeAllConnections(), timeoutMs)
    server.close(() => {
      clearInterval(idle)
      clearTimeout(late)
      resolve()
    })
  })

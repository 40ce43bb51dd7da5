// Tries each case of the lab's socket systems directly, then through a gateway, and says where the two differ.
import { startGateway } from '../../../test/support/gateway.ts'
import { freePort } from '../../../test/support/ports.ts'
import type { TestPostgres } from '../../../test/support/postgres.ts'
import { compare } from '../cases.ts'
import { fillTable, withTeardown } from '../table.ts'
import { type Place, type SocketSystem, throughPlace } from './socket-system.ts'
import { SOCKET_IO } from './socketio-systems.ts'
import { WEBSOCKET } from './websocket-systems.ts'

export const SOCKET_SYSTEMS: readonly SocketSystem[] = [...SOCKET_IO, ...WEBSOCKET]

const TABLE = {
  heading: '## WebSocket and Socket.IO',
  columns: ['system', 'version', 'what was tried', 'directly', 'through Portaria']
}

const directPlace = (port: number): Place => ({
  url: `http://127.0.0.1:${port}`,
  auth: async (...profiles) => JSON.stringify({ user: { profiles } }),
  bearer: async () => ({}),
  cookie: async () => ''
})

/** Resolves to how many cases went wrong. */
export const runSocketSystem = (system: SocketSystem, postgres: TestPostgres): Promise<number> => {
  const { title, version, route, upstream } = system
  const isOld = ([name, ofVersion]: readonly string[]) => name === title && ofVersion === version
  return withTeardown(t =>
    fillTable(TABLE, isOld, async add => {
      const { port, cases } = await system.start(t)
      const own = await freePort()
      const world = await startGateway(t, {
        postgres,
        port: own,
        config: {
          upstreams: { lab: { url: `http://127.0.0.1:${port}`, ...upstream } },
          routes: [{ ...route, upstream: 'lab' }]
        },
        env: { PUBLIC_URL: `http://127.0.0.1:${own}`, BROWSER_SESSION: 'true' }
      })
      for (const each of cases) {
        const { isRight, cells } = await compare(each, [directPlace(port), throughPlace(world)])
        add([title, version, each.name, ...cells], isRight)
      }
    })
  )
}

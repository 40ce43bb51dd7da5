// Tries each case of the lab's socket systems directly, then through a gateway, and says where the two differ.
import { startGateway } from '../../../test/support/gateway.ts'
import { freePort } from '../../../test/support/ports.ts'
import type { TestPostgres } from '../../../test/support/postgres.ts'
import { withTeardown } from '../../teardown.ts'
import { compare } from '../cases.ts'
import { openLab } from '../system.ts'
import { fillTable, type Table } from '../table.ts'
import { type Place, type SocketSystem, throughPlace } from './socket-system.ts'
import { SOCKET_IO } from './socketio-systems.ts'
import { WEBSOCKET } from './websocket-systems.ts'

export const SOCKET_SYSTEMS: readonly SocketSystem[] = [...SOCKET_IO, ...WEBSOCKET]

const TABLE: Table = { heading: '## WebSocket and Socket.IO', keys: 2 }

const directPlace = (port: number): Place => ({
  url: `http://127.0.0.1:${port}`,
  auth: async (...profiles) => JSON.stringify({ user: { profiles } }),
  bearer: async () => ({}),
  cookie: async () => ''
})

/** Resolves to how many cases went wrong. */
export const runSocketSystem = (system: SocketSystem, postgres: TestPostgres): Promise<number> =>
  withTeardown(t =>
    fillTable(TABLE, async add => {
      const { title, version, route, upstream } = system
      const cases = await system.cases()
      const port = await system.start(openLab(t, postgres))
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

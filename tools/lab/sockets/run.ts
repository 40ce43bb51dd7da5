// Tries each case of the lab's socket systems directly, then through a gateway, and says where the two differ.
import { startGateway, type World } from '../../../test/support/gateway.ts'
import { freePort } from '../../../test/support/ports.ts'
import type { TestPostgres } from '../../../test/support/postgres.ts'
import { compare } from '../cases.ts'
import { replaceRows } from '../table.ts'
import type { Place, SocketSystem } from './socket-system.ts'
import { SOCKET_IO } from './socketio-systems.ts'
import { WEBSOCKET } from './websocket-systems.ts'

export const SOCKET_SYSTEMS: readonly SocketSystem[] = [...SOCKET_IO, ...WEBSOCKET]

const HEADING = '## WebSocket and Socket.IO'
const COLUMNS = ['system', 'version', 'what was tried', 'directly', 'through Portaria']

const directPlace = (port: number): Place => ({
  url: `http://127.0.0.1:${port}`,
  auth: async (...profiles) => JSON.stringify({ user: { profiles } }),
  bearer: async () => ({}),
  cookie: async () => ''
})

const throughPlace = (world: World): Place => ({
  url: world.url,
  auth: async (...profiles) => JSON.stringify({ token: await world.tokenFor({ profiles }) }),
  bearer: async (...profiles) => ({ authorization: `Bearer ${await world.tokenFor({ profiles })}` }),
  cookie: async (...profiles) => `portaria_session=${await world.tokenFor({ profiles })}`
})

const trySystem = async (
  system: SocketSystem,
  postgres: TestPostgres
): Promise<{ isRight: boolean; row: readonly string[] }[]> => {
  const endings: (() => unknown)[] = []
  const t = { teardown: (action: () => unknown) => void endings.push(action) }
  try {
    const { port, cases } = await system.start(t)
    const own = await freePort()
    const world = await startGateway(t, {
      postgres,
      port: own,
      config: {
        upstreams: { lab: { url: `http://127.0.0.1:${port}`, ...system.upstream } },
        routes: [{ ...system.route, upstream: 'lab' }]
      },
      env: { PUBLIC_URL: `http://127.0.0.1:${own}`, BROWSER_SESSION: 'true' }
    })
    const results = []
    for (const each of cases) {
      const { isRight, cells } = await compare(each, [directPlace(port), throughPlace(world)])
      const row = [system.title, system.version, each.name, ...cells]
      process.stdout.write(`| ${row.join(' | ')} |\n`)
      results.push({ isRight, row })
    }
    return results
  } finally {
    for (const end of endings.reverse()) await end()
  }
}

/** Prints each row, and puts the rows of the systems named (all of them when none is) into the page; gives how many went wrong. */
export const runSocketSystems = async (systems: readonly SocketSystem[], postgres: TestPostgres, page: string) => {
  let wrong = 0
  for (const system of systems) {
    try {
      const results = await trySystem(system, postgres)
      wrong += results.filter(({ isRight }) => !isRight).length
      const isOwn = ([title, version]: readonly string[]) => title === system.title && version === system.version
      replaceRows(
        page,
        { heading: HEADING, columns: COLUMNS },
        results.map(({ row }) => row),
        isOwn
      )
    } catch (error) {
      wrong++
      process.stdout.write(`| ${system.title} | | not run: ${error instanceof Error ? error.message : error} | | |\n`)
    }
  }
  return wrong
}

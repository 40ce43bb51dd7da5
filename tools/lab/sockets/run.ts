// Tries each case of the lab's socket systems directly, then through a gateway, and says where the two differ.
import { startGateway, type World } from '../../../test/support/gateway.ts'
import { freePort } from '../../../test/support/ports.ts'
import type { TestPostgres } from '../../../test/support/postgres.ts'
import { replaceRows } from '../table.ts'
import type { Place, SocketCase, SocketSystem } from './socket-system.ts'
import { SOCKET_IO } from './socketio-systems.ts'
import { WEBSOCKET } from './websocket-systems.ts'

export const SOCKET_SYSTEMS: readonly SocketSystem[] = [...SOCKET_IO, ...WEBSOCKET]

const HEADING = '## WebSocket and Socket.IO'
const COLUMNS = ['system', 'version', 'what was tried', 'directly', 'through Portaria']

interface Tried {
  readonly isAsItShouldBe: boolean
  readonly row: readonly string[]
}

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

const outcomeOf = (run: Promise<string>): Promise<string> =>
  run.catch(error => `fails: ${error instanceof Error ? error.message.trim().split('\n').at(-1) : String(error)}`)

const tryCase = async (system: SocketSystem, tried: SocketCase, places: readonly [Place, Place]): Promise<Tried> => {
  const [direct, through] = [await outcomeOf(tried.run(places[0])), await outcomeOf(tried.run(places[1]))]
  const wanted = tried.contract?.through ?? direct
  // What fails without the gateway too was not tried.
  const isAsItShouldBe = through === wanted && !direct.startsWith('fails')
  const same = through === direct ? 'the same' : `${through}: ${tried.contract?.because ?? 'DIFFERS'}`
  const told = isAsItShouldBe ? same : `DIFFERS: ${through}`
  return { isAsItShouldBe, row: [system.title, system.version, tried.name, direct, told] }
}

const trySystem = async (system: SocketSystem, postgres: TestPostgres): Promise<Tried[]> => {
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
    const results: Tried[] = []
    for (const each of cases) {
      const result = await tryCase(system, each, [directPlace(port), throughPlace(world)])
      process.stdout.write(`| ${result.row.join(' | ')} |\n`)
      results.push(result)
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
      wrong += results.filter(({ isAsItShouldBe }) => !isAsItShouldBe).length
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

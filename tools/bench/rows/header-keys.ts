// What the keys of a route cost that change headers: preserveHost, two set headers, and CORS for the page that asks.
import { compared, type GroupResult, probed } from '../group.ts'
import { interleave, interleaveFresh, type Subject, toRow } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

const PAGE = 'https://pages.example.org'
const KEYED_PATH = '/keyed/bench'
/** A microsecond is less than what a process gains while it warms up: both routes in turn, a moment each. */
const TURNS = 15

const routes = (port: number): string => `
upstreams:
  plain: { url: http://127.0.0.1:${port} }
  keyed:
    url: http://127.0.0.1:${port}
    preserveHost: true
    requestHeaders: { set: { X-Api-Key: 0123456789abcdef, X-Tenant: north } }
routes:
  - { path: /api/*, upstream: plain, roles: [Admin] }
  - { path: /keyed/*, upstream: keyed, roles: [Admin] }
`

export const measureHeaderKeys = async (world: World): Promise<GroupResult> => {
  const all = await interleaveFresh(world, async oneRound => {
    const gateway = await startGateway(world, {
      name: 'Portaria',
      counting: 'memory',
      routes: routes(world.upstream.checkedPort),
      env: { CORS_ORIGINS: PAGE }
    })
    const subject = (name: string, path: string, headers: readonly string[]): Subject => ({
      name,
      peer: gateway,
      load: () => ({ url: `http://127.0.0.1:${gateway.port}${path}`, token: world.token, headers })
    })
    const seconds = Math.max(1, Math.round(oneRound.options.seconds / TURNS))
    const inTurns = { ...oneRound, options: { ...oneRound.options, seconds, rounds: TURNS } }
    const samples = await probed(world, [gateway], BENCH_PATH, () =>
      interleave(inTurns, [
        subject('a route without them', BENCH_PATH, []),
        subject('preserveHost, two set headers, CORS', KEYED_PATH, [`Origin: ${PAGE}`])
      ])
    )
    await gateway.running.stop()
    return samples
  })
  const [plain, keyed] = all.map(({ cpuMicros }) => cpuMicros)
  return {
    rows: all.map(toRow),
    findings: compared('header-keys', keyed, plain, (a, b) => a - b),
    notes: [`both routes are of one gateway, asked ${TURNS} times in turn; every round is one of a new process`]
  }
}

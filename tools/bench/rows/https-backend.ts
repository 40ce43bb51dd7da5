// The full request and a small POST to a backend that speaks TLS, beside HAProxy with the same backend.
import { compare, inTurns, interleave, requests } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import { startHaproxy } from '../peers/haproxy.ts'
import { probed, VoidRun } from '../peers/peer.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'
import { runWrk } from '../wrk.ts'

/** One request at a time: what is measured is how long it takes, not how long it waits for others. */
const ALONE = 1
const [GET, POST] = ['GET p50 ms', 'POST of 5 B p50 ms']

export const measureHttpsBackend = async (world: World): Promise<void> => {
  const { tlsPort, caFile } = world.upstream
  const routes = oneRoute(tlsPort, `https://localhost:${tlsPort}\n    caFile: ${caFile}`)
  const started = [await startGateway(world, { routes }), await startHaproxy(world, { isTlsBehind: true })]
  const peers = started.map(peer => ({ ...peer, name: `${peer.name}, https backend` }))
  await probed(world, peers, async () => {
    const [full, ofHaproxy] = await interleave(
      world,
      peers.map(peer => requests(world, peer))
    )
    compare(world, 'https-backend', full, ofHaproxy)
    const seconds = Math.max(1, Math.floor(world.options.seconds / 2))
    const alone = peers.map(peer => ({ name: `${peer.name}, one request at a time`, peer }))
    const [ours] = await inTurns(world, alone, async ({ peer }) => {
      const median = async (isPost: boolean): Promise<number> => {
        const load = { url: `http://127.0.0.1:${peer.port}${BENCH_PATH}`, token: world.token, isPost }
        const result = await runWrk(load, seconds, ALONE)
        if (result.refused + result.socketErrors > 0) throw new VoidRun(`${peer.name} failed requests one at a time`)
        return result.latency['p50 ms'] ?? Number.NaN
      }
      return { [GET]: await median(false), [POST]: await median(true) }
    })
    const { [GET]: gets = [], [POST]: posts = [] } = ours?.figures ?? {}
    world.find('https-backend-post', ...posts.map((post, round) => post - (gets[round] ?? Number.NaN)))
  })
}

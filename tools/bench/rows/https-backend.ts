// The full request, a small POST and a megabyte to a backend that speaks TLS, beside HAProxy with the same backend.
import { compared, type GroupResult, probed, startOrNote } from '../group.ts'
import { interleave, type Row, type Subject, toRow } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import { startHaproxy } from '../peers/haproxy.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { spread } from '../statistics.ts'
import { BENCH_PATH, LARGE_PATH } from '../upstream.ts'
import type { World } from '../world.ts'
import { runWrk } from '../wrk.ts'

/** One request at a time: what is measured is how long it takes, not how long it waits for others. */
const ALONE = 1
const NOTHING: GroupResult = { rows: [], findings: [], notes: [] }

const subject = (world: World, peer: Peer, what: string, more: { path?: string; isPost?: boolean } = {}): Subject => ({
  name: `${peer.name}, https backend, ${what}`,
  peer,
  load: () => ({
    url: `http://127.0.0.1:${peer.port}${more.path ?? BENCH_PATH}`,
    token: world.token,
    isPost: more.isPost ?? false
  })
})

const START = { name: 'Portaria', counting: 'redis' } as const

const startPeers = async (world: World, notes: string[]): Promise<readonly Peer[]> => {
  const { tlsPort, caFile } = world.upstream
  const routes = oneRoute(tlsPort, '', `https://localhost:${tlsPort}\n    caFile: ${caFile}`)
  const peers = [
    await startOrNote('Portaria with an https backend', notes, () => startGateway(world, { ...START, routes })),
    await startOrNote('HAProxy with an https backend', notes, () => startHaproxy(world, 'one', 'tls'))
  ]
  return peers.filter(peer => peer !== undefined)
}

/** Half of the requests of a round are GETs, half POSTs; the median of each. */
const measureLatencies = async (world: World, peer: Peer) => {
  const gets: number[] = []
  const posts: number[] = []
  const seconds = Math.max(1, Math.floor(world.options.seconds / 2))
  for (let round = 0; round < world.options.rounds; round += 1)
    for (const [isPost, medians] of [
      [false, gets],
      [true, posts]
    ] as const) {
      const url = `http://127.0.0.1:${peer.port}${BENCH_PATH}`
      const result = await runWrk({ url, token: world.token, isPost, seconds, connections: ALONE })
      if (result.refused + result.socketErrors > 0) throw new VoidRun(`${peer.name} failed requests one at a time`)
      medians.push(result.p50Ms)
    }
  return { gets, posts }
}

const latencyRow = (peer: Peer, { gets, posts }: { gets: number[]; posts: number[] }): Row => ({
  name: `${peer.name}, https backend, one request at a time`,
  columns: { 'GET p50 ms': spread(gets), 'POST of 5 B p50 ms': spread(posts) }
})

export const measureHttpsBackend = async (world: World): Promise<GroupResult> => {
  const notes: string[] = []
  const peers = await startPeers(world, notes)
  if (peers.length === 0) return { ...NOTHING, notes }
  return probed(world, peers, BENCH_PATH, async () => {
    const get = await interleave(
      world,
      peers.map(peer => subject(world, peer, 'request'))
    )
    const post = await interleave(
      world,
      peers.map(peer => subject(world, peer, 'POST of 5 B', { isPost: true }))
    )
    const large = await interleave(
      world,
      peers.map(peer => subject(world, peer, '1 MB down', { path: LARGE_PATH }))
    )
    const rows: Row[] = [...get, ...post, ...large].map(toRow)
    const latencies: Awaited<ReturnType<typeof measureLatencies>>[] = []
    for (const peer of peers) {
      const measured = await measureLatencies(world, peer)
      latencies.push(measured)
      rows.push(latencyRow(peer, measured))
    }
    const [gateway] = latencies
    return {
      rows,
      findings: [
        ...compared('https-backend', get[0]?.cpuMicros, get[1]?.cpuMicros),
        ...compared('https-backend-post', gateway?.posts, gateway?.gets, (above, below) => above - below)
      ],
      notes
    }
  })
}

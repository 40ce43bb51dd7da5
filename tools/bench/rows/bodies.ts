// Bodies of a gigabyte pass in both directions: their rate beside nginx's, and what they leave in memory.
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { blocks } from '../load/blocks.ts'
import { compare, inTurns, MEGABYTE } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import { startNginx } from '../peers/nginx.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { cpuMicros, residentBytes, watchResident } from '../process-cost.ts'
import { startLoadUpstream } from '../processes.ts'
import type { World } from '../world.ts'

const [RATE, GROWTH] = ['MB/s', 'RSS growth MB']

/** Resolves to the seconds that it took. */
const transfer = async ({ token }: World, { name, port }: Peer, direction: 'down' | 'up', bytes: number) => {
  const isUp = direction === 'up'
  const startedAt = performance.now()
  const outgoing = request({
    port,
    host: '127.0.0.1',
    path: `/api/body?bytes=${bytes}`,
    method: isUp ? 'PUT' : 'GET',
    headers: { authorization: `Bearer ${token}`, ...(isUp ? { 'content-length': bytes } : {}) },
    agent: false
  })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  const sent = pipeline(Readable.from(blocks(isUp ? bytes : 0)), outgoing)
  const [[response]] = await Promise.all([answered, sent])
  let [received, text] = [0, '']
  for await (const chunk of response) {
    received += chunk.length
    if (isUp) text += chunk
  }
  const seconds = (performance.now() - startedAt) / 1000
  const arrived = isUp ? Number(text) : received
  if (response.statusCode === 200 && arrived === bytes) return seconds
  throw new VoidRun(`${name}: ${direction} answered ${response.statusCode} after ${arrived} of ${bytes} bytes`)
}

export const measureBodies = async (world: World): Promise<void> => {
  const megabytes = world.options.quick ? 64 : 1024
  world.notes.push(
    `bodies of ${megabytes} MB; growth: highest RSS in the transfer over RSS just before it, after a 16 MB warm-up`
  )
  const upstreamPort = await startLoadUpstream(world, 'body-upstream.ts')
  const peers = [
    await startGateway(world, { routes: oneRoute(upstreamPort) }),
    await startNginx(world, { upstreamPort })
  ]
  for (const direction of ['down', 'up'] as const) {
    for (const peer of peers) await transfer(world, peer, direction, 16 * MEGABYTE)
    const items = peers.map(peer => ({ name: `${peer.name}, ${direction}`, peer }))
    const [ours, nginx] = await inTurns(world, items, async ({ peer }) => {
      const { pid } = peer
      const [idle, cpuBefore] = [residentBytes(pid), cpuMicros(pid)]
      const watch = watchResident(pid)
      const seconds = await transfer(world, peer, direction, megabytes * MEGABYTE)
      return {
        [RATE]: megabytes / seconds,
        'CPU ms/MB': (cpuMicros(pid) - cpuBefore) / 1000 / megabytes,
        [GROWTH]: (watch.stop() - idle) / MEGABYTE
      }
    })
    world.find(`body-${direction}-growth`, Math.max(...(ours?.figures[GROWTH] ?? [])))
    compare(world, `body-${direction}-rate`, ours, nginx, RATE)
  }
}

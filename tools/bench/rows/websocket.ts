// What an idle authorised WebSocket keeps in memory, and what a message both ways costs beside nginx.
import { execFileSync } from 'node:child_process'
import { addRow, compare, inTurns } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { startNginx } from '../peers/nginx.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { cpuMicros, residentBytes } from '../process-cost.ts'
import { openLoad, type Running, runLoad, startLoadUpstream } from '../processes.ts'
import type { World } from '../world.ts'

const CPU = 'CPU µs/message both ways'
/** All are open at once. */
const IDLE_SOCKETS = 10_000
const TALKING_SOCKETS = 64

const route = (port: number): string => `
upstreams:
  live:
    url: http://127.0.0.1:${port}
routes:
  - path: /live
    upstream: live
    roles: [Admin]
    websocket: { idleTimeout: 1h }
`

/** The gateway holds two descriptors for each socket: with fewer allowed, fewer are opened, and the note says so. */
const openableSockets = (): number => {
  const allowed = execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).trim()
  return allowed === 'unlimited' ? Number.POSITIVE_INFINITY : Math.floor((Number(allowed) - 500) / 2)
}

const hold = (world: World, peer: Peer, count: number): Promise<Running> =>
  openLoad(world, 'socket-client.ts', { port: peer.port, token: world.token, count })

const measureIdle = async (world: World, gateway: Peer): Promise<void> => {
  const warmUp = await hold(world, gateway, 200)
  const before = residentBytes(gateway.pid)
  const count = Math.min(world.options.quick ? IDLE_SOCKETS / 10 : IDLE_SOCKETS, openableSockets())
  const sockets = await hold(world, gateway, count)
  const kilobytes = (residentBytes(gateway.pid) - before) / count / 1024
  if (sockets.hasExited()) throw new VoidRun(`idle sockets were closed: ${sockets.output()}`)
  addRow(world, `${count} idle sockets`, { 'KB/socket': kilobytes })
  world.find('idle-socket', kilobytes)
  if (count < IDLE_SOCKETS) world.notes.push(`idle-socket: ${count} sockets only`)
  for (const held of [sockets, warmUp]) await held.stop()
}

/** CPU of one message to the upstream and one back, the opening of the few sockets included. */
const messageRound = async (world: World, peer: Peer, seconds: number) => {
  const before = cpuMicros(peer.pid)
  const flags = { port: peer.port, token: world.token, count: TALKING_SOCKETS, seconds }
  const { messages } = await runLoad<{ messages: number }>('socket-client.ts', flags)
  if (messages === 0) throw new VoidRun(`${peer.name} passed no message`)
  return { [CPU]: (cpuMicros(peer.pid) - before) / messages, 'messages/s': messages / seconds }
}

export const measureWebSocket = async (world: World): Promise<void> => {
  world.notes.push(`messages of 128 bytes, ping-pong over ${TALKING_SOCKETS} sockets, no compression`)
  const { warmUpSeconds, seconds } = world.options
  const echoPort = await startLoadUpstream(world, 'socket-upstream.ts')
  // One person at one address holds all of them here.
  const env = { STREAMS_PER_USER: '100%', STREAMS_PER_IP: '100%' }
  const gateway = await startGateway(world, { routes: route(echoPort), env })
  const peers = [gateway, await startNginx(world, { upstreamPort: echoPort })]
  for (const peer of peers) await messageRound(world, peer, warmUpSeconds)
  const talking = peers.map(peer => ({ name: `${peer.name}, messages`, peer }))
  const [ours, nginx] = await inTurns(world, talking, ({ peer }) => messageRound(world, peer, seconds))
  compare(world, 'message', ours, nginx, CPU)
  await measureIdle(world, gateway)
}

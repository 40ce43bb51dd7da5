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
/** All are open at once: each step opens what is missing. */
const IDLE_STEPS = [
  { target: 'idle-socket-5000', asked: 5000 },
  { target: 'idle-socket', asked: 10_000 }
] as const
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
  const openable = openableSockets()
  const warmUp = await hold(world, gateway, 200)
  const before = residentBytes(gateway.pid)
  const held: Running[] = []
  let open = 0
  for (const { target, asked } of IDLE_STEPS) {
    const count = Math.min(world.options.quick ? asked / 10 : asked, openable)
    if (count > open) held.push(await hold(world, gateway, count - open))
    open = count
    const kilobytes = (residentBytes(gateway.pid) - before) / count / 1024
    const closed = held.find(sockets => sockets.hasExited())
    if (closed !== undefined) throw new VoidRun(`idle sockets were closed: ${closed.output()}`)
    addRow(world, `${count} idle sockets`, { 'KB/socket': kilobytes })
    world.find(target, kilobytes)
    if (count < asked) world.notes.push(`${target}: ${count} sockets only`)
  }
  for (const sockets of [...held, warmUp]) await sockets.stop()
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

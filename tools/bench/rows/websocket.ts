// What an idle authorised WebSocket keeps in memory, and what a message both ways costs beside nginx.
import { execFileSync } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { addRow, compare, inTurns } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { startNginx } from '../peers/nginx.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { cpuMicros, residentBytes } from '../process-cost.ts'
import { startLoadUpstream } from '../processes.ts'
import type { World } from '../world.ts'

const CPU = 'CPU µs/message both ways'
/** All are open at once. */
const IDLE_SOCKETS = 10_000
const TALKING_SOCKETS = 64
const OPENED_AT_ONCE = 50
const MESSAGE = 'x'.repeat(128)

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

const openSocket = ({ token }: World, { port }: Peer): Promise<WebSocket> =>
  new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` }
    const socket = new WebSocket(`ws://127.0.0.1:${port}/live`, { headers, perMessageDeflate: false })
    socket.once('open', () => resolve(socket))
    socket.once('error', reject)
    socket.once('unexpected-response', (_, response) => reject(new Error(`refused with ${response.statusCode}`)))
  })

/** Until the end of the world, or until `close`, which throws VoidRun if any of them was closed before. */
const openSockets = async (world: World, peer: Peer, count: number) => {
  const sockets: WebSocket[] = []
  const close = () => {
    const closed = sockets.filter(({ readyState }) => readyState !== WebSocket.OPEN).length
    for (const socket of sockets.splice(0)) socket.terminate()
    if (closed > 0) throw new VoidRun(`${closed} of ${count} sockets were closed: ${peer.output()}`)
  }
  world.teardown(() => sockets.map(socket => socket.terminate()))
  while (sockets.length < count) {
    const some = Array.from({ length: Math.min(OPENED_AT_ONCE, count - sockets.length) }, () => openSocket(world, peer))
    sockets.push(...(await Promise.all(some)))
  }
  return { sockets, close }
}

const measureIdle = async (world: World, gateway: Peer): Promise<void> => {
  const warmUp = await openSockets(world, gateway, 200)
  const before = residentBytes(gateway.pid)
  const count = Math.min(world.options.quick ? IDLE_SOCKETS / 10 : IDLE_SOCKETS, openableSockets())
  const idle = await openSockets(world, gateway, count)
  const kilobytes = (residentBytes(gateway.pid) - before) / count / 1024
  for (const { close } of [idle, warmUp]) close()
  addRow(world, `${count} idle sockets`, { 'KB/socket': kilobytes })
  world.find('idle-socket', kilobytes)
  if (count < IDLE_SOCKETS) world.notes.push(`idle-socket: ${count} sockets only`)
}

/** CPU of one message to the upstream and one back, the opening of the few sockets included. */
const messageRound = async (world: World, peer: Peer, seconds: number) => {
  const before = cpuMicros(peer.pid)
  const { sockets, close } = await openSockets(world, peer, TALKING_SOCKETS)
  let messages = 0
  for (const socket of sockets) {
    socket.on('message', () => {
      messages += 1
      socket.send(MESSAGE)
    })
    socket.send(MESSAGE)
  }
  await delay(seconds * 1000)
  const micros = cpuMicros(peer.pid) - before
  close()
  if (messages === 0) throw new VoidRun(`${peer.name} passed no message`)
  return { [CPU]: micros / messages, 'messages/s': messages / seconds }
}

export const measureWebSocket = async (world: World): Promise<void> => {
  world.notes.push(`messages of ${MESSAGE.length} bytes, ping-pong over ${TALKING_SOCKETS} sockets, no compression`)
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

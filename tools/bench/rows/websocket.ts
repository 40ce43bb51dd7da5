// What an idle authorised WebSocket keeps in memory, and what a message both ways costs beside nginx.
import { execFileSync } from 'node:child_process'
import { compared, type GroupResult, startOrNote } from '../group.ts'
import type { Row } from '../measure.ts'
import { launchGateway } from '../peers/gateway.ts'
import { startNginxForSockets } from '../peers/nginx.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { cpuMicros, residentBytes } from '../process-cost.ts'
import { type Running, runLoad, startLoad, startLoadUpstream, waitUntil } from '../processes.ts'
import { spread } from '../statistics.ts'
import type { Finding } from '../targets.ts'
import type { World } from '../world.ts'

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

const hold = async (world: World, peer: Peer, count: number): Promise<Running> => {
  const running = startLoad(world, 'socket-client.ts', { port: peer.port, token: world.token, count })
  await waitUntil(running, async () => running.output().includes('"opened"'), 120_000)
  return running
}

const measureIdle = async (world: World, gateway: Peer): Promise<{ rows: Row[]; findings: Finding[] }> => {
  const openable = openableSockets()
  const warmUp = await hold(world, gateway, 200)
  const before = residentBytes(gateway.running.pid)
  const held: Running[] = []
  const rows: Row[] = []
  const findings: Finding[] = []
  let open = 0
  for (const { target, asked } of IDLE_STEPS) {
    const count = Math.min(world.options.quick ? asked / 10 : asked, openable)
    if (count > open) held.push(await hold(world, gateway, count - open))
    open = count
    const kilobytes = (residentBytes(gateway.running.pid) - before) / count / 1024
    const closed = held.find(sockets => sockets.hasExited())
    if (closed !== undefined) throw new VoidRun(`idle sockets were closed: ${closed.output()}`)
    rows.push({ name: `${count} idle sockets`, columns: { 'KB/socket': spread([kilobytes]) } })
    findings.push({ target, value: kilobytes, ...(count === asked ? {} : { note: `${count} sockets only` }) })
  }
  for (const sockets of [...held, warmUp]) await sockets.stop()
  return { rows, findings }
}

/** CPU of one message to the upstream and one back, the opening of the few sockets included. */
const messageRound = async (world: World, peer: Peer, seconds: number) => {
  const before = cpuMicros(peer.running.pid)
  const flags = { port: peer.port, token: world.token, count: TALKING_SOCKETS, seconds }
  const text = await runLoad('socket-client.ts', flags)
  const messages = Number(/"messages":(\d+)/.exec(text)?.[1] ?? 0)
  if (messages === 0) throw new VoidRun(`${peer.name} passed no message`)
  return { cpuMicros: (cpuMicros(peer.running.pid) - before) / messages, perSecond: messages / seconds }
}

const measureMessages = async (world: World, peers: readonly Peer[]) => {
  const { options } = world
  for (const peer of peers) await messageRound(world, peer, options.warmUpSeconds)
  const all = peers.map(peer => ({ peer, cpuMicros: [] as number[], perSecond: [] as number[] }))
  for (let round = 0; round < options.rounds; round += 1) {
    for (const samples of all) {
      const result = await messageRound(world, samples.peer, options.seconds)
      samples.cpuMicros.push(result.cpuMicros)
      samples.perSecond.push(result.perSecond)
    }
  }
  return all
}

const start = async (world: World, upstreamPort: number): Promise<Peer> => {
  // One person at one address holds all of them here.
  const env = { STREAMS_PER_USER: '100%', STREAMS_PER_IP: '100%' }
  const launch = { name: 'Portaria', counting: 'redis', routes: route(upstreamPort), env } as const
  const { gateway, ready } = await launchGateway(world, launch)
  await ready()
  await messageRound(world, gateway, 1)
  return gateway
}

export const measureWebSocket = async (world: World): Promise<GroupResult> => {
  const notes = [`messages of 128 bytes, ping-pong over ${TALKING_SOCKETS} sockets, no compression`]
  const echoPort = await startLoadUpstream(world, 'socket-upstream.ts')
  const nginx = await startOrNote('nginx', notes, () => startNginxForSockets(world, echoPort))
  const gateway = await startOrNote('Portaria', notes, () => start(world, echoPort))

  const talks = await measureMessages(
    world,
    [gateway, nginx].filter(peer => peer !== undefined)
  )
  const of = (peer: Peer | undefined) => talks.find(samples => samples.peer === peer)?.cpuMicros
  const idle = gateway === undefined ? undefined : await measureIdle(world, gateway)
  const rows: Row[] = talks.map(samples => ({
    name: `${samples.peer.name}, messages`,
    columns: { 'CPU µs/message both ways': spread(samples.cpuMicros), 'messages/s': spread(samples.perSecond) }
  }))
  return {
    rows: [...rows, ...(idle?.rows ?? [])],
    findings: [...compared('message', of(gateway), of(nginx)), ...(idle?.findings ?? [])],
    notes
  }
}

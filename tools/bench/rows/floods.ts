// How quickly /health and a quiet person's echo are answered while others flood sockets, with each kind of frame and with all at once.
//
// The slowest of a round is one moment, in which the machine may have done something else: the target is checked by the
// median over the rounds, and a column says how slow any was without the time for which gateway and client waited for a core.
import type { GroupResult } from '../group.ts'
import type { Row } from '../measure.ts'
import { type Gateway, startGateway } from '../peers/gateway.ts'
import { VoidRun } from '../peers/peer.ts'
import { residentBytes } from '../process-cost.ts'
import { type Running, runLoad, startLoad, startLoadUpstream, waitUntil } from '../processes.ts'
import { median, spread } from '../statistics.ts'
import type { World } from '../world.ts'

const KINDS = ['pings', 'messages', 'fragments', 'connects', 'polling'] as const
const FLOODS: readonly { name: string; kinds: readonly string[] }[] = [
  { name: 'no flood', kinds: [] },
  ...KINDS.map(kind => ({ name: kind, kinds: [kind] })),
  { name: 'all together', kinds: KINDS }
]
const SETTLE_MS = 500
/** Without a flood. */
const CALM_MS = 2000

interface Quiet {
  readonly healthMax: number
  readonly healthOnCoreMax: number
  readonly healthMedian: number
  readonly echoMedian: number
  readonly echoMax: number
  readonly count: number
}

interface Flood {
  readonly megabytes: number
  readonly connections: number
  readonly seconds: number
}

const routes = (sink: number, echo: number): string => `
upstreams:
  sink: { url: "http://127.0.0.1:${sink}" }
  echo: { url: "http://127.0.0.1:${echo}" }
routes:
  - { path: /flood, upstream: sink, websocket: {} }
  - { path: /quiet, upstream: echo, websocket: {} }
  - { path: /socket.io/*, upstream: sink, socketio: { namespaces: { /chat: {} } } }
`

/** Floods give way to the quiet person where both want the load core: the gateway is what is measured. */
const pour = async (world: World, gateway: Gateway, kind: string, megabytes: number): Promise<Flood> => {
  const flags = { port: gateway.port, token: world.token, kind, megabytes }
  return JSON.parse(await runLoad('socket-flood.ts', flags, 10)) as Flood
}

const startQuiet = async (world: World, gateway: Gateway): Promise<Running> => {
  const flags = { port: gateway.port, token: world.token, 'gateway-pid': gateway.running.pid }
  const running = startLoad(world, 'quiet-person.ts', flags)
  await waitUntil(running, async () => running.output().includes('"opened"'))
  await new Promise(resolve => setTimeout(resolve, SETTLE_MS))
  return running
}

interface Felt extends Quiet, Flood {
  readonly grownBytes: number
}

/** One flood, of all these kinds at once, beside a quiet person. */
const floodOnce = async (world: World, gateway: Gateway, kinds: readonly string[]): Promise<Felt> => {
  const quiet = await startQuiet(world, gateway)
  const before = residentBytes(gateway.running.pid)
  const floods = await Promise.all(kinds.map(kind => pour(world, gateway, kind, world.options.quick ? 4 : 40)))
  if (kinds.length === 0) await new Promise(resolve => setTimeout(resolve, CALM_MS))
  const grownBytes = residentBytes(gateway.running.pid) - before
  await quiet.stop()
  const said = /\{"healthMax.*\}/.exec(quiet.output())?.[0]
  if (said === undefined) throw new VoidRun(`the quiet person was cut off: ${quiet.output()}`)
  return {
    ...(JSON.parse(said) as Quiet),
    megabytes: floods.reduce((sum, flood) => sum + flood.megabytes, 0),
    seconds: Math.max(0, ...floods.map(({ seconds }) => seconds)),
    connections: floods.reduce((sum, flood) => sum + flood.connections, 0),
    grownBytes
  }
}

const rowOf = (name: string, rounds: readonly Felt[]): Row => {
  const over = (read: (felt: Felt) => number) => spread(rounds.map(read))
  return {
    name,
    columns: {
      'MB sent': over(({ megabytes }) => megabytes),
      seconds: over(({ seconds }) => seconds),
      connections: over(({ connections }) => connections),
      '/health max ms': over(({ healthMax }) => healthMax),
      'less core waits ms': over(({ healthOnCoreMax }) => healthOnCoreMax),
      '/health median ms': over(({ healthMedian }) => healthMedian),
      'echo median ms': over(({ echoMedian }) => echoMedian),
      'echo max ms': over(({ echoMax }) => echoMax),
      'RSS more MB': over(({ grownBytes }) => grownBytes / 1024 / 1024)
    }
  }
}

const slowestOf = (name: string, rounds: readonly Felt[]): string =>
  `${name}: slowest /health of each round ${rounds.map(({ healthMax }) => Math.round(healthMax)).join(', ')} ms`

export const measureFloods = async (world: World): Promise<GroupResult> => {
  const [sink, echo] = [
    await startLoadUpstream(world, 'sink-upstream.ts'),
    await startLoadUpstream(world, 'socket-upstream.ts')
  ]
  const env = { STREAMS_PER_USER: '100%', STREAMS_PER_IP: '100%' }
  const gateway = await startGateway(world, { name: 'Portaria', counting: 'redis', routes: routes(sink, echo), env })
  await floodOnce(world, gateway, [])
  const runs = FLOODS.map(flood => ({ ...flood, rounds: [] as Felt[] }))
  for (let round = 0; round < world.options.rounds; round += 1)
    for (const { kinds, rounds } of runs) rounds.push(await floodOnce(world, gateway, kinds))
  const worst = (read: (felt: Felt) => number) =>
    Math.max(...runs.filter(({ kinds }) => kinds.length > 0).map(({ rounds }) => median(rounds.map(read))))
  return {
    rows: runs.map(({ name, rounds }) => rowOf(name, rounds)),
    findings: [
      { target: 'flood-health', value: worst(({ healthMax }) => healthMax) },
      { target: 'flood-echo', value: worst(({ echoMedian }) => echoMedian) }
    ],
    notes: [
      '20 connections from one address at once, each opened again when the gateway ends it',
      ...runs.map(({ name, rounds }) => slowestOf(name, rounds))
    ]
  }
}

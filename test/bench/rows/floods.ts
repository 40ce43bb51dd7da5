// How quickly /health and a quiet person's echo are answered while others flood sockets, with each kind of frame and with all at once.
import { fileURLToPath } from 'node:url'
import { freePort } from '../../support/ports.ts'
import type { GroupResult } from '../group.ts'
import type { Row } from '../measure.ts'
import { type Gateway, startGateway } from '../peers/gateway.ts'
import { VoidRun } from '../peers/peer.ts'
import { residentBytes } from '../process-cost.ts'
import { accepts, LOAD_CORE, type Running, runPinned, startPinned, waitUntil } from '../processes.ts'
import { spread } from '../statistics.ts'
import type { World } from '../world.ts'

const KINDS = ['pings', 'messages', 'fragments', 'connects', 'polling'] as const
const SETTLE_MS = 500

interface Quiet {
  readonly healthMax: number
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

const script = (name: string) => fileURLToPath(new URL(`../load/${name}`, import.meta.url))

const startUpstream = async (world: World, name: string): Promise<number> => {
  const port = await freePort()
  const start = { command: process.execPath, args: [script(name)], env: { PORT: `${port}` } }
  const running = startPinned({ name, core: LOAD_CORE, ...start })
  world.defer(running.stop)
  await waitUntil(running, () => accepts(port))
  return port
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
  const flags = [`--port=${gateway.port}`, `--token=${world.token}`, `--kind=${kind}`, `--megabytes=${megabytes}`]
  const args = ['-n', '10', process.execPath, script('socket-flood.ts'), ...flags]
  return JSON.parse(await runPinned({ name: kind, core: LOAD_CORE, command: 'nice', args })) as Flood
}

const startQuiet = async (world: World, gateway: Gateway): Promise<Running> => {
  const args = [script('quiet-person.ts'), `--port=${gateway.port}`, `--token=${world.token}`]
  const running = startPinned({ name: 'quiet person', core: LOAD_CORE, command: process.execPath, args })
  world.defer(running.stop)
  await waitUntil(running, async () => running.output().includes('"opened"'))
  await new Promise(resolve => setTimeout(resolve, SETTLE_MS))
  return running
}

const measureFlood = async (world: World, gateway: Gateway, name: string, kinds: readonly string[]) => {
  const megabytes = world.options.quick ? 4 : 40
  const quiet = await startQuiet(world, gateway)
  const before = residentBytes(gateway.running.pid)
  const floods = await Promise.all(kinds.map(kind => pour(world, gateway, kind, megabytes)))
  if (kinds.length === 0) await new Promise(resolve => setTimeout(resolve, 2000))
  const grown = residentBytes(gateway.running.pid) - before
  await quiet.stop()
  const said = /\{"healthMax.*\}/.exec(quiet.output())?.[0]
  if (said === undefined) throw new VoidRun(`the quiet person was cut off: ${quiet.output()}`)
  const felt = JSON.parse(said) as Quiet
  const sent = floods.reduce((sum, flood) => sum + flood.megabytes, 0)
  const row: Row = {
    name,
    columns: {
      'MB sent': spread([sent]),
      seconds: spread([Math.max(0, ...floods.map(({ seconds }) => seconds))]),
      connections: spread([floods.reduce((sum, flood) => sum + flood.connections, 0)]),
      '/health max ms': spread([felt.healthMax]),
      '/health median ms': spread([felt.healthMedian]),
      'echo median ms': spread([felt.echoMedian]),
      'echo max ms': spread([felt.echoMax]),
      'RSS more MB': spread([grown / 1024 / 1024])
    }
  }
  return { row, felt }
}

export const measureFloods = async (world: World): Promise<GroupResult> => {
  const [sink, echo] = [
    await startUpstream(world, 'sink-upstream.ts'),
    await startUpstream(world, 'socket-upstream.ts')
  ]
  const env = { STREAMS_PER_USER: '100%', STREAMS_PER_IP: '100%' }
  const gateway = await startGateway(world, { name: 'Portaria', counting: 'redis', routes: routes(sink, echo), env })
  await measureFlood(world, gateway, 'warm-up', [])
  const runs = [await measureFlood(world, gateway, 'no flood', [])]
  const floods = [...KINDS.map(kind => [kind, [kind]] as const), ['all together', KINDS] as const]
  const flooded = []
  for (const [name, kinds] of floods) flooded.push(await measureFlood(world, gateway, name, kinds))
  return {
    rows: [...runs, ...flooded].map(({ row }) => row),
    findings: [
      { target: 'flood-health', value: Math.max(...flooded.map(({ felt }) => felt.healthMax)) },
      { target: 'flood-echo', value: Math.max(...flooded.map(({ felt }) => felt.echoMedian)) }
    ],
    notes: ['20 connections from one address at once, each opened again when the gateway ends it']
  }
}

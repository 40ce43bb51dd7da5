// How quickly /health and a quiet person's echo are answered while others flood sockets, with each kind of frame and with all at once.
//
// The slowest of a round is one moment, in which the machine may have done something else: the target is checked by the
// median over the rounds, and a column says how slow any was without the time for which gateway and client waited for a core.
import { setTimeout as delay } from 'node:timers/promises'
import { inTurns, MEGABYTE } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import type { Peer } from '../peers/peer.ts'
import { residentBytes } from '../process-cost.ts'
import { runLoad, startLoadUpstream } from '../processes.ts'
import { median } from '../statistics.ts'
import type { World } from '../world.ts'
import { besideQuietPerson, ECHO_MEDIAN, HEALTH_MAX } from './quiet.ts'

const KINDS = ['pings', 'messages', 'fragments', 'connects', 'polling'] as const
const FLOODS: readonly { name: string; kinds: readonly string[] }[] = [
  { name: 'no flood', kinds: [] },
  ...KINDS.map(kind => ({ name: kind, kinds: [kind] })),
  { name: 'all together', kinds: KINDS }
]
const SETTLE_MS = 500
/** Without a flood. */
const CALM_MS = 2000

type Flood = Record<'megabytes' | 'connections' | 'seconds', number>

const routes = (sink: number, echo: number): string => `
upstreams:
  sink: { url: "http://127.0.0.1:${sink}" }
  echo: { url: "http://127.0.0.1:${echo}" }
routes:
  - { path: /flood, upstream: sink, websocket: {} }
  - { path: /quiet, upstream: echo, websocket: {} }
  - { path: /socket.io/*, upstream: sink, socketio: { namespaces: { /chat: {} } } }
`

/** One flood, of all these kinds at once, beside a quiet person. */
const floodOnce = async (world: World, gateway: Peer, kinds: readonly string[]) => {
  const { port, pid } = gateway
  const megabytes = world.options.quick ? 4 : 40
  // Floods give way to the quiet person where both want the load core: the gateway is what is measured.
  const pour = (kind: string) => runLoad<Flood>('socket-flood.ts', { port, token: world.token, kind, megabytes })
  const { result, felt } = await besideQuietPerson(world, gateway, '/quiet', async () => {
    await delay(SETTLE_MS)
    const before = residentBytes(pid)
    const floods = await Promise.all(kinds.map(pour))
    if (kinds.length === 0) await delay(CALM_MS)
    return { floods, grownBytes: residentBytes(pid) - before }
  })
  const sum = (read: (flood: Flood) => number) => result.floods.reduce((all, flood) => all + read(flood), 0)
  return {
    'MB sent': sum(flood => flood.megabytes),
    seconds: Math.max(0, ...result.floods.map(({ seconds }) => seconds)),
    connections: sum(flood => flood.connections),
    ...felt,
    'RSS more MB': result.grownBytes / MEGABYTE
  }
}

export const measureFloods = async (world: World): Promise<void> => {
  const sink = await startLoadUpstream(world, 'sink-upstream.ts')
  const echo = await startLoadUpstream(world, 'socket-upstream.ts')
  const env = { STREAMS_PER_USER: '100%', STREAMS_PER_IP: '100%' }
  const gateway = await startGateway(world, { routes: routes(sink, echo), env })
  await floodOnce(world, gateway, [])
  const rows = await inTurns(world, FLOODS, ({ kinds }) => floodOnce(world, gateway, kinds))
  const worst = (column: string) => Math.max(...rows.slice(1).map(({ figures }) => median(figures[column] ?? [])))
  world.find('flood-health', worst(HEALTH_MAX))
  world.find('flood-echo', worst(ECHO_MEDIAN))
  world.notes.push('20 connections from one address at once, each opened again when the gateway ends it')
  for (const { name, figures } of rows)
    world.notes.push(`${name}: slowest /health of each round ${figures[HEALTH_MAX]?.map(Math.round).join(', ')} ms`)
}

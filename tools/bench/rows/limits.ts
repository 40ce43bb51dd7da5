// What a refused request costs, how often Redis is asked, and whether two instances ever admit more than one limit.
import { compared, type GroupResult, startOrNote, together } from '../group.ts'
import { interleave, requests } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { ask, probe, VoidRun } from '../peers/peer.ts'
import { startRelay } from '../peers/relay.ts'
import { runLoad } from '../processes.ts'
import { monitorRedis } from '../redis-monitor.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

/** Longer than any run, so that no window ends in it. */
const LONG_WINDOW_MS = 3_600_000
const ADDRESSES = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5']
const TIMES_THE_LIMIT = 10

/** Each row counts in a Redis database of its own. */
const startCounting = async (world: World, name: string, database: number, max?: number) => {
  const limit = max === undefined ? {} : { RATE_LIMIT_MAX: `${max}`, RATE_LIMIT_TTL_MS: `${LONG_WINDOW_MS}` }
  return startGateway(world, { name, env: { ...limit, REDIS_URL: `${await world.redisUrl()}/${database}` } })
}

const measureRefused = async (world: World): Promise<GroupResult> => {
  const authorised = await startCounting(world, 'authorised request', 1)
  const limited = await startCounting(world, 'over-limit request', 2, 1)
  await probe(authorised, world.secret, world.token)
  while ((await ask(limited.port, BENCH_PATH, world.token)).status === 200) console.log('using up the one permit')
  const relay = await startRelay(world)
  const rows = await interleave(world, [
    requests(world, authorised),
    { ...requests(world, limited), isRefused: true },
    requests(world, relay)
  ])
  await probe(authorised, world.secret, world.token)
  await Promise.all([authorised, limited, relay].map(each => each.running.stop()))
  return { rows, findings: compared('over-limit', rows[1], rows[2]) }
}

interface Flooded {
  readonly address: string
  readonly admitted: number
  readonly limited: number
  readonly other: number
}

const measureFlood = async (world: World): Promise<GroupResult> => {
  const max = world.options.quick ? 300 : 3000
  const count = max * TIMES_THE_LIMIT
  const first = await startCounting(world, 'first instance', 3, max)
  const second = await startCounting(world, 'second instance', 3, max)
  const monitor = await monitorRedis(await world.redisUrl())
  const flags = { ports: [first.port, second.port], addresses: ADDRESSES, path: BENCH_PATH, token: world.token, count }
  const results = await runLoad<Flooded[]>('flood.ts', flags)
  const commands = await monitor.stop()
  await Promise.all([first.running.stop(), second.running.stop()])

  const odd = results.find(result => result.other > 0 || result.admitted === 0)
  if (odd !== undefined) throw new VoidRun(`the flood from ${odd.address} got other answers: ${JSON.stringify(odd)}`)
  const perRequest = [...commands.values()].reduce((sum, one) => sum + one, 0) / (count * ADDRESSES.length)
  const admitted = results.map(each => each.admitted / max)
  const name = `${ADDRESSES.length} addresses at ${TIMES_THE_LIMIT} × max over two instances`
  return {
    rows: [{ name, figures: { 'admitted ÷ max': admitted, 'Redis commands/request': [perRequest] } }],
    findings: [
      { target: 'redis-commands', values: [perRequest] },
      { target: 'admitted', values: [Math.max(...admitted)] }
    ],
    notes: [
      `max ${max}; Redis saw ${[...commands].map(([command, times]) => `${command} × ${times}`).join(', ') || 'nothing'}`
    ]
  }
}

export const measureLimits = async (world: World): Promise<GroupResult> => {
  const notes: string[] = []
  return together(
    await startOrNote('over-limit request', notes, () => measureRefused(world)),
    await startOrNote('flood', notes, () => measureFlood(world)),
    { rows: [], notes }
  )
}

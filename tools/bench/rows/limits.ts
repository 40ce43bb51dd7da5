// What a refused request costs, how often Redis is asked, and whether two instances ever admit more than one limit.
import { compared, type GroupResult, startOrNote } from '../group.ts'
import { interleave, type Row, toRow } from '../measure.ts'
import { type Gateway, oneRoute, startGateway } from '../peers/gateway.ts'
import { ask, probe, VoidRun } from '../peers/peer.ts'
import { startRelay } from '../peers/relay.ts'
import { runLoad } from '../processes.ts'
import { monitorRedis } from '../redis-monitor.ts'
import { spread } from '../statistics.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'
import { known } from './http.ts'

/** Longer than any run, so that no window ends in it. */
const LONG_WINDOW_MS = 3_600_000
const ADDRESSES = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5']
const TIMES_THE_LIMIT = 10

/** Each row counts in a Redis database of its own. */
const startCounting = async (world: World, name: string, database: number, env: Readonly<Record<string, string>>) => {
  const REDIS_URL = `${await world.redisUrl()}/${database}`
  const routes = oneRoute(world.upstream.checkedPort)
  return startGateway(world, { name, counting: 'redis', routes, env: { ...env, REDIS_URL } })
}

const measureRefused = async (world: World): Promise<GroupResult> => {
  const authorised = await startCounting(world, 'authorised request', 1, {})
  const env = { RATE_LIMIT_MAX: '1', RATE_LIMIT_TTL_MS: `${LONG_WINDOW_MS}` }
  const limited = await startCounting(world, 'over-limit request', 2, env)
  await probe(authorised, world.secret, world.token)
  while ((await ask(limited.port, BENCH_PATH, world.token)).status === 200) world.say('using up the one permit')

  const relay = await startRelay(world)
  const all = await interleave(world, [
    known(world, authorised),
    { ...known(world, limited), isRefused: true },
    known(world, relay)
  ])
  await probe(authorised, world.secret, world.token)
  await Promise.all([authorised, limited, relay].map(each => each.running.stop()))
  return {
    rows: all.map(toRow),
    findings: compared('over-limit', all[1]?.cpuMicros, all[2]?.cpuMicros),
    notes: []
  }
}

interface Flooded {
  readonly address: string
  readonly admitted: number
  readonly limited: number
  readonly other: number
}

const flood = async (world: World, gateways: readonly Gateway[], count: number): Promise<Flooded[]> => {
  const ports = gateways.map(gateway => gateway.port).join(',')
  const flags = { ports, addresses: ADDRESSES.join(','), path: BENCH_PATH, token: world.token, count }
  return JSON.parse(await runLoad('flood.ts', flags)) as Flooded[]
}

const measureFlood = async (world: World): Promise<GroupResult> => {
  const max = world.options.quick ? 300 : 3000
  const env = { RATE_LIMIT_MAX: `${max}`, RATE_LIMIT_TTL_MS: `${LONG_WINDOW_MS}` }
  const first = await startCounting(world, 'first instance', 3, env)
  const second = await startCounting(world, 'second instance', 3, env)

  const monitor = await monitorRedis(await world.redisUrl())
  const results = await flood(world, [first, second], max * TIMES_THE_LIMIT)
  const commands = await monitor.stop()
  await Promise.all([first.running.stop(), second.running.stop()])

  const odd = results.find(result => result.other > 0 || result.admitted === 0)
  if (odd !== undefined) throw new VoidRun(`the flood from ${odd.address} got other answers: ${JSON.stringify(odd)}`)
  const requests = max * TIMES_THE_LIMIT * ADDRESSES.length
  const sent = [...commands.values()].reduce((sum, count) => sum + count, 0)
  const row: Row = {
    name: `${ADDRESSES.length} addresses at ${TIMES_THE_LIMIT} × max over two instances`,
    columns: {
      'admitted ÷ max': spread(results.map(each => each.admitted / max)),
      'Redis commands/request': spread([sent / requests])
    }
  }
  return {
    rows: [row],
    findings: [
      { target: 'redis-commands', value: sent / requests },
      { target: 'admitted', value: Math.max(...results.map(each => each.admitted / max)) }
    ],
    notes: [
      `max ${max}; Redis saw ${[...commands].map(([name, count]) => `${name} × ${count}`).join(', ') || 'nothing'}`
    ]
  }
}

export const measureLimits = async (world: World): Promise<GroupResult> => {
  const notes: string[] = []
  const refused = await startOrNote('over-limit request', notes, () => measureRefused(world))
  const flooded = await startOrNote('flood', notes, () => measureFlood(world))
  const parts = [refused, flooded].filter(part => part !== undefined)
  return {
    rows: parts.flatMap(part => part.rows),
    findings: parts.flatMap(part => part.findings),
    notes: [...notes, ...parts.flatMap(part => part.notes)]
  }
}

// What a refused request costs, how often Redis is asked, and whether two instances ever admit more than one limit.
import { Redis } from 'ioredis'
import { connect } from '../load/http-client.ts'
import { addRow, compare, interleave, requests } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { startRelay } from '../peers/others.ts'
import { ask, probe, VoidRun } from '../peers/peer.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

/** Longer than any run, so that no window ends in it. */
const LONG_WINDOW_MS = 3_600_000
const ADDRESSES = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5']
const TIMES_THE_LIMIT = 10

/** Each measurement counts in a Redis database of its own. */
const startCounting = async (world: World, name: string, database: number, max?: number) => {
  const limit = max === undefined ? {} : { RATE_LIMIT_MAX: `${max}`, RATE_LIMIT_TTL_MS: `${LONG_WINDOW_MS}` }
  return startGateway(world, { name, env: { ...limit, REDIS_URL: `${await world.redisUrl()}/${database}` } })
}

export const measureLimits = async (world: World): Promise<void> => {
  await measureRefused(world)
  await measureFlood(world)
}

const measureRefused = async (world: World): Promise<void> => {
  const authorised = await startCounting(world, 'authorised request', 1)
  const limited = await startCounting(world, 'over-limit request', 2, 1)
  const relay = await startRelay(world)
  await probe(authorised, world)
  while ((await ask(limited.port, BENCH_PATH, world.token)).status === 200) console.log('using up the one permit')
  const [, refused, unit] = await interleave(world, [
    requests(world, authorised),
    { ...requests(world, limited), isRefused: true },
    requests(world, relay)
  ])
  await probe(authorised, world)
  compare(world, 'over-limit', refused, unit)
  await Promise.all([authorised, limited, relay].map(each => each.stop()))
}

/** To each port from each address. */
const CONNECTIONS = 8

/** Sends so many requests from an address over all ports: how many were admitted, and other answers than that and 429. */
const floodFrom = async ({ token }: World, address: string, ports: readonly number[], count: number) => {
  let left = count
  const result = { address, admitted: 0, other: 0 }
  const work = async (port: number) => {
    const slot = await connect(port, address)
    const request = `GET ${BENCH_PATH} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n\r\n`
    while (left > 0) {
      left -= 1
      const status = await new Promise<number>(done => slot.send(request, done))
      if (status === 200) result.admitted += 1
      else if (status !== 429) result.other += 1
    }
    slot.close()
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, () => ports.map(work)).flat())
  return result
}

const measureFlood = async (world: World): Promise<void> => {
  const max = world.options.quick ? 300 : 3000
  const count = max * TIMES_THE_LIMIT
  const instances = await Promise.all(['first', 'second'].map(name => startCounting(world, `${name} instance`, 3, max)))
  const redis = new Redis(await world.redisUrl())
  const before = await leaseCommands(redis)
  const ports = instances.map(({ port }) => port)
  const results = await Promise.all(ADDRESSES.map(address => floodFrom(world, address, ports, count)))
  const perRequest = ((await leaseCommands(redis)) - before) / (count * ADDRESSES.length)
  redis.disconnect()
  await Promise.all(instances.map(each => each.stop()))

  const odd = results.find(result => result.other > 0 || result.admitted === 0)
  if (odd !== undefined) throw new VoidRun(`the flood from ${odd.address} got other answers: ${JSON.stringify(odd)}`)
  const admitted = Math.max(...results.map(each => each.admitted / max))
  const name = `${ADDRESSES.length} addresses at ${TIMES_THE_LIMIT} × max over two instances`
  addRow(world, name, { 'admitted ÷ max': admitted, 'Redis commands/request': perRequest })
  world.find('redis-commands', perRequest)
  world.find('admitted', admitted)
}

/** How often Redis has run the script that lends permits. */
const leaseCommands = async (redis: Redis): Promise<number> => {
  const calls = [...(await redis.info('commandstats')).matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)]
  return calls.reduce((sum, [, count]) => sum + Number(count), 0)
}

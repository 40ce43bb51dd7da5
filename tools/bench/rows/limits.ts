// What a refused request costs beside an authorised one and a relay; `npm run exact` asks what is admitted.
import { compare, interleave, requests } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { ask, probe } from '../peers/peer.ts'
import { startRelay } from '../peers/relay.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

/** Longer than any run, so that no window ends in it. */
const LIMIT = { RATE_LIMIT_MAX: '1', RATE_LIMIT_TTL_MS: '3600000' }

export const measureLimits = async (world: World): Promise<void> => {
  const redisUrl = await world.redisUrl()
  // Each counts in a Redis database of its own.
  const start = (name: string, database: number, env = {}) =>
    startGateway(world, { name, env: { ...env, REDIS_URL: `${redisUrl}/${database}` } })
  const authorised = await start('authorised request', 1)
  const limited = await start('over-limit request', 2, LIMIT)
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
}

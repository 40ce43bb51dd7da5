// Tries what the gateway needs of Redis: exact limits over two instances, a narrow ACL, a restart, and HAProxy in front.
import { equal, ok } from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { startGateway, type World } from '../../../test/support/gateway.ts'
import { freePort } from '../../../test/support/ports.ts'
import { startPostgres } from '../../../test/support/postgres.ts'
import { startRedis } from '../../../test/support/redis.ts'
import { makeFolder, startProgram } from '../../../test/support/server-process.ts'
import { until } from '../../../test/support/until.ts'
import { words } from '../../../test/support/words.ts'
import { type Case, silent } from '../cases.ts'

const MAX = 50
/** As in docs/operate.md. */
const RULES = words`~portaria:* &portaria:* +@read +@write +@scripting +@pubsub +@connection +info +time`

const start = async (t: Test, url: string): Promise<readonly World[]> => {
  const postgres = await startPostgres(t)
  const env = { REDIS_URL: url, RATE_LIMIT_MAX: String(MAX), RATE_LIMIT_TTL_MS: '600000', TRUST_PROXY: '127.0.0.1' }
  return [await startGateway(t, { postgres, env }), await startGateway(t, { postgres, env })]
}

let asked = 0

/** /health counts too, so each time another client asks. */
const limiterOf = async (world: World): Promise<string> => {
  const headers = { 'x-forwarded-for': `198.18.${asked >> 8}.${asked++ & 255}` }
  return (await world.json<{ checks: { rateLimit: string } }>('/health', { headers })).checks.rateLimit
}

/** How many of 120 requests are admitted. */
const admitted = async (worlds: readonly World[]): Promise<number> => {
  const ask = (n: number) => (worlds[n % worlds.length] as World).fetch('/nothing')
  const statuses = await Promise.all(Array.from({ length: 120 }, async (_, n) => (await ask(n)).status))
  return statuses.filter(status => status !== 429).length
}

/** The state of the limiter after another request. */
const stateOf = async (world: World): Promise<string> => {
  await world.fetch('/nothing')
  return limiterOf(world)
}

const runLimit = async (t: Test, program: string): Promise<void> => {
  const redis = await startRedis(t, [], program)
  await redis.command('ACL', 'SETUSER', 'portaria', 'on', '>secret', 'resetchannels', ...RULES)
  const worlds = await start(t, `redis://portaria:secret@127.0.0.1:${redis.port}`)
  equal(await admitted(worlds), MAX)
  for (const world of worlds) equal(await limiterOf(world), 'ok')
}

const runRestart = async (t: Test, program: string): Promise<void> => {
  const redis = await startRedis(t, [], program)
  const [world] = (await start(t, redis.url)) as [World]
  await admitted([world])
  await redis.kill()
  await until(async () => (await stateOf(world)) === 'degraded')
  await redis.restart()
  await until(async () => (await stateOf(world)) === 'ok')
}

const configuration = (port: number, servers: readonly number[]) => `
global
  maxconn 200
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
listen redis
  bind 127.0.0.1:${port}
  option tcp-check
  tcp-check send PING\\r\\n
  tcp-check expect string +PONG
  tcp-check send info\\ replication\\r\\n
  tcp-check expect string role:master
  default-server inter 200ms fall 1 rise 1 on-marked-down shutdown-sessions
${servers.map((each, n) => `  server redis${n} 127.0.0.1:${each} check`).join('\n')}
`

const runBehindHaproxy = async (t: Test): Promise<void> => {
  const [one, two] = [await startRedis(t), await startRedis(t)]
  await two.command('REPLICAOF', '127.0.0.1', String(one.port))
  const file = join(makeFolder(t, 'haproxy'), 'haproxy.cfg')
  const port = await freePort()
  writeFileSync(file, configuration(port, [one.port, two.port]))
  await startProgram(t, 'haproxy', ['-db', '-f', file], port)
  const worlds = await start(t, `redis://127.0.0.1:${port}`)
  for (const world of worlds) await until(async () => (await limiterOf(world)) === 'ok')
  await two.command('REPLICAOF', 'NO', 'ONE')
  await one.command('REPLICAOF', '127.0.0.1', String(two.port))
  for (const world of worlds)
    await until(async () => (await stateOf(world)) === 'ok' && (await two.command('DBSIZE')) !== '0')
  ok((await admitted(worlds)) <= MAX)
}

export const redisCases = (program: string): readonly Case<Test>[] => [
  silent('two gateways admit exactly the limit, as a user with the ACL of docs/operate.md', t => runLimit(t, program)),
  silent('it is restarted empty: counted locally meanwhile, then there again', t => runRestart(t, program))
]

export const haproxyCases: readonly Case<Test>[] = [
  silent('primary and replica behind it change places: limits are counted at the new primary', runBehindHaproxy)
]

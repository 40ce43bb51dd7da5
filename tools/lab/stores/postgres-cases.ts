// Tries what operators do with Postgres: fail-overs with and without loss, poolers, and a role that may not change the schema.
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { openDatabase } from '../../../gateway/store/database.ts'
import { runFailOver } from '../../../test/support/fail-over-world.ts'
import { signToken, startGateway, TEST_SECRET } from '../../../test/support/gateway.ts'
import { routeFile, spawnGateway } from '../../../test/support/gateway-process.ts'
import { startPgBouncer } from '../../../test/support/pgbouncer.ts'
import { startOwnPostgres } from '../../../test/support/postgres.ts'
import { quiet } from '../../../test/support/quiet.ts'
import { until } from '../../../test/support/until.ts'
import type { StoreCase } from './run.ts'

const PEOPLE = 100
const SATURATED_MS = 20_000
const POOLED = 6
/** What is never confirmed is given up after this time, also on a busy machine. */
const UNHURRIED = { acquireMs: 10_000, statementMs: 20_000, workMs: 25_000 }

export const postgresCases = (bin: string): readonly StoreCase[] => [
  {
    name: 'a standby without the last 1.5 s is promoted: three gateways, 100 people, one instance away for longer',
    run: async t => runFailOver(t, await startOwnPostgres(t, [], { bin }), PEOPLE)
  },
  {
    name: 'a synchronous standby: while it is away nothing is confirmed; once it is promoted nothing is missing',
    run: t => runSynchronous(t, bin)
  },
  { name: 'a role that may only read and write rows, after `migrate` by the owner', run: t => runAsWriter(t, bin) }
]

export const poolerCases: readonly StoreCase[] = [
  {
    name: 'pool_mode=transaction, default_pool_size=6: saturated twice for 20 s; then no 503 is left, and SIGTERM ends in time',
    run: runSaturated
  }
]

const runSynchronous = async (t: Test, bin: string): Promise<string[]> => {
  const postgres = await startOwnPostgres(t, [], { bin })
  const standby = await postgres.addStandby('near')
  await postgres.query("ALTER SYSTEM SET synchronous_standby_names = 'near'")
  await postgres.query('SELECT pg_reload_conf()')
  const url = `postgres://postgres@127.0.0.1:${postgres.port},127.0.0.1:${standby.port}${new URL(postgres.url).pathname}`
  const world = await startGateway(t, { postgres: { url }, limits: { databaseDeadlines: UNHURRIED } })
  const token = async (jti: string) => world.tokenFor({}, { jti })
  const logOut = async (of: string) => (await world.fetch('/auth/logout', { method: 'POST', token: of })).status
  const database = async () => {
    const { checks } = (await (await world.fetch('/health')).json()) as { checks: { database: string } }
    return checks.database
  }
  const faults: string[] = []
  const [kept, unconfirmed] = [await token('kept'), await token('unconfirmed')]
  const confirmed = await logOut(kept)
  if (confirmed !== 204) faults.push(`a logout is answered ${confirmed}`)
  await standby.stop()
  const status = await logOut(unconfirmed)
  if (status !== 503) faults.push(`without the standby a logout is answered ${status}`)
  await until(async () => (await database()) === 'degraded')
  await standby.start()
  await until(async () => (await database()) === 'ok')
  await postgres.kill()
  await standby.promote()
  // The promoted server has nobody to wait for.
  await until(async () => (await database()) === 'ok')
  const restarted = await startGateway(t, { postgres: { url } })
  const after = (await restarted.fetch('/auth/me', { token: kept })).status
  if (after !== 401) faults.push(`a token that was ended is answered ${after} after the fail-over`)
  return faults
}

const WRITER = `CREATE ROLE writer LOGIN;
  GRANT USAGE ON SCHEMA public TO writer;
  GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer;
  GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO writer;
  REVOKE CREATE ON SCHEMA public FROM PUBLIC`

const runAsWriter = async (t: Test, bin: string): Promise<string[]> => {
  const postgres = await startOwnPostgres(t, [], { bin })
  const owner = await openDatabase({ databaseUrl: postgres.url, dataDir: '/nonexistent', log: quiet })
  await owner.close()
  await postgres.query(WRITER)
  const world = await startGateway(t, { postgres: { url: postgres.url.replace('postgres@', 'writer@') } })
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  const faults: string[] = []
  const body = JSON.stringify({ name: 'Norte' })
  const headers = { 'content-type': 'application/json' }
  const made = await world.fetch('/auth/admin/areas', { method: 'POST', token: admin, headers, body })
  if (made.status !== 201) faults.push(`a new area is answered ${made.status}`)
  const { checks } = (await (await world.fetch('/health')).json()) as { checks: Record<string, string> }
  if (checks.database !== 'ok' || checks.audit === 'broken') faults.push(`health: ${JSON.stringify(checks)}`)
  return faults
}

async function runSaturated(t: Test): Promise<string[]> {
  const postgres = await startOwnPostgres(t)
  const pooler = await startPgBouncer(t, postgres.url, ['pool_mode = transaction', `default_pool_size = ${POOLED}`])
  const gateway = spawnGateway(t, {
    JWT_SECRET: TEST_SECRET,
    DATABASE_URL: pooler.url,
    DATABASE_LISTEN_URL: postgres.url,
    UPSTREAM_CONFIG: routeFile(t, { upstreams: {}, routes: [] }).folder,
    HOST: '127.0.0.1',
    PORT: '0',
    DATABASE_POOL_SIZE: '5',
    DRAIN_TIMEOUT: '2s',
    RATE_LIMIT_MAX: '100000'
  })
  const { port } = await gateway.logged('listening')
  const authorization = `Bearer ${await signToken(TEST_SECRET, { profiles: ['Admin'] })}`
  const ask = async () =>
    (await fetch(`http://127.0.0.1:${port}/auth/admin/users`, { headers: { authorization } })).status
  const faults: string[] = []
  for (const round of [1, 2]) {
    const release = await pooler.hold(POOLED)
    const asked: Promise<number>[] = []
    for (const until = Date.now() + SATURATED_MS; Date.now() < until; await delay(250)) asked.push(ask())
    await release()
    await Promise.all(asked)
    const afterwards = await settle(ask)
    if (afterwards.some(status => status !== 200)) faults.push(`round ${round}: afterwards ${afterwards}`)
  }
  const busy = await postgres.query(
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
  )
  if (busy.length > 0) faults.push(`${busy.length} connections are left in a transaction`)
  const from = performance.now()
  gateway.signal('SIGTERM')
  if ((await gateway.ended) !== 0) faults.push('SIGTERM does not end it well')
  if (performance.now() - from > 10_000) faults.push('SIGTERM takes too long')
  return faults
}

/** What twenty requests, one after the other, are answered once the first has gone through. */
const settle = async (ask: () => Promise<number>): Promise<number[]> => {
  await until(async () => (await ask()) === 200)
  const statuses: number[] = []
  for (let n = 0; n < 20; n++) statuses.push(await ask())
  return statuses
}

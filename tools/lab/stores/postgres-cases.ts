// Tries what operators do with Postgres: fail-overs with and without loss, poolers, and a role that may not change the schema.
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { openDatabase } from '../../../gateway/store/database.ts'
import { runFailOver } from '../../../test/support/fail-over-world.ts'
import { signToken, startGateway, TEST_SECRET } from '../../../test/support/gateway.ts'
import { routeFile, startGatewayProcess } from '../../../test/support/gateway-process.ts'
import { jsonRequest } from '../../../test/support/login.ts'
import { startPgBouncer } from '../../../test/support/pgbouncer.ts'
import { startOwnPostgres } from '../../../test/support/postgres.ts'
import { quiet } from '../../../test/support/quiet.ts'
import { until } from '../../../test/support/until.ts'
import { type Case, silent } from '../cases.ts'

const PEOPLE = 100
const SATURATED_MS = 20_000
const POOLED = 6
/** What is never confirmed is given up after this time, also on a busy machine. */
const UNHURRIED = { acquireMs: 10_000, statementMs: 20_000, workMs: 25_000 }

const runSynchronous = async (t: Test, bin: string): Promise<void> => {
  const postgres = await startOwnPostgres(t, [], { bin })
  const standby = await postgres.addStandby('near')
  await postgres.query("ALTER SYSTEM SET synchronous_standby_names = 'near'")
  await postgres.query('SELECT pg_reload_conf()')
  const url = `postgres://postgres@127.0.0.1:${postgres.port},127.0.0.1:${standby.port}${new URL(postgres.url).pathname}`
  const world = await startGateway(t, { postgres: { url }, limits: { databaseDeadlines: UNHURRIED } })
  const token = async (jti: string) => world.tokenFor({}, { jti })
  const logOut = async (of: string) => (await world.fetch('/auth/logout', { method: 'POST', token: of })).status
  const untilDatabase = (state: string) => until(async () => (await world.health()).checks.database === state)
  const [kept, unconfirmed] = [await token('kept'), await token('unconfirmed')]
  equal(await logOut(kept), 204)
  await standby.stop()
  equal(await logOut(unconfirmed), 503, 'a logout without the standby')
  await untilDatabase('degraded')
  await standby.start()
  await untilDatabase('ok')
  await postgres.kill()
  await standby.promote()
  // The promoted server waits for no standby.
  await untilDatabase('ok')
  const restarted = await startGateway(t, { postgres: { url } })
  equal((await restarted.fetch('/auth/me', { token: kept })).status, 401, 'an ended token after the fail-over')
}

const WRITER = `CREATE ROLE writer LOGIN;
  GRANT USAGE ON SCHEMA public TO writer;
  GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer;
  GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO writer;
  REVOKE CREATE ON SCHEMA public FROM PUBLIC`

const runAsWriter = async (t: Test, bin: string): Promise<void> => {
  const postgres = await startOwnPostgres(t, [], { bin })
  const owner = await openDatabase({ databaseUrl: postgres.url, dataDir: '/nonexistent', log: quiet })
  await owner.close()
  await postgres.query(WRITER)
  const world = await startGateway(t, { postgres: { url: postgres.url.replace('postgres@', 'writer@') } })
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  const made = await world.fetch('/auth/admin/areas', jsonRequest('POST', admin, { name: 'Norte' }))
  equal(made.status, 201, 'a new area')
  const { database, audit } = (await world.health()).checks
  equal(database, 'ok')
  notEqual(audit, 'broken')
}

const runSaturated = async (t: Test): Promise<void> => {
  const postgres = await startOwnPostgres(t)
  const pooler = await startPgBouncer(t, postgres.url, ['pool_mode = transaction', `default_pool_size = ${POOLED}`])
  const gateway = await startGatewayProcess(t, routeFile(t, { upstreams: {}, routes: [] }).folder, {
    DATABASE_URL: pooler.url,
    DATABASE_LISTEN_URL: postgres.url,
    DATABASE_POOL_SIZE: '5'
  })
  // A kept connection could be closed just as the next request is sent.
  const headers = {
    authorization: `Bearer ${await signToken(TEST_SECRET, { profiles: ['Admin'] })}`,
    connection: 'close'
  }
  const ask = async () => (await fetch(`http://127.0.0.1:${gateway.port}/auth/admin/users`, { headers })).status
  for (const round of [1, 2]) {
    const release = await pooler.hold(POOLED)
    const asked: Promise<number>[] = []
    for (const end = Date.now() + SATURATED_MS; Date.now() < end; await delay(250)) asked.push(ask())
    await release()
    await Promise.all(asked)
    await until(async () => (await ask()) === 200)
    for (let n = 0; n < 20; n++) equal(await ask(), 200, `after round ${round}`)
  }
  const inTransaction = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
  equal((await postgres.query(inTransaction)).length, 0, 'connections left in a transaction')
  const from = performance.now()
  gateway.signal('SIGTERM')
  equal(await gateway.ended, 0)
  ok(performance.now() - from < 10_000, 'SIGTERM takes too long')
}

export const postgresCases = (bin: string): readonly Case<Test>[] => [
  silent(
    'a standby without the last 1.5 s is promoted: three gateways, 100 people, one instance away for longer',
    async t => deepEqual(await runFailOver(t, await startOwnPostgres(t, [], { bin }), PEOPLE), [])
  ),
  silent('a synchronous standby: while it is away nothing is confirmed; once it is promoted nothing is missing', t =>
    runSynchronous(t, bin)
  ),
  silent('a role that may only read and write rows, after `migrate` by the owner', t => runAsWriter(t, bin))
]

export const poolerCases: readonly Case<Test>[] = [
  silent(
    'pool_mode=transaction, default_pool_size=6: saturated twice for 20 s; then no 503 is left, and SIGTERM ends in time',
    runSaturated
  )
]

// Behind PgBouncer the store keeps its deadlines and its connections, and its listener says when it hears nothing.
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { DatabaseUnavailable } from '../../gateway/store/database-errors.ts'
import { startOnlineSteps } from '../../gateway/store/online-steps.ts'
import { signToken, startGateway, TEST_SECRET } from '../support/gateway.ts'
import { routeFile, startGatewayProcess } from '../support/gateway-process.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { startPgBouncer } from '../support/pgbouncer.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { openBare } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const FEW = ['pool_mode = transaction', 'default_pool_size = 5']
/** Without it, an earlier version did not start here. */
const IGNORED = 'ignore_startup_parameters = statement_timeout'
const IMPATIENT = { acquireMs: 200, statementMs: 400, workMs: 500 }

const open = (test: Test, databaseUrl: string, deadlines = IMPATIENT) => openBare(test, databaseUrl, { deadlines })

/** One after the other, so that each opens a connection of its own. */
const staggered = async <T>(count: number, work: () => Promise<T>): Promise<Promise<PromiseSettledResult<T>[]>[]> => {
  const started: Promise<PromiseSettledResult<T>[]>[] = []
  for (let n = 0; n < count; n++) {
    started.push(Promise.allSettled([work()]))
    await delay(10)
  }
  return started
}

// RV-75
t.test('a pooler that is saturated again and again costs no connection of the pool', async t => {
  const url = await postgres.newDatabase()
  const pooler = await startPgBouncer(t, url, [...FEW, IGNORED])
  const database = await open(t, pooler.url)
  const ask = () => database.read(manager => manager.query('SELECT pg_sleep(0.01)'))
  for (const _ of [1, 2]) {
    const release = await pooler.hold(5)
    const asked = await staggered(40, ask)
    await delay(2 * IMPATIENT.workMs)
    await release()
    for (const [outcome] of await Promise.all(asked))
      if (outcome?.status === 'rejected') t.ok(outcome.reason instanceof DatabaseUnavailable)
  }
  await until(async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, ask))
    return outcomes.every(({ status }) => status === 'fulfilled')
  }, 'all places are back')
  const ownTimeMs = measureOwnTime()
  await database.close()
  t.ok(ownTimeMs() < 1_000, 'it closes at once')
})

// RV-75
t.test('SIGTERM ends the process in time after and while a pooler was saturated', async t => {
  const url = await postgres.newDatabase()
  const pooler = await startPgBouncer(t, url, [...FEW, IGNORED])
  const gateway = await startGatewayProcess(t, routeFile(t, { routes: [] }).folder, { DATABASE_URL: pooler.url })
  const { port } = gateway
  const authorization = `Bearer ${await signToken(TEST_SECRET, { profiles: ['Admin'] })}`
  const ask = () => fetch(`http://127.0.0.1:${port}/auth/admin/users`, { headers: { authorization } })
  const release = await pooler.hold(5)
  for (const [outcome] of await Promise.all(await staggered(20, ask)))
    t.match(outcome, { status: 'fulfilled', value: { status: 503 } })
  await release()
  await until(async () => (await ask()).status === 200)
  await pooler.hold(5)
  const asked = await staggered(20, ask)
  const ownTimeMs = measureOwnTime()
  gateway.signal('SIGTERM')
  t.equal(await gateway.ended, 0)
  t.ok(ownTimeMs() < 5_000, `${ownTimeMs()}`)
  await Promise.all(asked)
})

// RV-106
t.test('a pooler with its default settings is used, and statements keep their deadline at the server', async t => {
  const url = await postgres.newDatabase()
  for (const mode of ['session', 'transaction']) {
    const pooler = await startPgBouncer(t, url, [`pool_mode = ${mode}`, 'default_pool_size = 3'])
    const database = await open(t, pooler.url, { acquireMs: 60_000, statementMs: 400, workMs: 60_000 })
    const slow = 'SELECT pg_sleep(60)'
    await t.rejects(
      database.read(manager => manager.query(slow)),
      { cause: { code: '57014' } }
    )
    await t.rejects(
      database.write(manager => manager.query(slow)),
      { cause: { code: '57014' } }
    )
    await database.close()
  }
})

t.test('indexes are built through a pooler, which does not keep their lock', async t => {
  const url = await postgres.newDatabase()
  const pooler = await startPgBouncer(t, url, ['pool_mode = transaction', 'default_pool_size = 2'])
  const database = await open(t, pooler.url, { acquireMs: 60_000, statementMs: 60_000, workMs: 60_000 })
  const built = `SELECT count(*)::int AS n FROM pg_index
    WHERE indisvalid AND indexrelid IN (to_regclass('users_listed'), to_regclass('audit_events_at'))`
  const locks = `SELECT count(*)::int AS n FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
  const count = async (statement: string) => (await postgres.query(statement, [], url))[0]?.n
  for (const _ of ['first', 'again']) {
    await postgres.query('DROP INDEX audit_events_at, users_listed', [], url)
    const steps = startOnlineSteps(database, quiet)
    t.teardown(steps.close)
    await until(async () => (await count(built)) === 2)
    await until(async () => (await count(locks)) === 0)
  }
})

// RV-105
t.test('/health says that a gateway behind a pooler polls, until LISTEN has an address of its own', async t => {
  const url = await postgres.newDatabase()
  const pooler = await startPgBouncer(t, url, FEW)
  for (const [env, word] of [
    [{}, 'polling'],
    [{ DATABASE_LISTEN_URL: url }, 'ok']
  ] as const) {
    const world = await startGateway(t, { postgres: pooler, env })
    if (word === 'polling') await world.logged(({ reason }) => reason === 'listen-lost')
    t.match(await world.health(), { status: 'ok', checks: { revocations: word } })
    await world.gateway.close()
  }
})

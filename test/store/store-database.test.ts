// Postgres may be late, race, freeze, vanish or turn read-only: the store says so within seconds, and recovers by itself.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { appendAudit } from '../../gateway/store/audit-entry.ts'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import { createConnectionPool, createConnector } from '../../gateway/store/connection-pool.ts'
import { type Database, openDatabase } from '../../gateway/store/database.ts'
import { DatabaseUnavailable, databaseFault, isUnavailable } from '../../gateway/store/database-errors.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { migrations } from '../../migrations/index.ts'
import { createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { measureOwnTime, ownTimeUntil } from '../support/own-time.ts'
import { listen } from '../support/ports.ts'
import { startOwnPostgres, startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { openBare, openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const maria = person('maria')

const open = (test: Test, databaseUrl: string, poolSize = 10) => openBare(test, databaseUrl, { poolSize })

const timed = async (work: Promise<unknown>) => {
  const ownTimeMs = measureOwnTime()
  const error = await work.then(
    () => undefined,
    (failure: unknown) => failure
  )
  return { error, timeMs: ownTimeMs() }
}

const answersAfter = (users: ReturnType<typeof createUsers>): Promise<number> =>
  ownTimeUntil(async () => (await timed(users.syncPerson(maria))).error === undefined, 'the store answers')

// DF-21
t.test('instances that start together migrate an empty database once', async t => {
  const url = await postgres.emptyDatabase()
  await Promise.all([1, 2, 3, 4, 5].map(() => open(t, url, 2)))
  t.same(
    await postgres.query('SELECT name FROM schema_migrations ORDER BY id', [], url),
    migrations.map(Migration => ({ name: new Migration().name }))
  )
  t.match(await postgres.query('SELECT count(*)::int AS n FROM profiles', [], url), [{ n: 3 }])
  const again = await open(t, url)
  t.ok(await again.ping())
})

// DF-01
t.test('a Postgres that is late is waited for, and one that never comes is an error in time', async t => {
  const own = await startOwnPostgres(t)
  await own.stop()
  const opening = open(t, own.url)
  await own.start()
  t.ok(await (await opening).ping())
  const options = { dataDir: '/nonexistent', log: quiet, startTimeoutMs: 300 }
  const port = await listen(t, createServer())
  for (const databaseUrl of ['postgres://x@127.0.0.1:1/x', `postgres://x@127.0.0.1:${port}/x`]) {
    const { error, timeMs } = await timed(openDatabase({ ...options, databaseUrl }))
    t.ok(error instanceof DatabaseUnavailable)
    t.ok(timeMs < 5_000)
  }
})

t.test('a Postgres that freezes after it was connected to does not hold the start', async t => {
  const url = new URL(postgres.url)
  // What the driver asks first, and what says whether the schema is up to date.
  for (const statement of ['version()', 'FROM schema_migrations']) {
    let isFrozen = false
    const server = createServer(near => {
      const far = connect(Number(url.port), url.hostname)
      for (const socket of [near, far]) socket.on('error', () => undefined)
      near.on('close', () => far.destroy())
      near.on('data', chunk => {
        isFrozen ||= chunk.includes(statement)
        if (!isFrozen) far.write(chunk)
      })
      far.pipe(near)
    })
    const databaseUrl = `postgres://postgres@127.0.0.1:${await listen(t, server)}${url.pathname}`
    const deadlines = { acquireMs: 2_000, statementMs: 1_000, workMs: 1_000 }
    const opening = openDatabase({ databaseUrl, dataDir: '/nonexistent', log: quiet, startTimeoutMs: 500, deadlines })
    const { error, timeMs } = await timed(opening)
    t.ok(isFrozen, statement)
    t.match(error, { code: 'GW_UNAVAILABLE', cause: { code: 'ETIMEDOUT' } })
    t.ok(timeMs < 5_000)
  }
})

// DF-01
t.test(
  'a Postgres that asks for a login that the driver does not know is unavailable, and ends nothing else',
  async t => {
    const certificate = createCertificateAuthority(t.testdir({})).issue('postgres')
    const gssapi = (socket: Duplex) => socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 7]))
    const plain = createServer(socket => {
      socket.on('error', () => undefined).once('data', () => gssapi(socket))
    })
    const encrypted = createServer(socket => {
      socket
        .on('error', () => undefined)
        .once('data', () => {
          socket.write('S')
          const secured = new TLSSocket(socket, { isServer: true, ...pemOf(certificate) })
          secured.on('error', () => undefined).once('data', () => gssapi(secured))
        })
    })
    for (const [server, mode] of [
      [plain, ''],
      [encrypted, '?sslmode=no-verify']
    ] as const) {
      const address = { connectionString: `postgres://x@127.0.0.1:${await listen(t, server)}/x${mode}` }
      for (const addresses of [[address], [address, address]]) {
        const error = await createConnector(addresses, 'test')(60_000).catch((failure: unknown) => failure)
        t.ok(isUnavailable(error), mode)
        t.match(databaseFault(error), { cause: /authenticationOk/, advice: /GSSAPI.*pg_hba/ })
      }
    }
  }
)

// DF-01
t.test('a wrong database name is reported at once, not retried', async t => {
  const databaseUrl = postgres.url.replace(/[^/]+$/, 'nowhere')
  const { error, timeMs } = await timed(openDatabase({ databaseUrl, dataDir: '/nonexistent', log: quiet }))
  t.ok(error instanceof DatabaseUnavailable)
  t.ok(timeMs < 2_000)
})

// DF-02
t.test('while Postgres is down everything is refused as unavailable, and works again within 5 s', async t => {
  const own = await startOwnPostgres(t)
  const database = await open(t, own.url)
  const users = createUsers(database)
  // Not with the deadlines of `users`: on a busy machine twenty at once take longer.
  const patient = await openStore(t, own, own.url)
  await Promise.all(Array.from({ length: 20 }, () => patient.users.syncPerson(maria)))
  for (const end of [own.stop, own.kill]) {
    const under = Array.from({ length: 50 }, () => timed(users.syncPerson(maria)))
    await end()
    for (const { error } of await Promise.all(under)) t.ok(error === undefined || error instanceof DatabaseUnavailable)
    const { error, timeMs } = await timed(users.syncPerson(maria))
    t.match(error, {
      code: 'GW_UNAVAILABLE',
      statusCode: 503,
      message: 'The gateway cannot do this at the moment; try again later'
    })
    t.ok(timeMs < 3_000)
    t.notOk(await database.ping())
    await own.start()
    t.ok((await answersAfter(users)) < 5_000)
    t.ok(await database.ping())
  }
  t.match(await own.query('SELECT count(*)::int AS n FROM users'), [{ n: 1 }])
})

t.test('a Postgres that refuses new connections is unavailable, whatever reason it gives', async t => {
  const url = await postgres.newDatabase()
  const database = await open(t, url)
  const name = new URL(url).pathname.slice(1)
  const admit = (admits: boolean) => postgres.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS ${admits}`)
  await admit(false)
  await postgres.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name])
  await until(async () => !(await database.ping()))
  await t.rejects(database.clock(), { code: 'GW_UNAVAILABLE', cause: { code: '55000' } })
  await admit(true)
  t.ok(await database.clock())
})

// DF-03
t.test('a frozen Postgres holds no one for long, and its broken connections are not used again', async t => {
  const own = await startOwnPostgres(t)
  const database = await open(t, own.url, 3)
  const users = createUsers(database)
  await Promise.all([1, 2, 3].map(() => users.syncPerson(maria)))
  own.freeze()
  const frozen = await Promise.all(Array.from({ length: 12 }, () => timed(users.syncPerson(maria))))
  for (const { error, timeMs } of frozen) {
    t.ok(error instanceof DatabaseUnavailable)
    t.ok(timeMs < 9_000, `${timeMs}`)
  }
  t.notOk(await database.ping())
  own.thaw()
  t.ok((await answersAfter(users)) < 5_000)
  t.ok(await database.ping())
})

t.test('a transaction whose gateway has vanished keeps its locks for seconds only', async t => {
  const database = await open(t, await postgres.emptyDatabase())
  const [row] = await database.read(manager => manager.query('SHOW idle_in_transaction_session_timeout'))
  t.same(row, { idle_in_transaction_session_timeout: '10s' })
})

// DF-03
t.test('a slow statement and an exhausted pool end as unavailable', async t => {
  const database = await open(t, await postgres.emptyDatabase(), 2)
  const slow = [1, 2].map(() => timed(database.read(manager => manager.query('SELECT pg_sleep(60)'))))
  const waiting = await timed(database.read(manager => manager.query('SELECT 1')))
  t.ok(waiting.error instanceof DatabaseUnavailable)
  t.ok(waiting.timeMs < 3_000)
  for (const { error, timeMs } of await Promise.all(slow)) {
    t.ok(error instanceof DatabaseUnavailable)
    t.ok(timeMs < 7_000)
  }
  t.ok(await database.ping())
})

// DF-04
t.test('a database that has become read-only is unavailable, until it can be written again', async t => {
  const url = await postgres.emptyDatabase()
  const database = await open(t, url)
  const users = createUsers(database)
  await users.syncPerson(maria)
  const name = new URL(url).pathname.slice(1)
  await postgres.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`)
  await postgres.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name])
  const isKnown = async () => (await timed(users.syncPerson(maria))).error instanceof DatabaseUnavailable
  t.ok((await ownTimeUntil(isKnown, 'the loss is known')) < 2_000)
  t.notOk(await database.ping())
  await postgres.query(`ALTER DATABASE ${name} SET default_transaction_read_only = off`)
  t.ok((await ownTimeUntil(() => database.ping(), 'the database answers')) < 5_000)
  t.ok((await answersAfter(users)) < 5_000)
})

t.test('transactions that deadlock are run again and both succeed', async t => {
  const database = await open(t, await postgres.emptyDatabase())
  const users = createUsers(database)
  const ids = []
  for (const subject of ['a', 'b']) ids.push((await users.syncPerson({ ...maria, subject })).user.id)
  const lockBoth = (order: number[]) =>
    database.write(async manager => {
      for (const id of order) {
        await manager.query('UPDATE users SET name = name || $2 WHERE id = $1', [id, '+'])
        await manager.query('SELECT pg_sleep(0.2)')
      }
    })
  await Promise.all([lockBoth(ids), lockBoth(ids.toReversed())])
  for (const id of ids) t.match(await users.loadPerson(id), { user: { name: 'MARIA++' } })
})

t.test('a mistake of ours stays a mistake, and is not blamed on the database', async t => {
  const database = await open(t, await postgres.emptyDatabase())
  await t.rejects(
    database.read(manager => manager.query('SELECT nonsense')),
    { code: '42703' }
  )
  await t.rejects(
    database.write(async () => {
      throw new TypeError('ours')
    }),
    { message: 'ours', name: 'TypeError' }
  )
  t.notOk(isUnavailable('text'))
  t.ok(isUnavailable(Object.assign(new Error('x'), { code: '25P04' })), 'transaction_timeout of PostgreSQL 17')
  for (const code of ['ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC', 'EPROTO'])
    t.ok(isUnavailable(Object.assign(new Error('x'), { code })), 'the end of a connection that was established')
  t.ok(isUnavailable(new AggregateError([Object.assign(new Error('x'), { code: 'ECONNREFUSED' })])))
})

// DF-19
t.test('an instance that dies in a transaction leaves no lock behind', async t => {
  const url = await postgres.emptyDatabase()
  const database: Database = await open(t, url)
  const audit = createAuditLog(database)
  const actor = { id: null, username: 'test' }
  const dying = database.write(async manager => {
    await appendAudit(manager, { actor, action: 'lost' })
    const kill = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()'
    await postgres.query(kill, [new URL(url).pathname.slice(1)])
    await manager.query('SELECT 1')
  })
  await t.rejects(dying, { code: 'GW_UNAVAILABLE' })
  await audit.append({ actor, action: 'kept' })
  t.same(await audit.verify(), { ok: true, entries: 1 })
})

t.test('a closed database refuses as unavailable', async t => {
  const database = await open(t, await postgres.emptyDatabase())
  await Promise.all([database.close(), database.close()])
  await t.rejects(
    database.read(manager => manager.query('SELECT 1')),
    { code: 'GW_UNAVAILABLE' }
  )
  t.equal(await database.ping(), false)
})

t.test('a pool that closes while it looks for its host keeps no connection to the next one', async t => {
  const silent = createServer()
  const port = await listen(t, silent)
  const url = await postgres.emptyDatabase()
  const hosts = [`postgres://x@127.0.0.1:${port}/x`, url].map(connectionString => ({ connectionString }))
  const looking = Promise.withResolvers<unknown>()
  const connector = createConnector(hosts, 'portaria-closing')
  const connect: typeof connector = (...asked) => {
    const connecting = connector(...asked)
    looking.resolve(connecting.catch(() => undefined))
    return connecting
  }
  const pool = createConnectionPool({ connect, size: 2, acquireMs: 60_000, onIdleLoss: () => undefined })
  const acquired = t.rejects(pool.acquire(), { message: /the pool is closed/ })
  await once(silent, 'connection')
  pool.close()
  await acquired
  await looking.promise
  const held = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'portaria-closing'"
  await until(async () => (await postgres.query(held)).every(({ n }) => n === 0))
})

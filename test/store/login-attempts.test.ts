// Failed logins are rows that all instances read and write one after the other, on a Postgres server and on the embedded one.
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { DataSource } from 'typeorm'
import { startDirectory } from '../../gateway/login/start-directory.ts'
import { unlockPerson } from '../../gateway/login/unlock.ts'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { type Database, openDatabase } from '../../gateway/store/database.ts'
import {
  type AttemptOutcome,
  type AttemptState,
  createLoginAttempts,
  createSecretFailures,
  createServiceBinds
} from '../../gateway/store/login-attempts.ts'
import { createLoginNames } from '../../gateway/store/login-names.ts'
import { createTokenState } from '../../gateway/store/token-state.ts'
import { migrations } from '../../migrations/index.ts'
import { shiftClocks } from '../support/clocks.ts'
import { fillDataDir } from '../support/embedded-template.ts'
import { failureOf, REQUEST, result, startLdapServer } from '../support/ldap-server.ts'
import { countLockWaits, startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { actor, openClient, openStore, PATIENT, person } from '../support/store.ts'
import { TEST_SECRET } from '../support/test-secret.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const RULES = { max: 20, windowMs: 300_000, patienceMs: 7000 }
const KEEP_MS = 1_800_000

const attemptOf = (name: string, more: { isTyped?: boolean; address?: string; pair?: string } = {}) => ({
  id: randomUUID(),
  name,
  isTyped: false,
  address: '192.0.2.1',
  pair: randomUUID(),
  ...more
})

/** An attempt that begins and fails. */
const fail = async (database: Database, attempt: ReturnType<typeof attemptOf>) => {
  const attempts = createLoginAttempts(database)
  const { accounts } = await attempts.begin(attempt, RULES, KEEP_MS, state => state)
  await attempts.settle({ attempt, accounts, outcome: 'failed', keepMs: KEEP_MS, patienceMs: 7000 })
}

/** Everything of a table, for whoever reads it. */
const rowsOf = (database: Database): Promise<Record<string, unknown>[]> =>
  database.read(manager => manager.query('SELECT kind, address FROM login_attempts ORDER BY at'))

const openEmbedded = async (t: Test): Promise<Database> => {
  const dataDir = join(t.testdir({}), 'data')
  await fillDataDir(dataDir)
  const database = await openDatabase({ dataDir, log: quiet, deadlines: PATIENT })
  t.teardown(() => database.close())
  return database
}

for (const [what, open] of [
  ['a Postgres server', async (t: Test) => (await openStore(t, postgres)).database],
  ['the embedded Postgres', openEmbedded]
] as const)
  t.test(`however many begin at once, each sees those before it, and a success frees them: ${what}`, async t => {
    const database = await open(t)
    const attempts = createLoginAttempts(database)
    const begin = async (n: number) => {
      const attempt = attemptOf('maria', { address: `192.0.2.${n % 5}` })
      const decide = ({ permits, accounts }: AttemptState) => {
        if (permits.length >= 3) throw new Error('no more')
        return { attempt, accounts }
      }
      return attempts.begin(attempt, RULES, KEEP_MS, decide).catch(() => undefined)
    }
    const begun = (await Promise.all(Array.from({ length: 60 }, (_, n) => begin(n)))).filter(one => one !== undefined)
    t.equal(begun.length, 3)
    t.equal((await rowsOf(database)).length, 3, 'a refused attempt leaves nothing behind')
    const settle = (outcome: AttemptOutcome, of: (typeof begun)[number] | undefined) =>
      of && attempts.settle({ ...of, outcome, keepMs: KEEP_MS, patienceMs: 7000 })
    await settle('failed', begun[0])
    await settle('lost', begun[1])
    t.equal(await begin(0), undefined, 'those count')
    await settle('returned', begun[2])
    // The clock of the embedded one counts in milliseconds, and what happens within one has no order.
    const failedAt = await database.clock()
    await until(async () => (await database.clock()) >= failedAt + 1, 'the next millisecond')
    const right = await begin(0)
    t.not(right, undefined, 'what was not checked does not')
    await settle('accepted', right)
    for (let n = 0; n < 3; n++) t.not(await begin(n), undefined)
    t.equal(await begin(0), undefined)
  })

t.test('a success frees what failed before it began, and the address keeps its count', async t => {
  const { database } = await openStore(t, postgres)
  const attempts = createLoginAttempts(database)
  const begin = async (name: string, more = {}) => {
    const attempt = attemptOf(name, more)
    const state = await attempts.begin(attempt, RULES, KEEP_MS, state => state)
    const settle = (outcome: AttemptOutcome) =>
      attempts.settle({ attempt, accounts: state.accounts, outcome, keepMs: KEEP_MS, patienceMs: 7000 })
    return { state, settle }
  }
  await (await begin('maria', { pair: 'one' })).settle('failed')
  await (await begin('maria', { pair: 'one' })).settle('failed')
  await (await begin('maria')).settle('lost')
  const right = await begin('maria')
  t.match(right.state, { permits: [{ kind: 'failed' }, { kind: 'failed' }, { kind: 'lost' }], otherPairs: 1 })
  const slow = await begin('maria', { pair: 'two' })
  await slow.settle('failed')
  await right.settle('accepted')
  const { state } = await begin('maria')
  t.match(state.permits, [{ kind: 'failed' }])
  t.equal(state.permits.length, 1, 'the slow one may have been checked after it')
  t.equal(state.otherPairs, 2)
  await createLoginNames(database).join({ subject: 'x', username: 'maria', names: ['m@corp.example'] }, 0)
  t.match((await begin('m@corp.example', { isTyped: true })).state, { isResolved: true, permits: { length: 2 } })
  t.match((await begin('m@corp.example')).state, { isResolved: false, permits: [] }, 'with a service account: as it is')
})

t.test('a login with accents that the release before has stored is freed under its guard without them', async t => {
  const { database, users } = await openStore(t, postgres)
  const { user } = await users.syncPerson(person('josé lima'))
  await fail(database, attemptOf('jose lima'))
  const ldap = { timeoutMs: 5000, lockoutThreshold: 5, lockoutWindowMs: KEEP_MS }
  const loginFailures = { perIp: RULES.max, windowMs: RULES.windowMs }
  t.match(await unlockPerson(database, { ldap, loginFailures }, actor, user.id), { freed: 1, logins: ['josé lima'] })
})

t.test('what failed while the clock was ahead holds nothing and nobody for longer than its window', async t => {
  const { database, ask } = await openStore(t, postgres)
  const attempt = attemptOf('maria')
  await fail(database, attempt)
  const secrets = createSecretFailures(database)
  await secrets.add(randomUUID(), attempt.address, RULES.windowMs)
  const AHEAD = "UPDATE login_attempts SET at = at + interval '1 day', expires_at = expires_at + interval '1 day'"
  await ask(AHEAD)
  const state = await createLoginAttempts(database).begin(
    attemptOf('maria'),
    { ...RULES, max: 1 },
    KEEP_MS,
    state => state
  )
  for (const at of [state.permits[0]?.at ?? 0, state.addressHeldSince ?? 0]) t.ok(Math.abs(at - state.now) < 60_000)
  const heldForMs = await secrets.heldForMs(attempt.address, 1, RULES.windowMs)
  t.ok((heldForMs ?? 0) <= RULES.windowMs)
  const late = "SELECT count(*)::int AS n FROM login_attempts WHERE expires_at > now() + interval '12 hours'"
  t.same(await ask(late), [{ n: 0 }])
})

t.test('what has expired is deleted, and after a day what counts for addresses alone', async t => {
  const { database, ask } = await openStore(t, postgres)
  const row = (account: string, kind: string, ends: string) => `(gen_random_uuid(), 'ldap', '${account}', '192.0.2.1',
    'pair', '${kind}', now() - interval '2 days', now() + interval '${ends}')`
  await ask(`INSERT INTO login_attempts (id, provider, account, address, pair, kind, at, expires_at)
    VALUES ${row('a', 'failed', '-1 hour')}, ${row('b', 'failed', '1 hour')}, ${row('c', 'freed', '1000 years')}`)
  await createTokenState(database).purgeExpired()
  const left = await ask('SELECT account, pair FROM login_attempts')
  t.same(left, [{ account: 'b', pair: '' }])
})

t.test('logins of one account under several names join them in one order', async t => {
  const { database } = await openStore(t, postgres)
  const { join } = createLoginNames(database)
  const names = Array.from({ length: 40 }, (_, n) => `nome-${n}`)
  const account = { subject: 'one', username: 'nome' }
  const joins = Array.from({ length: 100 }, (_, n) =>
    join({ ...account, names: n % 2 ? names : names.toReversed() }, 0)
  )
  const rejected = (await Promise.allSettled(joins)).filter(({ status }) => status === 'rejected')
  t.same(rejected, [])
})

t.test('an upgrade takes over the failures that the release before has counted', async t => {
  const url = await postgres.emptyDatabase()
  const before = migrations.filter(({ name }) => name !== 'R2LoginAttempts')
  const source = new DataSource({ type: 'postgres', url, installExtensions: false, migrations: before })
  await source.initialize()
  await source.runMigrations({ transaction: 'all' })
  const at = Date.now() - 60_000
  await source.query(
    `INSERT INTO login_permits (key, permits, expires_at) VALUES
      (translate(encode(sha256('login'::bytea || '\\x00'::bytea || 'maria'::bytea), 'base64'), '+/=', '-_'),
        'f${at}.abcdefghijkl f${at}.bcdefghijklm*2 o${at}.cdefghijklmn x', now() + interval '1 hour'),
      ('old', 'f1.abcdefghijkl', now() - interval '1 hour')`
  )
  const runner = source.createQueryRunner()
  for (const Migration of migrations.filter(({ name }) => name === 'R2LoginAttempts')) await new Migration().up(runner)
  await runner.release()
  await source.destroy()
  const counts = 'SELECT kind, count(*)::int AS n FROM login_attempts GROUP BY kind ORDER BY kind'
  t.same(await postgres.query(counts, [], url), [
    { kind: 'failed', n: 3 },
    { kind: 'lost', n: 1 }
  ])
})

/** The directory logins of one process, with a service account at this server. */
const startProcess = async (
  t: Test,
  { database, users }: Pick<Awaited<ReturnType<typeof openStore>>, 'database' | 'users'>,
  url: string,
  more: Record<string, string>
) => {
  const settings = readSettings({
    JWT_SECRET: TEST_SECRET,
    LDAP_ENABLED: 'true',
    LDAP_URL: url,
    LDAP_BIND_DN: 'cn=svc',
    LDAP_SEARCH_BASE: 'dc=corp',
    LDAP_SEARCH_FILTER: '(uid={{username}})',
    LDAP_RECHECK: '0',
    LDAP_TIMEOUT_MS: '20000',
    ...more
  })
  const feed = { catchUp: async () => {} }
  const parts = await startDirectory(settings, { database, users }, { feed }, pino({ level: 'silent' }))
  t.teardown(parts.close)
  if (parts.directory === undefined) throw new Error('LDAP_ENABLED is true')
  return { check: parts.directory.check, state: parts.state }
}

t.test('a refused service account is tried by one process for all, also after a restart', async t => {
  const clocks = shiftClocks(t)
  const store = await openStore(t, postgres)
  const { database } = store
  let code = 49
  const ldap = await startLdapServer(t, ({ tag, id, send }) => {
    if (tag === REQUEST.bind) send(result(id, 0x61, code))
    if (tag === REQUEST.search) send(result(id, 0x65))
  })
  const binds = () => ldap.requests.filter(tag => tag === REQUEST.bind).length
  const start = (password = 'wrong') => startProcess(t, store, ldap.url, { LDAP_BIND_PASSWORD: password })
  const processes = await Promise.all(Array.from({ length: 4 }, () => start()))
  const refuses = async ({ check }: (typeof processes)[number]) =>
    t.match(await failureOf(check()), { reason: 'service-account-refused' })
  await Promise.all(processes.map(refuses))
  t.equal(binds(), 1)
  const restarted = await start()
  await refuses(restarted)
  t.equal(binds(), 1)

  const pass = async (ms: number) => {
    await database.read(manager => manager.query('UPDATE login_attempts SET expires_at = clock_timestamp()'))
    clocks.monotonicMs += ms
  }
  await pass(60_000)
  await Promise.all(processes.map(refuses))
  t.equal(binds(), 2)

  code = 0
  const { state } = await start('right')
  await until(() => state() === 'ok', 'another password is another account')
  await pass(121_000)
  await Promise.all(processes.map(({ check }) => check()))
  await until(async () => (await rowsOf(database)).length === 0)
})

t.test('a hanging database does not keep the service account from being bound, and keeps no turn', async t => {
  const store = await openStore(t, postgres)
  const ldap = await startLdapServer(t, ({ tag, id, send }) => {
    if (tag === REQUEST.bind) send(result(id, 0x61))
    if (tag === REQUEST.search) send(result(id, 0x65))
  })
  const holder = await openClient(t, store.url)
  await holder.query('BEGIN; LOCK TABLE login_attempts IN EXCLUSIVE MODE')
  const more = { LDAP_BIND_PASSWORD: 'right', LDAP_TIMEOUT_MS: '6000' }
  const { check } = await startProcess(t, store, ldap.url, more)
  await Promise.all([check(), check()])
  await holder.query('COMMIT')
  await until(async () => (await rowsOf(store.database)).length === 0)
})

t.test('a bind that another process has just begun is awaited, not taken for a refusal that is over', async t => {
  const { database, url } = await openStore(t, postgres)
  const binds = createServiceBinds(database, randomUUID())
  await binds.refuse(60_000)
  await database.read(manager => manager.query('UPDATE login_attempts SET expires_at = clock_timestamp()'))
  const { turn } = await database.write(async manager => {
    await manager.query("UPDATE login_attempts SET kind = 'open', expires_at = now() + interval '1 minute'")
    const turn = binds.begin(60_000)
    await until(async () => (await countLockWaits(postgres, url)) === 1)
    return { turn }
  })
  t.equal(await turn, 'taken')
})

t.test('a turn to bind that is given back late leaves what the directory has refused since', async t => {
  const { database } = await openStore(t, postgres)
  const binds = createServiceBinds(database, randomUUID())
  t.equal(await binds.begin(60_000), 'ours')
  await binds.refuse(60_000)
  await binds.release()
  t.match(await binds.begin(60_000), { refusedForMs: Number })
})

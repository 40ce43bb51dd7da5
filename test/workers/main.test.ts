// The process as operators see it: what it says, what it obeys, and how it ends. DF-15, DF-16, DF-17
import { once } from 'node:events'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import pg from 'pg'
import t, { type Test } from 'tap'
import { openDatabase } from '../../gateway/store/database.ts'
import { failureText } from '../../gateway/workers/start-failure.ts'
import { fillDataDir } from '../support/embedded-template.ts'
import { baseEnv, routeFile, spawnGateway, startBackend } from '../support/gateway-process.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { routesTo } from '../support/routes.ts'
import { makeFolder } from '../support/server-process.ts'
import { until } from '../support/until.ts'

const config = (url: string, more: object[] = []) => routesTo(url, [{ path: '/open/*', public: true }, ...more])

const startWorld = async (t: Test, env: Record<string, string> = {}) => {
  const [postgres, backend, port] = await Promise.all([startPostgres(t), startBackend(t), freePort()])
  const files = routeFile(t, config(backend.url))
  const all = { ...baseEnv(files.folder), DATABASE_URL: postgres.url, PORT: String(port), ...env }
  const start = () => spawnGateway(t, all)
  const get = (path: string) => fetch(`http://127.0.0.1:${port}${path}`)
  return { postgres, backend, port, files, env: all, start, get }
}

t.test('a broken route file is reported with its file, line and column, and the process exits with 1', async t => {
  const postgres = await startPostgres(t)
  const { folder } = routeFile(t, 'upstreams: {}\nroutes:\n  - path: /a\n    upstrem: x\n')
  for (const env of [{}, { WORKERS: '2', REDIS_URL: 'redis://127.0.0.1:1' }]) {
    const gateway = spawnGateway(t, { ...baseEnv(folder), DATABASE_URL: postgres.url, PORT: '0', ...env })
    t.equal(await gateway.ended, 1)
    t.match(gateway.stderr(), /routes\.yaml:4:5.*upstrem/)
    t.equal(gateway.stderr().match(/routes\.yaml:4:5/g)?.length, 1, 'once')
    t.notMatch(gateway.stderr(), /at .*\.ts/)
    t.notOk(gateway.lines().some(({ msg }) => msg === 'listening'))
  }
})

// RV-127
t.test('a port in use is reported in one line, and the process exits with 75', async t => {
  const { port, start } = await startWorld(t)
  const other = createServer().listen(port, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const gateway = start()
  t.equal(await gateway.ended, 75)
  t.match(gateway.stderr(), /^The gateway cannot start: .*EADDRINUSE.*\n$/)
  t.ok(gateway.lines().some(({ level }) => level === 60))
})

/** The half minute for which a start waits for a database is over in a second. */
const HURRIED = `--import=data:text/javascript,${encodeURIComponent(
  'const now = performance.now.bind(performance); performance.now = () => 30 * now()'
)}`

// RV-127
t.test('a database that is away is reported in one line, and the process exits with 75', async t => {
  const { start } = await startWorld(t, {
    DATABASE_URL: `postgres://nobody:hidden@127.0.0.1:${await freePort()}/x`,
    NODE_OPTIONS: HURRIED
  })
  const gateway = start()
  t.equal(await gateway.ended, 75)
  t.match(gateway.stderr(), /^The gateway cannot start: the database cannot be used: connect ECONNREFUSED .*\n$/)
  t.notMatch(gateway.stderr() + gateway.stdout(), /hidden/)
})

// RV-127
t.test('systemd is told once the gateway serves, and a system without its program gets a warning', async t => {
  const folder = t.testdir()
  writeFileSync(join(folder, 'systemd-notify'), `#!/bin/sh\necho "$@" >> ${folder}/told\n`, { mode: 0o755 })
  const { start } = await startWorld(t, { NOTIFY_SOCKET: '/run/none', PATH: `${folder}:${process.env.PATH}` })
  const told = start()
  await until(() => existsSync(join(folder, 'told')) && readFileSync(join(folder, 'told'), 'utf8') === '--ready\n')
  await told.logged('listening')
  told.signal('SIGTERM')
  t.equal(await told.ended, 0)
  const { start: startWithout } = await startWorld(t, { NOTIFY_SOCKET: '/run/none', PATH: folder })
  rmSync(join(folder, 'systemd-notify'))
  await startWithout().logged('systemd cannot be told that the gateway serves; set Type=exec in its unit')
})

// RV-126
t.test('a start that fails because of the database says why, and what to do', async t => {
  const postgres = await startPostgres(t)
  const at = (change: (url: URL) => void) => {
    const url = new URL(postgres.url)
    change(url)
    return url.href
  }
  const port = String(await freePort())
  const cases: readonly (readonly [string | undefined, RegExp])[] = [
    [at(url => Object.assign(url, { port })), /: connect ECONNREFUSED 127\.0\.0\.1:\d+\. Nothing listens/],
    [
      at(url => Object.assign(url, { host: 'database.invalid' })),
      /: getaddrinfo (?:ENOTFOUND|EAI_AGAIN) .*cannot be resolved/
    ],
    [
      at(url => Object.assign(url, { username: 'nobody' })),
      /: role "nobody" does not exist.* The user or the password/
    ],
    [at(url => Object.assign(url, { pathname: '/none' })), /: database "none" does not exist.* There is no database/],
    [undefined, /: PGlite failed to initialize properly\. No space is left in DATA_DIR, or its files are damaged/]
  ]
  const dataDir = t.testdir({ postgres: { PG_VERSION: '17' } })
  for (const [databaseUrl, expected] of cases) {
    const opening = openDatabase({ databaseUrl, dataDir, log: quiet, startTimeoutMs: 0 })
    const text = await opening.then(
      () => 'opened',
      error => failureText(error)
    )
    t.match(text, /^The gateway cannot start: the database cannot be used: [^\n]*$/)
    t.match(text, expected)
  }
})

t.test('SIGHUP reads the route files again; a broken one changes nothing', async t => {
  // DF-17
  const { files, backend, start, get } = await startWorld(t, { DRAIN_TIMEOUT: '30s' })
  const gateway = start()
  await gateway.logged('listening')
  t.equal((await get('/new/x')).status, 401)
  gateway.signal('SIGUSR1')
  gateway.signal('SIGHUP')
  await gateway.logged('route files unchanged; the route table stays in use')
  files.write(config(backend.url, [{ path: '/new/*', public: true }]))
  gateway.signal('SIGHUP')
  await until(async () => (await get('/new/x')).status === 200)
  files.write('routes: [')
  gateway.signal('SIGHUP')
  await gateway.logged('route files not reloaded; the previous table stays in use')
  t.equal((await get('/new/x')).status, 200)
  t.match(await (await get('/health')).json(), { status: 'degraded', checks: { routes: 'degraded' } })
  t.notMatch(gateway.stderr(), /Debugger/, 'SIGUSR1 opens no debugger')

  await t.test('with nothing but idle keep-alive connections SIGTERM ends the process within 2 s', async t => {
    // DF-16
    await (await get('/open/x')).text()
    const ownTimeMs = measureOwnTime()
    gateway.signal('SIGTERM')
    t.equal(await gateway.ended, 0)
    t.ok(ownTimeMs() < 2000)
  })
})

t.test('the embedded database is free for the next start as soon as the process has ended, however it did', async t => {
  const backend = await startBackend(t)
  const { folder } = routeFile(t, config(backend.url))
  const dataDir = makeFolder(t, 'data')
  await fillDataDir(dataDir)
  const env = { ...baseEnv(folder), DATA_DIR: dataDir, PORT: String(await freePort()) }

  const first = spawnGateway(t, env)
  await first.logged('listening')
  const second = spawnGateway(t, { ...env, PORT: '0' })
  t.equal(await second.ended, 75, 'one process at a time')
  t.match(second.stderr(), /^The gateway cannot start: /)
  first.signal('SIGTERM')
  t.equal(await first.ended, 0)

  const third = spawnGateway(t, env)
  await third.logged('listening')
  third.signal('SIGKILL')
  await third.ended

  const panicking = spawnGateway(t, env)
  await panicking.logged('listening')
  const client = new pg.Client({ host: dataDir, port: 5432, user: 'postgres', database: 'postgres' })
  client.on('error', () => undefined)
  await client.connect()
  // As on a disk that is full, it cannot begin the next file of its log.
  const [wal, away] = [join(dataDir, 'postgres/pg_wal'), join(dataDir, 'postgres/away')]
  renameSync(wal, away)
  await t.rejects(client.query('CREATE TABLE x (); SELECT pg_switch_wal()'), { message: /pg_wal/ })
  t.equal(await panicking.ended, 70, 'instead of waiting for itself for good')
  t.match(
    panicking.lines().find(({ level }) => level === 60),
    { err: { message: /embedded Postgres has ended: .*pg_wal/ } }
  )
  renameSync(away, wal)

  const fourth = spawnGateway(t, env)
  await fourth.logged('listening')
  fourth.signal('SIGINT')
  await fourth.logged('stopping')
  // npm passes on what the terminal has sent to both.
  fourth.signal('SIGINT')
  t.equal(await fourth.ended, 0)
  for (const { lines, stderr } of [first, third, fourth]) {
    t.ok(
      lines().every(({ level, msg }) => typeof level === 'number' && typeof msg === 'string'),
      'only JSON lines'
    )
    t.equal(stderr(), '')
  }
})

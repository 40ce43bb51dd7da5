// A fault that belongs to no request ends the process in order: one fatal line, requests in progress finish, exit code 70.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { routesTo } from '../support/gateway.ts'
import {
  type GatewayProcess,
  isAlive,
  routeFile,
  startBackend,
  startGatewayProcess
} from '../support/gateway-process.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { succeeds, until } from '../support/until.ts'

const FATAL = 'a fault that belongs to no request: the process drains and ends; report it'
const FAULTS = {
  exception: "throw new Error('planted')",
  rejection: "Promise.reject(new Error('planted'))"
} as const

/** Every process of the gateway commits the fault when it gets SIGUSR2, twice. */
const startWorld = async (t: Test, fault: keyof typeof FAULTS, env: Record<string, string> = {}) => {
  const [postgres, backend] = await Promise.all([startPostgres(t), startBackend(t)])
  const { folder } = routeFile(
    t,
    routesTo(backend.url, [
      { path: '/open/*', public: true },
      { path: '/slow/*', public: true }
    ])
  )
  const preload = join(t.testdir(), 'fault.mjs')
  const commit = `setImmediate(() => { ${FAULTS[fault]} })`
  writeFileSync(preload, `process.on('SIGUSR2', () => { ${commit}; ${commit} })\n`)
  const gateway = await startGatewayProcess(t, folder, {
    DATABASE_URL: postgres.url,
    // The longest, to which more is added.
    DRAIN_TIMEOUT: '2147483s',
    NODE_OPTIONS: `--import ${pathToFileURL(preload)}`,
    ...env
  })
  const get = (path: string) => fetch(`http://127.0.0.1:${gateway.port}${path}`, { headers: { connection: 'close' } })
  return { gateway, backend, get }
}

const fatalLines = (gateway: GatewayProcess) => gateway.lines().filter(({ level }) => level === 60)

for (const fault of ['exception', 'rejection'] as const)
  t.test(`an ${fault} that nothing handles drains the process, which ends with 70`, async t => {
    const { gateway, backend, get } = await startWorld(t, fault)
    const slow = get('/slow/x')
    await backend.holds(1)
    gateway.signal('SIGUSR2')
    await gateway.logged(FATAL)
    await until(async () => !(await succeeds(get('/open/x'))))
    t.ok(isAlive(gateway.pid), 'a request is still in progress')
    // Nor does a SIGTERM cut the drain short.
    gateway.signal('SIGTERM')
    await gateway.logged('stopping')
    backend.release()
    t.equal(await (await slow).text(), 'late')
    t.equal(await gateway.ended, 70)
    t.match(fatalLines(gateway), [{ msg: FATAL, err: { message: 'planted', stack: /fault\.mjs/ } }])
    t.equal(fatalLines(gateway).length, 1)
    t.equal(gateway.stderr(), '')
  })

t.test('a worker with such a fault finishes its requests and is replaced, and the other serves meanwhile', async t => {
  const redis = await startRedis(t)
  const { gateway, backend, get } = await startWorld(t, 'exception', { WORKERS: '2', REDIS_URL: redis.url })
  const before = gateway.workers()
  t.equal(before.length, 2)
  const slow = get('/slow/x')
  await backend.holds(1)
  for (const pid of before.slice(0, 1)) process.kill(pid, 'SIGUSR2')
  const fatal = await gateway.logged(FATAL)
  t.equal(fatal.pid, before[0])
  for (let i = 0; i < 10; i++) t.equal((await get('/open/x')).status, 200)
  backend.release()
  t.equal(await (await slow).text(), 'late')
  await gateway.logged('a worker has been replaced')
  t.match(
    gateway.lines().find(({ msg }) => msg === 'a worker has ended'),
    { worker: before[0], code: 70 }
  )
  t.equal(gateway.workers().length, 2)
  t.equal((await get('/open/x')).status, 200)
  t.equal(fatalLines(gateway).length, 1)
})

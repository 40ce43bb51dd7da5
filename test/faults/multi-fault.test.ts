// Stores and directory fail at random and together under traffic, beside a backend that hangs: answers stay right, and all
// heals. DF-24
import fc from 'fast-check'
import t from 'tap'
import { baseEnv, routeFile, spawnGateway, startBackend } from '../support/gateway-process.ts'
import { jsonRequest } from '../support/login.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { freePort } from '../support/ports.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { startRedis } from '../support/redis.ts'
import { routesTo } from '../support/routes.ts'
import { signToken } from '../support/signed-tokens.ts'
import { TEST_SECRET } from '../support/test-secret.ts'
import { until } from '../support/until.ts'

/** The same seed breaks the same things in the same order. */
const SEED = Number(process.env.FAULT_SEED ?? 24)
const STEPS = 12
/** A state of things lasts for so many answers of the backend. */
const STEP_ANSWERS = 30
/** Whatever is broken, each request is answered: every deadline of the gateway is far shorter. */
const ANSWERED_MS = 60_000

const [postgres, redis, ldap, backend, port] = await Promise.all([
  startOwnPostgres(t),
  startRedis(t),
  startOpenLdap(t),
  startBackend(t),
  freePort()
])

const { folder } = routeFile(
  t,
  routesTo(backend.url, [
    { path: '/open/*', public: true },
    { path: '/app/*' },
    { path: '/admins/*', roles: ['Admin'] },
    { path: '/slow/*', public: true, timeout: '1s' },
    { path: '/ws', websocket: {} }
  ])
)

const env = {
  ...baseEnv(folder),
  PORT: `${port}`,
  DATABASE_URL: postgres.url,
  REDIS_URL: redis.url,
  ...ldap.env,
  LDAP_TIMEOUT_MS: '1000',
  // Binds that are never answered count as failed, which is not what is looked at here.
  LDAP_LOCKOUT_THRESHOLD: '1000',
  TRUST_PROXY: '127.0.0.1',
  LDAP_INSECURE: 'true'
}

/** What follows a crash is a fresh and empty Redis; a frozen one goes on where it was. */
const faults = {
  'redis frozen': { strike: redis.freeze, heal: redis.thaw },
  'redis gone': { strike: redis.kill, heal: redis.restart },
  'postgres frozen': { strike: postgres.freeze, heal: postgres.thaw },
  'postgres gone': { strike: postgres.kill, heal: postgres.start },
  'directory frozen': { strike: ldap.freeze, heal: ldap.thaw },
  'directory gone': { strike: ldap.stop, heal: ldap.start }
}

/** As the client at this address, by which failed logins count. */
const ask = async (path: string, options: RequestInit = {}, from = '192.0.2.1'): Promise<number> => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    ...options,
    signal: AbortSignal.timeout(ANSWERED_MS),
    headers: { ...options.headers, 'x-forwarded-for': from }
  })
  await answer.arrayBuffer()
  return answer.status
}
const bearing = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })
const logIn = (username: string, password: string, from?: string) =>
  ask('/auth/login', jsonRequest('POST', undefined, { username, password }), from)
const logInRightly = () => logIn('maria', SAMPLE_PASSWORD)

t.test(`answers stay right while things fail in the order of seed ${SEED}, and all heals`, async t => {
  const gateway = spawnGateway(t, env)
  await gateway.logged('listening')
  const token = await signToken(TEST_SECRET)
  const forged = await signToken(`${TEST_SECRET} of somebody else`)
  /** Each with the statuses that are right, whatever is broken. */
  const traffic: Record<string, [send: () => Promise<number>, ...right: number[]]> = {
    open: [() => ask('/open/x'), 200],
    known: [() => ask('/app/x', bearing(token)), 200],
    'without the role': [() => ask('/admins/x', bearing(token)), 403],
    forged: [() => ask('/app/x', bearing(forged)), 401],
    anonymous: [() => ask('/app/x'), 401],
    hanging: [() => ask('/slow/x'), 504],
    login: [logInRightly, 200, 401, 429, 503],
    guess: [() => logIn('carlos', 'a guess', '192.0.2.2'), 401, 429, 503],
    health: [() => ask('/health'), 200, 503]
  }
  const socket = await rawWebSocket(port, { headers: { authorization: `Bearer ${token}` } })
  t.match(socket.head(), /^HTTP\/1.1 101/)

  let isOver = false
  t.teardown(() => {
    isOver = true
  })
  type Fault = keyof typeof faults
  const broken = new Set<Fault>()
  const faulty: string[] = []
  const answered: Record<string, number> = {}
  const clients = Object.entries(traffic).map(async ([name, [send, ...right]]) => {
    while (!isOver) {
      const status = await send().catch(error => `${error}`)
      if (!right.some(each => each === status)) faulty.push(`${name}: ${status}, broken: ${[...broken]}`)
      answered[name] = (answered[name] ?? 0) + 1
    }
  })
  const partOf = (name: string) => name.split(' ')[0]
  const names = Object.keys(faults) as Fault[]
  for (const name of fc.sample(fc.constantFrom(...names), { numRuns: STEPS, seed: SEED })) {
    const struck = [...broken].find(other => partOf(other) === partOf(name))
    if (struck !== undefined) broken.delete(struck)
    else broken.add(name)
    await (struck === undefined ? faults[name].strike() : faults[struck].heal())
    // One that is silent for longer than the gateway waits for a pong is ended, as it should be.
    socket.send(1, name)
    const enough = (answered.open ?? 0) + STEP_ANSWERS
    await until(() => (answered.open ?? 0) >= enough)
  }
  for (const fault of broken) await faults[fault].heal()
  broken.clear()
  const healedAt = performance.now()
  const isWell = async () => {
    socket.send(1, 'healed')
    if ((await logInRightly()) !== 200) return false
    const health = await fetch(`http://127.0.0.1:${port}/health`)
    return ((await health.json()) as { status: string }).status === 'ok'
  }
  await until(isWell, 'all is well')
  t.comment(`well again after ${Math.round(performance.now() - healedAt)} ms; ${JSON.stringify(answered)}`)
  isOver = true
  await Promise.all(clients)
  t.same(faulty, [])
  for (const name of Object.keys(traffic)) t.ok((answered[name] ?? 0) >= 3, `${name} was asked ${answered[name]} times`)

  t.equal(socket.closeCode(), undefined, 'nothing that broke was of the socket')
  socket.send(1, 'still here')
  await until(() => socket.frames().includes('still here'))
  redis.freeze()
  ldap.freeze()
  t.teardown(redis.thaw)
  t.teardown(ldap.thaw)
  const last = logInRightly().catch(() => undefined)
  gateway.signal('SIGTERM')
  t.equal(await gateway.ended, 0)
  await last
  t.notMatch(gateway.stdout(), /"level":60|uncaught|unhandled/i)
  t.equal(gateway.stderr(), '')
})

// Stores and directory fail at random and together under traffic, beside a backend that hangs: answers stay right, and all
// heals. DF-24
import fc from 'fast-check'
import t from 'tap'
import { signToken, TEST_SECRET } from '../support/gateway.ts'
import { baseEnv, routeFile, spawnGateway, startBackend } from '../support/gateway-process.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { freePort } from '../support/ports.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { startRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

/** The same seed breaks the same things in the same order. */
const SEED = Number(process.env.FAULT_SEED ?? 24)
const STEPS = 12
/** A state of things lasts for so many answers of the backend. */
const STEP_ANSWERS = 30
/** Whatever is broken, each request is answered: every deadline of the gateway is far shorter. */
const ANSWERED_MS = 60_000

interface Fault {
  strike(): unknown
  heal(): unknown
}

interface Traffic {
  readonly path: string
  readonly token?: string
  readonly login?: { readonly username: string; readonly password: string }
  /** The client's address; failed logins count by it. */
  readonly from?: string
  /** Statuses that are right, whatever is broken. */
  readonly right: readonly number[]
}

const [postgres, redis, ldap, backend, port] = await Promise.all([
  startOwnPostgres(t),
  startRedis(t),
  startOpenLdap(t),
  startBackend(t),
  freePort()
])

const { folder } = routeFile(t, {
  upstreams: { back: { url: backend.url } },
  routes: [
    { path: '/open/*', upstream: 'back', public: true },
    { path: '/app/*', upstream: 'back' },
    { path: '/admins/*', upstream: 'back', roles: ['Admin'] },
    { path: '/slow/*', upstream: 'back', public: true, timeout: '1s' },
    { path: '/ws', upstream: 'back', websocket: {} }
  ]
})

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
const faults: Record<string, Fault> = {
  'redis frozen': { strike: redis.freeze, heal: redis.thaw },
  'redis gone': { strike: redis.kill, heal: redis.restart },
  'postgres frozen': { strike: postgres.freeze, heal: postgres.thaw },
  'postgres gone': { strike: postgres.kill, heal: postgres.start },
  'directory frozen': { strike: ldap.freeze, heal: ldap.thaw },
  'directory gone': { strike: ldap.stop, heal: ldap.start }
}

const ask = async ({ path, token, login, from = '192.0.2.1' }: Traffic): Promise<number> => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    signal: AbortSignal.timeout(ANSWERED_MS),
    headers: {
      'x-forwarded-for': from,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(login === undefined ? {} : { 'content-type': 'application/json' })
    },
    ...(login === undefined ? {} : { method: 'POST', body: JSON.stringify(login) })
  })
  await answer.arrayBuffer()
  return answer.status
}

t.test(`answers stay right while things fail in the order of seed ${SEED}, and all heals`, async t => {
  const gateway = spawnGateway(t, env)
  await gateway.logged('listening')
  const token = await signToken(TEST_SECRET)
  const forged = await signToken(`${TEST_SECRET} of somebody else`)
  const right = { username: 'maria', password: SAMPLE_PASSWORD }
  const wrong = { username: 'carlos', password: 'a guess' }
  const traffic: Record<string, Traffic> = {
    open: { path: '/open/x', right: [200] },
    known: { path: '/app/x', token, right: [200] },
    'without the role': { path: '/admins/x', token, right: [403] },
    forged: { path: '/app/x', token: forged, right: [401] },
    anonymous: { path: '/app/x', right: [401] },
    hanging: { path: '/slow/x', right: [504] },
    login: { path: '/auth/login', login: right, right: [200, 401, 429, 503] },
    guess: { path: '/auth/login', login: wrong, from: '192.0.2.2', right: [401, 429, 503] },
    health: { path: '/health', right: [200, 503] }
  }
  const socket = await rawWebSocket(port, { headers: { authorization: `Bearer ${token}` } })
  t.match(socket.head(), /^HTTP\/1.1 101/)

  let isOver = false
  t.teardown(() => {
    isOver = true
  })
  const broken = new Map<string, Fault>()
  const faulty: string[] = []
  const answered: Record<string, number> = {}
  const clients = Object.entries(traffic).map(async ([name, kind]) => {
    while (!isOver) {
      const status = await ask(kind).catch(error => `${error}`)
      if (!kind.right.some(each => each === status)) faulty.push(`${name}: ${status}, broken: ${[...broken.keys()]}`)
      answered[name] = (answered[name] ?? 0) + 1
    }
  })
  const partOf = (name: string) => name.split(' ')[0]
  for (const name of fc.sample(fc.constantFrom(...Object.keys(faults)), { numRuns: STEPS, seed: SEED })) {
    const struck = [...broken].find(([other]) => partOf(other) === partOf(name))
    if (struck !== undefined) {
      broken.delete(struck[0])
      await struck[1].heal()
    } else {
      const fault = faults[name]
      if (fault !== undefined) broken.set(name, fault)
      await fault?.strike()
    }
    // One that is silent for longer than the gateway waits for a pong is ended, as it should be.
    socket.send(1, name)
    const enough = (answered.open ?? 0) + STEP_ANSWERS
    await until(() => (answered.open ?? 0) >= enough)
  }
  for (const fault of broken.values()) await fault.heal()
  broken.clear()
  const healedAt = performance.now()
  const isWell = async () =>
    (await ask({ path: '/auth/login', login: right, right: [] })) === 200 &&
    ((await (await fetch(`http://127.0.0.1:${port}/health`)).json()) as { status: string }).status === 'ok'
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
  const last = ask({ path: '/auth/login', login: right, right: [] }).catch(() => undefined)
  gateway.signal('SIGTERM')
  t.equal(await gateway.ended, 0)
  await last
  t.notMatch(gateway.stdout(), /"level":60|uncaught|unhandled/i)
  t.equal(gateway.stderr(), '')
})

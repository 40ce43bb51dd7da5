// Cuts two gateways off from Postgres and Redis in every way, while people ask, refresh, are revoked, changed and limited.
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { REDIS_AVAILABLE, REDIS_UNAVAILABLE } from '../../gateway/limits/circuit.ts'
import { DATABASE_DEADLINES } from '../../gateway/store/database.ts'
import { startGateway, type World } from './gateway.ts'
import { startBackend } from './gateway-process.ts'
import { REQUEST, result, startLdapServer } from './ldap-server.ts'
import { postLogin } from './login.ts'
import { measureOwnTime, within } from './own-time.ts'
import { startPostgres } from './postgres.ts'
import { startRedis } from './redis.ts'
import { type LineState, type Relay, startRelay } from './relay.ts'
import { actor, openStore, person } from './store.ts'

export interface Cell {
  readonly store: 'postgres' | 'redis'
  readonly who: 'one' | 'both'
  readonly fault: Exclude<LineState, 'open'>
}

export const CELLS: readonly Cell[] = (['postgres', 'redis'] as const).flatMap(store =>
  (['one', 'both'] as const).flatMap(who =>
    (['cut', 'to-store', 'from-store', 'slow', 'lossy'] as const).map(fault => ({ store, who, fault }))
  )
)

/** What was promised and how it went: undefined, or what was wrong. */
export type Outcome = Readonly<Record<string, string | undefined>>

const INVALID_CREDENTIALS = 49
const MAX = 40
const WINDOW_MS = 60_000
/** No request hangs: what needs no store is answered within this, on a machine that does other things too. */
const PROMPT_MS = 1000
/** The database's own deadline, and what comes on top of it. */
const DATABASE_MS = 8000
const HEAL_MS = 5000
const FAULT_MS = 1500

const limitedPath = ({ store, who, fault }: Cell): string => `/limited/${store}/${who}/${fault}`
const portOf = (url: string) => Number(new URL(url).port)

export const startPartitionWorld = async (t: Pick<Test, 'teardown'>) => {
  const postgres = await startPostgres(t)
  const redis = await startRedis(t)
  const backend = await startBackend(t)
  const store = await openStore(t, postgres)
  // It knows nobody: every login that reaches it is refused.
  const directory = await startLdapServer(t, ({ tag, id, send }) => {
    if (tag === REQUEST.bind) send(result(id, 0x61, INVALID_CREDENTIALS))
  })
  const instances: { world: World; lines: Record<Cell['store'], Relay> }[] = []
  for (let n = 0; n < 2; n++) {
    const lines = { postgres: await startRelay(t, portOf(store.url)), redis: await startRelay(t, redis.port) }
    const databaseUrl = Object.assign(new URL(store.url), {
      hostname: '127.0.0.1',
      port: `${lines.postgres.port}`
    }).href
    const world = await startGateway(t, {
      postgres: { url: databaseUrl },
      limits: { databaseDeadlines: DATABASE_DEADLINES },
      env: {
        REDIS_URL: `redis://127.0.0.1:${lines.redis.port}`,
        RATE_LIMIT_MAX: '1000000',
        LDAP_ENABLED: 'true',
        LDAP_URL: directory.url,
        LDAP_DOMAIN: 'corp.example',
        LDAP_TIMEOUT_MS: '5000',
        LOGIN_FAILURES_PER_IP: '1000000'
      },
      config: {
        upstreams: { up: { url: backend.url } },
        routes: [
          { path: '/api/*', upstream: 'up' },
          { path: '/agents/*', upstream: 'up', roles: ['Agente'] },
          // One for each cell: a window outlives a cell.
          ...CELLS.map(cell => ({
            path: limitedPath(cell),
            upstream: 'up',
            public: true,
            rateLimit: { max: MAX, window: `${WINDOW_MS}ms` }
          })),
          { path: '/live', upstream: 'up', websocket: {} }
        ]
      }
    })
    instances.push({ world, lines })
  }
  return { store, instances }
}

type PartitionWorld = Awaited<ReturnType<typeof startPartitionWorld>>

let people = 0

/** Somebody who may use `/agents`, with a token for both instances and a socket on each. */
const newPerson = async ({ store, instances }: PartitionWorld) => {
  const { user } = await store.users.syncPerson(person(`person-${people++}`))
  const areas = await store.users.listAreas({})
  if (areas.total === 0) await store.users.createArea(actor, 'Norte')
  await store.users.setAccess(actor, user.id, { profiles: ['Agente'], areas: ['Norte'], areaPrincipal: 'Norte' })
  const stored = await store.users.loadPerson(user.id)
  if (stored === undefined || instances[0] === undefined) throw new Error('no person')
  const token = await instances[0].world.tokenFor(stored.user, { ver: stored.version })
  return { id: user.id, token }
}

/** In time that this process has had. */
const timed = async <T>(work: Promise<T>): Promise<{ value: T; ms: number }> => {
  const ownTimeMs = measureOwnTime()
  return { value: await work, ms: ownTimeMs() }
}

/** Asks until the answer is as wished, or the time is up; the last answer when it never was. */
const becomes = async (ask: () => Promise<number>, wished: (status: number) => boolean, limitMs: number) => {
  const ownTimeMs = measureOwnTime()
  for (;;) {
    const status = await ask()
    if (wished(status)) return undefined
    if (ownTimeMs() > limitMs) return `${status} after ${limitMs} ms`
    await delay(50)
  }
}

const statusOf = async (answer: Promise<Response>): Promise<number> => {
  const { status, body } = await answer
  await body?.cancel()
  return status
}

/** One cell: everything goes on while the lines fail, and all is well again once they heal. */
export const runCell = async (all: PartitionWorld, cell: Cell): Promise<Outcome> => {
  const { store, instances } = all
  const affected = cell.who === 'both' ? instances : instances.slice(0, 1)
  const set = (state: LineState) => {
    for (const { lines } of affected) lines[cell.store].set(state)
  }
  const [revoked, changed, kept] = [await newPerson(all), await newPerson(all), await newPerson(all)]
  const ask = (n: number, path: string, token: string) =>
    statusOf(instances[n]?.world.fetch(path, { token }) ?? Promise.reject(new Error('no instance')))
  for (const [n] of instances.entries())
    for (const { token } of [revoked, changed, kept]) await ask(n, '/agents/x', token)
  const sockets = await Promise.all(instances.map(({ world }) => world.socket('/live', revoked.token)))
  const closed = sockets.map(socket => new Promise<number>(resolve => socket.once('close', resolve)))
  const outcome: Record<string, string | undefined> = {}

  set(cell.fault)
  const until = performance.now() + FAULT_MS
  outcome.requests = await keepAsking(all, kept.token, until)
  outcome.limit = await fillLimit(all, cell)
  const refreshes = instances.map(({ world }) =>
    timed(statusOf(world.fetch('/auth/refresh', { method: 'POST', token: kept.token })))
  )
  const logins = instances.map(({ world }) => timed(statusOf(logIn(world, `nobody-${people++}`))))
  await store.users.revokePerson(actor, revoked.id)
  await store.users.setAccess(actor, changed.id, { profiles: [], areas: ['Norte'], areaPrincipal: 'Norte' })
  for (const { value, ms } of await Promise.all(refreshes))
    if (![200, 503].includes(value) || ms > DATABASE_MS) outcome.refresh = `${value} after ${Math.round(ms)} ms`
  outcome.refresh ??= undefined
  for (const { value, ms } of await Promise.all(logins))
    if (![401, 503].includes(value) || ms > DATABASE_MS) outcome.login = `${value} after ${Math.round(ms)} ms`
  outcome.login ??= undefined
  // Whoever can hear of it has done so in time: at once over a sound line, within 5 s without Redis.
  if (cell.store === 'redis' || cell.who === 'one')
    outcome['felt elsewhere'] = await becomes(() => ask(1, '/api/x', revoked.token), is(401), HEAL_MS)

  set('open')
  const feltOn = (n: number) => becomes(() => ask(n, '/api/x', revoked.token), is(401), HEAL_MS)
  outcome['revoked after'] = (await Promise.all([feltOn(0), feltOn(1)])).find(fault => fault !== undefined)
  const staleOn = (n: number) => becomes(() => ask(n, '/agents/x', changed.token), is(401), HEAL_MS)
  outcome['changed after'] = (await Promise.all([staleOn(0), staleOn(1)])).find(fault => fault !== undefined)
  const codes = await Promise.all(closed.map(async code => ((await within(code, HEAL_MS)) ? code : 0)))
  outcome['sockets after'] = codes.every(code => code === 4401) ? undefined : `closed with ${codes.join(', ')}`
  const healthy = async ({ world }: { world: World }) => {
    const { checks } = await world.health()
    return checks.database === 'ok' && checks.rateLimit === 'ok' ? 200 : 503
  }
  const faults = await Promise.all(instances.map(instance => becomes(() => healthy(instance), is(200), HEAL_MS)))
  outcome['health after'] = faults.find(fault => fault !== undefined)
  return outcome
}

const logIn = (world: World, username: string): Promise<Response> => postLogin(world, username, { password: 'wrong' })

const is = (wished: number) => (status: number) => status === wished

/** A valid token passes, promptly, on both instances, whatever happens to the stores. */
const keepAsking = async ({ instances }: PartitionWorld, token: string, until: number): Promise<string | undefined> => {
  let slowest = 0
  while (performance.now() < until) {
    for (const { world } of instances) {
      const { value, ms } = await timed(statusOf(world.fetch('/agents/x', { token })))
      if (value !== 200) return `${value}`
      slowest = Math.max(slowest, ms)
    }
    await delay(20)
  }
  return slowest > PROMPT_MS ? `slowest ${Math.round(slowest)} ms` : undefined
}

/** Whether an instance counts on its own, or did so at any time after its log had this many lines. */
const hasCountedAlone = ({ log }: World, logged: number): boolean => {
  const lastOf = (message: string) => log.findLastIndex(({ msg }) => msg === message)
  const [alone, shared] = [lastOf(REDIS_UNAVAILABLE), lastOf(REDIS_AVAILABLE)]
  return alone > shared || shared >= logged
}

/** Without Redis each instance counts for itself; with it, and a database that fails, the count is exact. */
const fillLimit = async ({ instances }: PartitionWorld, cell: Cell): Promise<string | undefined> => {
  const path = limitedPath(cell)
  const ownTimeMs = measureOwnTime()
  const began = performance.now()
  const logged = instances.map(({ world }) => world.log.length)
  const statuses: number[] = []
  for (let round = 0; round < MAX + 10; round++)
    statuses.push(...(await Promise.all(instances.map(({ world }) => statusOf(world.fetch(path))))))
  const admitted = statuses.filter(status => status === 200).length
  const odd = statuses.find(status => status !== 200 && status !== 429)
  const ms = ownTimeMs() / statuses.length
  const isAlone = cell.store === 'redis' || instances.some(({ world }, n) => hasCountedAlone(world, logged[n] ?? 0))
  // A slow machine may need longer than a window.
  const windows = Math.ceil((performance.now() - began) / WINDOW_MS)
  const most = windows * (isAlone ? MAX * instances.length : MAX)
  if (odd !== undefined) return `${odd}`
  if (admitted > most || (!isAlone && admitted < MAX)) return `${admitted} of ${MAX} admitted`
  return ms > PROMPT_MS / 2 ? `${Math.round(ms)} ms a request` : undefined
}

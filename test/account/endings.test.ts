// Whatever ends a right ends all that was opened with it, on both instances: endings by kinds of token by protocols.
// Timed by the clock of the machine.
// WS-05, RX-22, DF-10, JW-10, JW-12
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startGateway } from '../support/gateway.ts'
import { jsonRequest, postClient } from '../support/login.ts'
import {
  type Opened,
  openEveryKind,
  PROTOCOLS,
  type Protocol,
  startEveryKind,
  tryEveryKind,
  tryNamespace
} from '../support/open-for.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const KINDS = ['access token', 'service account', 'session'] as const
const ENDINGS = ['token', 'person', 'all of the person', 'expiry', 'role', 'address'] as const

type Kind = (typeof KINDS)[number]
type Ending = (typeof ENDINGS)[number]

/** What holds a right, and what it can be ended with. */
interface Holder {
  token: string
  /** Of the account in users. */
  userId: number
  /** Of the access token or service account. */
  id: number
  expiresAt: Date
}

type End = (holder: Holder) => Promise<unknown>

const [postgres, redis] = await Promise.all([startPostgres(t), startRedis(t)])
const roles = ['Agente']
const options = {
  postgres,
  config: await startEveryKind(t, roles),
  env: { REDIS_URL: redis.url, TRUST_PROXY: '127.0.0.1' }
}
const first = await startGateway(t, options)
const second = await startGateway(t, options)
const { users } = await openStore(t, postgres, postgres.url)
const admin = await first.tokenFor({ profiles: ['Admin'], username: 'root' })

const call = async (method: string, path: string, body?: unknown, token: string = admin) => {
  const answer = await first.fetch(path, jsonRequest(method, token, body))
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path} was answered ${answer.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}
await call('POST', '/auth/admin/areas', { name: 'Norte' })
const access = { profiles: roles, areas: ['Norte'], areaPrincipal: 'Norte' }
const asSupervisor = { ...access, profiles: ['Supervisor'] }

const LONG_MS = 3_600_000
/** What is to expire must be open by then: on a busy machine at the second or third try. */
const SHORT_MS = [3000, 10_000, 60_000]

let serial = 0

/** Of a service account. */
const clientToken = async ({ clientId, clientSecret }: { clientId: string; clientSecret: string }) => {
  const answer = await postClient(first, clientId, clientSecret)
  return ((await answer.json()) as { access_token: string }).access_token
}

/** A token that lives so long, from when all that it needs is there. */
type Make = (lifeMs: number) => Promise<Holder>

/** In whole seconds: a JWT knows no others. */
const endOf = (lifeMs: number) => new Date(1000 * Math.floor((Date.now() + lifeMs) / 1000))

const MAKE: Record<Kind, Make> = {
  async session(lifeMs) {
    const { user } = await users.syncPerson(person(`person-${++serial}`))
    await call('PUT', `/auth/admin/users/${user.id}/access`, access)
    const expiresAt = endOf(lifeMs)
    const claims = { ver: 1, auth_time: Math.floor(Date.now() / 1000), exp: expiresAt.getTime() / 1000 }
    const token = await first.tokenFor({ id: user.id, username: user.username }, claims)
    return { token, userId: user.id, id: 0, expiresAt }
  },
  async 'access token'(lifeMs) {
    const { token: login, userId } = await MAKE.session(LONG_MS)
    const expiresAt = endOf(lifeMs)
    const { id, token } = await call('POST', '/auth/tokens', { name: 'x', profiles: roles, expiresAt }, login)
    return { token, userId, id, expiresAt }
  },
  async 'service account'(lifeMs) {
    const expiresAt = endOf(lifeMs)
    const made = await call('POST', '/auth/admin/clients', { name: `robot-${++serial}`, ...access, expiresAt })
    return { token: await clientToken(made), userId: made.id, id: made.id, expiresAt }
  }
}

const change =
  (method: string, path: (holder: Holder) => string, body?: unknown): End =>
  holder =>
    call(method, path(holder), body)
const ofUser = (rest: string) => (holder: Holder) => `/auth/admin/users/${holder.userId}/${rest}`
const ofClient = ({ id }: Holder) => `/auth/admin/clients/${id}`
const logout: End = ({ token }) => call('POST', '/auth/logout', undefined, token)
/** The time of its end passes. */
const waits: End = async () => undefined

const ofPerson = {
  person: change('POST', ofUser('disable')),
  'all of the person': change('POST', ofUser('revoke')),
  expiry: waits,
  role: change('PUT', ofUser('access'), asSupervisor),
  // It is bound to none.
  address: undefined
}

const CELLS: Record<Kind, Record<Ending, End | undefined>> = {
  'access token': { token: change('DELETE', ({ id }) => `/auth/admin/tokens/${id}`), ...ofPerson },
  'service account': {
    token: logout,
    person: change('DELETE', ofClient),
    'all of the person': change('PATCH', ofClient, { expiresAt: new Date(Date.now() + 7_200_000) }),
    expiry: waits,
    role: change('PATCH', ofClient, { profiles: asSupervisor.profiles }),
    address: change('PATCH', ofClient, { addresses: ['203.0.113.0/24'] })
  },
  session: { token: logout, ...ofPerson }
}

const POSSIBLE = KINDS.flatMap(kind =>
  ENDINGS.flatMap(ending => {
    const end = CELLS[kind][ending]
    return end === undefined ? [] : [{ kind, ending, end }]
  })
)

const nameOf = (kind: Kind, ending: Ending, protocol: Protocol, instance: number) =>
  `${kind} / ${ending} / ${protocol} / ${instance === 0 ? 'first' : 'second'}`

/** Own time and the clock on the wall run apart so far. */
const EARLY_MS = 200

const isSoon = ({ ending }: { ending: Ending }) => ending === 'expiry'

type Cell = (typeof POSSIBLE)[number] & { readonly holder: Holder }

/** Made and prepared, before it expires; what a machine that stood still has refused or ended is made again. */
const makeCell = async <T>(
  possible: (typeof POSSIBLE)[number],
  prepare: (cell: Cell) => Promise<T>,
  lives: readonly number[] = isSoon(possible) ? SHORT_MS : SHORT_MS.map(() => LONG_MS)
): Promise<T> => {
  const [lifeMs = LONG_MS, ...longer] = lives
  const holder = await MAKE[possible.kind](lifeMs)
  return prepare({ ...possible, holder }).catch(error => {
    if (longer.length === 0) throw error
    return makeCell(possible, prepare, longer)
  })
}

type Open = Cell & { readonly opened: readonly Opened[] }

const openCell = async (cell: Cell): Promise<Open> => ({
  ...cell,
  opened: await Promise.all([first, second].map(world => openEveryKind(world, cell.holder.token)))
})

/** One of each, those that expire soon last; one after the other, as a busy machine can bear it. */
const makeCells = async <T>(prepare: (cell: Cell) => Promise<T>): Promise<T[]> => {
  const made: T[] = []
  for (const possible of POSSIBLE.toSorted((a, b) => Number(isSoon(a)) - Number(isSoon(b))))
    made.push(await makeCell(possible, prepare))
  return made
}

/** Ends all, one soon after the other. By the name of a cell, how long after its end that was felt, ms, and what the client saw. */
const endAll = async (cells: readonly Open[]) => {
  const now = measureOwnTime()
  const felt = new Map<string, { afterMs: number; seen: string }>()
  const watch = ({ kind, ending, opened }: Open, ended: Promise<number>) =>
    opened.flatMap((each, instance) =>
      PROTOCOLS.map(async protocol => {
        const seen = await each[protocol]()
        const at = now()
        felt.set(nameOf(kind, ending, protocol, instance), { seen, afterMs: at - (await ended) })
      })
    )
  const watched: Promise<void>[] = []
  for (const cell of cells) {
    const ended = cell
      .end(cell.holder)
      .then(() => (isSoon(cell) ? delay(Math.max(0, cell.holder.expiresAt.getTime() - Date.now())) : undefined))
      .then(now)
    watched.push(...watch(cell, ended))
    if (!isSoon(cell)) await ended
  }
  await Promise.all(watched)
  return felt
}

const SEEN = {
  HTTP: /^40[13]$/,
  SSE: /^end$/,
  WebSocket: /^440[13]$/,
  'Socket.IO': /^io server disconnect$/,
  // What polling sessions share is in Redis: without it they end by themselves.
  'Socket.IO by polling': /^(?:io server disconnect|transport error)$/
} as const

const REFUSED = {
  HTTP: /^40[13]$/,
  SSE: /^40[13]$/,
  WebSocket: /^40[13]$/,
  'Socket.IO': /^GW_(?:TOKEN_\w+|FORBIDDEN|UNAUTHENTICATED)$/,
  'Socket.IO by polling': /^GW_(?:TOKEN_\w+|FORBIDDEN|UNAUTHENTICATED)$/
}

/** A cell that is missing fails, like one that came too late. */
const checkFelt = (t: Test, felt: Awaited<ReturnType<typeof endAll>>, limitMs: number) => {
  for (const { kind, ending } of POSSIBLE)
    for (const protocol of PROTOCOLS)
      for (const instance of [0, 1]) {
        const name = nameOf(kind, ending, protocol, instance)
        const { afterMs = Number.NaN, seen = 'nothing' } = felt.get(name) ?? {}
        t.ok(afterMs <= limitMs, `${name}: ${seen} after ${afterMs} ms`)
        t.match(seen, SEEN[protocol], name)
        if (ending === 'expiry' && seen !== 'transport error') t.ok(afterMs > -EARLY_MS, `${name}: not before`)
      }
}

/** Tokens that have been ended, for those who ask after a restart. */
const over: Cell[] = []

t.test('every ending is felt on both instances within a second, by all protocols and kinds of token', async t => {
  const cells = await makeCells(openCell)
  checkFelt(t, await endAll(cells), 1000)
  over.push(...cells)
})

t.test('a token bound to a network opens no Socket.IO namespace from elsewhere', async t => {
  const made = await call('POST', '/auth/admin/clients', { name: 'bound', ...access, addresses: ['127.0.0.1/32'] })
  const token = await clientToken(made)
  for (const transport of ['polling', 'websocket'] as const) {
    t.equal(await tryNamespace(first, token, transport, '127.0.0.1'), 'open')
    t.equal(await tryNamespace(first, token, transport, '198.51.100.7'), 'GW_UNAUTHENTICATED')
  }
})

t.test('with Redis away every ending is felt within five seconds', async t => {
  const cells = await makeCells(openCell)
  await redis.kill()
  checkFelt(t, await endAll(cells), 5000)
  over.push(...cells)
  await redis.restart()
})

t.test('after a restart every ending is still felt, also one that came while the instance was gone', async t => {
  const cells = await makeCells(async cell => cell)
  await second.gateway.close()
  for (const { end, holder } of cells) await end(holder)
  const soon = cells.filter(isSoon).toSorted((a, b) => +b.holder.expiresAt - +a.holder.expiresAt)
  const token = soon[0]?.holder.token ?? ''
  const isOver = async () => (await first.fetch('/plain', { token })).status === 401
  await until(isOver, 'the last token has expired', 2 * Math.max(...SHORT_MS))
  const restarted = await startGateway(t, { ...options, port: second.port })
  for (const { kind, ending, holder } of [...over, ...cells]) {
    const answers = await tryEveryKind(restarted, holder.token)
    t.match(answers, REFUSED, `${kind} / ${ending}: ${Object.values(answers).join(', ')}`)
  }
  t.equal(over.length + cells.length, 3 * POSSIBLE.length)
})

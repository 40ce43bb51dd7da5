// Answers which files a request, a login and a change of role run through, by V8's count of the functions called: `npm run walks`.
import { once } from 'node:events'
import { Session } from 'node:inspector/promises'
import { relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { WebSocket } from 'ws'
import { startGateway } from '../../test/support/gateway.ts'
import { startBackend } from '../../test/support/gateway-process.ts'
import { jsonRequest, logIn } from '../../test/support/login.ts'
import { startOpenLdap } from '../../test/support/openldap.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { startTool } from '../teardown.ts'

const { values } = parseArgs({ options: { list: { type: 'boolean', default: false } } })
const GATEWAY = fileURLToPath(new URL('../../gateway/', import.meta.url))
const RUNS = 5
/** What runs by itself has run in this time. */
const IDLE_MS = 10_000

const t = startTool()
const [ldap, postgres, redis] = await Promise.all([startOpenLdap(t), startPostgres(t), startRedis(t)])
const world = await startGateway(t, {
  postgres,
  env: { ...ldap.env, LDAP_TIMEOUT_MS: '20000', REDIS_URL: redis.url, BOOTSTRAP_ADMINS: 'ldap:maria' },
  config: {
    upstreams: { app: { url: (await startBackend(t)).url } },
    routes: [
      { path: '/api/*', upstream: 'app', roles: ['Admin'] },
      { path: '/ws', upstream: 'app', roles: ['Agente'], websocket: {} }
    ]
  }
})

const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true })

/** The functions of the gateway that were called since the last time, as `file offset`. */
const called = async (): Promise<Set<string>> => {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const functions = result.flatMap(({ url, functions }) =>
    functions.flatMap(({ ranges: [range] }) =>
      url.startsWith('file:') && range !== undefined && range.count > 0
        ? [`${relative(GATEWAY, fileURLToPath(url))} ${range.startOffset}`]
        : []
    )
  )
  return new Set(functions.filter(one => !one.startsWith('..')))
}

const setProfiles = (id: number, ...profiles: string[]) =>
  world.fetch(
    `/auth/admin/users/${id}/access`,
    jsonRequest('PUT', maria.token, { profiles, areas: ['Geral'], areaPrincipal: 'Geral' })
  )

const maria = await logIn(world, 'maria')
const { user } = await logIn(world, 'ana')

/** A WebSocket of ana, who may have it. */
const openSocket = async (): Promise<WebSocket> => {
  await setProfiles(user.id, 'Agente')
  const { token } = await logIn(world, 'ana')
  return world.socket('/ws', token)
}

const get = async () => (await world.fetch('/api/x', { token: maria.token })).text()
const WALKS: Record<string, (socket: WebSocket) => Promise<unknown>> = {
  'authorised GET': get,
  login: () => logIn(world, 'ana'),
  'change of role, until the socket ends': socket =>
    Promise.all([once(socket, 'close'), setProfiles(user.id, 'Supervisor')])
}

/** The functions of all runs, except those that run by themselves. */
const functionsOf = async (walk: (socket: WebSocket) => Promise<unknown>, idle: ReadonlySet<string>) => {
  let common: string[] | undefined
  for (let run = 0; run < RUNS; run++) {
    const socket = await openSocket()
    await called()
    await walk(socket)
    const now = await called()
    common = (common ?? [...now].filter(one => !idle.has(one))).filter(one => now.has(one))
    socket.terminate()
  }
  return common ?? []
}

await get()
await called()
await delay(IDLE_MS)
const idle = await called()
for (const [name, walk] of Object.entries(WALKS)) {
  const functions = await functionsOf(walk, idle)
  const files = [...new Set(functions.map(one => one.split(' ', 1)[0] ?? ''))].sort()
  console.log(`${name}: ${files.length} files`)
  if (values.list) console.log(files.map(file => `  ${file}`).join('\n'))
}
await t.exit(0)

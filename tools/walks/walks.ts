// Answers which files a request, a login and a change of role run through, by V8's count of the functions called: `npm run walks`.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { Session } from 'node:inspector/promises'
import type { AddressInfo } from 'node:net'
import { relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import WebSocket, { WebSocketServer } from 'ws'
import { startGateway } from '../../test/support/gateway.ts'
import { jsonRequest, logIn } from '../../test/support/login.ts'
import { startOpenLdap } from '../../test/support/openldap.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { provision } from '../../test/support/provision.ts'
import { startRedis } from '../../test/support/redis.ts'

const { values } = parseArgs({ options: { list: { type: 'boolean', default: false } } })
const GATEWAY = fileURLToPath(new URL('../../gateway/', import.meta.url))
const RUNS = 5

provision(console.log)
const undo: (() => unknown)[] = []
const t = { teardown: (action: () => unknown) => undo.push(action) }
const [ldap, postgres, redis] = await Promise.all([startOpenLdap(t), startPostgres(t), startRedis(t)])
const server = createServer((_request, response) => response.end('ok')).listen(0, '127.0.0.1')
const sockets = new WebSocketServer({ server })
await once(server, 'listening')
const world = await startGateway(t, {
  postgres,
  env: { ...ldap.env, LDAP_TIMEOUT_MS: '20000', REDIS_URL: redis.url, BOOTSTRAP_ADMINS: 'ldap:maria' },
  config: {
    upstreams: { app: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` } },
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

/** The files of the gateway in which a function was called since the last time. */
const called = async (): Promise<Set<string>> => {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const files = result
    .filter(({ functions }) => functions.some(({ ranges: [range] }) => (range?.count ?? 0) > 0))
    .flatMap(({ url }) => (url.startsWith('file:') ? [relative(GATEWAY, fileURLToPath(url))] : []))
  return new Set(files.filter(file => !file.startsWith('..')))
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
  const socket = new WebSocket(`${world.url.replace('http', 'ws')}/ws`, {
    headers: { authorization: `Bearer ${token}` }
  })
  await once(socket, 'open')
  return socket
}

const get = async () => (await world.fetch('/api/x', { token: maria.token })).text()
const WALKS: Record<string, (socket: WebSocket) => Promise<unknown>> = {
  'authorised GET': get,
  login: () => logIn(world, 'ana'),
  'change of role, until the socket ends': socket =>
    Promise.all([once(socket, 'close'), setProfiles(user.id, 'Supervisor')])
}

/** The files of all runs: what else happens to run meanwhile is missing from some of them. */
const filesOf = async (walk: (socket: WebSocket) => Promise<unknown>): Promise<string[]> => {
  let files: string[] | undefined
  for (let run = 0; run < RUNS; run++) {
    const socket = await openSocket()
    await delay(100)
    await called()
    await walk(socket)
    const now = await called()
    files = files?.filter(file => now.has(file)) ?? [...now].sort()
    socket.terminate()
  }
  return files ?? []
}

await get()
for (const [name, walk] of Object.entries(WALKS)) {
  const files = await filesOf(walk)
  console.log(`${name}: ${files.length} files`)
  if (values.list) console.log(files.map(file => `  ${file}`).join('\n'))
}
sockets.close()
server.close().closeAllConnections()
for (const action of undo.reverse()) await action()
process.exit()

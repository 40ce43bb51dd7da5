// The limit of open files is reached: what needs a new descriptor fails and says why, everything else goes on.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import net from 'node:net'
import t from 'tap'
import { routeFile, startGatewayProcess } from '../support/gateway-process.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { connectRaw } from '../support/raw-client.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const limitOf = (pid: number, files: number) => execFileSync('prlimit', ['--pid', String(pid), `--nofile=${files}`])
const openFilesOf = (pid: number) => readdirSync(`/proc/${pid}/fd`).length

t.test('without a free descriptor targets keep their state, requests get 503, and files are read later', async t => {
  // RV-13
  const targets = [await startRawUpstream(t), await startRawUpstream(t)]
  for (const target of targets)
    target.respond(() => 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok')
  const configWith = (path: string) => ({
    upstreams: {
      app: { targets: targets.map(({ url }) => url), healthCheck: { path: '/up', interval: '50ms' } },
      unchecked: { url: targets[0]?.url }
    },
    routes: [
      { path, upstream: 'app', public: true },
      { path: '/unchecked', upstream: 'unchecked', public: true }
    ]
  })
  const { folder, write } = routeFile(t, configWith('/old'))
  const opsPort = await freePort()
  const gateway = await startGatewayProcess(t, folder, { DATABASE_URL: postgres.url, OPS_PORT: String(opsPort) })
  const { port } = gateway
  const [client, ops] = [await connectRaw(port), await connectRaw(opsPort)]
  const get = (path: string, from = client) => {
    from.send(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
    return from.response()
  }
  const statusOf = async (path: string) => (await get(path)).status
  t.same([await statusOf('/old'), await statusOf('/unchecked')], [200, 200])
  const checks = () => targets.reduce((sum, { requests }) => sum + requests.length, 0)

  limitOf(gateway.pid, openFilesOf(gateway.pid) + 10)
  const idle: net.Socket[] = []
  // A check may hold the last descriptor for a moment.
  const isFull = async () => {
    const socket = net.connect(port, '127.0.0.1').on('error', () => undefined)
    idle.push(socket)
    await once(socket, 'connect')
    const statuses: number[] = []
    for (let n = 0; n < 10; n++) statuses.push(await statusOf(n % 2 === 0 ? '/old' : '/unchecked'))
    return statuses.every(status => status === 503)
  }
  await until(isFull)
  const isSaid = (start: string) => until(() => gateway.lines().some(({ msg }) => msg.startsWith(start)), start)
  await isSaid('no file descriptor is left')
  write(configWith('/new'))
  t.equal(await statusOf('/new'), 401)
  const metrics = await get('/metrics', ops)
  t.match(metrics.body, /^portaria_descriptors_exhausted_total [1-9]/m)

  for (const socket of idle) socket.destroy()
  const before = checks()
  await until(async () => (await statusOf('/new')) === 200, 'the new file is in use')
  await until(() => checks() > before + 4, 'checks go on')
  const lines = gateway
    .lines()
    .filter(({ msg }) => /no file descriptor|target is down|not reloaded|files could not be/.test(msg))
  const reasons = lines.map(({ level, reason }) => [level, reason])
  t.same(reasons, [[50, 'descriptors-exhausted']])
  await isSaid('file descriptors are left again')
})

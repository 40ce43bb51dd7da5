// In the 256 MB of a small container a gateway full of stuck clients and backends lives, answers, and ends well. DF-23
import { readdirSync, readFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { routeFile, startBackend, startGatewayProcess } from '../support/gateway-process.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { makeFolder } from '../support/server-process.ts'
import { until } from '../support/until.ts'

const STUCK = 80
const CONTAINER_MB = 256
const PART = Buffer.alloc(256 * 1024, 'x')

/** Accepts connections; to a GET it sends without end, of anything else it reads nothing. */
const startStuckBackend = async () => {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('data', head => {
      socket.pause()
      if (!head.toString('latin1').startsWith('GET')) return
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n')
      const more = () => {
        while (!socket.destroyed && socket.write(PART));
      }
      socket.on('drain', more)
      more()
    })
  })
  const port = await listen(t, server)
  return { url: `http://127.0.0.1:${port}`, open: () => sockets.size }
}

t.test(`${2 * STUCK} stuck exchanges leave others their answers within ${CONTAINER_MB} MB`, async t => {
  const [postgres, stuck, quick] = await Promise.all([startPostgres(t), startStuckBackend(), startBackend(t)])
  const { folder } = routeFile(t, {
    upstreams: { stuck: { url: stuck.url, timeout: '60s' }, quick: { url: quick.url, connectTimeout: '60s' } },
    routes: [
      { path: '/stuck', upstream: 'stuck', public: true },
      { path: '/quick', upstream: 'quick', public: true }
    ]
  })
  const dumps = makeFolder(t, 'dumps')
  const gateway = await startGatewayProcess(t, folder, {
    DATABASE_URL: postgres.url,
    DRAIN_TIMEOUT: '1s',
    NODE_OPTIONS: `--max-old-space-size=96 --diagnostic-dir=${dumps}`
  })
  const { port } = gateway
  const clients = Array.from({ length: 2 * STUCK }, (_, index) => {
    const client = connect(port, '127.0.0.1')
    client.on('error', () => undefined)
    if (index % 2 === 0) client.write('GET /stuck HTTP/1.1\r\nHost: gw\r\n\r\n')
    else {
      client.write('POST /stuck HTTP/1.1\r\nHost: gw\r\nContent-Length: 1000000000\r\n\r\n')
      const more = () => {
        while (!client.destroyed && client.write(PART));
      }
      client.on('drain', more)
      more()
    }
    client.pause()
    return client
  })
  t.teardown(() => {
    for (const client of clients) client.destroy()
  })
  // Every way is full when nothing moves any more: what the gateway holds then is all that it will ever hold.
  await until(() => stuck.open() >= STUCK, 'all are stuck')
  const statuses = new Set<number>()
  for (let round = 0; round < 40; round++) {
    const answer = await fetch(`http://127.0.0.1:${port}/quick`, { signal: AbortSignal.timeout(60_000) })
    await answer.text()
    statuses.add(answer.status)
  }
  t.same([...statuses], [200], 'those who are not stuck are answered')
  const rssMb = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1]) / 1024
  t.ok(rssMb < CONTAINER_MB, `${Math.round(rssMb)} MB at most`)
  gateway.signal('SIGTERM')
  t.equal(await gateway.ended, 0)
  t.same(readdirSync(dumps), [], 'no snapshot of the heap, which would hold secrets, is written')
})

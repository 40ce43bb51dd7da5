// A fault in any callback of a request or connection ends only that one: each row plants one, where the gateway's code is entered.
import net from 'node:net'
import t, { type Test } from 'tap'
import { Upload } from '../../gateway/forward/upload.ts'
import { Exchange } from '../../gateway/http/exchange.ts'
import { Http1Connection } from '../../gateway/http/http1/connection.ts'
import { Http1Response } from '../../gateway/http/http1/response.ts'
import { Outbox } from '../../gateway/http/outbox.ts'
import { HttpRequest } from '../../gateway/http/request.ts'
import { UpstreamConnection } from '../../gateway/upstream/connection.ts'
import { type Requester, ResponseParser } from '../../gateway/upstream/parser.ts'
import { faultCounts } from '../../gateway/values/contain.ts'
import { Relay } from '../../gateway/websocket/relay.ts'
import { startGateway, type World } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import type { RawConnection, RawResponse } from '../support/raw-client.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { rawWebSocket, switchingProtocols } from '../support/raw-websocket.ts'
import { stockModel } from '../support/socketio-models.ts'
import { startModelledUpstream } from '../support/socketio-upstream.ts'
import { until } from '../support/until.ts'

const BIG = 24 * 1024 * 1024
const postgres = await startPostgres(t)

const startWorld = async (t: Test) => {
  const raw = await startRawUpstream(t)
  const deaf = await startDeafUpstream(t)
  const modelled = await startModelledUpstream(t, () => stockModel(['/messaging']))
  const world = await startGateway(t, {
    postgres,
    config: {
      upstreams: {
        raw: { url: raw.url, timeout: '10s' },
        deaf: { url: deaf.url },
        io: { url: `http://127.0.0.1:${modelled.port}` }
      },
      routes: [
        { path: '/open/*', upstream: 'raw', public: true },
        { path: '/deaf', upstream: 'deaf', public: true },
        { path: '/silent', upstream: 'raw', public: true, timeout: '200ms' },
        { path: '/ws', upstream: 'raw', websocket: {} },
        { path: '/socket.io/*', upstream: 'io', socketio: { namespaces: { '/messaging': {} } } }
      ]
    },
    env: { OPS_PORT: '0' }
  })
  const held: net.Socket[] = []
  raw.respond(({ target, head, socket }) => {
    if (target === '/ws') {
      socket.on('data', bytes => void bytes)
      return switchingProtocols(head)
    }
    if (target === '/open/held') return void held.push(socket)
    if (target === '/silent') return undefined
    if (target === '/open/reset') return one => one.resetAndDestroy()
    if (target === '/open/chunked') return 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'
    if (target !== '/open/big') return OK
    return one => {
      one.write(`HTTP/1.1 200 OK\r\ncontent-length: ${BIG}\r\n\r\n`)
      one.write(Buffer.alloc(BIG, 'b'))
    }
  })
  const token = await world.tokenFor({ profiles: ['Admin'] })
  const forward = await requesterPrototype(world)
  return { raw, deaf, world, held, token, forward }
}

/** An upstream that reads nothing until it is told to. */
const startDeafUpstream = async (t: Test) => {
  const sockets: net.Socket[] = []
  let isReading = false
  const server = net.createServer({ pauseOnConnect: true }, socket => {
    sockets.push(socket.on('error', () => undefined))
    // The gateway may have filled the buffers before the connection is accepted here.
    if (isReading) socket.resume()
  })
  const port = await listen(t, server)
  return {
    url: `http://127.0.0.1:${port}`,
    read() {
      isReading = true
      for (const socket of sockets) socket.resume()
    }
  }
}

type Open = Awaited<ReturnType<typeof startWorld>>
// biome-ignore lint/suspicious/noExplicitAny: the methods of any class
type Methods = Record<string, (...args: any[]) => unknown>

/** What requests to upstreams are made with; it is no export. */
const requesterPrototype = async (world: World): Promise<object> => {
  let found: object | undefined
  const { send } = UpstreamConnection.prototype
  UpstreamConnection.prototype.send = function (method, head, requester: Requester, timeoutMs) {
    found = Object.getPrototypeOf(requester)
    return send.call(this, method, head, requester, timeoutMs)
  }
  await world.raw(get('/open/first'))
  UpstreamConnection.prototype.send = send
  if (found === undefined) throw new Error('nothing was sent')
  return found
}

/** The method throws the next time that it is called, with an argument that contains this. */
const plant = (prototype: object, method: string, argument = ''): (() => boolean) => {
  const methods = prototype as Methods
  const own = methods[method]
  if (own === undefined) throw new Error(`there is no ${method}`)
  let hasThrown = false
  methods[method] = function (...args) {
    if (!String(args[0]).includes(argument)) return own.apply(this, args)
    methods[method] = own
    hasThrown = true
    throw new Error(`planted in ${method}`)
  }
  return () => hasThrown
}

const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: gw\r\n${more}\r\n`

/** The status of the answer, or 'cut' if it is not complete. */
const outcomeOf = (answer: Promise<RawResponse>): Promise<number | 'cut'> =>
  answer.then(
    ({ status, complete }) => (complete ? status : 'cut'),
    () => 'cut' as const
  )

const ask =
  (bytes: string | Buffer) =>
  async ({ world }: Open) => {
    const client = await world.connect()
    client.send(bytes)
    const outcome = await outcomeOf(client.response())
    client.destroy()
    return outcome
  }

const upload = (size: number, path = '/open/x') =>
  Buffer.concat([
    Buffer.from(`POST ${path} HTTP/1.1\r\nHost: gw\r\nContent-Length: ${size}\r\n\r\n`),
    Buffer.alloc(size, 'u')
  ])

/** The upstream reads the body only when its connection is full; a client is also paused before there is one. */
const fill = async ({ world, deaf }: Open) => {
  let isFull = false
  const { write } = UpstreamConnection.prototype
  UpstreamConnection.prototype.write = function (bytes) {
    const flows = write.call(this, bytes)
    isFull ||= !flows
    return flows
  }
  const client = await world.connect()
  client.send(upload(BIG, '/deaf'))
  await until(() => isFull)
  UpstreamConnection.prototype.write = write
  deaf.read()
  const outcome = await outcomeOf(client.response())
  client.destroy()
  return outcome
}

/** Leaves while its request is in progress. */
const leave = async ({ world, held }: Open) => {
  const client = await world.connect()
  const before = held.length
  client.send(get('/open/held'))
  await until(() => held.length > before)
  client.socket.resetAndDestroy()
  return 'gone' as const
}

/** Its second request arrives together with the first. */
const pipeline = async ({ world }: Open) => {
  const client = await world.connect()
  client.send(get('/open/a') + get('/open/b'))
  const first = await outcomeOf(client.response())
  const second = await outcomeOf(client.response())
  client.destroy()
  return first === 200 ? second : first
}

const end = async ({ world }: Open) => {
  const client = await world.connect()
  client.send(get('/open/a'))
  await client.response()
  client.socket.end()
  await client.closed()
  return 'gone' as const
}

const openSocket = ({ world, token }: Open) =>
  rawWebSocket(world.port, { path: '/ws', headers: { authorization: `Bearer ${token}` } })

const upgrade = async (open: Open) => {
  const socket = await openSocket(open)
  if (!/^HTTP\/1\.1 101/.test(socket.head())) return Number(socket.head().slice(9, 12))
  socket.send(1, 'x')
  await socket.closed
  return 'cut' as const
}

const upgradeAndLeave = async (open: Open) => {
  const socket = await openSocket(open)
  socket.socket.resetAndDestroy()
  return 'gone' as const
}

const openSocketIo = async ({ world }: Open) => {
  const socket = await rawWebSocket(world.port, { path: '/socket.io/?EIO=4&transport=websocket' })
  const token = await world.tokenFor()
  socket.send(1, `40/messaging,${JSON.stringify({ token })}`)
  await socket.closed
  return 'cut' as const
}

interface Row {
  readonly name: string
  readonly in: (open: Open) => readonly [prototype: object, method: string, argument?: string]
  readonly by: (open: Open) => Promise<number | 'cut' | 'gone'>
  readonly outcome: number | 'cut' | 'gone'
  readonly place: 'request' | 'client' | 'upstream' | 'stream'
}

const OWN_LOGIN =
  'POST /auth/login HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'
const forward = ({ forward }: Open) => forward

// biome-ignore format: a table
const ROWS: readonly Row[] = [
  { name: 'bytes of a client', in: () => [Http1Connection.prototype, 'take'], by: ask(get('/open/x')), outcome: 'cut', place: 'client' },
  { name: 'a step of a request', in: () => [UpstreamConnection.prototype, 'send'], by: ask(get('/open/x')), outcome: 500, place: 'request' },
  { name: 'a pipelined request in its turn', in: () => [Http1Connection.prototype, 'goOn'], by: pipeline, outcome: 'cut', place: 'client' },
  { name: 'the batch that sends a response', in: () => [Outbox.prototype, 'flush'], by: ask(get('/health')), outcome: 200, place: 'client' },
  { name: 'a response that has been taken', in: () => [Http1Connection.prototype, 'onTaken'], by: ask(get('/health')), outcome: 200, place: 'client' },
  { name: 'the end of an exchange', in: () => [Exchange.prototype, 'onClosed'], by: ask(get('/open/x')), outcome: 200, place: 'client' },
  { name: 'the end of a client', in: () => [Http1Connection.prototype, 'onPeerEnd'], by: end, outcome: 'gone', place: 'client' },
  { name: 'the close of a client', in: () => [Http1Connection.prototype, 'onClose'], by: end, outcome: 'gone', place: 'client' },
  { name: 'a client that leaves', in: open => [forward(open), 'abort'], by: leave, outcome: 'gone', place: 'client' },
  { name: 'bytes of a body', in: () => [Upload.prototype, 'onUpload'], by: ask(upload(5)), outcome: 500, place: 'request' },
  { name: 'the end of a body', in: () => [Upload.prototype, 'onUploadEnd'], by: ask(upload(5)), outcome: 500, place: 'request' },
  { name: 'an upstream that takes bytes again', in: open => [forward(open), 'onDrain'], by: fill, outcome: 500, place: 'request' },
  { name: 'the batch that sends a request', in: () => [UpstreamConnection.prototype, 'flush'], by: ask(get('/open/x')), outcome: 500, place: 'request' },
  { name: 'bytes of an upstream', in: () => [ResponseParser.prototype, 'take'], by: ask(get('/open/x')), outcome: 500, place: 'request' },
  { name: 'a response head', in: open => [forward(open), 'onHead'], by: ask(get('/open/x')), outcome: 500, place: 'request' },
  { name: 'bytes of a response', in: open => [forward(open), 'onBody'], by: ask(get('/open/big')), outcome: 'cut', place: 'request' },
  { name: 'the end of a response', in: open => [forward(open), 'onEnd'], by: ask(get('/open/chunked')), outcome: 'cut', place: 'request' },
  { name: 'a client that has taken bytes', in: open => [forward(open), 'onTaken'], by: ask(get('/open/big')), outcome: 'cut', place: 'request' },
  { name: 'a reset of an upstream', in: open => [forward(open), 'onFault'], by: ask(get('/open/reset')), outcome: 500, place: 'request' },
  { name: 'the deadline of an upstream', in: () => [UpstreamConnection.prototype, 'expire'], by: ask(get('/silent')), outcome: 500, place: 'request' },
  { name: 'the answer of an own endpoint', in: () => [Http1Response.prototype, 'whole'], by: ask(get('/auth/config')), outcome: 500, place: 'request' },
  { name: 'the answer of /health', in: () => [Http1Response.prototype, 'whole'], by: ask(get('/health')), outcome: 500, place: 'request' },
  { name: 'the body of an own endpoint', in: () => [HttpRequest.prototype, 'read'], by: ask(OWN_LOGIN), outcome: 500, place: 'request' },
  { name: 'a handshake of Socket.IO by polling', in: () => [UpstreamConnection.prototype, 'send'], by: ask(get('/socket.io/?EIO=4&transport=polling')), outcome: 500, place: 'request' },
  { name: 'a WebSocket that is dialled', in: () => [net.Socket.prototype, 'write', 'x-request-id'], by: upgrade, outcome: 500, place: 'request' },
  { name: 'bytes of a WebSocket', in: () => [Relay.prototype, 'passData'], by: upgrade, outcome: 'cut', place: 'stream' },
  { name: 'the sweep of WebSockets', in: () => [Relay.prototype, 'sweep'], by: upgrade, outcome: 'cut', place: 'stream' },
  { name: 'a WebSocket that is gone', in: () => [Relay.prototype, 'onGone'], by: upgradeAndLeave, outcome: 'gone', place: 'stream' },
  { name: 'a packet of Socket.IO', in: () => [Relay.prototype, 'send'], by: openSocketIo, outcome: 'cut', place: 'stream' }
]

/** What is going on meanwhile: a request in progress, and later a new one. */
const bystander = async ({ world, held }: Open) => {
  const client: RawConnection = await world.connect()
  const before = held.length
  client.send(get('/open/held'))
  await until(() => held.length > before)
  const socket = held[before]
  return async () => {
    socket?.write(OK)
    const answer = await client.response()
    client.destroy()
    return answer.status
  }
}

for (const row of ROWS)
  t.test(`a fault in ${row.name} ends only what it happened in`, async t => {
    const open = await startWorld(t)
    const { world } = open
    const others = await bystander(open)
    const before = { ...faultCounts() }
    const [prototype, method, argument] = row.in(open)
    const hasThrown = plant(prototype, method, argument)

    t.equal(await row.by(open), row.outcome)
    await until(hasThrown, 'the fault is thrown')
    const line = await world.logged(({ err }) => JSON.stringify(err ?? '').includes(`planted in ${method}`))
    t.match(line, { level: 50, place: row.place, err: { stack: /planted in .*\n.*planted-faults\.test\.ts/s } })
    if (row.place === 'request' || row.place === 'stream') {
      const { requestId } = line
      t.ok(typeof requestId === 'string')
      const request = await world.logged(one => one.msg === 'request' && one.requestId === requestId)
      if (row.outcome === 500) t.match(request, { status: 500, code: 'GW_INTERNAL' })
    }
    t.equal(faultCounts()[row.place], before[row.place] + 1)
    t.equal(await others(), 200, 'a request in progress goes on')
    t.equal(await ask(get('/open/after'))(open), 200, 'so do new ones')
    const metrics = await (await fetch(`http://127.0.0.1:${world.gateway.opsPort}/metrics`)).text()
    t.match(metrics, `portaria_faults_total{place="${row.place}"} ${faultCounts()[row.place]}\n`)
    t.equal(world.log.filter(({ level }) => level === 50).length, 1, 'it is logged once')
  })

// Puts a balancer that sends every request elsewhere before two instances with two workers each, and talks through it with stock Socket.IO clients.
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { Server } from 'socket.io'
import { io, type Socket } from 'socket.io-client'
import type { Test } from 'tap'
import { routeFile, startGatewayProcess } from './gateway-process.ts'
import { listen } from './ports.ts'
import type { TestRedis } from './redis.ts'
import { routesTo } from './routes.ts'
import { signToken } from './signed-tokens.ts'
import { closeSoon } from './socketio-upstream.ts'
import { TEST_SECRET } from './test-secret.ts'
import { until } from './until.ts'

type Teardown = Pick<Test, 'teardown'>

/** The backend, which returns what is said to it. `lost`: the people whose connections have ended. */
const startChat = async (t: Teardown) => {
  const server = http.createServer()
  const chat = new Server(server, { connectionStateRecovery: {}, pingInterval: 5000 })
  closeSoon(chat.engine)
  const lost = new Set<number>()
  chat.of('/chat').on('connection', socket => {
    socket.on('disconnect', () => lost.add(socket.handshake.auth.user.id))
    socket.on('say', (i: number, bytes: Buffer) => socket.emit('heard', i, bytes))
    socket.on('ask', (i: number, answer: (i: number) => void) => answer(i))
  })
  const url = `http://127.0.0.1:${await listen(t, server)}`
  t.teardown(() => new Promise<void>(resolve => void chat.close(() => resolve())))
  return { url, lost }
}

/** Each request on a connection of its own, to the next port in turn that takes it. */
export const startBalancer = async (t: Teardown, ports: readonly number[]): Promise<string> => {
  let turn = 0
  const forward = (req: IncomingMessage, onBegun: (forwarded: http.ClientRequest) => void, at = turn++, tries = 1) => {
    const { method, url, headers } = req
    const port = ports[at % ports.length]
    const forwarded = http.request({ port, host: '127.0.0.1', method, path: url, headers, agent: false })
    forwarded.once('socket', socket => socket.once('connect', () => onBegun(forwarded)))
    forwarded.on('error', error => {
      const isRefused = 'code' in error && error.code === 'ECONNREFUSED'
      if (isRefused && tries < ports.length) forward(req, onBegun, at + 1, tries + 1)
      else req.socket.destroy()
    })
  }
  const balancer = http.createServer((req, res) => {
    forward(req, forwarded => {
      forwarded.on('response', answer => pass(answer, res))
      res.on('close', () => forwarded.destroy())
      req.pipe(forwarded)
    })
  })
  balancer.on('upgrade', (req: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => socket.destroy())
    forward(req, forwarded => {
      forwarded.on('upgrade', (answer, upstream, rest) => join(socket, answer, upstream, rest))
      forwarded.on('response', () => socket.destroy())
      socket.on('close', () => forwarded.destroy())
      forwarded.end()
    })
  })
  return `http://127.0.0.1:${await listen(t, balancer)}`
}

const pass = (answer: IncomingMessage, res: ServerResponse) => {
  res.writeHead(answer.statusCode ?? 502, answer.headers)
  answer.on('error', () => res.destroy())
  answer.pipe(res)
}

const join = (client: Duplex, answer: IncomingMessage, upstream: Duplex, rest: Buffer) => {
  const lines = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}\r\n`)
  client.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`)
  client.write(rest)
  client.pipe(upstream).pipe(client)
  upstream.on('error', () => client.destroy())
  client.on('close', () => upstream.destroy())
  upstream.on('close', () => client.destroy())
}

export const startSpreadChats = async (t: Teardown, redis: Pick<TestRedis, 'url'>, databaseUrl: string) => {
  const chat = await startChat(t)
  const { folder } = routeFile(
    t,
    routesTo(chat.url, [{ path: '/socket.io/*', socketio: { namespaces: { '/chat': {} } } }])
  )
  const stores = { DATABASE_URL: databaseUrl, REDIS_URL: redis.url }
  const env = { ...stores, WORKERS: '2', STREAMS_PER_IP: '100%', CONNECTIONS_PER_IP: '2000' }
  const instances = [await startGatewayProcess(t, folder, env), await startGatewayProcess(t, folder, env)]
  const url = await startBalancer(
    t,
    instances.map(({ port }) => port)
  )
  const connect = async (id: number, transports: string[], options: object = {}): Promise<Socket> => {
    const token = await signToken(TEST_SECRET, { id, username: `person-${id}` })
    const client = io(`${url}/chat`, { forceNew: true, transports, auth: { token }, ...options })
    t.teardown(() => client.disconnect())
    return client
  }
  return { instances, connect, lost: chat.lost }
}

export type SpreadChats = Awaited<ReturnType<typeof startSpreadChats>>

const SAID = 12
const TRANSPORTS = [['polling'], ['polling', 'websocket'], ['polling', 'websocket'], ['websocket']]

/** What a client says, beginning with this number, comes back in order and once. @returns what went wrong */
const converse = async (client: Socket, from: number): Promise<string | undefined> => {
  const heard: number[] = []
  const listen = (i: number, bytes: Buffer) => heard.push(bytes.equals(Buffer.from([i % 256])) ? i : -1)
  client.on('heard', listen)
  const expected = Array.from({ length: SAID }, (_, i) => from + i)
  for (const i of expected) {
    client.emit('say', i, Buffer.from([i % 256]))
    if (i % 3 === 0) await client.timeout(60_000).emitWithAck('ask', i)
  }
  await until(
    () => heard.length >= SAID,
    () => `heard ${heard}`
  )
  client.off('heard', listen)
  return heard.join() === expected.join() ? undefined : `heard ${heard}`
}

const connected = (client: Socket, what: string) => until(() => client.connected, what)

/** Connects, talks while the transport is upgraded, loses the connection, recovers it and goes on. */
const talk = async ({ connect, lost }: SpreadChats, n: number): Promise<string | undefined> => {
  const transports = TRANSPORTS[n % TRANSPORTS.length] ?? []
  const client = await connect(n + 1, transports, { reconnection: false })
  let disconnects = 0
  client.on('disconnect', () => disconnects++)
  try {
    await connected(client, 'connected')
    const first = await converse(client, 0)
    if (first !== undefined) return first
    if (transports.length === 2) {
      await until(() => client.io.engine.transport.name === 'websocket', 'upgraded')
    }
    const second = await converse(client, SAID)
    if (second !== undefined) return second
    if (disconnects > 0) return 'disconnected without a reason'
    client.io.engine.close()
    // The backend recovers what it knows to be lost.
    await until(() => disconnects === 1 && lost.has(n + 1), 'lost the connection')
    client.connect()
    await connected(client, 'connected again')
    if (!client.recovered) return 'not recovered'
    return await converse(client, 2 * SAID)
  } catch (error) {
    return String(error)
  } finally {
    client.disconnect()
  }
}

/** @returns what went wrong in each conversation that was not in order and complete */
export const holdConversations = async (world: SpreadChats, count: number, atOnce = 8): Promise<string[]> => {
  const failures: string[] = []
  let next = 0
  const hold = async () => {
    while (next < count) {
      const n = next++
      const wrong = await talk(world, n)
      if (wrong !== undefined) failures.push(`conversation ${n}: ${wrong}`)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, hold))
  return failures
}

/** An instance is killed while clients talk: what each of them needed to talk again. */
export const killInTheMiddle = async ({ connect, instances }: SpreadChats, count: number) => {
  const clients = await Promise.all(
    Array.from({ length: count }, (_, n) => connect(10_000 + n, TRANSPORTS[n % TRANSPORTS.length] ?? []))
  )
  await Promise.all(clients.map(client => connected(client, 'connected')))
  const talks = (client: Socket) =>
    until(async () => {
      const ask = () => client.timeout(1000).emitWithAck('ask', 1)
      return client.connected && (await ask().catch(() => 0)) === 1
    }, 'talks')
  for (const client of clients) await talks(client)
  const pids = instances[0]?.workers() ?? []
  instances[0]?.signal('SIGKILL')
  for (const pid of pids) process.kill(pid, 'SIGKILL')
  const killedAt = performance.now()
  const returns = clients.map(async client => {
    let attempts = 0
    let backAt = killedAt
    client.io.on('reconnect_attempt', () => attempts++)
    client.on('connect', () => {
      backAt = performance.now()
    })
    await talks(client)
    // To connect again; 0: it has lost nothing.
    return { attempts, afterMs: backAt - killedAt }
  })
  return Promise.all(returns)
}

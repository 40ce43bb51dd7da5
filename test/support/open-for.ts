// Opens with one token all that a token can have open, and tells what ended each and what a later attempt is answered.
import http from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { Server } from 'socket.io'
import { io } from 'socket.io-client'
import type { Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import type { World, WorldOptions } from './gateway.ts'
import { listen } from './ports.ts'
import { closeSoon } from './socketio-upstream.ts'

export const PROTOCOLS = ['HTTP', 'SSE', 'WebSocket', 'Socket.IO', 'Socket.IO by polling'] as const

export type Protocol = (typeof PROTOCOLS)[number]

/** Of each protocol: waits until it has ended, and says how: a status, a close code, a reason. */
export type Opened = Record<Protocol, () => Promise<string>>

const BETWEEN_REQUESTS_MS = 40

/** One backend for all kinds, and the routes to it: events at /events, an echo at /socket, Socket.IO beside them. */
export const startEveryKind = async (
  t: Pick<Test, 'teardown'>,
  roles: readonly string[]
): Promise<NonNullable<WorldOptions['config']>> => {
  const backend = http.createServer((request, response) => {
    if (request.url !== '/events') return void response.end('ok')
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: 1\n\n')
  })
  const echo = new WebSocketServer({ noServer: true })
  backend.on('upgrade', (request, socket, head) => {
    if (request.url === '/socket') echo.handleUpgrade(request, socket, head, open => open.on('error', () => undefined))
  })
  const sockets = new Server(backend, { destroyUpgrade: false })
  closeSoon(sockets.engine)
  sockets.of('/messaging').on('connection', () => undefined)
  const url = `http://127.0.0.1:${await listen(t, backend)}`
  t.teardown(() => void sockets.close())
  return {
    upstreams: { all: { url } },
    routes: [
      { path: '/plain', upstream: 'all', roles },
      { path: '/events', upstream: 'all', roles },
      { path: '/socket', upstream: 'all', roles, websocket: {} },
      { path: '/socket.io/*', upstream: 'all', socketio: { namespaces: { '/messaging': { roles } } } }
    ]
  }
}

const status = async (world: World, path: string, token: string): Promise<number> => {
  const answer = await world.fetch(path, { token })
  await answer.body?.cancel()
  return answer.status
}

const openSocket = (world: World, token: string): WebSocket =>
  new WebSocket(`${world.url.replace('http', 'ws')}/socket`, ['bearer', token], {})

type Transport = 'websocket' | 'polling'

const openNamespace = (world: World, token: string, transport: Transport, from: string) =>
  io(`${world.url}/messaging`, {
    auth: { token },
    transports: [transport],
    extraHeaders: { 'x-forwarded-for': from },
    reconnection: false,
    forceNew: true
  })

let serial = 0

/** Each time another one: an address may have few sessions that prove nothing. */
const nextAddress = () => `198.51.100.${++serial % 250}`

const joinNamespace = async (world: World, token: string, transport: Transport) => {
  const socket = openNamespace(world, token, transport, nextAddress())
  await new Promise<void>((resolve, reject) => socket.on('connect', resolve).on('connect_error', reject))
  return socket
}

/** `open`, or the code of the CONNECT_ERROR. */
export const tryNamespace = async (
  world: World,
  token: string,
  transport: Transport,
  from = nextAddress()
): Promise<string> => {
  const socket = openNamespace(world, token, transport, from)
  try {
    return await new Promise(resolve => {
      socket.on('connect', () => resolve('open'))
      socket.on('connect_error', error => resolve((error as Error & { data?: { code?: string } }).data?.code ?? ''))
    })
  } finally {
    socket.disconnect()
  }
}

/** Resolves when all are open. */
export const openEveryKind = async (world: World, token: string): Promise<Opened> => {
  // A new token is known to the other instance a moment after it was made.
  for (let tries = 0; (await status(world, '/plain', token)) !== 200; tries++) {
    if (tries > 100) throw new Error('the token is refused before its end')
    await delay(BETWEEN_REQUESTS_MS)
  }
  const answer = await world.fetch('/events', { token })
  const reader = answer.body?.getReader()
  await reader?.read()
  const socket = openSocket(world, token)
  await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject))
  const namespace = await joinNamespace(world, token, 'websocket')
  const polled = await joinNamespace(world, token, 'polling')
  const refused = async () => {
    for (;;) {
      const now = await status(world, '/plain', token)
      if (now !== 200) return String(now)
      await delay(BETWEEN_REQUESTS_MS)
    }
  }
  const events =
    reader?.read().then(
      ({ done }) => (done ? 'end' : 'data'),
      () => 'broken'
    ) ?? Promise.resolve('no body')
  const closed = new Promise<string>(resolve => socket.on('close', code => resolve(String(code))))
  const left = new Promise<string>(resolve => namespace.on('disconnect', resolve))
  const leftPolling = new Promise<string>(resolve => polled.on('disconnect', resolve))
  return {
    HTTP: refused,
    SSE: () => events,
    WebSocket: () => closed,
    'Socket.IO': () => left,
    'Socket.IO by polling': () => leftPolling
  }
}

/** What each protocol is answered that is tried now: a status, or the code of a CONNECT_ERROR; `open` when it passes. */
export const tryEveryKind = async (world: World, token: string): Promise<Record<Protocol, string>> => {
  const socket = openSocket(world, token)
  const upgrade = new Promise<string>((resolve, reject) => {
    socket.on('open', () => resolve('open')).on('error', reject)
    socket.on('unexpected-response', (_, answer) => {
      resolve(String(answer.statusCode))
      answer.resume()
    })
  })
  const asked = async (path: string) => String(await status(world, path, token)).replace('200', 'open')
  const answers = {
    HTTP: await asked('/plain'),
    SSE: await asked('/events'),
    WebSocket: await upgrade,
    'Socket.IO': await tryNamespace(world, token, 'websocket'),
    'Socket.IO by polling': await tryNamespace(world, token, 'polling')
  }
  socket.terminate()
  return answers
}

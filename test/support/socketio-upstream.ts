// Starts Socket.IO servers: one whose messages a model reads and which says what the test wants, or a stock one behind a gateway;
// with their clients, of packets or stock ones.
import { createServer } from 'node:http'
import { Server, type Socket } from 'engine.io'
import { type ServerOptions, Server as StockServer } from 'socket.io'
import type { Socket as Client } from 'socket.io-client'
import type { Test } from 'tap'
import { routesTo, startGateway, type World, type WorldOptions } from './gateway.ts'
import { listen } from './ports.ts'
import { rawWebSocket } from './raw-websocket.ts'
import type { Delivery, ServerModel } from './socketio-models.ts'

interface EngineServer {
  on(event: 'connection', listener: (socket: { readonly transport: object }) => void): unknown
}

/**
 * A stock Engine.IO server drops a polling client that does not ask again, so that the test's process can end: engine.io
 * gives it 30 s, and its timer outlives `close` (transports/polling.ts, `doClose`).
 */
export const closeSoon = (engine: EngineServer): void => {
  engine.on('connection', ({ transport }) => Object.assign(transport, { closeTimeout: 2000 }))
}

/** @param onDelivery what the server says to it; by default it confirms each CONNECT that the model takes. */
export const startModelledUpstream = async (
  t: Test,
  createModel: () => ServerModel,
  onDelivery: (socket: Socket, delivery: Delivery) => void = confirm
) => {
  /** In the order of their delivery, over all connections. */
  const delivered: Delivery[] = []
  /** As they came, Engine.IO's type removed. */
  const messages: (string | Buffer)[] = []
  const sockets: Socket[] = []
  const engine = new Server({ pingInterval: 2000 })
  closeSoon(engine)
  engine.on('connection', (socket: Socket) => {
    const model = createModel()
    sockets.push(socket)
    socket.on('message', (message: string | Buffer) => {
      messages.push(message)
      try {
        for (const delivery of model.take(message)) {
          delivered.push(delivery)
          onDelivery(socket, delivery)
        }
      } catch {
        socket.close()
      }
    })
  })
  const server = createServer((_req, res) => res.writeHead(404).end())
  engine.attach(server, { path: '/socket.io' })
  const port = await listen(t, server)
  t.teardown(() => engine.close())
  return { port, delivered, sockets, messages }
}

export const confirm = (socket: Socket, { kind, namespace }: Delivery) => {
  if (kind === 'connect') socket.send(`0${namespace === '/' ? '' : `${namespace},`}{"sid":"a"}`)
}

/** A stock Socket.IO server, which listens. */
export const startStockServer = async (t: Pick<Test, 'teardown'>, options: Partial<ServerOptions> = {}) => {
  const server = createServer()
  const sockets = new StockServer(server, options)
  closeSoon(sockets.engine)
  const port = await listen(t, server)
  t.teardown(() => new Promise<void>(resolve => void sockets.close(() => resolve())))
  return { sockets, port, url: `http://127.0.0.1:${port}` }
}

/** A gateway in front of a Socket.IO server, at `/socket.io/*`. @param options of the route, then of the gateway */
export const startBehindGateway = (
  t: Test,
  url: string,
  socketio: object,
  options: WorldOptions = {}
): Promise<World> => startGateway(t, { config: routesTo(url, [{ path: '/socket.io/*', socketio }]), ...options })

/** Clients of packets at the Socket.IO route of a gateway. */
export const engineClients = (gateway: World) => {
  const ask = (query: string, options: RequestInit = {}) => fetch(`${gateway.url}/socket.io/?${query}`, options)
  /** A polling session; everything that it ever received is in `text`. */
  const poll = async () => {
    const { sid } = JSON.parse((await (await ask('EIO=4&transport=polling')).text()).slice(1)) as { sid: string }
    const query = `EIO=4&transport=polling&sid=${sid}`
    const session = {
      sid,
      text: '',
      post: (body: string | Buffer, headers = {}) =>
        ask(query, { method: 'POST', body, headers: { 'content-type': 'text/plain;charset=UTF-8', ...headers } }),
      async get() {
        const answer = await ask(query)
        session.text += `${await answer.text()}\n`
        return answer.status
      }
    }
    return session
  }
  const socket = async (query = 'EIO=4&transport=websocket') => {
    const raw = await rawWebSocket(gateway.port, { path: `/socket.io/?${query}` })
    return { raw, say: (text: string) => raw.send(1, text), heard: () => raw.frames().toString('latin1') }
  }
  return { ask, poll, socket }
}

/** Long enough for a machine that does ten other things. */
const LIMIT_MS = 120_000

/** One event of a stock client; rejects when the connection fails or ends instead, with the reason. */
export const once = (socket: Client, event: string): Promise<unknown[]> =>
  new Promise((resolve, reject) => {
    const fail = (reason: string) => {
      if (event !== 'connect_error' && event !== 'disconnect') reject(new Error(`no ${event}: ${reason}`))
    }
    const timer = setTimeout(() => reject(new Error(`no ${event}`)), LIMIT_MS)
    const onError = ({ message }: Error) => fail(message)
    socket.once('connect_error', onError)
    socket.once('disconnect', fail)
    socket.once(event, (...args: unknown[]) => {
      clearTimeout(timer)
      socket.off('connect_error', onError)
      socket.off('disconnect', fail)
      resolve(args)
    })
  })

// Serves HTTP on sockets that were accepted elsewhere: plain, TLS, or behind a PROXY header.
import type net from 'node:net'
import { contain, endThrown } from '../values/contain.ts'
import { Http1Connection } from './http1/connection.ts'
import { readEvents, readShared } from './http1/shared-reading.ts'
import { createReadTurns } from './http1/turns.ts'
import { Http2Connection } from './http2/connection.ts'
import { CLIENT_KEEP_ALIVE_MS } from './response.ts'
import type { ConnectionHost, ConnectionLimits, MessageHandler, ServedConnection } from './served-connection.ts'
import { flushSoon } from './write-batch.ts'

interface HttpServerLimits extends ConnectionLimits {
  /** A client that takes none of the data waiting for it is cut off after this time, or after twice as long at most. */
  readonly stallMs: number
}

export const DEFAULT_LIMITS: HttpServerLimits = {
  headMs: 15_000,
  idleMs: CLIENT_KEEP_ALIVE_MS,
  lingerSilenceMs: 5000,
  lingerMs: 30_000,
  drainSilenceMs: 1000,
  stallMs: 60_000
}

interface HttpServerOptions {
  readonly handler: MessageHandler
  readonly limits?: Partial<HttpServerLimits>
}

interface AcceptOptions {
  /** The client's address; the socket's own if absent. */
  readonly peer?: string | undefined
  /** The client uses TLS, which the socket has already decrypted. */
  readonly isTls?: boolean
  /** They agreed on HTTP/2 in the handshake. */
  readonly isHttp2?: boolean
  /** Whether the certificate of the connection is for a host; undefined: that does not matter. */
  readonly covers?: ((host: string) => boolean) | undefined
  /** The connection is gone; also called if it was not accepted. */
  readonly onClosed?: ((peer: string | undefined) => void) | undefined
}

export type HttpServer = ReturnType<typeof createHttpServer>

const TICK_MS = 500
/** For requests in transit on new connections, or on those whose end was announced; milliseconds. */
const ON_THE_WAY_MS = 500

/** One per event loop: connections share one timer, and take turns. */
export const createHttpServer = (options: HttpServerOptions) => {
  const limits = { ...DEFAULT_LIMITS, ...options.limits }
  const connections = new Map<ServedConnection, net.Socket>()
  const turns = createReadTurns()
  let onEmpty: (() => void) | undefined
  const host: ConnectionHost & { isDraining: boolean; now: number } = {
    handler: options.handler,
    limits,
    isDraining: false,
    now: performance.now(),
    flushSoon,
    goOnSoon: turns.add
  }
  const tick = setInterval(
    () => {
      host.now = performance.now()
      for (const connection of connections.keys())
        if (connection.deadline <= host.now) contain(connection, late => late.expire())
    },
    Math.min(TICK_MS, limits.lingerSilenceMs)
  ).unref()
  const stalls = watchStalls(connections, limits.stallMs)

  const onClose = (connection: ServedConnection, onClosed: AcceptOptions['onClosed']) => {
    if (!connections.delete(connection)) return
    contain(connection, () => onClosed?.(connection.peer))
    contain(connection, closed => closed.onClose())
    if (connections.size === 0) onEmpty?.()
  }

  let isAnnounced = false
  const closeIdle = (sparesNew: boolean) => {
    for (const connection of [...connections.keys()]) contain(connection, one => one.onDrain(sparesNew))
  }

  let isClosed = false
  const closeAll = () => {
    for (const connection of [...connections.keys()]) contain(connection, one => one.destroy())
  }

  /** Cuts all connections. */
  const closeServer = () => {
    isClosed = true
    closeAll()
    clearInterval(tick)
    clearInterval(stalls)
  }

  return {
    /** Takes a socket whose next byte is the first of a request. It must be half-open (`allowHalfOpen`). */
    accept(accepted: net.Socket, options: AcceptOptions = {}): void {
      const { peer = accepted.remoteAddress, isTls = false, isHttp2 = false, covers, onClosed } = options
      if (isClosed) {
        accepted.destroy()
        onClosed?.(peer)
        return
      }
      turns.noteArrival()
      if (isHttp2) {
        const connection = new Http2Connection(accepted, host, { peer, covers })
        connections.set(connection, accepted)
        accepted.on('close', () => onClose(connection, onClosed))
        return
      }
      const take = (bytes: Buffer): boolean => {
        try {
          return connection.take(bytes)
        } catch (error) {
          endThrown(connection, error)
          return true
        }
      }
      const shared = isTls ? undefined : readShared(accepted, take, turns)
      const socket = shared ?? readEvents(accepted, take, turns)
      const connection = new Http1Connection(socket, host, { peer, isTls, covers })
      connections.set(connection, socket)
      socket.on('end', () => contain(connection, ended => ended.onPeerEnd()))
      socket.on('error', () => socket.destroy())
      socket.on('close', () => onClose(connection, onClosed))
      if (socket.destroyed) onClose(connection, onClosed)
      else socket.resume()
    },
    /** Connections, including those that another protocol has taken over. */
    count: () => connections.size,
    /** From now on every response is the last on its connection, and says so; new connections are still accepted. */
    announceEnd(): void {
      isAnnounced = true
      host.isDraining = true
      for (const connection of connections.keys()) contain(connection, one => one.onAnnounced?.())
    },
    /** Lets requests in progress finish, each as the last on its connection; after `timeoutMs` the rest is cut. */
    drain: (timeoutMs: number) =>
      new Promise<void>(resolve => {
        host.isDraining = true
        // A client that has just connected, or a proxy that was promised a response, may have sent a request by now, which would
        // fail if the connection were cut before it is read.
        if (!isAnnounced) closeIdle(true)
        const unused = setTimeout(closeIdle, ON_THE_WAY_MS, false)
        const late = setTimeout(closeAll, timeoutMs)
        onEmpty = () => {
          clearTimeout(unused)
          clearTimeout(late)
          closeServer()
          resolve()
        }
        if (connections.size === 0) onEmpty()
      }),
    close: closeServer
  }
}

/** How many of this socket's bytes the kernel has taken; undefined if nothing is waiting. */
const taken = (socket: net.Socket): number | undefined =>
  socket.writableLength === 0 ? undefined : socket.bytesWritten - socket.writableLength

/** Cuts connections whose bytes have not moved for `stallMs`, in the middle of a response and after it. */
const watchStalls = (connections: ReadonlyMap<ServedConnection, net.Socket>, stallMs: number): NodeJS.Timeout => {
  const lastTaken = new WeakMap<ServedConnection, number>()
  return setInterval(() => {
    for (const [connection, socket] of connections) {
      contain(connection, one => one.endStalled?.())
      const now = taken(socket)
      if (now === undefined) lastTaken.delete(connection)
      else if (now === lastTaken.get(connection)) contain(connection, one => one.destroy())
      else lastTaken.set(connection, now)
    }
  }, stallMs).unref()
}

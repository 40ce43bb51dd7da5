// Serves HTTP on sockets that were accepted elsewhere: plain, TLS, or behind a PROXY header; most are read in turns into one buffer.
import net from 'node:net'
import { contain, endThrown, every, noteFault } from '../values/contain.ts'
import { Http1Connection } from './http1/connection.ts'
import { createReadTurns, type Turns } from './http1/read-turns.ts'
import { Http2Connection } from './http2/connection.ts'
import { flushSoon, readMemory } from './outbox.ts'
import { isStalled, type Progress, progressOf } from './progress.ts'
import { CLIENT_KEEP_ALIVE_MS } from './response.ts'
import type { ConnectionHost, ConnectionLimits, MessageHandler, ServedConnection } from './served-connection.ts'

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

export interface AcceptOptions {
  /** The client's address: the one that a PROXY header names, or the socket's own, also if absent. */
  readonly peer?: string | undefined
  /** The client uses TLS, which the socket has already decrypted. */
  readonly isTls?: boolean
  /** They agreed on HTTP/2 in the handshake (ALPN). */
  readonly isHttp2?: boolean
  /** Whether the certificate of the connection is for a host; undefined: there is only one, for whatever reaches it. */
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
    read: (socket, take) => void readEvents(socket, take, turns, BULKY_BYTES_HTTP2),
    goOnSoon: turns.add
  }
  const endLate = () => {
    for (const connection of connections.keys())
      if (connection.deadline <= host.now) contain(connection, late => late.expire())
  }
  const stopTicking = every(Math.min(TICK_MS, limits.lingerSilenceMs), () => {
    host.now = performance.now()
    // What has arrived is read first, perhaps while this process stood still: the poll phase comes before setImmediate.
    setImmediate(endLate)
  })
  const stopWatching = watchStalls(connections, limits.stallMs)

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
    stopTicking()
    stopWatching()
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
        // A client that has just connected, or a proxy that was promised a response, may have sent a request, which a cut would fail.
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

/** Cuts connections whose bytes have not moved for `stallMs`, in the middle of a response and after it. */
const watchStalls = (connections: ReadonlyMap<ServedConnection, net.Socket>, stallMs: number): (() => void) => {
  const last = new WeakMap<ServedConnection, Progress>()
  return every(stallMs, () => {
    for (const [connection, socket] of connections) {
      contain(connection, one => one.endStalled?.())
      const [before, now] = [last.get(connection), progressOf(socket)]
      if (now === undefined) last.delete(connection)
      else if (before !== undefined && isStalled(before, now)) contain(connection, one => one.destroy())
      else last.set(connection, now)
    }
  })
}

// A read of this size may be costly, e.g. thousands of tiny frames, and is taken in turn.
const BULKY_BYTES = 4 * 1024
/** With HTTP/2, all requests of a read are answered in the same turn, and TLS may bring many small reads at once. */
const BULKY_BYTES_HTTP2 = 0

/** Takes bytes that were read, and copies what it keeps. Returns whether to keep reading. */
type Take = (bytes: Buffer) => boolean

// The parts of an accepted socket that node:net uses; guarded by test/http/http1/shared-reading.test.ts.
interface Inside {
  _handle: { useUserBuffer?: unknown } | null | undefined
  _server: unknown
  server: unknown
}

type SocketInside = net.Socket & Inside

/**
 * The same connection as another socket, which emits no `data`. Only sockets created by hand can choose where they read to
 * (`onread`), so the handle is moved to one. Undefined if that is impossible: TLS, or bytes that have already been read.
 */
export const readShared = (accepted: net.Socket, take: Take, turns: Turns): net.Socket | undefined => {
  const from = accepted as SocketInside
  const handle = from._handle
  if (typeof handle?.useUserBuffer !== 'function' || accepted.destroyed || accepted.readableFlowing !== null)
    return undefined
  const takeInTurn = inTurns(take, turns, bytes => {
    // Something else may have paused it meanwhile, and resumes it.
    if (!socket.destroyed && take(bytes) && !socket.isPaused()) socket.resume()
  })
  const options = {
    handle,
    allowHalfOpen: true,
    onread: {
      buffer: readMemory,
      callback: (count: number) => takeInTurn(readMemory.subarray(0, count))
    }
  }
  from._handle = null
  const socket = new net.Socket(options as unknown as net.SocketConstructorOpts) as SocketInside
  // The listener counts it until it closes.
  socket._server = from._server
  socket.server = from.server
  from._server = null
  return socket
}

/** Reads a socket whose handle cannot be moved, through its `data` events. */
export const readEvents = (socket: net.Socket, take: Take, turns: Turns, bulkyBytes = BULKY_BYTES): net.Socket => {
  const takeLate = (bytes: Buffer) => {
    if (socket.destroyed) return
    // In this order, because `take` may pause it as well.
    socket.resume()
    if (!take(bytes)) socket.pause()
  }
  const takeInTurn = inTurns(take, turns, takeLate, bulkyBytes)
  return socket.on('data', (bytes: Buffer) => {
    if (!takeInTurn(bytes)) socket.pause()
  })
}

/** Bulky reads wait for their turn, and whatever is read behind them with them. @param takeLate continues reading */
const inTurns = (take: Take, turns: Turns, takeLate: (bytes: Buffer) => void, bulkyBytes = BULKY_BYTES): Take => {
  let waiting: Buffer | undefined
  const goOn = () => {
    const bytes = waiting
    waiting = undefined
    if (bytes !== undefined) takeLate(bytes)
  }
  return bytes => {
    if (waiting === undefined && (bytes.length < bulkyBytes || turns.mayTake())) return take(bytes)
    // `take` contains its own faults.
    if (waiting === undefined) turns.add({ goOn, onThrown: error => noteFault('client', error) })
    waiting = waiting === undefined ? Buffer.from(bytes) : Buffer.concat([waiting, bytes])
    return false
  }
}

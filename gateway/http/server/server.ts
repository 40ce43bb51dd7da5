// Serves HTTP/1.1 on sockets that were accepted elsewhere: plain, TLS, or behind a PROXY header.
import type net from 'node:net'
import type { FieldKinds } from '../flood-memory.ts'
import { flushSoon } from '../write-batch.ts'
import { Connection } from './connection.ts'
import type { ConnectionHost, ConnectionLimits, MessageHandler } from './connection-host.ts'
import { createConnectionTurns } from './connection-turns.ts'
import { Llhttp } from './llhttp.ts'
import { createReadTurns } from './read-turns.ts'
import { CLIENT_KEEP_ALIVE_MS } from './response.ts'
import { readEvents, readShared } from './shared-reading.ts'
import { leadEvents } from './socket-events.ts'

interface HttpServerLimits extends ConnectionLimits {
  /** A client that takes nothing of what waits for it is cut off after that time, or twice that at most. */
  readonly stallMs: number
}

export const DEFAULT_LIMITS: HttpServerLimits = {
  headMs: 15_000,
  idleMs: CLIENT_KEEP_ALIVE_MS,
  lingerMs: 2000,
  lingerBytes: 1024 * 1024,
  stallMs: 60_000
}

interface HttpServerOptions {
  readonly handler: MessageHandler
  readonly limits?: Partial<HttpServerLimits>
  /** Of the gateway whose requests these are; absent: its own. */
  readonly fieldKinds?: FieldKinds
}

interface AcceptOptions {
  /** The client's address; the socket's own where it is absent. */
  readonly peer?: string | undefined
  /** The client speaks TLS, which the socket has already decrypted. */
  readonly isTls?: boolean
  /** The connection is no more; also called when it is not taken. */
  readonly onClosed?: ((peer: string | undefined) => void) | undefined
}

export interface HttpServer {
  /** Takes a socket whose next byte is the first of a request. It must be half-open (`allowHalfOpen`). */
  accept(socket: net.Socket, options?: AcceptOptions): void
  /** Connections, those that another protocol has taken over among them. */
  count(): number
  /** From now on every answer is the last on its connection, and says so; new connections are still taken. */
  announceEnd(): void
  /** Requests under way may finish, each as the last on its connection; after `timeoutMs` what is left is cut. */
  drain(timeoutMs: number): Promise<void>
  /** Cuts everything. */
  close(): void
}

const TICK_MS = 500
/** For requests on their way over connections that are new, or that were promised an end; milliseconds. */
const ON_THE_WAY_MS = 500

/** One for each event loop: connections are judged by one timer, and go on in turns. */
export const createHttpServer = (options: HttpServerOptions): HttpServer => {
  const limits = { ...DEFAULT_LIMITS, ...options.limits }
  const connections = new Map<Connection, net.Socket>()
  const turns = createConnectionTurns()
  const readTurns = createReadTurns()
  let onEmpty: (() => void) | undefined
  const host: ConnectionHost & { isDraining: boolean; now: number } = {
    llhttp: new Llhttp(),
    handler: options.handler,
    fieldKinds: options.fieldKinds ?? new Map(),
    limits,
    isDraining: false,
    now: performance.now(),
    flushSoon,
    goOnSoon: turns.add
  }
  const tick = setInterval(
    () => {
      host.now = performance.now()
      for (const connection of connections.keys()) if (connection.deadline <= host.now) connection.expire()
    },
    Math.min(TICK_MS, limits.lingerMs)
  ).unref()
  const stalls = watchStalls(connections, limits.stallMs)

  const onClose = (connection: Connection, onClosed: AcceptOptions['onClosed']) => {
    if (!connections.delete(connection)) return
    onClosed?.(connection.peer)
    connection.onClose()
    if (connections.size === 0) onEmpty?.()
  }

  let isAnnounced = false
  const closeIdle = (sparesNew: boolean) => {
    for (const connection of [...connections.keys()])
      if (connection.isIdle && !(sparesNew && connection.isNew)) connection.destroy()
  }

  let isClosed = false
  const closeAll = () => {
    for (const connection of [...connections.keys()]) connection.destroy()
  }

  const close = () => {
    isClosed = true
    closeAll()
    clearInterval(tick)
    clearInterval(stalls)
  }

  return {
    accept(accepted, { peer = accepted.remoteAddress, isTls = false, onClosed } = {}) {
      if (isClosed) {
        accepted.destroy()
        onClosed?.(peer)
        return
      }
      const take = (bytes: Buffer, isLent: boolean): boolean => connection.take(bytes, isLent)
      const shared = isTls ? undefined : readShared(accepted, take, readTurns)
      const socket = shared ?? accepted
      const connection = new Connection(socket, host, peer, isTls)
      turns.noteArrival()
      readTurns.noteArrival()
      connections.set(connection, socket)
      if (shared === undefined) readEvents(socket, take, readTurns)
      leadEvents(socket, connection)
      socket.on('close', () => onClose(connection, onClosed))
      if (socket.destroyed) onClose(connection, onClosed)
      else socket.resume()
    },
    count: () => connections.size,
    announceEnd() {
      isAnnounced = true
      host.isDraining = true
    },
    drain: timeoutMs =>
      new Promise(resolve => {
        host.isDraining = true
        // A client that has just connected, or a proxy that was promised an answer, may have sent a request by now: cut
        // unread, it fails.
        if (!isAnnounced) closeIdle(true)
        const unused = setTimeout(closeIdle, ON_THE_WAY_MS, false)
        const late = setTimeout(closeAll, timeoutMs)
        onEmpty = () => {
          clearTimeout(unused)
          clearTimeout(late)
          close()
          resolve()
        }
        if (connections.size === 0) onEmpty()
      }),
    close
  }
}

/** What the kernel has taken of this socket's bytes; -1 when nothing waits. */
const taken = (socket: net.Socket): number =>
  socket.writableLength === 0 ? -1 : socket.bytesWritten - socket.writableLength

/** Cuts connections on which bytes wait and none has left for `stallMs`, in the middle of an answer and after it. */
const watchStalls = (connections: ReadonlyMap<Connection, net.Socket>, stallMs: number): NodeJS.Timeout => {
  const lastTaken = new WeakMap<Connection, number>()
  return setInterval(() => {
    for (const [connection, socket] of connections) {
      const now = taken(socket)
      if (now !== -1 && now === lastTaken.get(connection)) connection.destroy()
      else if (now === -1) lastTaken.delete(connection)
      else lastTaken.set(connection, now)
    }
  }, stallMs).unref()
}

// One socket to one target carries one request at a time and is reused only when nothing about it is in doubt.

import { flushSoon, type Waiting } from '../http/write-batch.ts'
import type { Target, Upstream } from '../routes/route.ts'
import { dial } from './dial.ts'
import type { UpstreamFault } from './faults.ts'
import { writeAndFree } from './free-memory.ts'
import { DEFAULT_KEEP_ALIVE_MS, keepAliveHint } from './keep-alive-hint.ts'
import { BadResponse, createResponseParser, Http2Only, isHttp2Frame, type ResponseSink } from './parser.ts'

/** The side that asked. Every request ends in exactly one of `onEnd` and `onFault`. */
export interface Requester extends Omit<ResponseSink, 'onBody'> {
  /** `isLent`: the memory is used again at the next read, so whoever holds on to it pauses the connection meanwhile. */
  onBody(chunk: Buffer, isLent: boolean): void
  /**
   * `nothingSent`: not a byte of the request reached the kernel, so it may be sent again on another connection
   * (RFC 9110 §9.2.2 allows more; more is not done).
   */
  onFault(fault: UpstreamFault, cause: unknown, nothingSent: boolean): void
  /** The socket takes more bytes again after `write` returned false. */
  onDrain(): void
}

export interface UpstreamConnection extends Waiting {
  /**
   * A request head, which leaves at the end of this turn of the event loop; `method` frames the response. The upstream may
   * be silent for `timeoutMs` before its response head, then for its `idleTimeout`.
   */
  send(method: string, head: string, requester: Requester, timeoutMs: number): void
  /** More of the request body. Returns false when the socket is full: wait for `onDrain`. */
  write(bytes: Buffer | string): boolean
  /** The same with bytes that nobody else uses any more. */
  give(bytes: Buffer): boolean
  cork(): void
  uncork(): void
  /** The whole request has been written. */
  finish(): void
  pause(): void
  resume(): void
  /** From now on silence is no fault, and it counts among the streams (an event stream). */
  waitForever(): void
  destroy(): void
  readonly destroyed: boolean
  readonly target: Target
  /** Milliseconds of the clock passed to the pool; what the pool's sweep compares. */
  readonly deadline: number
  readonly idleSince: number
  /** When the dialling began. */
  readonly openedAt: number
  /** Called by the sweep when `deadline` has passed. */
  expire(): void
  /** Time between the request's first byte written and the response head, ms; -1 before. */
  readonly waitedMs: number
}

/** What the connection itself changes of what others read. */
interface State {
  destroyed: boolean
  deadline: number
  idleSince: number
  waitedMs: number
}

interface ConnectionEvents {
  /** The exchange is over and the socket is clean. */
  onFree(connection: UpstreamConnection, keepAliveMs: number): void
  onClosed(connection: UpstreamConnection): void
  /** It carries an endless answer. */
  onStream?(connection: UpstreamConnection): void
  /** A response head has come. */
  onAnswer?(connection: UpstreamConnection): void
  /** A request failed; told before its requester is. */
  onFault?(fault: UpstreamFault, nothingSent: boolean): void
  /** The target turned out to speak HTTP/2 only. */
  onHttp2?(): void
  now(): number
}

const READ_BUFFER_BYTES = 64 * 1024
// A read of this size begins the use of an own buffer, and one below that size ends it.
const BULK_BEGINS_BYTES = READ_BUFFER_BYTES / 2
const BULK_ENDS_BYTES = READ_BUFFER_BYTES / 16
// One for all plain sockets, small bodies included: bytes are copied out before the next read.
const sharedReadBuffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES)
const NEVER = Number.POSITIVE_INFINITY
const DOUBTFUL_IDLE_MS = 1000

/**
 * Whether a warm connection has been idle for so long that its other side may have closed it a moment ago. One turn of the
 * event loop tells: a close that has already arrived is then known.
 */
export const mayHaveClosed = ({ idleSince }: UpstreamConnection): boolean =>
  idleSince > 0 && performance.now() - idleSince > DOUBTFUL_IDLE_MS

/** By code when it is read, by its text when a write met it first (EPROTO). */
const isNoCommonProtocol = ({ code, message }: NodeJS.ErrnoException): boolean =>
  code === 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL' ||
  (code === 'EPROTO' && message.includes('alert no application protocol'))

export const connectUpstream = (upstream: Upstream, target: Target, events: ConnectionEvents): UpstreamConnection => {
  const parser = createResponseParser()
  let requester: Requester | undefined
  let connected = false
  /** The request head that has not been written yet. */
  let unsent: string | undefined
  let ownBuffer: Buffer | undefined
  let written = false
  let finished = false
  let reusable = true
  let paused = false
  let keepAliveMs = DEFAULT_KEEP_ALIVE_MS
  let timeoutMs = 0
  let sentAt = 0
  let readAt = 0
  const openedAt = events.now()
  let firstError: NodeJS.ErrnoException | undefined

  const unpause = () => {
    paused = false
    socket.resume()
  }

  const alive = (at = events.now()) => {
    if (connection.deadline !== NEVER) connection.deadline = at + timeoutMs
  }

  const fail = (fault: UpstreamFault, cause: unknown, nothingSent = false) => {
    const failed = requester
    requester = undefined
    destroy()
    if (failed === undefined) return
    events.onFault?.(fault, nothingSent)
    if (cause instanceof Http2Only) events.onHttp2?.()
    failed.onFault(fault, cause, nothingSent)
  }

  const destroy = () => {
    if (connection.destroyed) return
    connection.destroyed = true
    requester = undefined
    socket.destroy()
    events.onClosed(connection)
  }

  // What the parser tells goes to the requester; the connection only notes what decides about its own reuse.
  const sink: ResponseSink = {
    onInterim: (status, headers) => requester?.onInterim(status, headers),
    onHead(head, whole) {
      connection.waitedMs = readAt - sentAt
      timeoutMs = upstream.idleTimeoutMs
      alive(readAt)
      reusable = head.keepAlive
      if (reusable) keepAliveMs = keepAliveHint(head)
      events.onAnswer?.(connection)
      requester?.onHead(head, whole)
    },
    onBody(chunk) {
      const isShared = !target.tls && ownBuffer === undefined
      requester?.onBody(isShared ? Buffer.from(chunk) : chunk, ownBuffer !== undefined)
    },
    onEnd(trailers) {
      const ended = requester
      requester = undefined
      ended?.onEnd(trailers)
    }
  }

  const take = (bytes: Buffer): boolean => {
    if (connection.destroyed) return false
    if (unsent !== undefined && isHttp2Frame(bytes)) {
      fail('bad-response', new Http2Only('HTTP/2 frames'))
      return false
    }
    if (unsent !== undefined) {
      // Whatever this is, it answers no request of ours; the one that waits goes elsewhere.
      fail('reset', new Error('bytes that no request asked for'), true)
      return false
    }
    readAt = events.now()
    alive(readAt)
    try {
      parser.take(bytes)
    } catch (error) {
      if (!(error instanceof BadResponse)) throw error
      fail('bad-response', isHttp2Frame(bytes) ? new Http2Only('HTTP/2 frames') : error)
      return false
    }
    chooseBuffer(bytes.length)
    // Only now, with every byte judged, may another request follow (no answer is ever given to the wrong one).
    if (parser.isIdle() && !connection.destroyed) settle()
    return !connection.destroyed
  }

  /** Where the next read goes: a large body passes through memory of its own, uncopied, while all else shares. */
  const chooseBuffer = (lastRead: number) => {
    if (parser.isIdle() || target.tls || lastRead < BULK_ENDS_BYTES) ownBuffer = undefined
    else if (lastRead >= BULK_BEGINS_BYTES) ownBuffer ??= Buffer.allocUnsafeSlow(READ_BUFFER_BYTES)
  }

  const beforeWrite = () => {
    connection.flush()
    written = true
    if (connected) alive()
  }

  const settle = () => {
    if (!reusable || !finished || keepAliveMs === 0) return destroy()
    // The requester may have paused on the very last bytes.
    if (paused) unpause()
    connection.idleSince = readAt
    connection.deadline = connection.idleSince + keepAliveMs
    events.onFree(connection, keepAliveMs)
  }

  const onEnd = () => {
    if (connection.destroyed) return
    if (parser.isIdle()) return destroy()
    const begun = parser.hasBegun()
    if (parser.finish()) return destroy()
    const cause = firstError ?? new Error('closed before the response was complete')
    fail(begun ? 'bad-response' : 'reset', cause, unsent !== undefined)
  }

  const onError = (error: NodeJS.ErrnoException) => {
    firstError ??= error
    if (connection.destroyed) return
    // We offer http/1.1 alone (RFC 7301 §3.2).
    if (isNoCommonProtocol(error)) return fail('bad-response', new Http2Only('no common protocol'))
    if (!connected) return fail('unreachable', error, true)
    // A write that the kernel refused at once took nothing of a request whose head was all that was written.
    fail('reset', error, unsent !== undefined || (error.syscall === 'write' && !written))
  }

  const socket = dial(upstream, target, {
    buffer: () => ownBuffer ?? sharedReadBuffer,
    callback: (bytes, buffer) => take((buffer as Buffer).subarray(0, bytes))
  })
  if (target.tls) socket.on('data', take)
  socket.on(target.tls ? 'secureConnect' : 'connect', () => {
    connected = true
    alive()
  })
  socket.on('drain', () => requester?.onDrain())
  socket.on('end', onEnd)
  socket.on('error', onError)
  socket.on('close', () => {
    if (!connection.destroyed) onEnd()
    destroy()
  })

  // No accessors: V8 keeps an object literal that has them as a dictionary, slow for all who use it.
  const connection: UpstreamConnection & State = {
    send(method, head, from, forMs) {
      requester = from
      timeoutMs = forMs
      sentAt = events.now()
      connection.waitedMs = -1
      finished = false
      written = false
      reusable = true
      if (connected) connection.deadline = sentAt + timeoutMs
      parser.begin(method, sink)
      unsent = head
      flushSoon(connection)
    },
    flush() {
      if (unsent === undefined || connection.destroyed) return
      const head = unsent
      unsent = undefined
      socket.write(head, 'latin1')
    },
    write(bytes) {
      beforeWrite()
      return typeof bytes === 'string' ? socket.write(bytes, 'latin1') : socket.write(bytes)
    },
    give(bytes) {
      beforeWrite()
      return writeAndFree(socket, bytes)
    },
    cork: () => socket.cork(),
    uncork: () => socket.uncork(),
    finish() {
      finished = true
      if (connected) alive()
    },
    pause() {
      // Silence while we do not listen is not the upstream's.
      connection.deadline = NEVER
      paused = true
      socket.pause()
    },
    resume() {
      connection.deadline = events.now() + timeoutMs
      unpause()
    },
    waitForever() {
      connection.deadline = NEVER
      timeoutMs = NEVER
      events.onStream?.(connection)
    },
    destroy,
    target,
    openedAt,
    destroyed: false,
    deadline: openedAt + upstream.connectTimeoutMs,
    idleSince: 0,
    expire() {
      if (requester === undefined) return destroy()
      // All that the client has sent is with the upstream: it is the client that is silent, judged elsewhere.
      if (connected && !finished && socket.writableLength === 0) return alive()
      fail('timeout', new Error(connected ? 'silent for too long' : 'connecting took too long'), !connected)
    },
    waitedMs: -1
  }
  return connection
}

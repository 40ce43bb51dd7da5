// Keeps one target's connections warm, reuses and limits them, and closes those that are idle, too old or too slow.
import net from 'node:net'
import type { Target, Upstream } from '../routes/upstream.ts'
import { contain } from '../values/contain.ts'
import { UpstreamConnection } from './connection.ts'
import type { TargetHealth } from './health.ts'

/** Event streams and long polls are in addition to the connections of plain requests. */
const LIMITS = { connections: 8192, streams: 16_384 }
const MAX_IDLE = 256
/** Connections end after this time, because the name may have another address by now; new ones look it up again. */
const MAX_AGE_MS = 20_000
const DOUBTFUL_IDLE_MS = 1000
/** A body that follows a response although it must not arrives within this time. */
const REST_MS = 200

/**
 * Whether a warm connection has been idle for so long that the other side may have just closed it. One turn of the
 * event loop is enough to tell, because a close that has already arrived is then known.
 */
export const mayHaveClosed = ({ idleSince }: UpstreamConnection): boolean =>
  idleSince > 0 && performance.now() - idleSince > DOUBTFUL_IDLE_MS

const expire = (connection: UpstreamConnection) => connection.expire()

export interface TargetPool {
  readonly target: Target
  readonly health: TargetHealth
  busy(): number
  connections(): number
  /** @param isStream counts as a stream, which leaves plain requests their connections */
  acquire(isStream?: boolean): UpstreamConnection | undefined
  /** Closes what is past its deadline. */
  sweep(at: number): void
  /** Gives requests in progress more time. */
  postpone(ms: number): void
  /** Closes idle connections now, busy ones when they become free. */
  drain(): void
  destroy(): void
}

/** What the log says of a target. */
interface TargetNotices {
  onHttp2(): void
  onUnasked(): void
}

export const createTargetPool = (
  upstream: Upstream,
  target: Target,
  health: TargetHealth,
  now: () => number,
  notices: TargetNotices,
  limits = LIMITS
): TargetPool => {
  const idle: UpstreamConnection[] = []
  /** Busy and idle. */
  const open = new Set<UpstreamConnection>()
  /** The part of `open` that carries streams. */
  const streams = new Set<UpstreamConnection>()
  /** The part of `open` that is idle, but not used before `REST_MS` have passed. */
  const resting = new Set<UpstreamConnection>()
  const maxAgeMs =
    target.socketPath === undefined && net.isIP(target.host) === 0 ? MAX_AGE_MS : Number.POSITIVE_INFINITY
  let isClosing = false
  const events = {
    now,
    onStream: (connection: UpstreamConnection) => void streams.add(connection),
    onFree(connection: UpstreamConnection) {
      streams.delete(connection)
      const isOld = connection.idleSince - connection.openedAt > maxAgeMs
      if (isClosing || isOld || idle.length >= MAX_IDLE) return connection.destroy()
      if (connection.mustRest) resting.add(connection)
      else idle.push(connection)
    },
    onClosed(connection: UpstreamConnection) {
      open.delete(connection)
      streams.delete(connection)
      resting.delete(connection)
      const at = idle.indexOf(connection)
      if (at !== -1) idle.splice(at, 1)
    },
    onAnswer: (connection: UpstreamConnection) => health.answered(connection.openedAt),
    onFault: health.failed,
    onHttp2: notices.onHttp2,
    hasUnasked: false,
    onUnasked() {
      events.hasUnasked = true
      notices.onUnasked()
    }
  }
  const close = () => {
    isClosing = true
    health.close()
  }
  return {
    target,
    health,
    busy: () => open.size - idle.length - resting.size,
    connections: () => open.size,
    acquire(isStream = false) {
      const isFull = isStream
        ? streams.size >= limits.streams
        : open.size - streams.size - idle.length >= limits.connections
      if (isFull) return undefined
      let connection = idle.pop()
      if (connection === undefined) {
        connection = new UpstreamConnection(upstream, target, events)
        open.add(connection)
      }
      if (isStream) streams.add(connection)
      return connection
    },
    sweep(at) {
      for (const connection of open) if (connection.deadline <= at) contain(connection, expire)
      for (const connection of resting) {
        if (at - connection.idleSince < REST_MS) continue
        resting.delete(connection)
        idle.push(connection)
      }
    },
    postpone(ms) {
      // An idle connection keeps its deadline: the other side closes it by its own clock.
      const kept = new Set([...idle, ...resting])
      for (const connection of open) if (!kept.has(connection)) connection.deadline += ms
    },
    drain() {
      close()
      for (const connection of [...idle, ...resting]) connection.destroy()
    },
    destroy() {
      close()
      for (const connection of [...open]) connection.destroy()
    }
  }
}

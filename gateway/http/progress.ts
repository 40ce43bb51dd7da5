// Notices whether the other side of a socket takes what waits for it, also in the middle of one large write, or has vanished.
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

interface Handle {
  readonly writeQueueSize?: number
  /** Below TLS. */
  readonly _parent?: Handle
}

/** Of a net.Socket, plain or TLS. Handles are no public properties; guarded by test/http/progress.test.ts. */
interface Inside extends Duplex {
  readonly bytesWritten?: number
  readonly _handle?: Handle | null
}

export interface Progress {
  /** Bytes of the writes that are complete. */
  readonly written: number
  /** Bytes that the kernel has not taken of the write under way. */
  readonly left: number
}

/** How far a socket has got; undefined if nothing is waiting. */
export const progressOf = (socket: Duplex): Progress | undefined => {
  const { bytesWritten = 0, writableLength, _handle }: Inside = socket
  if (writableLength === 0) return undefined
  return { written: bytesWritten - writableLength, left: (_handle?._parent ?? _handle)?.writeQueueSize ?? 0 }
}

/** Whether nothing has been taken between the two. */
export const isStalled = (before: Progress, now: Progress): boolean =>
  now.written === before.written && now.left >= before.left

const PROBE_MS = 60_000
const PROBES = 5

/** Lets a socket fail some minutes after its other end has vanished, although nothing is written to it, as in a silent event stream. */
export const failIfVanished = (socket: Socket): Socket => socket.setKeepAlive(true, PROBE_MS, PROBE_MS, PROBES)

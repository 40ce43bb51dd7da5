// Reads accepted sockets in turns, most of them into one shared buffer, where Node.js would allocate one for each read.
import net from 'node:net'
import { noteFault } from '../../values/contain.ts'
import { readMemory } from '../passing-bytes.ts'
import type { Turns } from './turns.ts'

// A read of this size may be costly, e.g. thousands of tiny frames, and is taken in turn.
const BULKY_BYTES = 4 * 1024

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
 *
 * @param turns in which bulky reads are taken
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
export const readEvents = (socket: net.Socket, take: Take, turns: Turns): net.Socket => {
  const takeInTurn = inTurns(take, turns, bytes => {
    if (socket.destroyed) return
    // In this order, because `take` may pause it as well.
    socket.resume()
    if (!take(bytes)) socket.pause()
  })
  return socket.on('data', (bytes: Buffer) => {
    if (!takeInTurn(bytes)) socket.pause()
  })
}

/** Bulky reads wait for their turn, and whatever is read behind them with them. @param takeLate continues reading */
const inTurns = (take: Take, turns: Turns, takeLate: (bytes: Buffer) => void): Take => {
  let waiting: Buffer | undefined
  const goOn = () => {
    const bytes = waiting
    waiting = undefined
    if (bytes !== undefined) takeLate(bytes)
  }
  return bytes => {
    if (waiting === undefined && (bytes.length < BULKY_BYTES || turns.mayTake())) return take(bytes)
    // `take` contains its own faults.
    if (waiting === undefined) turns.add({ goOn, onThrown: error => noteFault('client', error) })
    waiting = waiting === undefined ? Buffer.from(bytes) : Buffer.concat([waiting, bytes])
    return false
  }
}

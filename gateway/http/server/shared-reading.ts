// Reads accepted sockets into one shared buffer, where Node.js would allocate one for each read.
import net from 'node:net'

const BUFFER_BYTES = 64 * 1024
// A read of this size lets the next one go into memory of its own, which is then given away uncopied.
const BULK_BYTES = BUFFER_BYTES / 2
// One for all: what is kept of it is copied out before the next read.
const shared = Buffer.allocUnsafeSlow(BUFFER_BYTES)

/** Takes what was read; lent memory is used again for the next read. Returns whether to go on reading. */
type Take = (bytes: Buffer, isLent: boolean) => boolean

// What node:net knows of an accepted socket; guarded by test/http/server/shared-reading.test.ts.
interface Inside {
  _handle: { useUserBuffer?: unknown } | null | undefined
  _server: unknown
  server: unknown
}

type SocketInside = net.Socket & Inside

/**
 * The same connection as another socket, which emits no `data`. Only sockets made by hand may say where they read to
 * (`onread`), so the handle moves to one. Undefined where that is not possible: TLS, or bytes that have already been read.
 */
export const readShared = (accepted: net.Socket, take: Take): net.Socket | undefined => {
  const from = accepted as SocketInside
  const handle = from._handle
  if (typeof handle?.useUserBuffer !== 'function' || accepted.destroyed || accepted.readableFlowing !== null)
    return undefined
  let own: Buffer | undefined
  let lastRead = 0
  const options = {
    handle,
    allowHalfOpen: true,
    onread: {
      buffer: () => {
        own = lastRead < BULK_BYTES ? undefined : Buffer.allocUnsafeSlow(BUFFER_BYTES)
        return own ?? shared
      },
      callback: (count: number) => {
        lastRead = count
        const isWhole = own !== undefined && count === BUFFER_BYTES
        return take(own === undefined ? shared.subarray(0, count) : own.subarray(0, count), !isWhole)
      }
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

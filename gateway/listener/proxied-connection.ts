// Reads the PROXY header at the beginning of a connection, and leaves the rest to the next reader.
import type { Socket } from 'node:net'
import { contain, ending } from '../values/contain.ts'
import { type NamedPeer, readProxyHeader } from './proxy-protocol.ts'

/**
 * Calls `done` once with the peer that the header names, or destroys the socket and calls `onRefused`. A connection that
 * ends before its header is complete is no violation, because balancers check whether the port is open.
 */
export const takeProxyHeader = (
  socket: Socket,
  timeoutMs: number,
  done: (peer: NamedPeer | undefined) => void,
  onRefused: (reason: string) => void
): void => {
  let bytes: Buffer = Buffer.alloc(0)
  const stop = () => {
    clearTimeout(timer)
    socket.off('readable', look)
    socket.off('end', end)
    socket.off('close', stop)
  }
  const end = () => {
    stop()
    socket.destroy()
  }
  const refuse = (reason: string) => {
    end()
    onRefused(reason)
  }
  const owner = ending(socket)
  const look = () => contain(owner, read)
  const read = () => {
    const chunk = socket.read() as Buffer | null
    if (chunk === null) return
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
    const header = readProxyHeader(bytes)
    if (header.state === 'incomplete') return
    if (header.state === 'refused') return refuse(header.reason)
    stop()
    if (header.length < bytes.length) socket.unshift(bytes.subarray(header.length))
    done(header.peer)
  }
  const timer = setTimeout(() => contain(owner, () => refuse('no PROXY header in time')), timeoutMs)
  socket.on('readable', look)
  socket.on('end', end)
  socket.on('close', stop)
}

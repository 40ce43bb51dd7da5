// Reads the PROXY protocol header, version 1 or 2, with which a load balancer names the client, and leaves the rest to the next reader.
// The specification: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt
import { isIPv4, isIPv6, type Socket } from 'node:net'
import { formatAddress } from '../values/addresses.ts'
import { contain, ending } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import { seldom } from '../values/throttled-log.ts'

type ProxyHeader =
  /** All bytes so far are a prefix of a header. */
  | { readonly state: 'incomplete' }
  /**
   * `peer`: IPv4 dotted, or IPv6 as RFC 5952 writes it; undefined: LOCAL or UNKNOWN, so the connection's own address counts.
   * Bytes after `length` are the client's.
   */
  | { readonly state: 'complete'; readonly length: number; readonly peer: string | undefined }
  /** The connection must be closed; the reason contains none of its bytes. */
  | { readonly state: 'refused'; readonly reason: string }

/** §2.1: maximum length of a version 1 header, including its CRLF. */
export const MAX_V1_BYTES = 107
/** Maximum length of a version 2 header, including TLVs; real ones contain at most the names in a client certificate. */
export const MAX_V2_BYTES = 4096

const V1_START = Buffer.from('PROXY ', 'latin1')
const V2_SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const V2_FIXED_BYTES = 16

const INCOMPLETE: ProxyHeader = Object.freeze({ state: 'incomplete' })
const refused = (reason: string): ProxyHeader => ({ state: 'refused', reason })

/** @param bytes everything received on this connection so far; called again with more while `incomplete`. */
export const readProxyHeader = (bytes: Buffer): ProxyHeader => {
  if (startsAs(bytes, V1_START)) return bytes.length < V1_START.length ? INCOMPLETE : readV1(bytes)
  if (startsAs(bytes, V2_SIGNATURE)) return bytes.length < V2_FIXED_BYTES ? checkV2Start(bytes) : readV2(bytes)
  return refused('no PROXY header')
}

/** Whether the bytes match a signature as far as both go. */
const startsAs = (bytes: Buffer, signature: Buffer): boolean => {
  const known = Math.min(bytes.length, signature.length)
  return bytes.compare(signature, 0, known, 0, known) === 0
}

const readV1 = (bytes: Buffer): ProxyHeader => {
  const end = bytes.indexOf('\n')
  if (end === -1) return bytes.length < MAX_V1_BYTES ? INCOMPLETE : refused('a PROXY line without an end')
  if (end >= MAX_V1_BYTES || bytes[end - 1] !== 0x0d) return refused('a PROXY line without its CRLF')
  const line = bytes.toString('latin1', 0, end - 1)
  const length = end + 1
  // Anything between UNKNOWN and the CRLF is ignored (§2.1).
  if (/^PROXY UNKNOWN(?: |$)/.test(line)) return { state: 'complete', length, peer: undefined }
  const [, family, source = '', destination = '', sourcePort = '', destinationPort = ''] =
    /^PROXY (TCP[46]) ([0-9A-Fa-f:.]+) ([0-9A-Fa-f:.]+) (0|[1-9]\d{0,4}) (0|[1-9]\d{0,4})$/.exec(line) ?? []
  if (family === undefined) return refused('a malformed PROXY line')
  const isAddress = family === 'TCP4' ? isIPv4 : isIPv6
  if (!isAddress(source) || !isAddress(destination)) return refused('an address of another family in a PROXY line')
  if (Number(sourcePort) > 65535 || Number(destinationPort) > 65535) return refused('no port in a PROXY line')
  return { state: 'complete', length, peer: source }
}

// Version 2 addresses by family and transport (§2.2): size of the whole block. UDP never arrives over a TCP connection.
const UNSPECIFIED = 0x00
const TCP4 = 0x11
const TCP6 = 0x21
const UNIX_STREAM = 0x31
const ADDRESS_BYTES: Readonly<Record<number, number>> = { [UNSPECIFIED]: 0, [TCP4]: 12, [TCP6]: 36, [UNIX_STREAM]: 216 }

const LOCAL = 0x20
const PROXY = 0x21

/** Detects an error in the fixed part as soon as it has arrived. */
const checkV2Start = (bytes: Buffer): ProxyHeader => {
  const [command, family] = [bytes[12], bytes[13]]
  if (command !== undefined && command !== LOCAL && command !== PROXY)
    return refused('another version or command of the PROXY protocol')
  if (command === PROXY && family !== undefined && ADDRESS_BYTES[family] === undefined)
    return refused('an unknown address family in a PROXY header')
  return INCOMPLETE
}

const readV2 = (bytes: Buffer): ProxyHeader => {
  const early = checkV2Start(bytes)
  if (early.state === 'refused') return early
  const following = bytes.readUInt16BE(14)
  const length = V2_FIXED_BYTES + following
  if (length > MAX_V2_BYTES) return refused('a PROXY header that is too long')
  const isLocal = bytes[12] === LOCAL
  const family = bytes[13] ?? UNSPECIFIED
  if (!isLocal && following < (ADDRESS_BYTES[family] ?? 0)) return refused('a PROXY header too short for its addresses')
  if (bytes.length < length) return INCOMPLETE
  return { state: 'complete', length, peer: isLocal ? undefined : v2Peer(bytes, family) }
}

const v2Peer = (bytes: Buffer, family: number): string | undefined => {
  if (family === TCP4) return bytes.subarray(16, 20).join('.')
  return family === TCP6 ? formatAddress(BigInt(`0x${bytes.toString('hex', 16, 32)}`)) : undefined
}

/**
 * Calls `done` once with the peer that the header names, or destroys the socket and calls `onRefused`. A connection that
 * ends before its header is complete is no violation, because balancers check whether the port is open.
 */
export const takeProxyHeader = (
  socket: Socket,
  timeoutMs: number,
  done: (peer: string | undefined) => void,
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

export type Violations = ReturnType<typeof createViolations>

/** Counts the connections that were closed because of their PROXY header, and logs them at most once a minute. */
export const createViolations = (log: Pick<Log, 'warn'>) => {
  let count = 0
  const say = seldom((connections, reason: string, peer: string | undefined) =>
    log.warn(
      { fault: reason, peer, connections },
      'closed connections of a peer in TRUST_PROXY that did not begin with a valid PROXY header'
    )
  )
  return {
    /** A connection was closed for this reason. */
    note(reason: string, peer: string | undefined): void {
      count++
      say(reason, peer)
    },
    get count() {
      return count
    }
  }
}

// Opens a plain or TLS socket to a target; certificates are always verified.
import net from 'node:net'
import { constants } from 'node:os'
import tls from 'node:tls'
import { failIfVanished } from '../http/progress.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { oncePer } from '../values/bounded-map.ts'
import { sharedLookup } from './lookup.ts'

/** Secure contexts are expensive to create, so there is one per upstream. */
const secureContextOf = oncePer(({ ca, clientCertificate }: Upstream) =>
  tls.createSecureContext({ ...(ca === undefined ? {} : { ca }), ...clientCertificate })
)

/** Certificates are verified against `caFile` if the upstream has one, for `serverName` or the target's host. */
export const dial = (upstream: Upstream, target: Target, onread?: net.OnReadOpts): net.Socket => {
  const name = target.host.replace(/^\[|\]$/g, '')
  const host = target.address ?? name
  // Otherwise a body would wait for the delayed acknowledgement of its head.
  const common = { noDelay: true, ...(onread === undefined ? {} : { onread }) }
  if (target.tls) {
    const socket = tls.connect({
      host,
      port: target.port,
      lookup: sharedLookup,
      servername: upstream.serverName ?? (net.isIP(name) === 0 ? name : ''),
      secureContext: secureContextOf(upstream),
      rejectUnauthorized: true,
      ALPNProtocols: ['http/1.1'],
      ...common
    })
    return failIfVanished(socket)
  }
  return target.socketPath === undefined
    ? failIfVanished(net.connect({ host, port: target.port, lookup: sharedLookup, ...common }))
    : net.connect({ path: target.socketPath, ...common })
}

/** Without this, Node.js ends a socket at a write that fails, with whatever has arrived unread. */
export const keepAfterFailedWrite = (socket: net.Socket, onFailed: (error: NodeJS.ErrnoException) => void): void => {
  const destroy = socket.destroy.bind(socket)
  socket.destroy = (error?: NodeJS.ErrnoException) => {
    if (error?.syscall !== 'write') return destroy(error)
    onFailed(error)
    return socket
  }
}

/** The handle of a TLS socket, and that of the socket below it. */
interface TlsInternals {
  readonly _handle?: { readonly reading?: boolean; readonly _parent?: { readStart(): number } } | null
}

/**
 * Whether TLS data ended with the TCP connection, not with a closure alert (RFC 8446 §6.1). Node.js reports both alike, but only after
 * the former has libuv stopped reading, which never ends while it is paused; starting to read again then succeeds.
 */
const lacksAlert = ({ _handle: handle }: TlsInternals): boolean =>
  handle?.reading !== false && handle?._parent?.readStart() !== -constants.errno.EALREADY

/** Calls back just before the end of a TLS socket whose data may have been cut short. */
export const watchForAlert = (socket: net.Socket, onMissing: () => void): void => {
  const push = socket.push.bind(socket)
  socket.push = (chunk, encoding) => {
    if (chunk === null && lacksAlert(socket as TlsInternals)) onMissing()
    return push(chunk, encoding)
  }
}

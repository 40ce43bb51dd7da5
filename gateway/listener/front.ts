// Accepts connections on a port and passes on those that may use HTTP, after their PROXY header and inside TLS.

import { constants } from 'node:crypto'
import { createServer, type Socket } from 'node:net'
import tls, { type SecureContext, type SecureContextOptions, type TLSSocket } from 'node:tls'
import { failIfVanished } from '../http/progress.ts'
import type { AcceptOptions } from '../http/server.ts'
import { createCertificateNames } from '../values/certificates.ts'
import { contain, ending, task } from '../values/contain.ts'
import type { CertificateState } from './certificates.ts'
import type { ConnectionQuota } from './connection-quota.ts'
import { takeProxyHeader } from './proxy-protocol.ts'

type Accept = (socket: Socket, options: AcceptOptions) => void

export interface FrontParts {
  /** Each connection passed on occupies a place, which is released when the connection is gone. */
  readonly accept: Accept
  readonly quota: ConnectionQuota
  /** undefined: plain HTTP. */
  readonly certificates: CertificateState | undefined
  readonly offersHttp2?: boolean
  /** Whether a peer is a proxy, whose connections carry requests of many clients. */
  readonly isProxy?: (peer: string | undefined) => boolean
  /** Peers that must send a PROXY header; undefined: no peer sends one. */
  readonly sendsProxyHeader: ((peer: string | undefined) => boolean) | undefined
  /** A connection was closed for this reason before it used HTTP. */
  readonly onRefused: (reason: string, peer: string | undefined) => void
}

/** For a PROXY header, and for a TLS handshake. */
const EARLY_MS = 10_000

export const createFront = (parts: FrontParts) => {
  const { accept, quota, certificates, offersHttp2 = false, isProxy, sendsProxyHeader, onRefused } = parts
  const early = new Set<Socket>()
  let onNoneEarly: (() => void) | undefined
  const leaveEarly = (connection: Socket) => {
    early.delete(connection)
    if (early.size === 0) onNoneEarly?.()
  }
  const acceptOn = (connection: Socket, ...accepted: Parameters<Accept>) => {
    accept(...accepted)
    leaveEarly(connection)
  }
  const overTls = certificates === undefined ? undefined : createTls(certificates, offersHttp2, acceptOn, quota.leave)
  const greet = (socket: Socket, peer: string | undefined) => {
    if (!quota.enter(peer)) socket.destroy()
    else if (overTls === undefined) acceptOn(socket, socket, { peer })
    else overTls.greet(socket, peer, isProxy?.(peer) === true)
  }
  const receive = (socket: Socket) => {
    early.add(failIfVanished(socket))
    socket.on('close', () => leaveEarly(socket))
    // Until the connection is handed over, a reset concerns no other part.
    socket.on('error', () => socket.destroy())
    const peer = socket.remoteAddress
    if (sendsProxyHeader?.(peer) !== true) return greet(socket, peer)
    takeProxyHeader(
      socket,
      EARLY_MS,
      named => greet(socket, named ?? peer),
      reason => onRefused(reason, peer)
    )
  }
  const server = createServer({ allowHalfOpen: true, noDelay: true }, socket =>
    contain(ending(socket), () => receive(socket))
  )
  return {
    /** Not listening yet. */
    server,
    /** Applies to new connections; open ones keep their own. */
    useCertificates: (state: CertificateState) => overTls?.use(state),
    /** Resolves when all connections have reached HTTP; those that have not after `graceMs` are closed. */
    async endEarly(graceMs = 0): Promise<void> {
      if (early.size === 0) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, graceMs)
      onNoneEarly = resolve
      await promise
      clearTimeout(timer)
      for (const socket of early) socket.destroy()
    }
  }
}

/** Of each certificate. */
const optionsOf = ({ served, ticketKeys }: CertificateState): SecureContextOptions[] =>
  served.map(({ pair }) => ({
    cert: pair.cert,
    key: pair.key,
    minVersion: 'TLSv1.2',
    // A client that requests renegotiation again and again costs us more than itself.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    ticketKeys: Buffer.from(ticketKeys, 'latin1')
  }))

/** What several certificates are chosen by. */
const choicesOf = (state: CertificateState) => ({
  names: createCertificateNames(state.served.map(({ pair }) => pair.names)),
  contexts: optionsOf(state).map(options => tls.createSecureContext(options))
})

const createTls = (
  state: CertificateState,
  offersHttp2: boolean,
  acceptOn: (connection: Socket, ...accepted: Parameters<Accept>) => void,
  onLost: (peer: string | undefined) => void
) => {
  /** Connections in their handshake, with their peers. */
  const greeted = new Map<Socket, string | undefined>()
  /** undefined: there is only one certificate. */
  let choices = state.served.length > 1 ? choicesOf(state) : undefined
  const coversOf = (socket: Wrapping): AcceptOptions['covers'] => {
    if (choices === undefined) return undefined
    const { names } = choices
    const name = nameOf(socket.servername)
    // OpenSSL does not say which name a resumed session of TLS 1.2 belongs to.
    const index = name === '' && socket.isSessionReused() ? undefined : names.indexFor(name)
    return host => names.covers(index, host)
  }
  const options = { ...optionsOf(state)[0], handshakeTimeout: EARLY_MS }
  const byName = {
    SNICallback: (servername: string, take: (error: null, context?: SecureContext) => void) =>
      take(null, choices?.contexts[choices.names.indexFor(nameOf(servername))])
  }
  const receive = (socket: Wrapping) => {
    const connection = socket._parent
    if (connection === undefined || !greeted.has(connection)) return socket.destroy()
    const peer = greeted.get(connection)
    greeted.delete(connection)
    const isHttp2 = socket.alpnProtocol === 'h2'
    acceptOn(connection, socket, { peer, isTls: true, isHttp2, covers: coversOf(socket) })
  }
  // It listens on no port; connections are passed to it.
  const serverFor = (ALPNProtocols: string[]) =>
    tls
      .createServer({ ...options, ALPNProtocols, ...(choices && byName) }, socket =>
        contain(ending(socket), () => receive(socket))
      )
      .on('tlsClientError', (_error, socket) => socket.destroy())
  // The first protocol that the client supports is used.
  const protocols = offersHttp2 ? ['h2', 'http/1.1'] : ['http/1.1']
  const forClients = serverFor(protocols)
  // The clients of a proxy would share the bounds of one client on a connection of HTTP/2.
  const forProxies = serverFor(protocols.toReversed())
  return {
    /** Takes a connection whose next byte is the first of a handshake. */
    greet(connection: Socket, peer: string | undefined, isProxy: boolean) {
      greeted.set(connection, peer)
      connection.on('close', () => {
        if (greeted.delete(connection)) task(onLost)(peer)
      })
      const server = isProxy ? forProxies : forClients
      server.emit('connection', connection)
    },
    use(next: CertificateState) {
      if (choices !== undefined) choices = choicesOf(next)
      for (const server of [forClients, forProxies]) server.setSecureContext(optionsOf(next)[0] ?? {})
    }
  }
}

/** Node.js says `false` or null if the client names none. */
const nameOf = (servername: unknown): string => (typeof servername === 'string' ? servername : '')

/** The TLS inside a connection, which is no public property; guarded by test/listener/front.test.ts. */
interface Wrapping extends TLSSocket {
  readonly _parent?: Socket
}

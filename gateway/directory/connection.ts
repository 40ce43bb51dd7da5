// Opens a verified connection to the directory that speaks well-formed LDAP, until its signal aborts it.
import { once } from 'node:events'
import { connect, isIP, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import type { LdapSettings } from '../settings/settings.ts'
import { DirectoryFailure } from './failure.ts'
import { createMessageReader, LdapFault, type LdapResponse, OPERATION, readResponse } from './messages.ts'

/** Far more than small entries and their envelopes need. */
const MAX_BYTES = 1_048_576
const OTHER_MESSAGES = 62
/** The search for a person requests at most this many (RFC 4511 §4.5.1.4). */
export const MAX_PEOPLE = 2

/**
 * Dials one server of LDAP_URL: TCP, then STARTTLS if configured, then TLS if configured; never less than configured.
 *
 * @param signal on abort, the connection is destroyed at whatever stage it is.
 * @throws DirectoryFailure `directory-unreachable` or `directory-tls`.
 */
export const connectDirectory = async (
  url: URL,
  settings: LdapSettings,
  signal: AbortSignal
): Promise<DirectoryConnection> => {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const isLdaps = url.protocol === 'ldaps:'
  const port = url.port === '' ? (isLdaps ? 636 : 389) : Number(url.port)

  const plain = await step('directory-unreachable', 'connect', dial(host, port, signal))
  if (!isLdaps && !settings.startTls) return guard(plain, signal)
  if (!isLdaps) await step('directory-tls', 'STARTTLS', requestStartTls(plain))
  return guard(await step('directory-tls', 'TLS', secure(plain, host, settings.ca, signal)), signal)
}

const step = async <T>(
  reason: 'directory-unreachable' | 'directory-tls',
  name: string,
  work: Promise<T>
): Promise<T> => {
  try {
    return await work
  } catch (cause) {
    throw new DirectoryFailure(reason, `${name}: ${describe(cause)}`, { cause })
  }
}

/** An error of several addresses (AggregateError) has a code, but no text. */
const describe = (error: unknown): string => {
  if (!(error instanceof Error)) return 'failed'
  return error.message === '' && 'code' in error ? String(error.code) : error.message
}

const dial = async (host: string, port: number, signal: AbortSignal): Promise<Socket> => {
  const socket = connect({ host: host === '' ? 'localhost' : host, port, noDelay: true })
  destroyWith(socket, signal)
  await once(socket, 'connect', { signal })
  return socket
}

const secure = async (plain: Socket, host: string, ca: string | undefined, signal: AbortSignal): Promise<Socket> => {
  const options: ConnectionOptions = {
    socket: plain,
    // The name that the certificate must contain; SNI is for host names only (RFC 6066 §3).
    host,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(ca === undefined ? {} : { ca }),
    minVersion: 'TLSv1.2',
    // Set explicitly, so that NODE_TLS_REJECT_UNAUTHORIZED cannot override it.
    rejectUnauthorized: true
  }
  const socket = connectTls(options)
  destroyWith(socket, signal)
  await once(socket, 'secureConnect', { signal })
  return socket
}

/** Nothing outlives the signal, and late errors of an abandoned socket are caught. */
const destroyWith = (socket: Duplex, signal: AbortSignal): void => {
  socket.on('error', () => {})
  if (signal.aborted) socket.destroy()
  else signal.addEventListener('abort', () => socket.destroy(), { once: true })
}

/** StartTLS, message id 1 (RFC 4511 §4.14.1): the only request that is ever sent in clear text. */
const START_TLS_REQUEST = Buffer.concat([
  Buffer.from([0x30, 0x1d, 0x02, 0x01, 0x01, 0x77, 0x18, 0x80, 0x16]),
  Buffer.from('1.3.6.1.4.1.1466.20037')
])

const requestStartTls = (socket: Socket): Promise<void> =>
  new Promise((resolve, reject) => {
    const read = createMessageReader({ maxBytes: 4096, maxMessages: 1 })
    let bytes = 0
    const onData = (chunk: Buffer) => {
      try {
        bytes += chunk.length
        const [message] = read(chunk)
        if (message === undefined) return
        const { operation, resultCode } = readResponse(message)
        if (operation !== OPERATION.extended || resultCode !== 0) throw new LdapFault(`refused with code ${resultCode}`)
        // Anything injected after the plain-text response would be read as if it had arrived over TLS.
        if (bytes > message.length) throw new LdapFault('bytes in the clear after the answer')
        socket.off('data', onData)
        socket.pause()
        resolve()
      } catch (error) {
        reject(error)
      }
    }
    socket.on('data', onData)
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the connection was closed')))
    socket.write(START_TLS_REQUEST)
  })

export type DirectoryConnection = ReturnType<typeof guard>

/** Sits between the socket and the library, which trusts its input and grows without limit. */
const guard = (socket: Socket, signal: AbortSignal) => {
  let maxEntries = MAX_PEOPLE
  let read = createMessageReader({ maxBytes: MAX_BYTES, maxMessages: maxEntries + OTHER_MESSAGES })
  let fault: LdapFault | undefined
  let last: LdapResponse | undefined
  let entries = 0

  const accept = (message: Buffer): void => {
    last = readResponse(message)
    if (last.operation === OPERATION.entry) entries += 1
    if (entries > maxEntries) throw new LdapFault('more entries than requested')
    stream.push(message)
  }
  const stream = new Duplex({
    // One message per chunk, because ldapts would recurse over several.
    readableObjectMode: true,
    read: () => {},
    write: (chunk, _encoding, done) => {
      socket.write(chunk, done)
    },
    final: done => {
      socket.end(done)
    },
    // Errors are reported by `fault` and by the close event, so that none is emitted without a listener.
    destroy: (_error, done) => {
      socket.destroy()
      done(null)
    }
  })
  destroyWith(stream, signal)
  socket.on('data', (chunk: Buffer) => {
    try {
      for (const message of read(chunk)) accept(message)
    } catch (error) {
      fault ??= error instanceof LdapFault ? error : new LdapFault('unreadable', { cause: error })
      stream.destroy()
    }
  })
  socket.once('close', () => stream.destroy())
  return {
    /**
     * Looks like an open socket to an LDAP library; each chunk is one validated message. ldapts uses a socket only as a stream,
     * and reads these two properties.
     */
    stream: Object.assign(stream, { connecting: false, readyState: 'open' }) as unknown as Socket,
    /** Why the connection ended early, if what arrived was not LDAP. */
    fault: () => fault,
    /** Result code of the last response, which libraries sometimes discard. */
    lastResultCode: () => last?.resultCode,
    /** Limits the number of entries from now on; earlier ones do not count. No operation may be in progress. */
    allow: (allowed: number) => {
      maxEntries = allowed
      entries = 0
      read = createMessageReader({ maxBytes: MAX_BYTES, maxMessages: maxEntries + OTHER_MESSAGES })
    }
  }
}

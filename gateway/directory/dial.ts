// Dials the first server of LDAP_URL that responds, and remembers for a while which ones did not.
import { once } from 'node:events'
import { connect, isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import type { LdapSettings } from '../settings/settings.ts'
import { startDeadline } from './deadline.ts'
import { DirectoryFailure } from './failure.ts'
import { createMessageReader, LdapFault, OPERATION, readResponse } from './messages.ts'

export interface DialedServer {
  readonly socket: Socket
  /** The server does not respond, or says that it cannot serve; others are tried first for a while. */
  giveUp(): void
}

const SKIPPED_MS = 30_000

/** @param clock monotonic ms */
export const createServers = (settings: LdapSettings, clock = () => performance.now()) => {
  const urls = settings.url.split(',').map(url => new URL(url.trim()))
  const deadUntil = new Map<URL, number>()
  /** Those that are skipped come last, the longest ago first: once all others have failed, any may have recovered. */
  const inOrder = (): readonly URL[] => {
    const now = clock()
    const skippedUntil = (url: URL) => Math.max(now, deadUntil.get(url) ?? now)
    return urls.toSorted((one, other) => skippedUntil(one) - skippedUntil(other))
  }

  return {
    count: urls.length,
    /**
     * A server must be ready in a third of the time. On abort of the signal its socket is destroyed, at whatever stage it is.
     *
     * @throws DirectoryFailure `directory-unreachable`, `directory-tls` or `directory-timeout` of the last server that was tried.
     */
    dial: async (signal: AbortSignal): Promise<DialedServer> => {
      let failure: unknown
      for (const url of inOrder()) {
        const giveUp = () => void deadUntil.set(url, clock() + SKIPPED_MS)
        const deadline = startDeadline(Math.round(settings.timeoutMs / 3))
        try {
          const ends = AbortSignal.any([signal, deadline.signal])
          const socket = await deadline.within(dialServer(url, settings, ends))
          deadline.pause()
          deadUntil.delete(url)
          return { socket, giveUp }
        } catch (error) {
          deadline.end()
          if (signal.aborted) throw error
          giveUp()
          failure = error
        }
      }
      throw failure
    }
  }
}

/** TCP, then STARTTLS if configured, then TLS if configured; never less than configured. */
const dialServer = async (url: URL, settings: LdapSettings, signal: AbortSignal): Promise<Socket> => {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const isLdaps = url.protocol === 'ldaps:'
  const port = url.port === '' ? (isLdaps ? 636 : 389) : Number(url.port)

  const plain = await step('directory-unreachable', 'connect', dial(host, port, signal))
  if (!isLdaps && !settings.startTls) return plain
  if (!isLdaps) await step('directory-tls', 'STARTTLS', requestStartTls(plain))
  return step('directory-tls', 'TLS', secure(plain, host, settings.ca, signal))
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
export const destroyWith = (socket: Duplex, signal: AbortSignal): void => {
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

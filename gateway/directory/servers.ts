// Connects to the first server of LDAP_URL that responds, and remembers for a while which ones did not.
import type { LdapSettings } from '../settings/settings.ts'
import { connectDirectory, type DirectoryConnection } from './connection.ts'
import { DirectoryFailure } from './failure.ts'

export interface ServerConnection extends DirectoryConnection {
  /** The server does not respond, or says that it cannot serve; others are tried first for a while. */
  giveUp(): void
}

export interface Servers {
  readonly count: number
  /** @throws DirectoryFailure of the last server that was tried. */
  connect(signal: AbortSignal): Promise<ServerConnection>
}

const SKIPPED_MS = 30_000

/** @param clock monotonic ms */
export const createServers = (settings: LdapSettings, clock = () => performance.now()): Servers => {
  const urls = settings.url.split(',').map(url => new URL(url.trim()))
  const deadUntil = new Map<URL, number>()
  const isDead = (url: URL): boolean => clock() < (deadUntil.get(url) ?? Number.NEGATIVE_INFINITY)

  const connectTo = async (url: URL, signal: AbortSignal): Promise<ServerConnection> => {
    const connectMs = settings.timeoutMs / 3
    const connection = await connectWithin(connectMs, signal, inner => connectDirectory(url, settings, inner))
    deadUntil.delete(url)
    return { ...connection, giveUp: () => deadUntil.set(url, clock() + SKIPPED_MS) }
  }

  return {
    count: urls.length,
    connect: async signal => {
      const living = urls.filter(url => !isDead(url))
      let failure: unknown
      // If all of them are down, any may have recovered.
      for (const url of living.length > 0 ? living : urls) {
        try {
          return await connectTo(url, signal)
        } catch (error) {
          if (signal.aborted) throw error
          deadUntil.set(url, clock() + SKIPPED_MS)
          failure = error
        }
      }
      throw failure
    }
  }
}

/** The result of `connect` lives as long as `signal` allows, but must be ready in time. */
const connectWithin = async <T>(
  timeMs: number,
  signal: AbortSignal,
  connect: (inner: AbortSignal) => Promise<T>
): Promise<T> => {
  const controller = new AbortController()
  const abort = () => controller.abort(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  const late = Promise.withResolvers<never>()
  late.promise.catch(() => {})
  let isOver = false
  const timer = setTimeout(() => {
    // After a stall, the response may already be waiting to be read.
    setImmediate(() => {
      if (isOver) return
      late.reject(new DirectoryFailure('directory-timeout', `no connection within ${Math.round(timeMs)} ms`))
      controller.abort()
    })
  }, timeMs)
  try {
    return await Promise.race([connect(controller.signal), late.promise])
  } catch (error) {
    controller.abort()
    throw error
  } finally {
    isOver = true
    clearTimeout(timer)
  }
}

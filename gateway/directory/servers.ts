// Connects to the first server of LDAP_URL that responds, and remembers for a while which ones did not.
import type { LdapSettings } from '../settings/settings.ts'
import { connectDirectory, type DirectoryConnection } from './connection.ts'
import { startDeadline } from './deadline.ts'

export interface ServerConnection extends DirectoryConnection {
  /** The server does not respond, or says that it cannot serve; others are tried first for a while. */
  giveUp(): void
}

const SKIPPED_MS = 30_000

/** @param clock monotonic ms */
export const createServers = (settings: LdapSettings, clock = () => performance.now()) => {
  const urls = settings.url.split(',').map(url => new URL(url.trim()))
  const deadUntil = new Map<URL, number>()
  const isDead = (url: URL): boolean => clock() < (deadUntil.get(url) ?? Number.NEGATIVE_INFINITY)
  const giveUp = (url: URL) => void deadUntil.set(url, clock() + SKIPPED_MS)

  /** Lives as long as `signal` allows, but must be ready in a third of the time. */
  const connectTo = async (url: URL, signal: AbortSignal): Promise<ServerConnection> => {
    const deadline = startDeadline(Math.round(settings.timeoutMs / 3))
    try {
      const ends = AbortSignal.any([signal, deadline.signal])
      const connection = await deadline.within(connectDirectory(url, settings, ends))
      deadline.pause()
      deadUntil.delete(url)
      return { ...connection, giveUp: () => giveUp(url) }
    } catch (error) {
      deadline.end()
      if (!signal.aborted) giveUp(url)
      throw error
    }
  }

  return {
    count: urls.length,
    /** @throws DirectoryFailure of the last server that was tried. */
    connect: async (signal: AbortSignal): Promise<ServerConnection> => {
      const living = urls.filter(url => !isDead(url))
      let failure: unknown
      // If all of them are down, any may have recovered.
      for (const url of living.length > 0 ? living : urls) {
        try {
          return await connectTo(url, signal)
        } catch (error) {
          if (signal.aborted) throw error
          failure = error
        }
      }
      throw failure
    }
  }
}

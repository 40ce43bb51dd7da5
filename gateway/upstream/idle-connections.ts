// Keeps the idle connections to one target, and decides which request may use one of them.
import type { Client, UpstreamConnection } from './connection.ts'

/** Within QUIET_MS, 20,000 requests per second of many clients leave a thousand: with fewer places, most would be closed and opened again. */
const MAX_IDLE = 2048
/** What a backend sends behind a response although no request asked for it arrives within this time. */
const QUIET_MS = 50
const NOT_SHARED_MS = 60_000

/** @param maxAgeMs a connection that was opened before that is not used again */
export const createIdleConnections = (now: () => number, maxAgeMs: number) => {
  const idle: UpstreamConnection[] = []
  let sharedAgainAt = Number.NEGATIVE_INFINITY

  /** Another client may use it: a late second response would be taken for the response to its request. */
  const isSharable = ({ isBound, idleSince }: UpstreamConnection, at: number): boolean =>
    !isBound && at - idleSince >= QUIET_MS && at >= sharedAgainAt

  return {
    count: () => idle.length,
    /** In the order in which to close them: the oldest first, and those that are bound last, which may be in the middle of a login. */
    all: (): readonly UpstreamConnection[] => idle.toSorted((a, b) => Number(a.isBound) - Number(b.isBound)),
    /** Returns whether it is kept. */
    add(connection: UpstreamConnection): boolean {
      const { client, isBound, openedAt } = connection
      if (idle.length >= MAX_IDLE || (isBound && client === undefined)) return false
      // A bound connection lives as long as its client's.
      connection.deadline = isBound ? Number.POSITIVE_INFINITY : Math.min(connection.deadline, openedAt + maxAgeMs)
      if (connection.deadline <= now()) return false
      idle.push(connection)
      return true
    },
    remove(connection: UpstreamConnection): void {
      const at = idle.indexOf(connection)
      if (at !== -1) idle.splice(at, 1)
    },
    /** The connection that this client used last, or else the one that others used last. */
    take(client: Client | undefined): UpstreamConnection | undefined {
      const at = now()
      const isOwn = (one: UpstreamConnection) => client !== undefined && one.client === client && one.deadline > at
      const own = idle.findLastIndex(isOwn)
      const found = own === -1 ? idle.findLastIndex(one => one.deadline > at && isSharable(one, at)) : own
      return found === -1 ? undefined : idle.splice(found, 1)[0]
    },
    /** Whether a connection is bound to this client. */
    hasBound: (client: Client): boolean => idle.some(connection => connection.isBound && connection.client === client),
    /** The target has sent what no request asked for. */
    noteUnasked(): void {
      sharedAgainAt = now() + NOT_SHARED_MS
    },
    /** Those whose client has gone. */
    orphans: (): UpstreamConnection[] => idle.filter(({ isBound, client }) => isBound && client?.isOpen !== true)
  }
}

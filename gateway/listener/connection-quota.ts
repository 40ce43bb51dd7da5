// Counts the connections of each client address across all processes, and refuses those over the limit.

import type { Logger } from 'pino'
import { type ClientAddressOf, createClientAddress } from '../http/client-address.ts'
import type { Settings } from '../settings/settings.ts'
import { task } from '../values/contain.ts'
import { seldom } from '../values/throttled-log.ts'

/** A client address and the number of its connections in all processes, as far as the reporting process knows. */
type Claim = readonly [key: string, total: number]

export type ConnectionQuota = ReturnType<typeof createConnectionQuota>

export interface QuotaOptions {
  readonly most: number
  /** Trusted proxies are exempt, because the client behind them is not known yet. */
  readonly clientAddress: ClientAddressOf
  /** Asks all other processes; each returns what its `answer` does. */
  readonly ask?: ((claims: readonly Claim[]) => Promise<readonly unknown[]>) | undefined
  /** Their number, with this one. */
  readonly processes?: number
  /** Called at most once a minute, with the number of connections refused since. */
  readonly onRefused?: (key: string, count: number) => void
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number
}

/** An address that uses this share of its quota in one process, or an equal share of it, is looked up in the others. */
const TOLD_PART = 16
const ASK_EVERY_MS = 100
/** What others hold is dropped unless they report it again. */
const KNOWN_MS = 1000

export const createConnectionQuota = (options: QuotaOptions) => {
  const { most, clientAddress, ask, processes = 1, now = () => performance.now() } = options
  const here = new Map<string, number>()
  const elsewhere = new Map<string, { count: number; at: number }>()
  const many = new Set<string>()
  const tell = seldom((count, key: string) => options.onRefused?.(key, count), now)
  const fewest = Math.max(1, Math.floor(most / Math.max(TOLD_PART, processes)))
  let isAsking = false

  const heldHere = (key: string): number => here.get(key) ?? 0
  const heldElsewhere = (key: string): number => {
    const known = elsewhere.get(key)
    return known === undefined || now() - known.at > KNOWN_MS ? 0 : known.count
  }
  const note = (reports: readonly (readonly [key: string, count: number])[]) => {
    const at = now()
    for (const [key, known] of elsewhere) if (at - known.at > KNOWN_MS) elsewhere.delete(key)
    for (const [key, count] of reports) elsewhere.set(key, { count, at })
  }

  const askOthers = async (of: NonNullable<typeof ask>) => {
    isAsking = true
    while (many.size > 0) {
      const keys = [...many]
      const replies = await of(keys.map(key => [key, heldHere(key) + heldElsewhere(key)]))
      note(keys.map((key, index) => [key, replies.reduce<number>((sum, one) => sum + countAt(one, index), 0)]))
      await new Promise(resolve => setTimeout(resolve, ASK_EVERY_MS).unref())
    }
    isAsking = false
  }

  return {
    /** Reserves a place for a connection of this peer; false: its address has reached the limit. */
    enter(peer: string | undefined): boolean {
      if (clientAddress.trusted(peer)) return true
      const { key } = clientAddress(peer, undefined)
      const held = heldHere(key)
      if (held + heldElsewhere(key) >= most) {
        tell(key)
        return false
      }
      here.set(key, held + 1)
      if (ask === undefined || held + 1 < fewest) return true
      many.add(key)
      if (!isAsking) task(askOthers)(ask)
      return true
    },
    leave(peer: string | undefined): void {
      if (clientAddress.trusted(peer)) return
      const { key } = clientAddress(peer, undefined)
      const left = (here.get(key) ?? 1) - 1
      if (left < fewest) many.delete(key)
      if (left === 0) here.delete(key)
      else here.set(key, left)
    },
    /** Another process asks: returns the number held here, for each claim in turn. */
    answer(claims: unknown): number[] {
      const asked: readonly Claim[] = Array.isArray(claims) ? claims : []
      // Of its own, this process asks.
      const news = asked.filter(([key]) => !many.has(key))
      note(news.map(([key, total]) => [key, Math.max(0, total - heldHere(key))]))
      return asked.map(([key]) => heldHere(key))
    }
  }
}

const countAt = (reply: unknown, index: number): number => {
  const count: unknown = Array.isArray(reply) ? reply[index] : 0
  return typeof count === 'number' ? count : 0
}

/** Also finds the addresses of clients. @param ask asks the other processes; undefined: there are none */
export const createClientQuota = (settings: Settings, ask: QuotaOptions['ask'], log: Logger) => {
  const clientAddress = createClientAddress(settings.trustProxy, element =>
    log.warn(
      { element },
      'a trusted proxy sent an X-Forwarded-For element that is not an IP address; its requests are attributed to the proxy itself'
    )
  )
  const quota = createConnectionQuota({
    most: settings.connectionsPerIp,
    clientAddress,
    ask,
    processes: settings.workers,
    onRefused: (address, count) =>
      log.warn({ address, count }, 'closed connections of a client address that has reached CONNECTIONS_PER_IP')
  })
  return { clientAddress, quota }
}

// Limits the open streams of each upstream and the share of one person or address.
import { type GatewayError, RateLimited, Unavailable } from '../errors.ts'
import type { Upstream } from '../routes/upstream.ts'
import { STREAMS_PER_TARGET } from '../upstream/pool.ts'

/** Parts of an upstream's budget, above 0 and at most 1. */
export interface StreamShares {
  readonly perUser: number
  readonly perIp: number
}

/** Per process, regardless of the upstreams, because each stream uses memory here. */
const MOST_STREAMS = 50_000

interface StreamAsker {
  readonly upstream: Upstream
  /** undefined: unknown, or no particular person. */
  readonly userId: number | undefined
  /** The key that limits count by; undefined: already counted. */
  readonly ip: string | undefined
}

export const createStreamQuota = (shares: StreamShares) => {
  // Keyed by the upstream's name, alone and followed by a person or an address.
  const held = new Map<string, number>()
  let total = 0

  const count = (key: string) => held.get(key) ?? 0
  const add = (key: string, by: 1 | -1) => {
    const now = count(key) + by
    if (now === 0) held.delete(key)
    else held.set(key, now)
  }
  const refuse = () => new RateLimited({ reason: 'too-many-streams', headers: { 'retry-after': '10' } })

  return ({ upstream, userId, ip }: StreamAsker): (() => void) | GatewayError => {
    const { name, targets } = upstream
    const budget = STREAMS_PER_TARGET * targets.length
    const byUser = userId === undefined ? undefined : `${name}\nuser ${userId}`
    const byIp = ip === undefined ? undefined : `${name}\nip ${ip}`
    if (byUser !== undefined && count(byUser) >= Math.max(1, Math.floor(budget * shares.perUser))) return refuse()
    if (byIp !== undefined) {
      if (count(byIp) >= Math.max(1, Math.floor(budget * shares.perIp))) return refuse()
      if (total >= MOST_STREAMS || count(name) >= budget) return new Unavailable({ reason: 'too-many-streams' })
    }
    // Those without an address are counted already.
    const keys = [byIp === undefined ? undefined : name, byIp, byUser].filter(key => key !== undefined)
    for (const key of keys) add(key, 1)
    if (byIp !== undefined) total++
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      for (const key of keys) add(key, -1)
      if (byIp !== undefined) total--
    }
  }
}

// Nobody takes all the places for open streams: not one person, not one address.
import { type GatewayError, RateLimited, Unavailable } from '../errors.ts'

export interface StreamLimits {
  readonly perUser: number
  readonly perIp: number
  readonly total: number
}

/** Places by person and address, so that one of them can't take them all. */
export const createPlaces = (limits: StreamLimits) => {
  const byUser = new Map<number, number>()
  const byIp = new Map<string, number>()
  let total = 0
  const leave = <K>(counts: Map<K, number>, key: K) => {
    const left = (counts.get(key) ?? 1) - 1
    if (left === 0) counts.delete(key)
    else counts.set(key, left)
  }
  const refusalOf = (userId: number | undefined, ip: string): GatewayError | undefined => {
    if (total >= limits.total) return new Unavailable({ reason: 'too-many-streams' })
    const ofUser = userId === undefined ? 0 : (byUser.get(userId) ?? 0)
    if (ofUser < limits.perUser && (byIp.get(ip) ?? 0) < limits.perIp) return undefined
    return new RateLimited({ reason: 'too-many-streams', headers: { 'retry-after': '10' } })
  }
  return {
    take({ userId, ip }: { userId: number | undefined; ip: string }): () => void {
      const refusal = refusalOf(userId, ip)
      if (refusal !== undefined) throw refusal
      total++
      byIp.set(ip, (byIp.get(ip) ?? 0) + 1)
      if (userId !== undefined) byUser.set(userId, (byUser.get(userId) ?? 0) + 1)
      let taken = true
      return () => {
        if (!taken) return
        taken = false
        total--
        leave(byIp, ip)
        if (userId !== undefined) leave(byUser, userId)
      }
    }
  }
}

// Remembers whose state a recovery id of Socket.IO restores: in Redis, where every instance finds it, or in memory.
import { createHash } from 'node:crypto'
import type { RedisStore } from '../redis/redis.ts'

export interface RecoveryIds {
  /** @param owner whose state it is, as one text */
  bind(id: string, owner: string, lifetimeMs: number): Promise<void>
  ownerOf(id: string): Promise<string | undefined>
}

const MAX_IDS = 100_000

/** They are secrets, so only their hashes are stored. */
const hashed = (id: string): string => createHash('sha256').update(id).digest('base64url')

export const createMemoryRecoveryIds = (now: () => number = Date.now, maxIds = MAX_IDS): RecoveryIds => {
  const owners = new Map<string, { owner: string; until: number }>()
  return {
    async bind(id, owner, lifetimeMs) {
      const key = hashed(id)
      // Insertion order is age, so the oldest goes first.
      owners.delete(key)
      owners.set(key, { owner, until: now() + lifetimeMs })
      for (const [oldest, { until }] of owners) {
        if (until > now() && owners.size <= maxIds) break
        owners.delete(oldest)
      }
    },
    async ownerOf(id) {
      const known = owners.get(hashed(id))
      return known !== undefined && known.until > now() ? known.owner : undefined
    }
  }
}

export const createRedisRecoveryIds = (redis: Pick<RedisStore, 'get' | 'set'>): RecoveryIds => {
  const keyOf = (id: string) => `pid:${hashed(id)}`
  return {
    bind: (id, owner, lifetimeMs) => redis.set(keyOf(id), owner, Math.max(1, Math.ceil(lifetimeMs))),
    ownerOf: async id => (await redis.get(keyOf(id))) ?? undefined
  }
}

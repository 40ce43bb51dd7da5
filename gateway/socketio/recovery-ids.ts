// Remembers whose state a recovery id of Socket.IO restores: in Redis, where every instance finds it, or in memory.
import { createHash } from 'node:crypto'
import type { RedisStore } from '../redis/redis.ts'

/** Whose state it is, and with which rights it came about. */
export interface RecoveryOwner {
  readonly userId: number
  readonly version: number
  /** The profiles that an access token was limited to; '': not limited. */
  readonly profilesAtMost: string
  readonly namespace: string
  readonly routeId: string
}

export interface RecoveryIds {
  bind(id: string, owner: RecoveryOwner, lifetimeMs: number): Promise<void>
  ownerOf(id: string): Promise<RecoveryOwner | undefined>
}

const MAX_IDS = 100_000

/** They are secrets, so only their hashes are stored. */
const hashed = (id: string): string => createHash('sha256').update(id).digest('base64url')

export const createMemoryRecoveryIds = (now: () => number = Date.now, maxIds = MAX_IDS): RecoveryIds => {
  const owners = new Map<string, { owner: RecoveryOwner; until: number }>()
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
  const keyOf = (id: string) => `portaria:pid:${hashed(id)}`
  return {
    bind: (id, owner, lifetimeMs) => redis.set(keyOf(id), JSON.stringify(owner), Math.max(1, Math.ceil(lifetimeMs))),
    async ownerOf(id) {
      const text = await redis.get(keyOf(id))
      return text === null ? undefined : (JSON.parse(text) as RecoveryOwner)
    }
  }
}

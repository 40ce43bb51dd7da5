// What a Socket.IO session has proved is known wherever its next request arrives.
import { createHash } from 'node:crypto'
import type { Identity } from '../identity.ts'

export interface NamespaceState {
  /** `asked`: let through to the upstream, which has not answered yet. */
  readonly phase: 'asked' | 'open'
  readonly identity: Identity
}

/** A polling session as any instance can take it up. Times in milliseconds since the epoch. */
export interface SidRecord {
  readonly routeId: string
  /** `url` of the target that knows the session. */
  readonly target: string
  readonly ip: string
  readonly createdAt: number
  readonly sessionMs: number
  /** Bytes taken from the client before its first open namespace. */
  bytes: number
  proven: boolean
  /** Binary messages still due from the client and from the upstream. */
  due: { client: number; upstream: number; dropped: boolean }
  namespaces: Record<string, NamespaceState>
}

/** Whose state a recovery id brings back. */
export interface PidOwner {
  readonly userId: number
  readonly version: number
  readonly namespace: string
  readonly routeId: string
}

export interface SidStore {
  /** Whether other instances see it. */
  readonly shared: boolean
  load(sid: string): Promise<SidRecord | undefined>
  save(sid: string, record: SidRecord): Promise<void>
  remove(sid: string): Promise<void>
  bindPid(pid: string, owner: PidOwner, lifetimeMs: number): Promise<void>
  pidOwner(pid: string): Promise<PidOwner | undefined>
}

/** Session and recovery ids are secrets: only their hashes are stored or logged. */
export const hashId = (id: string): string => createHash('sha256').update(id).digest('base64url')

const MAX_PIDS = 100_000

/** For a single instance: sessions live where their requests arrive, so only recovery ids need remembering. */
export const createMemorySidStore = (now: () => number = Date.now): SidStore => {
  const pids = new Map<string, { owner: PidOwner; until: number }>()
  return {
    shared: false,
    load: async () => undefined,
    save: async () => undefined,
    remove: async () => undefined,
    async bindPid(pid, owner, lifetimeMs) {
      const key = hashId(pid)
      // Insertion order is age: the oldest goes first.
      pids.delete(key)
      pids.set(key, { owner, until: now() + lifetimeMs })
      for (const [oldest, { until }] of pids) {
        if (until > now() && pids.size <= MAX_PIDS) break
        pids.delete(oldest)
      }
    },
    async pidOwner(pid) {
      const known = pids.get(hashId(pid))
      return known !== undefined && known.until > now() ? known.owner : undefined
    }
  }
}

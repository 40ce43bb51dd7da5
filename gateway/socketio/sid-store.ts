// Stores what a Socket.IO session has proved, so that it is known wherever its next request arrives.
import { createHash } from 'node:crypto'
import type { Identity } from '../identity.ts'

export interface NamespaceState {
  /** `asked`: forwarded to the upstream, which has not responded yet. */
  readonly phase: 'asked' | 'open'
  readonly identity: Identity
  /** While asked: packets that the upstream has already sent, in order, in payload form. */
  readonly held?: readonly string[]
}

export interface AttachmentsDue {
  client: number
  /** The attachments expected from the client belong to a packet that was not forwarded. */
  clientDropped: boolean
  upstream: number
  /** What happened to the packet to which the attachments expected from the upstream belong. */
  upstreamFate: 'pass' | 'drop' | 'hold'
  /** The namespace for whose confirmation it is held. */
  heldFor?: string
}

/** The immutable part of a polling session. Times in milliseconds (since the epoch). */
export interface SidSource {
  readonly routeId: string
  /** `url` of the target that has the session. */
  readonly target: string
  readonly createdAt: number
  /** How long the server keeps a session that is not polled, and how long it may hold a poll. */
  readonly sessionMs: number
  readonly pollMs: number
  /** `[name, value, …]` of responses to this client. */
  readonly fields: readonly string[]
}

/** A polling session in the form in which any instance can adopt it. */
export interface SidRecord extends SidSource {
  /** Bytes accepted from the client before its first open namespace. */
  readonly bytes: number
  readonly proven: boolean
  /** Carried by a WebSocket: no request of the polling transport belongs to it any more. */
  readonly upgraded: boolean
  readonly due: AttachmentsDue
  readonly namespaces: Readonly<Record<string, NamespaceState>>
}

/** What one instance has learnt; each field is written by only one kind of request at a time. */
interface SidChanges {
  readonly bytes?: number
  readonly proven?: boolean
  /** A WebSocket carries it now, and only its instance tells the upstream about endings. */
  readonly upgraded?: boolean
  readonly dueFromClient?: Pick<AttachmentsDue, 'client' | 'clientDropped'>
  readonly dueFromUpstream?: Pick<AttachmentsDue, 'upstream' | 'upstreamFate' | 'heldFor'>
  /** undefined: no longer connected. */
  readonly namespaces: Readonly<Record<string, NamespaceState | undefined>>
}

/** How long packets wait for a poll. */
export const MAIL_MS = 15_000

/** The state of polling sessions if several instances serve their requests. All reject if the store is unavailable. */
export interface SharedSids {
  create(sid: string, source: SidSource): Promise<void>
  load(sid: string): Promise<SidRecord | undefined>
  save(sid: string, changes: SidChanges): Promise<void>
  /** Whether it existed: only the instance that removed it tells the upstream. */
  dropNamespace(sid: string, namespace: string): Promise<boolean>
  remove(sid: string): Promise<void>
  /**
   * Packets for the client, for whichever instance has its next or waiting poll; resolves to how many wait now.
   * @param isAnswer they answer the session's poll to the upstream: in the same step, the right to make it is given back
   */
  mail(sid: string, packets: readonly string[], isAnswer: boolean): Promise<number>
  collect(sid: string): Promise<string[]>
  /** Whether this instance is to make the session's one poll to the upstream. */
  lease(sid: string, forMs: number): Promise<boolean>
  release(sid: string): Promise<void>
  /** Whether anything can be read or written at the moment. */
  isReady(): boolean
  /** @param onMissed announcements may have been missed */
  onMail(listener: (hashedSid: string) => void, onMissed: () => void): void
  /** Sessions that a WebSocket of some instance, perhaps of this one, carries from now on. */
  onUpgraded(listener: (hashedSid: string) => void): void
}

/** The owner of the state that a recovery id restores. */
export interface PidOwner {
  readonly userId: number
  readonly version: number
  readonly namespace: string
  readonly routeId: string
}

export interface SidStore {
  /** undefined: there is one instance, or its balancer is sticky. */
  readonly shared: SharedSids | undefined
  bindPid(pid: string, owner: PidOwner, lifetimeMs: number): Promise<void>
  pidOwner(pid: string): Promise<PidOwner | undefined>
}

/** Session and recovery ids are secrets, so only their hashes are stored or logged. */
export const hashId = (id: string): string => createHash('sha256').update(id).digest('base64url')

const MAX_PIDS = 100_000

/** For a single instance: sessions live where their requests arrive, so only recovery ids need to be remembered. */
export const createMemorySidStore = (now: () => number = Date.now, maxPids = MAX_PIDS): SidStore => {
  const pids = new Map<string, { owner: PidOwner; until: number }>()
  return {
    shared: undefined,
    async bindPid(pid, owner, lifetimeMs) {
      const key = hashId(pid)
      // Insertion order is age, so the oldest goes first.
      pids.delete(key)
      pids.set(key, { owner, until: now() + lifetimeMs })
      for (const [oldest, { until }] of pids) {
        if (until > now() && pids.size <= maxPids) break
        pids.delete(oldest)
      }
    },
    async pidOwner(pid) {
      const known = pids.get(hashId(pid))
      return known !== undefined && known.until > now() ? known.owner : undefined
    }
  }
}

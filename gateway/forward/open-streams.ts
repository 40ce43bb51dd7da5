// Registers every open stream by its person and token, and ends it within a second after the access to it ends.
import { setTimeout as delay } from 'node:timers/promises'
import { Forbidden, TokenExpired, TokenRevoked, Unavailable } from '../errors.ts'
import { isLoginOf, narrowedTo, type User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import type { Changed, Revocations } from '../tokens/revocations.ts'
import { every, noteFault, task } from '../values/contain.ts'
import { inParts, inTurns } from '../values/in-parts.ts'
import {
  expiresAtOf,
  itemOf,
  type OpenStream,
  type StreamControl,
  type StreamEnd,
  type StreamInfo,
  type StreamKind
} from './stream.ts'
import { createStreamQuota, type StreamShares } from './stream-quota.ts'

/** The current access of people, by id; without those who no longer exist or are disabled. */
type FreshAccess = (
  userIds: readonly number[]
) => Promise<ReadonlyMap<number, { readonly user: User; readonly version: number; readonly createdAt: Date }>>

interface OpenStreamsOptions {
  revocations: Pick<Revocations, 'tokenState'>
  freshAccess: FreshAccess
  /** The route that now governs a stream and still allows it; undefined: none does. */
  checkAgain: (stream: OpenStream) => Route | undefined
  /** When each of these logins ends now, in seconds since the epoch, by `jti`; absent: no login is renewed (SESSION_MAX). */
  renewedUntil?: ((tokenIds: readonly string[]) => Promise<ReadonlyMap<string, number>>) | undefined
  /** Whether the access tokens of this person are not accepted any more, although they have not ended. */
  isUnconfirmed?: (userId: number) => boolean
  /** Begins the id of each stream. */
  instance: string
  /** Absent: a tenth each. */
  shares?: StreamShares | undefined
  /** Milliseconds since the epoch. */
  now?: () => number
  /** Milliseconds of a clock that is never set. */
  monotonicNow?: () => number
}

export type OpenStreams = ReturnType<typeof createOpenStreams>

interface Entry {
  stream: OpenStream
  readonly control: StreamControl
  /** The end of its maximum lifetime, on the clock that is never set. */
  readonly livesUntil: number
}

const TICK_MS = 250
/** If the current access is not known within this time, the stream ends, because the promise is one second. */
const FRESH_ACCESS_MS = 800
/** What is left of that second after the tick that has noticed. */
const RENEWED_MS = 600
/** Thousands of people, as after the renaming of an area, cannot be asked about one by one in this time. */
const PORTION = 500
const DEFAULT_SHARES: StreamShares = { perUser: 0.1, perIp: 0.1 }

export const createOpenStreams = (options: OpenStreamsOptions) => {
  const { revocations } = options
  const now = options.now ?? Date.now
  const monotonicNow = options.monotonicNow ?? (() => performance.now())
  const entries = new Map<string, Entry>()
  /** The same by person and by token. */
  const affected = new Map<Changed[number], Set<Entry>>()
  /** Whether their login was renewed is not known yet. */
  const renewing = new Set<Entry>()
  let serial = 0
  /** The time by which all streams have ended, on the clock that is never set; undefined: they go on. */
  let drainedBy: number | undefined
  let changed: Entry[] = []

  const enter = (entry: Entry) => {
    entries.set(entry.stream.id, entry)
    for (const id of idsOf(entry)) affected.set(id, (affected.get(id) ?? new Set()).add(entry))
  }

  const forget = (entry: Entry) => {
    entries.delete(entry.stream.id)
    for (const id of idsOf(entry)) {
      const others = affected.get(id)
      others?.delete(entry)
      if (others?.size === 0) affected.delete(id)
    }
  }

  /** A fault ends only this stream, because whether it may go on is not known then. */
  const contained = (entry: Entry, work: () => void) => {
    try {
      work()
    } catch (error) {
      noteFault('stream', error, entry.stream.requestId)
      forget(entry)
      task(() => entry.control.destroy())()
    }
  }

  /** Acts on those that are still open, in parts: thousands at once would delay every request. */
  const forEach = (some: readonly Entry[], act: (entry: Entry) => void): Promise<void> =>
    inTurns(
      inParts(some, entry => {
        if (entries.get(entry.stream.id) === entry) contained(entry, () => act(entry))
      })
    )

  const finish = (entry: Entry, code: StreamEnd) => {
    if (entries.get(entry.stream.id) !== entry) return
    forget(entry)
    contained(entry, () => entry.control.end(code))
  }

  const endAtRandom = async (entry: Entry, withinMs: number) => {
    await delay(Math.random() * Math.max(0, withinMs))
    finish(entry, 1012)
  }

  const change = (entry: Entry, stream: OpenStream) => {
    entry.stream = stream
    entry.control.onChange?.(stream)
  }

  /** A stream goes on with its login: at the end of its token, the end of a renewed one counts. */
  const endUnlessRenewed = async (logins: readonly Entry[]) => {
    for (const entry of logins) renewing.add(entry)
    const ids = new Set(logins.flatMap(({ stream: { identity } }) => identity?.tokenId ?? []))
    const found = await withinTime(options.renewedUntil?.([...ids]) ?? Promise.reject(), RENEWED_MS)
    await forEach(logins, entry => {
      const { stream } = entry
      const expiresAt = found === 'unknown' ? 0 : (found.get(stream.identity?.tokenId ?? '') ?? 0)
      if (stream.identity === undefined || expiresAt * 1000 <= now()) return finish(entry, 4401)
      change(entry, { ...stream, identity: { ...stream.identity, expiresAt } })
    }).finally(() => {
      for (const entry of logins) renewing.delete(entry)
    })
  }

  const hasEnded = ({ stream }: Entry, at: number): boolean => {
    const { identity } = stream
    const isUnconfirmed = identity?.kind === 'personal' && options.isUnconfirmed?.(identity.user.id) === true
    return isUnconfirmed || expiresAtOf(stream) <= at
  }

  const tick = () => {
    const [at, monotonicAt] = [now(), monotonicNow()]
    const over: Entry[] = []
    const logins: Entry[] = []
    for (const entry of entries.values()) {
      const hasExpired = hasEnded(entry, at)
      if (renewing.has(entry) || (!hasExpired && entry.livesUntil > monotonicAt)) continue
      const mayBeRenewed = options.renewedUntil !== undefined && entry.stream.identity?.kind === 'login'
      if (hasExpired && mayBeRenewed) logins.push(entry)
      else over.push(entry)
    }
    if (logins.length > 0) task(endUnlessRenewed)(logins)
    if (over.length > 0) forEach(over, entry => finish(entry, hasEnded(entry, at) ? 4401 : 1001))
  }
  const stop = every(TICK_MS, tick)

  const checkFresh = async (stale: readonly Entry[]) => {
    const people = new Set(stale.flatMap(({ stream: { identity } }) => identity?.user.id ?? []))
    const found = await withinTime(options.freshAccess([...people]), FRESH_ACCESS_MS)
    for (const entry of stale) contained(entry, () => checkOne(entry, found))
  }

  const checkOne = (entry: Entry, found: Awaited<ReturnType<FreshAccess>> | 'unknown') => {
    const { stream } = entry
    const { identity } = stream
    if (entries.get(stream.id) !== entry || identity === undefined) return
    // A later look has overtaken this one.
    if (revocations.tokenState(identity) !== 'stale') return
    const access = found === 'unknown' ? undefined : found.get(identity.user.id)
    if (access === undefined || !isLoginOf(identity, access)) return finish(entry, found === 'unknown' ? 4403 : 4401)
    const user = narrowedTo(access.user, identity.profilesAtMost)
    const renewed = { ...stream, identity: { ...identity, version: access.version, user } }
    const route = options.checkAgain(renewed)
    if (route === undefined) finish(entry, 4403)
    else change(entry, { ...renewed, route })
  }

  const checkChanged = async () => {
    const stale: Entry[] = []
    const some = changed
    changed = []
    await forEach(some, entry => {
      const { identity } = entry.stream
      const tokenState = identity === undefined ? 'valid' : revocations.tokenState(identity)
      if (tokenState === 'revoked') finish(entry, 4401)
      if (tokenState === 'stale') stale.push(entry)
    })
    for (let at = 0; at < stale.length; at += PORTION) task(checkFresh)(stale.slice(at, at + PORTION))
  }

  return {
    /** Reserves a place for a stream that is about to open; returns the function that releases it, or a refusal (429, 503). */
    admit: createStreamQuota(options.shares ?? DEFAULT_SHARES),
    /** Throws if the token has ended, or the table has been swapped, in the meantime (between the decision and the 101). */
    register(info: StreamInfo, control: StreamControl) {
      const [at, { identity }] = [now(), info]
      const tokenState = identity === undefined ? 'valid' : revocations.tokenState(identity)
      if (expiresAtOf(info) <= at) throw new TokenExpired({ reason: 'expired' })
      if (tokenState === 'revoked') throw new TokenRevoked({ reason: 'revoked' })
      // Event sources and clients of Socket.IO do not come back after a refusal, but after an end they do.
      if (drainedBy !== undefined && info.kind === 'websocket') throw new Unavailable({ reason: 'draining' })
      const stream: OpenStream = { ...info, id: `${options.instance}-${++serial}`, since: at }
      const route = options.checkAgain(stream)
      if (route === undefined) throw new Forbidden({ reason: 'route-changed' })
      const { maxLifetimeMs = 0 } = info
      const livesUntil = maxLifetimeMs > 0 ? monotonicNow() + maxLifetimeMs : Number.POSITIVE_INFINITY
      const entry: Entry = { stream, control, livesUntil }
      enter(entry)
      if (route !== info.route) change(entry, { ...stream, route })
      if (tokenState === 'stale') task(checkFresh)([entry])
      if (drainedBy !== undefined) task(endAtRandom)(entry, drainedBy - monotonicNow())
      /** `close`: the stream is over. */
      return { id: stream.id, close: () => forget(entry) }
    },
    onRevocationsChanged(ids: Changed) {
      const isFirst = changed.length === 0
      for (const id of ids) for (const entry of affected.get(id) ?? []) changed.push(entry)
      if (isFirst && changed.length > 0) setImmediate(task(checkChanged))
    },
    onTableSwapped() {
      forEach([...entries.values()], entry => {
        const route = options.checkAgain(entry.stream)
        if (route === undefined) finish(entry, 4403)
        else change(entry, { ...entry.stream, route })
      })
    },
    /** Oldest first. */
    list: (from: number, count: number) => [...entries.values()].slice(from, from + count).map(itemOf),
    count: () => entries.size,
    has: (id: string): boolean => entries.has(id),
    /** Whether there was such a stream. */
    end(id: string): boolean {
      const entry = entries.get(id)
      if (entry === undefined) return false
      finish(entry, 4403)
      return true
    },
    /** Ends all streams with 1012, spread over most of the given time, so that their clients do not all reconnect at once. */
    async drain(timeoutMs: number): Promise<void> {
      const withinMs = timeoutMs * 0.6
      drainedBy = monotonicNow() + withinMs
      await Promise.all([...entries.values()].map(entry => endAtRandom(entry, withinMs)))
    },
    counts() {
      const counts: Record<StreamKind, number> = { websocket: 0, socketio: 0, sse: 0 }
      for (const { stream } of entries.values()) counts[stream.kind]++
      return counts
    },
    /** Ends what has expired; runs automatically four times a second. */
    tick,
    close() {
      stop()
      for (const entry of [...entries.values()]) {
        forget(entry)
        contained(entry, () => entry.control.destroy())
      }
    }
  }
}

const idsOf = ({ stream: { identity } }: Entry): Changed =>
  identity === undefined ? [] : [identity.user.id, identity.tokenId]

const withinTime = <T>(answer: Promise<T>, ms: number): Promise<T | 'unknown'> =>
  Promise.race([answer.catch(() => 'unknown' as const), delay(ms, 'unknown' as const, { ref: false })])

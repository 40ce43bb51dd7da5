// Tells this instance about every ended token and changed person within a second, and detects when it falls behind.
import { setImmediate as breath } from 'node:timers/promises'
import { coalesce } from '../values/coalesce.ts'
import { every, task } from '../values/contain.ts'
import { inTurns } from '../values/in-parts.ts'
import type { Log } from '../values/log.ts'
import type { OwnerNews, PersonalTokens } from './personal-tokens.ts'
import type { AccessChange, Lost, LostPerson, PersonVersion, Revocations, RevokedToken } from './revocations.ts'

/** Changes as the store reads them; `cursor` is where the next read continues. */
interface StateRead {
  readonly tokens: readonly RevokedToken[]
  readonly versions: readonly PersonVersion[]
  readonly lost?: readonly LostPerson[]
  readonly cursor: string
  /** By this process's clock, milliseconds since the epoch. */
  readonly at: number
  /** By the database's clock, seconds since the epoch. */
  readonly nowS: number
  /** Whether this is the complete state, rather than a set of changes. */
  readonly complete: boolean
  /** Of a standby, which may not know the latest. */
  readonly mayLag?: boolean
}

interface FeedSource {
  loadRevocations(): Promise<StateRead>
  /** `from`: an earlier cursor, from which on changes are read again. */
  changesSince(cursor: string, from: string): Promise<StateRead>
  /** Owners of live access tokens, in parts: all of them, or those that changed since `cursor`, read `ageMs` ago. */
  readLiveTokens(cursor: string | undefined, learn: (news: OwnerNews[]) => void, ageMs: number): Promise<void>
  /** Writes back what a fail-over of the database has lost. */
  restore(lost: Lost): Promise<void>
  purgeExpired(): Promise<void>
  /** Subscribes to each change as it is committed. */
  listen(on: { onChange: (change: AccessChange) => void; onLost: () => void; onRestored: () => void }): {
    close(): Promise<void>
  }
}

interface FeedOptions {
  source: FeedSource
  revocations: Revocations
  personalTokens: PersonalTokens
  log: Log
  now?: () => number
  /** Monotonic ms. */
  clock?: () => number
  /** With a higher staleness nothing is accepted; undefined: whatever it is. */
  mostStalenessMs?: number | undefined
  /** How often to read again regardless of notifications, as a safety net. */
  pollMs?: number
}

const POLL_MS = 2000
const LEAST_POLL_MS = 50
/** While no change is heard. */
const DEAF_POLL_MS = 500
/** Also by a process that does not live for an hour. */
const PURGE_EVERY_MS = 10 * 60 * 1000
/** Postgres has written what was done before, also where no commit waited for it: three times wal_writer_delay (200 ms). */
const WRITTEN_MS = 2000
/** What is learned at once, within some milliseconds: hundreds of thousands would stop all requests for half a second. */
const PART = 5_000

export type RevocationFeed = Awaited<ReturnType<typeof startRevocationFeed>>

/** Several times within the staleness that is accepted, so that only a database that is away makes it higher. */
const pollWithin = (mostStalenessMs = Number.POSITIVE_INFINITY): number =>
  Math.max(LEAST_POLL_MS, Math.min(POLL_MS, mostStalenessMs / 4))

/** Resolves when everything in the database is known here; rejects if it cannot be read. */
export const startRevocationFeed = async (options: FeedOptions) => {
  const { source, revocations, personalTokens, log, now = Date.now, clock = () => performance.now() } = options
  const pollMs = options.pollMs ?? pollWithin(options.mostStalenessMs)
  /** Where the last reads ended, the latest at the end. Of those that were WRITTEN_MS before it, only the last is kept. */
  let reads: { readonly cursor: string; readonly at: number }[] = []
  /** Postgres may have crashed since then. */
  let mayHaveCrashed = false
  let completeAt = 0
  /** The same by the monotonic clock, which cannot be set back, but stands still while the machine is suspended. */
  let freshAt = clock()
  let databaseS = 0
  let closed = false
  let failing = false
  let isListening = true

  /** Another server answers, or the database was restored: what it does not know is written back before it is believed. */
  const replaceAll = async (read: StateRead) => {
    const lost = await inTurns(revocations.missingFrom(read))
    if (lost.tokens.length + lost.people.length > 0) {
      await source.restore(lost)
      log.warn(
        { tokens: lost.tokens.length, people: lost.people.length, reason: 'revocations-restored' },
        'the database had lost revocations that this instance knew; they are written back'
      )
    }
    const hashes = new Set<string>()
    const learn = (news: OwnerNews[]) => {
      for (const { tokens } of news) for (const { hash } of tokens) hashes.add(hash)
      personalTokens.learn(news)
    }
    await inTurns(revocations.replace(read, lost))
    await source.readLiveTokens(undefined, learn, 0)
    personalTokens.retain(hashes)
  }

  const learn = async ({ tokens, versions, lost = [] }: StateRead) => {
    for (let from = 0; from < Math.max(tokens.length, versions.length, lost.length); from += PART) {
      const part = <T>(all: readonly T[]): readonly T[] => all.slice(from, from + PART)
      revocations.learn({ tokens: part(tokens), versions: part(versions), lost: part(lost) })
      await breath()
    }
  }

  const readState = async () => {
    const startedAt = clock()
    const latest = reads.at(-1)?.cursor
    // A crash loses what was not written yet, as of transactions that were rolled back, and their numbers are used again.
    const from = mayHaveCrashed ? reads[0]?.cursor : latest
    mayHaveCrashed = false
    const isFirst = latest === undefined || from === undefined
    const read = await (isFirst ? source.loadRevocations() : source.changesSince(latest, from))
    if (read.complete && !isFirst) await replaceAll(read)
    else {
      await learn(read)
      await source.readLiveTokens(read.complete ? undefined : from, personalTokens.learn, read.at - completeAt)
    }
    if (read.complete) reads = []
    reads.push({ cursor: read.cursor, at: startedAt })
    while (startedAt - (reads[1]?.at ?? startedAt) >= WRITTEN_MS) reads.shift()
    completeAt = read.at
    if (read.mayLag !== true) freshAt = startedAt
    databaseS = read.nowS
  }
  await readState()

  const readOnce = async () => {
    if (closed) return
    try {
      await readState()
      if (failing) log.info('revocations can be read again')
      failing = false
    } catch (error) {
      if (!failing && !closed)
        log.warn(
          { err: error, reason: 'revocations-unreadable' },
          'revocations cannot be read; the known ones stay in force'
        )
      failing = true
      mayHaveCrashed = true
    }
  }

  const read = coalesce(readOnce)

  const onChange = (change: AccessChange) => {
    if (change.kind === 'token') revocations.learn({ tokens: [change] })
    else if (change.kind === 'person') revocations.learn({ versions: [change] })
    // Access tokens carry their owner's current access.
    if (change.kind === 'many' || (change.kind === 'person' && personalTokens.isOwner(change.userId))) task(read)()
  }

  let stopPolling = every(pollMs, read)
  const pollEvery = (ms: number) => {
    stopPolling()
    if (!closed) stopPolling = every(ms, read)
  }
  const listener = source.listen({
    onChange,
    onLost() {
      mayHaveCrashed = true
      // Each further attempt that fails says so again, and must not put the next poll off.
      if (isListening) pollEvery(Math.min(pollMs, DEAF_POLL_MS))
      isListening = false
    },
    onRestored() {
      isListening = true
      pollEvery(pollMs)
      task(read)()
    }
  })
  const purgeAll = () => {
    // This machine's clock may be behind, and still take the token for live; or be ahead, and be set back.
    const nowS = Math.min(databaseS, now() / 1000)
    revocations.purge(nowS)
    personalTokens.purge(nowS)
    source.purgeExpired().catch(error => log.warn({ err: error }, 'expired revocations could not be deleted'))
  }
  const stopPurging = every(PURGE_EVERY_MS, purgeAll)

  return {
    /** Milliseconds since revocations were last known to be complete. */
    staleness: () => Math.max(now() - completeAt, clock() - freshAt),
    /** Whether changes are heard as they are committed. */
    isListening: () => isListening,
    /** Something has changed: resolves when this instance knows it too, or could not read it. */
    catchUp: (): Promise<void> => read(),
    async close() {
      closed = true
      stopPolling()
      stopPurging()
      await listener.close()
      await read.idle()
    }
  }
}

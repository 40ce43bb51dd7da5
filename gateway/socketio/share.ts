// Keeps one session of this instance in step with what other instances know about it.
import { setTimeout as delay } from 'node:timers/promises'
import { BadRequest, Unavailable } from '../errors.ts'
import type { Session } from './session.ts'
import type { NamespaceState, SharedSids, SidRecord } from './sid-store.ts'

/** An unavailable store results in 503, because nothing may be allowed on a guess. */
export const storeAway = (cause: unknown): never => {
  throw new Unavailable({ cause, reason: 'sid-store' })
}

/** A server answers its last poll as soon as a WebSocket is tried: within 100 ms, the stock one. */
export const LAST_POLL_MS = 1000
const LEASE_AGAIN_MS = 20

interface ShareParts {
  readonly sid: string
  readonly session: Session
  readonly pollMs: number
  /** A WebSocket at another instance carries the session now: drops it here, and throws a refusal. */
  readonly letGo: () => never
}

/** Reads and writes the shared state of one session; everything rejects with a refusal. */
export const createShare = (shared: SharedSids, { sid, session, pollMs, letGo }: ShareParts) => {
  const { state } = session
  // As last read or written, so that only differences are written.
  let seen = new Map(state.namespaces)
  let due = { ...state.due }
  let isCarriedHere = false
  const collect = () => shared.collect(sid).catch(storeAway)
  const lease = () => shared.lease(sid, pollMs).catch(storeAway)
  const note = () => {
    seen = new Map(state.namespaces)
    due = { ...state.due }
  }
  /** What this instance has changed and not written yet; undefined: no longer connected. */
  const news = () => {
    const namespaces: Record<string, NamespaceState | undefined> = {}
    for (const name of seen.keys()) if (!state.namespaces.has(name)) namespaces[name] = undefined
    for (const [name, known] of state.namespaces) if (seen.get(name) !== known) namespaces[name] = known
    return namespaces
  }
  /** The news of this instance, e.g. a CONNECT that it is judging, are newer than what is stored. */
  const adopt = (record: SidRecord) => {
    const stored = Object.entries(record.namespaces)
    const namespaces = new Map<string, NamespaceState | undefined>([...stored, ...Object.entries(news())])
    const connected = [...namespaces].flatMap(([name, known]) => (known === undefined ? [] : [[name, known] as const]))
    session.adopt({ ...record, namespaces: Object.fromEntries(connected) })
    due = { ...state.due }
    seen = new Map(stored.filter(([name]) => state.namespaces.has(name) || namespaces.get(name) === undefined))
  }
  const reload = async () => {
    const record = await shared.load(sid).catch(storeAway)
    if (record === undefined) {
      session.leave()
      throw new BadRequest({ reason: 'unknown-sid' })
    }
    if (record.upgraded && !isCarriedHere) letGo()
    if (!session.isOver) adopt(record)
  }
  return {
    reload,
    /** Drops the session here, if the WebSocket that carries it now is at another instance. */
    onUpgraded() {
      if (!isCarriedHere && !session.isOver) reload().catch(() => undefined)
    },
    async persist() {
      const { client, clientDropped, upstream, upstreamFate, heldFor } = state.due
      const isClientNews = due.client !== client || due.clientDropped !== clientDropped
      const isUpstreamNews = due.upstream !== upstream || due.upstreamFate !== upstreamFate || due.heldFor !== heldFor
      const changes = {
        namespaces: news(),
        ...(session.life.isProven ? { proven: true } : { bytes: session.life.unprovenBytes }),
        ...(isClientNews ? { dueFromClient: { client, clientDropped } } : {}),
        ...(isUpstreamNews
          ? { dueFromUpstream: { upstream, upstreamFate, ...(heldFor === undefined ? {} : { heldFor }) } }
          : {})
      }
      note()
      await shared.save(sid, changes).catch(storeAway)
    },
    /**
     * A WebSocket at this instance carries the session from now on. Returns what other instances have left for its client. Nothing
     * can follow it: the right to poll is taken first, and an instance gives that right back only when it has left its answer. Waits a second
     * for it at most.
     */
    async takeOver(): Promise<string[]> {
      const until = performance.now() + LAST_POLL_MS
      while (!(await lease()) && performance.now() < until && !session.isOver) await delay(LEASE_AGAIN_MS)
      const record = await shared.load(sid).catch(storeAway)
      if (record !== undefined && !session.isOver) session.adopt(record)
      session.claimBy(undefined)
      isCarriedHere = true
      await shared.save(sid, { upgraded: true, namespaces: {} }).catch(storeAway)
      return collect()
    },
    /** @param isAnswer they are what the upstream answered to a poll of this instance */
    mail: (packets: readonly string[], isAnswer = false) => shared.mail(sid, packets, isAnswer).catch(storeAway),
    collect,
    lease,
    release: () => shared.release(sid).catch(storeAway)
  }
}

export type PollingShare = ReturnType<typeof createShare>

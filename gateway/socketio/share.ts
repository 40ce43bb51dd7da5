// Keeps one session of this instance in step with what other instances know about it.
import { BadRequest, Unavailable } from '../errors.ts'
import type { Session } from './session.ts'
import type { NamespaceState, SharedSids } from './sid-store.ts'

/** An unavailable store results in 503, because nothing may be allowed on a guess. */
export const storeAway = (cause: unknown): never => {
  throw new Unavailable({ cause, reason: 'sid-store' })
}

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
  const note = () => {
    seen = new Map(state.namespaces)
    due = { ...state.due }
  }
  return {
    async reload() {
      const record = await shared.load(sid).catch(storeAway)
      if (record === undefined) {
        session.leave()
        throw new BadRequest({ reason: 'unknown-sid' })
      }
      if (record.upgraded && !isCarriedHere) letGo()
      if (!session.isOver) session.adopt(record)
      note()
    },
    async persist() {
      const namespaces: Record<string, NamespaceState | undefined> = {}
      for (const name of seen.keys()) if (!state.namespaces.has(name)) namespaces[name] = undefined
      for (const [name, known] of state.namespaces) if (seen.get(name) !== known) namespaces[name] = known
      const { client, clientDropped, upstream, upstreamFate, heldFor } = state.due
      const isClientNews = due.client !== client || due.clientDropped !== clientDropped
      const isUpstreamNews = due.upstream !== upstream || due.upstreamFate !== upstreamFate || due.heldFor !== heldFor
      const changes = {
        namespaces,
        ...(session.life.isProven ? { proven: true } : { bytes: session.life.unprovenBytes }),
        ...(isClientNews ? { dueFromClient: { client, clientDropped } } : {}),
        ...(isUpstreamNews
          ? { dueFromUpstream: { upstream, upstreamFate, ...(heldFor === undefined ? {} : { heldFor }) } }
          : {})
      }
      note()
      await shared.save(sid, changes).catch(storeAway)
    },
    /** A WebSocket at this instance carries the session from now on. */
    async takeOver() {
      const record = await shared.load(sid).catch(storeAway)
      if (record !== undefined) session.adopt(record)
      session.claimBy(undefined)
      isCarriedHere = true
      await shared.save(sid, { upgraded: true, namespaces: {} }).catch(storeAway)
    },
    mail: (packets: readonly string[]) => shared.mail(sid, packets).catch(storeAway),
    collect: () => shared.collect(sid).catch(storeAway),
    lease: () => shared.lease(sid, pollMs).catch(storeAway),
    release: () => shared.release(sid).catch(storeAway)
  }
}

export type PollingShare = ReturnType<typeof createShare>

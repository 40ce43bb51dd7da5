// One session of this instance stays in step with what other instances know of it.
import { BadRequest, Unavailable } from '../errors.ts'
import type { PollingShare } from './polling.ts'
import type { Session } from './session.ts'
import type { NamespaceState, SharedSids } from './sid-store.ts'

/** A store that can't be asked is a 503: nothing is let through on a guess. */
export const storeAway = (cause: unknown): never => {
  throw new Unavailable({ cause, reason: 'sid-store' })
}

/** Reads and writes what the instances share of one session; all but mail rejects with a refusal. */
export const createShare = (shared: SharedSids, sid: string, session: Session, pollMs: number): PollingShare => {
  const { state } = session
  // As last read or written: only differences are written.
  let seen = new Map(state.namespaces)
  let due = { ...state.due }
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
      session.adopt(record)
      note()
    },
    async persist() {
      const namespaces: Record<string, NamespaceState | undefined> = {}
      for (const name of seen.keys()) if (!state.namespaces.has(name)) namespaces[name] = undefined
      for (const [name, known] of state.namespaces) if (seen.get(name) !== known) namespaces[name] = known
      const { client, upstream, dropped } = state.due
      const isNews = due.upstream !== upstream || due.dropped !== dropped
      const changes = {
        namespaces,
        ...(session.proven ? { proven: true } : { bytes: session.unprovenBytes }),
        ...(due.client === client ? {} : { dueFromClient: client }),
        ...(isNews ? { dueFromUpstream: { count: upstream, dropped } } : {})
      }
      note()
      await shared.save(sid, changes).catch(storeAway)
    },
    async takeOver() {
      const record = await shared.load(sid).catch(storeAway)
      if (record !== undefined) session.adopt(record)
      session.claim = undefined
      await shared.save(sid, { upgraded: true, namespaces: {} }).catch(storeAway)
    },
    mail: packets => shared.mail(sid, packets),
    collect: () => shared.collect(sid),
    lease: () => shared.lease(sid, pollMs),
    release: () => shared.release(sid)
  }
}

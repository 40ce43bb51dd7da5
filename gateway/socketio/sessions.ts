// Keeps the Socket.IO sessions of this instance: limited until a CONNECT is accepted, found by their sid, and swept.
import { BadRequest } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Route } from '../routes/route.ts'
import type { Upstream } from '../routes/upstream.ts'
import { contain, task } from '../values/contain.ts'
import type { Phase } from './life.ts'
import type { SocketIoForwarding } from './polling/polling-parts.ts'
import { openPollingSession, type PollingSession, upgradedAlready } from './polling/polling-session.ts'
import { createSession, endAfter, type Session, type SessionEnd } from './session.ts'
import { type SessionSource, sourceOf } from './session-source.ts'
import { type PollingShare, storeAway } from './share.ts'
import { hashId, type SidSource } from './sid-store.ts'
import { createUnproven, isProving } from './unproven.ts'

const FAREWELL_MS = 5000
const PORTION = 100
/** Carried by requests. */
const POLLED: ReadonlySet<Phase> = new Set(['polling', 'probing'])

export const unknownSid = () => new BadRequest({ reason: 'unknown-sid' })

export type SocketIoSessions = ReturnType<typeof createSocketIoSessions>

export const createSocketIoSessions = (forwarding: SocketIoForwarding) => {
  const { now } = forwarding
  const { shared } = forwarding.sidStore
  const polled = new Map<string, PollingSession>()
  /** Hashes of the sids in `polled`, for mail from other instances. */
  const hashed = new Map<string, string>()
  /** With the share of those that began by polling, if instances share them. */
  const sessions = new Map<Session, PollingShare | undefined>()
  /** The same by address, so that a flood of handshakes from one address does not search all sessions. */
  const byAddress = new Map<string, Set<Session>>()

  const enter = (session: Session) => {
    sessions.set(session, undefined)
    const { ipKey } = session.source
    byAddress.set(ipKey, (byAddress.get(ipKey) ?? new Set()).add(session))
  }

  const leave = (session: Session) => {
    sessions.delete(session)
    const { ipKey } = session.source
    const ofAddress = byAddress.get(ipKey)
    ofAddress?.delete(session)
    if (ofAddress?.size === 0) byAddress.delete(ipKey)
  }

  const start = (source: SessionSource, onOver: (end: SessionEnd) => void): Session => {
    const session = createSession(forwarding, source, (over, end) => {
      leave(over)
      onOver(end)
    })
    enter(session)
    return session
  }

  /** Makes a polling session known on this instance. */
  const hold = (sid: string, source: SessionSource, record: SidSource): PollingSession => {
    const entry = openPollingSession(forwarding, sid, source, record, start)
    polled.set(sid, entry)
    sessions.set(entry.session, entry.share)
    if (shared !== undefined) hashed.set(hashId(sid), sid)
    return entry
  }

  const forget = (sid: string) => {
    polled.delete(sid)
    hashed.delete(hashId(sid))
  }

  /** The session of a sid, as its last request left it, on whichever instance that was. */
  const known = async (exchange: Exchange, route: Route, upstream: Upstream, sid: string): Promise<PollingSession> => {
    const local = polled.get(sid)
    if (local !== undefined) {
      if (local.session.source.route.id !== route.id) throw unknownSid()
      if (local.session.life.phase === 'websocket') throw upgradedAlready()
      local.lastSeen = now()
      if (!local.session.isOver) await local.share?.reload()
      return local
    }
    const record = await shared?.load(sid).catch(storeAway)
    const target = forwarding.upstreams.poolOf(upstream).targetAt(record?.target)
    if (record === undefined || target === undefined || record.routeId !== route.id) throw unknownSid()
    if (record.upgraded) throw upgradedAlready()
    const taken = polled.get(sid) ?? hold(sid, sourceOf(exchange, route, upstream, target), record)
    try {
      await taken.share?.reload()
    } catch (error) {
      // An access of the session may have ended while this instance did not know about it.
      endAfter(taken.session, error, 4401)
      throw error
    }
    return taken
  }

  let mayHaveMissedMail = false

  /** Ends sessions that did not prove themselves, drops those that are no longer polled, and fetches mail that nothing announced. */
  const sweep = () => {
    const at = now()
    // Announcements may arrive again before commands can be sent.
    if (mayHaveMissedMail && shared?.isReady() === true) {
      mayHaveMissedMail = false
      task(lookForMail)([...polled.values()])
    }
    for (const [session, share] of [...sessions]) {
      if (at >= session.life.proveUntil && isProving(session)) task(endUnproven)(session, share)
    }
    for (const [sid, entry] of polled) {
      const { session, sessionMs, lastSeen } = entry
      if (session.isOver && at - lastSeen > FAREWELL_MS) forget(sid)
      else if (POLLED.has(session.life.phase) && at - lastSeen > sessionMs) {
        // Another instance may now receive its requests.
        entry.isElsewhere = shared !== undefined
        contain(session, one => one.leave())
      }
    }
  }

  shared?.onMail(
    hash => polled.get(hashed.get(hash) ?? '')?.polling.onMail(),
    () => {
      mayHaveMissedMail = true
    }
  )

  shared?.onUpgraded(hash => polled.get(hashed.get(hash) ?? '')?.share?.onUpgraded())

  return {
    /** Counts a handshake of this address; throws if it has too many unproven sessions. Returns a function that stops counting it. */
    enterUnproven: createUnproven(byAddress),
    start,
    hold,
    isHeld: (sid: string) => polled.has(sid),
    known,
    sweep,
    close() {
      for (const session of [...sessions.keys()]) contain(session, one => one.end(1001))
    }
  }
}

/** If instances share sessions, another one may have proved this session. */
const endUnproven = async (session: Session, share: PollingShare | undefined) => {
  await share?.reload().catch(() => undefined)
  if (isProving(session)) contain(session, one => one.end(1008))
}

/** In portions, so that thousands of sessions delay neither other commands nor other requests. */
const lookForMail = async (entries: readonly PollingSession[]) => {
  for (let at = 0; at < entries.length; at += PORTION) {
    const portion = entries.slice(at, at + PORTION).filter(({ session }) => !session.isOver)
    await Promise.all(portion.map(({ polling }) => polling.onMailMissed()))
  }
}

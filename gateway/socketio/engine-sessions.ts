// Keeps the Socket.IO sessions of this process: limited until a CONNECT is accepted, found by their sid, and swept.
import { BadRequest, orThrow, RateLimited, Unauthenticated } from '../errors.ts'
import { mayComeFrom } from '../values/addresses.ts'
import { contain } from '../values/contain.ts'
import {
  createEngineSession,
  type EngineSession,
  type EngineSessionSource,
  type SocketIoForwarding
} from './engine-session.ts'
import { createPollingTransport, type PollingSource, type PollingTransport } from './polling/transport.ts'

const FAREWELL_MS = 5000
const MAX_UNPROVEN_PER_IP = 20

export const unknownSid = () => new BadRequest({ reason: 'unknown-sid' })

/** Names the session that a request belongs to. */
export interface SessionRequest {
  readonly sid: string
  readonly routeId: string
  /** The address of its client. */
  readonly ip: string
}

interface PollingSession {
  readonly engineSession: EngineSession
  readonly polling: PollingTransport
  readonly sessionMs: number
  lastSeen: number
  /** While a WebSocket is being tried: called if the access ends, or a rule is broken. */
  onEnded: (() => void) | undefined
}

export type EngineSessions = ReturnType<typeof createEngineSessions>

export const createEngineSessions = (forwarding: SocketIoForwarding) => {
  const { now } = forwarding
  const polled = new Map<string, PollingSession>()
  const engineSessions = new Set<EngineSession>()
  /** The same by address, and handshakes in progress: a flood of them from one address does not search all sessions. */
  const byAddress = new Map<string, Set<EngineSession | symbol>>()

  const add = (ipKey: string, one: EngineSession | symbol) =>
    byAddress.set(ipKey, (byAddress.get(ipKey) ?? new Set()).add(one))

  const remove = (ipKey: string, one: EngineSession | symbol) => {
    const ofAddress = byAddress.get(ipKey)
    ofAddress?.delete(one)
    if (ofAddress?.size === 0) byAddress.delete(ipKey)
  }

  const enter = (engineSession: EngineSession) => {
    engineSessions.add(engineSession)
    add(engineSession.source.ipKey, engineSession)
  }

  const leave = (engineSession: EngineSession) => {
    engineSessions.delete(engineSession)
    remove(engineSession.source.ipKey, engineSession)
  }

  /** Counts a handshake before it begins, so that a burst does not pass; throws if its address has too many. Returns what ends that. */
  const enterUnproven = (ipKey: string): (() => void) => {
    const unproven = [...(byAddress.get(ipKey) ?? [])].filter(one => typeof one === 'symbol' || isProving(one))
    if (unproven.length >= MAX_UNPROVEN_PER_IP)
      throw new RateLimited({ reason: 'unproven-sessions', headers: { 'retry-after': '10' } })
    const handshake = Symbol('handshake')
    add(ipKey, handshake)
    return () => remove(ipKey, handshake)
  }

  /** A session that is not limited or swept until it is entered. */
  const create = (source: EngineSessionSource, onOver = (_isFinal: boolean) => {}): EngineSession => {
    const engineSession = createEngineSession(forwarding, source, isFinal => {
      leave(engineSession)
      onOver(isFinal)
    })
    return engineSession
  }

  /** Begins a session that is carried by polling. */
  const hold = (source: EngineSessionSource, record: PollingSource): PollingSession => {
    const { upstream, ipKey } = source
    const release = orThrow(forwarding.streams.admit({ upstream, userId: undefined, ip: ipKey }))
    const engineSession = create(source, isFinal => {
      release()
      // Kept until the sweep, because its last packet may still wait for a poll.
      entry.lastSeen = now()
      if (isFinal) entry.onEnded?.()
    })
    const polling = createPollingTransport({ forwarding, engineSession, record })
    const entry: PollingSession = {
      engineSession,
      polling,
      sessionMs: record.sessionMs,
      lastSeen: now(),
      onEnded: undefined
    }
    engineSession.carryBy('polling', polling.carrier)
    enter(engineSession)
    polled.set(record.sid, entry)
    return entry
  }

  /** The session that a request belongs to; throws if there is none, or its token may not be used from there. */
  const find = ({ sid, routeId, ip }: SessionRequest): PollingSession => {
    const entry = polled.get(sid)
    if (entry === undefined || entry.engineSession.source.route.id !== routeId) throw unknownSid()
    for (const { identity } of entry.engineSession.state.namespaces.values()) {
      if (!mayComeFrom(identity.addresses, ip)) throw new Unauthenticated({ reason: 'foreign-address' })
    }
    entry.engineSession.comesFrom(ip)
    entry.lastSeen = now()
    return entry
  }

  const drop = (sid: string) => {
    polled.get(sid)?.polling.forget()
    polled.delete(sid)
  }

  /** Ends sessions that did not prove themselves, and drops those that are no longer polled. */
  const sweep = () => {
    const at = now()
    for (const engineSession of [...engineSessions]) {
      if (at < engineSession.proveUntil || !isProving(engineSession)) continue
      // A client whose upstream has not responded yet is to connect again.
      contain(engineSession, one => one.end(isAsking(one) ? 1001 : 1008))
    }
    for (const [sid, { engineSession, sessionMs, lastSeen }] of polled) {
      if (engineSession.isOver && at - lastSeen > FAREWELL_MS) drop(sid)
      else if (at - lastSeen > sessionMs) contain(engineSession, one => one.leave())
    }
  }

  return {
    enterUnproven,
    create,
    enter,
    hold,
    find,
    held: (sid: string): PollingSession | undefined => polled.get(sid),
    /** Another session continues this one. */
    drop,
    sweep,
    close() {
      for (const engineSession of [...engineSessions]) contain(engineSession, one => one.end(1001))
    }
  }
}

/** Whether the upstream has not confirmed a namespace that its client may enter. */
const isAsking = ({ state }: EngineSession): boolean =>
  [...state.namespaces.values()].some(({ phase }) => phase === 'asked')

/** Whether no namespace is open. */
const isProving = ({ state }: EngineSession): boolean =>
  [...state.namespaces.values()].every(({ phase }) => phase !== 'open')

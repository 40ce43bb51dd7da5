// Answers for the polling sessions of this process, and for the WebSockets that are tried here, to whichever process asks.
import { BadRequest } from '../../errors.ts'
import { task } from '../../values/contain.ts'
import { endingAfter, type HandedSession, type Session } from '../session.ts'
import { type SessionRequest, type SocketIoSessions, unknownSid } from '../sessions.ts'
import type { PollingResponse } from './polling-parts.ts'
import type { Probes } from './probes.ts'

interface ForwardedRequest extends SessionRequest {
  /** For `fillHead`. */
  readonly head: string
}

/** Requests and results are plain data with one Buffer at most, `bytes`; everything rejects with a refusal. */
export interface Owner {
  poll(request: ForwardedRequest): Promise<PollingResponse>
  /** The client of the poll that waits has gone. */
  abandonPoll(request: { sid: string }): Promise<void>
  /** The process where the poll waits is ending: it gets a noop. */
  releasePoll(request: { sid: string }): Promise<void>
  /** How long the body of a post may be. */
  postLimit(request: SessionRequest): Promise<{ maxBytes: number }>
  post(request: ForwardedRequest & { bytes: Buffer }): Promise<PollingResponse>
  /** The body of a post could not be read: the session ends, so that the upstream is not left with half of it. */
  failPost(request: { sid: string; code: number }): Promise<void>
  /** A WebSocket is tried at the process `prober`. @returns the URL of the session's target */
  probe(request: SessionRequest & { prober: string }): Promise<{ target: string }>
  /** The WebSocket that was tried carries the session from now on. `packets`: what its client has not fetched. */
  takeOver(request: { sid: string }): Promise<HandedSession & { packets: string[] }>
  /** Asked of the prober; resolves when it is known. */
  probed(request: { sid: string }): Promise<{ outcome: 'taken' | 'given-up' | 'broken' }>
  /** Asked of the prober: the session has ended, and so does what is tried for it. */
  probeOver(request: { sid: string; isFinal: boolean }): Promise<void>
}

const postLimit = (session: Session): number =>
  Math.min(session.source.route.socketio?.maxMessageBytes ?? 1_000_000, session.bytesLeft())

/** @param ownerAt another process, by its id */
export const createOwner = (sessions: SocketIoSessions, probes: Probes, ownerAt: (id: string) => Owner): Owner => {
  /** A client that was told that its WebSocket works may neither poll nor send any more until its ping times out. */
  const awaitProbe = async (sid: string, prober: string) => {
    const { outcome } = await ownerAt(prober)
      .probed({ sid })
      .catch(() => ({ outcome: 'broken' }))
    const entry = sessions.held(sid)
    if (entry?.session.phase !== 'probing') return
    entry.onOver = undefined
    if (outcome === 'given-up') return entry.session.abandonProbe()
    // Once its requests have succeeded, it would wait; if one fails, it connects again at once.
    entry.polling.failPosts()
    entry.session.end(1001)
  }

  return {
    async poll({ head, ...request }) {
      const { polling, session } = sessions.find(request)
      if (session.isOver && !polling.hasMail) throw unknownSid()
      return polling.get(head)
    },
    abandonPoll: async ({ sid }) => sessions.held(sid)?.polling.abandonPoll(),
    releasePoll: async ({ sid }) => sessions.held(sid)?.polling.releasePoll(),
    async postLimit(request) {
      const { session } = sessions.find(request)
      if (session.isOver) throw unknownSid()
      return { maxBytes: postLimit(session) }
    },
    async post({ head, bytes, ...request }) {
      const { polling, session } = sessions.find(request)
      if (session.isOver) throw unknownSid()
      try {
        session.takeBytes(bytes.length)
        return await polling.post(head, bytes)
      } catch (error) {
        session.end(endingAfter(error, 1008))
        throw error
      }
    },
    failPost: async ({ sid, code }) => sessions.held(sid)?.session.end(code),
    async probe({ prober, ...request }) {
      const entry = sessions.find(request)
      const { session } = entry
      if (session.isOver) throw unknownSid()
      if (!session.probe()) throw new BadRequest({ reason: 'upgrading-already' })
      entry.onOver = task((isFinal: boolean) => ownerAt(prober).probeOver({ sid: request.sid, isFinal }))
      task(awaitProbe)(request.sid, prober)
      return { target: session.source.target.url }
    },
    async takeOver({ sid }) {
      const entry = sessions.held(sid)
      if (entry?.session.phase !== 'probing') throw unknownSid()
      // The upstream must not learn of the upgrade earlier: what it answers to a poll comes before what it sends by WebSocket.
      await entry.polling.last()
      if (entry.session.phase !== 'probing') throw unknownSid()
      entry.onOver = undefined
      sessions.drop(sid)
      const packets = entry.polling.takeAll()
      return { ...entry.session.handOver(), packets }
    },
    probed: async ({ sid }) => ({ outcome: await probes.outcomeOf(sid) }),
    probeOver: async ({ sid, isFinal }) => probes.end(sid, isFinal)
  }
}

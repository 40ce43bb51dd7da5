// Carries a Socket.IO session by WebSocket: whole packets, each checked before it passes.
import { GatewayError } from '../errors.ts'
import { END_REASONS } from '../forward/stream.ts'
import { BINARY, TEXT } from '../websocket/frames.ts'
import type { Side } from '../websocket/leg.ts'
import type { Relay } from '../websocket/relay.ts'
import type { EngineSession } from './engine-session.ts'
import { PASSED, type PacketVerdict } from './gate/gate-state.ts'
import { binaryFrame, bytesOf, type EnginePacket, readEnginePacket } from './protocol/engineio.ts'

interface TransportOptions {
  readonly engineSession: EngineSession
  /** Known only once the sockets are joined. */
  readonly relay: () => Relay | undefined
  /** For a session carried by polling: until packet `5`, only the probe passes. Called before that is forwarded, its result after. */
  readonly onUpgrade: (() => Promise<() => void>) | undefined
}

interface Queued {
  readonly packet: EnginePacket
  readonly payload: Buffer
}

/** Here 1001 means that the process is ending, not that a lifetime is over; other codes mean violations. */
const CLOSE_REASONS: Readonly<Record<number, string>> = { ...END_REASONS, 1001: '' }

const PROBE_ANSWER = '3probe'
/** What a client may leave unread of the gateway's own answers, beyond what its upstream can have sent. */
const UNREAD_BYTES = 1_000_000

export const createWebSocketTransport = (options: TransportOptions) => {
  const { engineSession, relay } = options
  const queue: Queued[] = []
  let waiting = false
  let { onUpgrade } = options
  let isConfirmed = false
  let hasMoved = false

  const end = (reason: string) => {
    queue.length = 0
    // Before the upgrade is complete, only the new transport is affected.
    if (engineSession.phase === 'opening') relay()?.end({ code: 1008, reason: '' })
    else engineSession.violate(reason)
  }

  const apply = (verdict: PacketVerdict, { packet, payload }: Queued, from: Side) => {
    if (verdict.verdict === 'violation') return end(verdict.reason)
    if (verdict.verdict === 'drop') return
    if (verdict.verdict === 'answer') return answer(verdict.text)
    const to = from === 'client' ? 'upstream' : 'client'
    if (verdict.text !== undefined) sendText(to, verdict.text)
    else relay()?.send(to, packet.bytes === undefined ? TEXT : BINARY, payload)
    if (verdict.released !== undefined) sendAll('client', verdict.released)
  }

  /** Each answer is caused by a packet of the client, which the upstream's backpressure does not slow down. */
  const answer = (text: string) => {
    sendText('client', text)
    const maxUnreadBytes = UNREAD_BYTES + 2 * engineSession.source.route.socketio.maxMessageBytes
    const unreadBytes = relay()?.countUnread() ?? 0
    if (unreadBytes > maxUnreadBytes) end('answers-unread')
    else if (engineSession.state.holder.isTooMuch(unreadBytes)) engineSession.end(1013)
  }

  /** A packet given as text; a binary message becomes a binary frame. */
  const sendText = (to: Side, text: string) => {
    const bytes = bytesOf(text)
    relay()?.send(to, bytes === undefined ? TEXT : BINARY, bytes ?? Buffer.from(text))
  }

  /** What was held or caused here: the reading of the side that gets it does not slow it down. */
  const sendAll = (to: Side, packets: readonly string[]) => {
    for (const packet of packets) sendText(to, packet)
  }

  /** Order is kept: while the session moves here, what its client sends waits. */
  const work = () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      if (engineSession.isOver) continue
      if (onUpgrade === undefined) apply(engineSession.gate.fromClient(next.packet), next, 'client')
      else if (next.packet.text === '2probe') apply(PASSED, next, 'client')
      else if (next.packet.text === '5') return move(onUpgrade)
      else end('packet-before-upgrade')
    }
  }

  const move = (upgrade: () => Promise<() => void>) => {
    hasMoved = true
    waiting = true
    relay()?.hold('client', true)
    const resume = (then: () => void) => {
      waiting = false
      if (!engineSession.isOver) then()
      relay()?.hold('client', false)
      work()
    }
    upgrade()
      .then(
        take =>
          resume(() => {
            onUpgrade = undefined
            sendText('upstream', '5')
            take()
          }),
        error => resume(() => (error instanceof GatewayError ? end('checking-failed') : engineSession.onThrown(error)))
      )
      .catch(engineSession.onThrown)
  }

  const fromClient = (queued: Queued) => {
    queue.push(queued)
    if (!waiting) work()
  }

  return {
    /** For the relay: counts what the client sends as it arrives, because a message is held until it is whole. */
    mayTake(from: Side, count: number): boolean {
      if (from === 'upstream' || engineSession.takeBytes(count)) return true
      if (!engineSession.isOver) end('too-much-before-connect')
      return false
    },
    /** The message handler for the relay. */
    onMessage(from: Side, isText: boolean, payload: Buffer) {
      const packet = isText ? readTextFrame(payload) : binaryFrame(payload)
      if (from === 'client' && packet?.type === '0') return end('malformed-packet')
      if (packet === undefined) return end(from === 'client' ? 'malformed-packet' : 'upstream-malformed-packet')
      const queued = { packet, payload: packet.bytes ?? payload }
      if (from === 'client') return fromClient(queued)
      if (packet.text === PROBE_ANSWER) isConfirmed = true
      apply(engineSession.gate.fromUpstream(packet), queued, 'upstream')
    },
    /** Whether the client has learnt that this transport works: from then on it may wait for nothing else. */
    get isConfirmed() {
      return isConfirmed
    },
    /** Whether it is about to complete the upgrade. */
    get isExpected() {
      return isConfirmed && !hasMoved
    },
    carrier: {
      toClient: (packets: readonly string[]) => sendAll('client', packets),
      toUpstream: (packets: readonly string[]) => sendAll('upstream', packets),
      close: (code: number) => relay()?.end({ code, reason: CLOSE_REASONS[code] ?? '' }),
      bytes: () => relay()?.bytes ?? 0
    }
  }
}

/** A binary message written as text is read everywhere as the bytes that it represents. */
const readTextFrame = (payload: Buffer): EnginePacket | undefined => {
  const packet = readEnginePacket(payload.toString('utf8'))
  const bytes = packet === undefined ? undefined : bytesOf(packet.text)
  return bytes === undefined ? packet : binaryFrame(bytes)
}

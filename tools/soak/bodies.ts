// Moves a body of a random size, framing, direction and pace to and from a random backend, and compares every byte.
import http from 'node:http'
import https from 'node:https'
import { type Body, some } from '../matrix/body.ts'
import { BACKENDS, type BackendKind } from '../matrix/cells.ts'
import { exchangeBody, type Outcome as Seen } from '../matrix/exchange.ts'
import type { Outcome, Place } from './traffic.ts'

const SIZES = [0, 1, 5000, 16_384, 17_000, 65_536, 65_537, 300_000, 1_000_000]
/** Once in so many exchanges. */
const LARGE_EVERY = 50
const LARGE_BYTES = 12_000_000
const PIECE_BYTES = [1, 700, 5000, 16_384, 20_000, 65_536]
/** Nothing stands still for longer, whatever is broken. */
const STILL_MS = 20_000
/** Of a client that leaves, whatever has come. */
const LEAVES_WITHIN_MS = 20

const FRAMED: readonly Body['framing'][] = ['length', 'chunked', 'trailers']

interface Move extends Body {
  readonly backend: BackendKind
  readonly leavesAfterMs?: number
}

const draw = (): Move => {
  const direction = some(['down', 'up', 'both'] as const)
  const backend = some(BACKENDS)
  const breaks = direction === 'down' ? some(['before', 'midway'] as const) : some(['before', 'early'] as const)
  const isBroken = Math.random() < 0.1
  const isCut = isBroken && breaks === 'midway'
  const size = Math.random() < 1 / LARGE_EVERY ? LARGE_BYTES : some(SIZES)
  const pace = some(['fast', 'fast', 'slow', 'leaves'] as const)
  return {
    direction,
    backend,
    ...(isBroken && { breaks }),
    // How much should have come until the end of a connection is known only if it is reset, which a socket in a file never is.
    framing: some(backend === 'unix' || (isCut && backend === 'https') ? FRAMED : [...FRAMED, 'close']),
    isWithHead: Math.random() < 0.5,
    isUploadChunked: Math.random() < 0.5,
    size: isCut ? Math.max(size, 5000) : size,
    pieceSizes: PIECE_BYTES,
    reader: pace === 'slow' ? pace : 'fast',
    ...(pace === 'slow' && { pauseMs: 1 }),
    ...(pace === 'leaves' && { leavesAfterMs: Math.random() * LEAVES_WITHIN_MS })
  }
}

/** Connections are kept, so that bodies follow each other on them. */
const agents = new Map<string, http.Agent>()

const agentOf = ({ name, isTls }: Place): http.Agent => {
  const options = { keepAlive: true, maxSockets: 8, maxFreeSockets: 8, timeout: 60_000, rejectUnauthorized: false }
  const agent = agents.get(name) ?? (isTls ? new https.Agent(options) : new http.Agent(options))
  agents.set(name, agent)
  return agent
}

/** `right`, if this is how the move should end. */
const judged = ({ breaks }: Body, { status, broke, ended, faults }: Seen): Outcome => {
  if (ended === 'left') return 'right'
  if (ended === 'still' || status === undefined) return `unanswered: ${broke}`
  if (breaks === 'midway' && (broke !== undefined || status === 502)) return 'right'
  if ((breaks === 'before' && status === 502) || (breaks === 'early' && status === 413)) return 'right'
  if (status !== 200) return status
  if (broke !== undefined) return 'aborted'
  return faults.length === 0 ? 'right' : `wrong: ${faults}`
}

export const moveBody = async (place: Place): Promise<{ outcome: Outcome; detail: string }> => {
  const move = draw()
  const origin = { port: place.port, isTls: place.isTls, agent: agentOf(place) }
  const limits = { stillMs: STILL_MS, leavesAfterMs: move.leavesAfterMs }
  const outcome = judged(move, await exchangeBody(move, `/${move.backend}`, origin, limits))
  return { outcome, detail: JSON.stringify(move) }
}

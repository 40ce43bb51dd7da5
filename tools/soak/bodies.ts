// Moves a body of a random size, framing, direction and pace to and from a random backend, and compares every byte.
import http from 'node:http'
import https from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { type BodyCheck, bytesAt, createBodyCheck } from '../matrix/body.ts'
import { write } from '../matrix/flow.ts'
import { type BodyAsked, queryOf, some } from './body-backend.ts'
import type { Outcome, Place } from './traffic.ts'

export const BODY_BACKENDS = ['http', 'https', 'unix'] as const

const SIZES = [0, 1, 5000, 16_384, 17_000, 65_536, 65_537, 300_000, 1_000_000]
/** Once in so many exchanges. */
const LARGE_EVERY = 50
const LARGE_BYTES = 12_000_000
/** Nothing stands still for longer, whatever is broken. */
const STILL_MS = 20_000
/** A slow side pauses so often; records may be small, and a pause takes as long as the machine is busy. */
const PAUSES = 50

const FRAMED: readonly BodyAsked['framing'][] = ['length', 'chunked', 'trailers']

type Pace = 'fast' | 'slow' | 'leaves'

interface Move extends BodyAsked {
  readonly backend: (typeof BODY_BACKENDS)[number]
  readonly pace: Pace
  readonly isUploadChunked: boolean
}

const draw = (): Move => {
  const way = some(['down', 'up', 'both'] as const)
  const backend = some(BODY_BACKENDS)
  const breaks =
    Math.random() < 0.9
      ? 'never'
      : some(way === 'down' ? (['before', 'midway'] as const) : (['before', 'early'] as const))
  const size = Math.random() < 1 / LARGE_EVERY ? LARGE_BYTES : some(SIZES)
  return {
    way,
    breaks,
    backend,
    // How much should have come until the end of a connection is known only if it is reset, which a socket in a file never is.
    framing: some(backend === 'unix' || (breaks === 'midway' && backend === 'https') ? FRAMED : [...FRAMED, 'close']),
    head: some(['with', 'apart']),
    size: breaks === 'midway' ? Math.max(size, 5000) : size,
    seed: Math.floor(Math.random() * 1_000_000),
    pace: some(['fast', 'fast', 'slow', 'leaves']),
    isUploadChunked: Math.random() < 0.5
  }
}

/** Connections are kept, so that bodies follow each other on them. */
const agents = new Map<string, http.Agent>()

const agentOf = ({ name, isTls }: Place): http.Agent => {
  const known = agents.get(name)
  if (known !== undefined) return known
  const agent = new (isTls ? https : http).Agent({ keepAlive: true, maxSockets: 8, maxFreeSockets: 8, timeout: 60_000 })
  agents.set(name, agent)
  return agent
}

const upload = async (request: http.ClientRequest, { size, seed, pace }: Move, onMoved: () => void) => {
  for (let at = 0, pieces = 0; at < size && !request.destroyed; pieces++) {
    const piece = bytesAt(seed + at, Math.min(some([1000, 16_000, 65_536]), size - at))
    at += piece.length
    await write(request, piece)
    onMoved()
    if (pace === 'slow' && pieces < PAUSES) await delay(1)
  }
  request.end()
}

const complaint = (move: Move, answer: http.IncomingMessage, text: string, check: BodyCheck): string | undefined => {
  const { way, size, framing } = move
  if (way === 'up') return text === `${size} right` ? undefined : `the backend got ${text} of ${size} bytes`
  if (check.wrongAt !== undefined) return `byte ${check.wrongAt} of ${size} is wrong`
  if (check.length !== size) return `${check.length} of ${size} bytes came as a whole body`
  // Without a body, node:http sends a length of 0 whatever it was asked for.
  if (size === 0) return undefined
  const isChunked = answer.headers['transfer-encoding'] === 'chunked'
  if (framing === 'length' ? answer.headers['content-length'] !== `${size}` : !isChunked)
    return `framing ${framing} is lost`
  return framing === 'trailers' && answer.trailers['x-size'] !== `${size}` ? 'the trailer is lost' : undefined
}

/** `right`, if this is how the move should end. */
const check = (move: Move, outcome: Outcome): Outcome => {
  const { breaks, pace } = move
  if (pace === 'leaves' && outcome === 'aborted') return 'right'
  if (breaks === 'before' && outcome === 502) return 'right'
  if (breaks === 'early' && outcome === 413) return 'right'
  return breaks === 'midway' && (outcome === 'aborted' || outcome === 502) ? 'right' : outcome
}

const carryOut = (place: Place, move: Move): Promise<Outcome> =>
  new Promise(resolve => {
    const { way, backend, pace, size, isUploadChunked } = move
    const length = way === 'down' || isUploadChunked ? {} : { 'content-length': size }
    const request = (place.isTls ? https : http).request({
      host: '127.0.0.1',
      port: place.port,
      path: `/${backend}/body?${queryOf(move)}`,
      method: way === 'down' ? 'GET' : 'POST',
      headers: length,
      agent: agentOf(place),
      rejectUnauthorized: false
    })
    let received = -1
    let movedAt = performance.now()
    let pauses = 0
    const onMoved = () => {
      movedAt = performance.now()
    }
    const reached = () =>
      `${request.writableLength} bytes wait to be sent, ${received < 0 ? 'no head' : `${received} bytes`} came`
    const settle = (outcome: Outcome) => {
      clearInterval(late)
      clearTimeout(leaving)
      resolve(outcome)
      if (outcome !== 'right') request.destroy()
    }
    const late = setInterval(() => {
      if (performance.now() - movedAt > STILL_MS) settle(`unanswered: stands still, ${reached()}`)
    }, 1000)
    const leaving = pace === 'leaves' ? setTimeout(settle, Math.random() * 20, 'aborted') : undefined
    request.on('response', answer => {
      const check = createBodyCheck(move.seed)
      let text = ''
      received = 0
      answer.on('data', (chunk: Buffer) => {
        received += chunk.length
        onMoved()
        if (way === 'up' || answer.statusCode !== 200) text += chunk.toString('latin1')
        else check.take(chunk)
        if (pace !== 'slow' || pauses++ >= PAUSES) return
        answer.pause()
        setTimeout(() => answer.resume(), 2)
      })
      answer.on('end', () => {
        if (answer.statusCode !== 200) return settle(answer.statusCode ?? 0)
        const wrong = complaint(move, answer, text, check)
        settle(wrong === undefined ? 'right' : `wrong: ${wrong}`)
      })
      answer.on('error', () => settle('aborted'))
    })
    request.on('error', (error: NodeJS.ErrnoException) =>
      settle(received >= 0 ? 'aborted' : `unanswered: ${error.code ?? error.message}`)
    )
    if (way === 'down') request.end()
    else void upload(request, move, onMoved)
  })

export const moveBody = async (place: Place): Promise<{ outcome: Outcome; detail: string }> => {
  const move = draw()
  return { outcome: check(move, await carryOut(place, move)), detail: JSON.stringify(move) }
}

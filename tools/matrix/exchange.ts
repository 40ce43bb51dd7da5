// Sends the request of one cell through a gateway, and compares what both ends saw: bytes, framing, trailers, outcome.
import { once } from 'node:events'
import http, { type ClientRequest, type IncomingMessage } from 'node:http'
import https from 'node:https'
import { type Backend, type Exchange, TRAILER } from './backend.ts'
import { createBodyCheck, piecesOf } from './body.ts'
import { type Cell, requestFraming, SIZES } from './cells.ts'
import { stall, write } from './flow.ts'

export interface Origin {
  readonly port: number
  readonly agent: http.Agent
  readonly isTls: boolean
}

interface Outcome {
  /** What is wrong; usually nothing. */
  readonly faults: readonly string[]
  /** Of the backend; undefined: it was not reached. */
  readonly connection: number | undefined
  /** It came on the connection of the request before. */
  readonly isSameClient: boolean
}

/** For as long as bytes pass, a cell may take its time: a minute's worth of looks without one, in the time that this process has had. */
const LOOK_EVERY_MS = 10
const STANDSTILL_LOOKS = 6000

const fieldsOf = ({ direction, framing, size }: Cell): http.OutgoingHttpHeaders => {
  if (direction === 'down') return {}
  const sent = requestFraming(framing)
  if (sent === 'length') return { 'content-length': SIZES[size] }
  return sent === 'chunked' ? { 'transfer-encoding': 'chunked' } : { 'transfer-encoding': 'chunked', trailer: TRAILER }
}

const upload = async (request: ClientRequest, { cell, handedOver, isDone }: Exchange) => {
  const size = cell.direction === 'down' ? 0 : SIZES[cell.size]
  for (const piece of piecesOf(size)) {
    if (request.destroyed) return
    await write(request, piece)
    handedOver.client += piece.length
  }
  if (cell.direction !== 'down' && cell.framing === 'trailers') request.addTrailers({ [TRAILER]: String(size) })
  isDone.client = true
  request.end()
}

/** The framing that the receiver of a message saw. */
const framingOf = ({ headers, trailers }: Pick<IncomingMessage, 'headers' | 'trailers'>): string =>
  headers['content-length'] !== undefined
    ? `length ${headers['content-length']}`
    : `${headers['transfer-encoding']} ${trailers[TRAILER] ?? ''}`.trim()

const expectedFraming = (framing: Cell['framing'], size: number): string =>
  framing === 'length' ? `length ${size}` : framing === 'trailers' ? `chunked ${size}` : 'chunked'

const receive = async (response: IncomingMessage, exchange: Exchange): Promise<string[]> => {
  const { cell, handedOver, isDone } = exchange
  const size = cell.direction === 'up' ? 0 : SIZES[cell.size]
  if (cell.direction === 'up' && cell.reader === 'leaves') {
    response.resume()
    await once(response, 'end')
    return response.statusCode === 502 ? [] : [`status ${response.statusCode} instead of 502`]
  }
  if (response.statusCode !== 200) {
    response.resume()
    return [`status ${response.statusCode}`]
  }
  if (cell.direction !== 'up' && cell.reader === 'slow')
    await stall(() => (isDone.backend ? 'done' : handedOver.backend))
  const body = createBodyCheck()
  for await (const chunk of response) body.take(chunk)
  const faults: string[] = []
  if (!response.complete) faults.push('the response is incomplete')
  if (body.length !== size || body.wrongAt !== undefined)
    faults.push(`${body.length} bytes down instead of ${size}, first wrong near ${body.wrongAt}`)
  const framing = framingOf(response)
  if (framing !== expectedFraming(cell.framing, size)) faults.push(`framing down: ${framing}`)
  return faults
}

const uploadFaults = ({ cell, received }: Exchange): string[] => {
  if (received === undefined) return ['the backend received nothing']
  if (cell.direction === 'down') return []
  const size = SIZES[cell.size]
  const { body, message } = received
  const faults: string[] = []
  if (body.length !== size || body.wrongAt !== undefined)
    faults.push(`${body.length} bytes up instead of ${size}, first wrong near ${body.wrongAt}`)
  const framing = framingOf(message)
  // Trailers of requests are not passed on.
  const expected = cell.framing === 'length' || cell.framing === 'close' ? `length ${size}` : 'chunked'
  if (framing !== expected) faults.push(`framing up: ${framing}`)
  return faults
}

/** Ends a request of which nothing was written or received for too many looks in a row. */
const endStandstill = (request: ClientRequest, exchange: Exchange) => {
  let before = -1
  let unchanged = 0
  return () => {
    const { handedOver, received } = exchange
    const passed = handedOver.client + handedOver.backend + (received?.body.length ?? 0)
    unchanged = passed === before ? unchanged + 1 : 0
    before = passed
    if (unchanged === STANDSTILL_LOOKS) request.destroy(new Error('no byte has passed for a minute'))
  }
}

let count = 0

/** Resolves when both ends are done with it. */
export const runCell = async (cell: Cell, origin: Origin, backend: Backend): Promise<Outcome> => {
  const id = String(++count)
  const exchange: Exchange = {
    cell,
    handedOver: { client: 0, backend: 0 },
    isDone: { client: false, backend: false },
    received: undefined
  }
  backend.exchanges.set(id, exchange)
  const request = (origin.isTls ? https : http).request({
    host: '127.0.0.1',
    port: origin.port,
    agent: origin.agent,
    path: `/${cell.backend}/${id}`,
    method: cell.direction === 'down' ? 'GET' : 'POST',
    headers: fieldsOf(cell)
  })
  const watch = setInterval(endStandstill(request, exchange), LOOK_EVERY_MS)
  // Once it has begun, the response tells what went wrong.
  request.on('error', () => undefined)
  // A request that is cut off also fails its upload; the response tells why.
  const uploading = upload(request, exchange).catch(() => undefined)
  const faults: string[] = []
  try {
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    if (cell.direction !== 'up' && cell.reader === 'leaves') {
      if (response.statusCode !== 200) faults.push(`status ${response.statusCode}`)
      response.on('error', () => undefined)
      request.destroy()
    } else {
      faults.push(...(await receive(response, exchange)))
      if (cell.reader !== 'leaves') {
        await uploading
        faults.push(...uploadFaults(exchange))
      }
    }
  } catch (error) {
    faults.push(String(error))
  }
  clearInterval(watch)
  backend.exchanges.delete(id)
  return { faults, connection: exchange.received?.connection, isSameClient: request.reusedSocket }
}

// Sends the request of one exchange through a gateway, and compares what both ends saw: bytes, framing, trailers, outcome.
import { once } from 'node:events'
import http, { type ClientRequest, type IncomingMessage } from 'node:http'
import https from 'node:https'
import { beginExchange, type Exchange, TRAILER } from './answer.ts'
import { type Body, type BodyCheck, createBodyCheck, stall, writeBody } from './body.ts'

export interface Origin {
  readonly port: number
  readonly agent: http.Agent
  readonly isTls: boolean
}

export interface Outcome {
  /** Of the response; undefined: none has begun. */
  readonly status: number | undefined
  /** Why the request or its response was cut off. */
  readonly broke: string | undefined
  /** That this side did so: no byte had passed for too long, or it was to leave. */
  readonly ended: 'still' | 'left' | undefined
  /** What is wrong with a response of 200. */
  readonly faults: readonly string[]
  /** Of the backend; undefined: it was not reached. */
  readonly connection: number | undefined
  /** It came on the connection of the request before. */
  readonly isSameClient: boolean
}

/** For as long as bytes pass, an exchange may take its time: looks without one are counted, in the time that this process has had. */
const LOOK_EVERY_MS = 10

/** Only a response can end with its connection. */
const uploadFraming = ({ framing, isUploadChunked }: Body): Body['framing'] => {
  if (isUploadChunked !== undefined) return isUploadChunked ? 'chunked' : 'length'
  return framing === 'close' ? 'length' : framing
}

const fieldsOf = (body: Body): http.OutgoingHttpHeaders => {
  if (body.direction === 'down') return {}
  const framing = uploadFraming(body)
  if (framing === 'length') return { 'content-length': body.size }
  return { 'transfer-encoding': 'chunked', ...(framing === 'trailers' && { trailer: TRAILER }) }
}

const upload = async (request: ClientRequest, { body, start, handedOver, isDone }: Exchange) => {
  const hasBody = body.direction !== 'down'
  const onWritten = (bytes: number) => {
    handedOver.client += bytes
  }
  await writeBody(request, body, start, hasBody ? body.size : 0, onWritten)
  if (request.destroyed) return
  if (hasBody && uploadFraming(body) === 'trailers') request.addTrailers({ [TRAILER]: String(body.size) })
  isDone.client = true
  request.end()
}

const contentFaults = (way: string, size: number, { length, wrongAt }: BodyCheck): string[] =>
  length === size && wrongAt === undefined
    ? []
    : [`${length} bytes ${way} instead of ${size}, first wrong near ${wrongAt}`]

/** @param expected as `length 5`, `chunked`, or `chunked 5` with a trailer */
const framingFaults = (
  way: string,
  expected: string,
  { headers, trailers }: Pick<IncomingMessage, 'headers' | 'trailers'>
): string[] => {
  const { 'content-length': length, 'transfer-encoding': coding } = headers
  const framing = length === undefined ? `${coding} ${trailers[TRAILER] ?? ''}`.trim() : `length ${length}`
  return framing === expected ? [] : [`framing ${way}: ${framing}`]
}

const receive = async (response: IncomingMessage, exchange: Exchange): Promise<string[]> => {
  const { body, start, handedOver, isDone } = exchange
  const { direction, framing, reader } = body
  const size = direction === 'up' ? 0 : body.size
  if (direction !== 'up' && reader === 'slow') await stall(() => (isDone.backend ? 'done' : handedOver.backend))
  const check = createBodyCheck(start)
  for await (const chunk of response) check.take(chunk)
  const expected = framing === 'length' ? `length ${size}` : framing === 'trailers' ? `chunked ${size}` : 'chunked'
  return [
    ...(response.complete ? [] : ['the response is incomplete']),
    ...contentFaults('down', size, check),
    // Without a body and flushed head, node:http sends a length of 0 whatever it was asked for.
    ...(size === 0 && body.isWithHead === true ? [] : framingFaults('down', expected, response))
  ]
}

const uploadFaults = ({ body, received }: Exchange): string[] => {
  if (received === undefined) return ['the backend received nothing']
  if (body.direction === 'down') return []
  // Trailers of requests are not passed on.
  const expected = uploadFraming(body) === 'length' ? `length ${body.size}` : 'chunked'
  return [...contentFaults('up', body.size, received.check), ...framingFaults('up', expected, received.message)]
}

/** Calls back when nothing was written or received for too many looks in a row. */
const watchStandstill = (exchange: Exchange, limitMs: number, onStandstill: () => void) => {
  let before = -1
  let unchanged = 0
  return setInterval(() => {
    const { handedOver, received } = exchange
    const passed = handedOver.client + handedOver.backend + (received?.check.length ?? 0)
    unchanged = passed === before ? unchanged + 1 : 0
    before = passed
    if (unchanged === limitMs / LOOK_EVERY_MS) onStandstill()
  }, LOOK_EVERY_MS)
}

/**
 * Resolves when both ends are done with it.
 *
 * @param path of the route, to which the name of the exchange is added
 * @param leavesAfterMs the client leaves then, whatever has come
 */
export const exchangeBody = async (
  body: Body,
  path: string,
  { isTls, ...origin }: Origin,
  { stillMs = 60_000, leavesAfterMs }: { readonly stillMs?: number; readonly leavesAfterMs?: number | undefined } = {}
): Promise<Outcome> => {
  const { id, exchange, end } = beginExchange(body)
  const request = (isTls ? https : http).request({
    ...origin,
    host: '127.0.0.1',
    path: `${path}/${id}`,
    method: body.direction === 'down' ? 'GET' : 'POST',
    headers: fieldsOf(body)
  })
  let [ended, status, broke]: [Outcome['ended'], number | undefined, string | undefined] = [
    undefined,
    undefined,
    undefined
  ]
  const endFor = (reason: Outcome['ended']) => {
    ended = reason
    request.destroy(new Error(reason === 'left' ? 'the client has left' : `no byte has passed for ${stillMs} ms`))
  }
  const watch = watchStandstill(exchange, stillMs, () => endFor('still'))
  const leaving = leavesAfterMs === undefined ? undefined : setTimeout(endFor, leavesAfterMs, 'left')
  // Once it has begun, the response tells what went wrong.
  request.on('error', () => undefined)
  // A request that is cut off also fails its upload; the response tells why.
  const uploading = upload(request, exchange).catch(() => undefined)
  const faults: string[] = []
  try {
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    status = response.statusCode
    if (body.direction !== 'up' && body.reader === 'leaves') {
      response.on('error', () => undefined)
      request.destroy()
    } else if (status !== 200) {
      response.resume()
      await once(response, 'end')
    } else {
      faults.push(...(await receive(response, exchange)))
      await uploading
      faults.push(...uploadFaults(exchange))
    }
  } catch (error) {
    broke = String(error)
  }
  clearInterval(watch)
  clearTimeout(leaving)
  end()
  const connection = exchange.received?.connection
  return { status, broke, ended, faults, connection, isSameClient: request.reusedSocket }
}

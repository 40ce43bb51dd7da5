// Reads what an upstream answers on one connection with the gateway's parser, with a model of RFC 9112, and through TLS.
import { BadResponse, type ResponseHead, ResponseParser } from '../../../../gateway/upstream/parser.ts'
import { type ReadResponse, readResponses } from '../../models/http-responses.ts'
import { PIECES, type Random, readCorpus } from '../../mutate.ts'
import { Fault, type Target } from '../engine.ts'
import { splitBytes } from '../split.ts'
import { readOverTls } from '../tls-upstream.ts'
import { wellFormedResponse, withSlip } from '../well-formed.ts'

interface Read {
  readonly responses: ReadResponse[]
  refused: string | undefined
}

const pairs = (flat: readonly string[]): (readonly [string, string])[] =>
  Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i] ?? '', flat[2 * i + 1] ?? ''] as const)

/** A request with the next method is written when the response before is complete. */
const readByGateway = (pieces: readonly Buffer[], methods: readonly string[]): Read => {
  const read: Read = { responses: [], refused: undefined }
  const parser = new ResponseParser()
  let next = 0
  let kept = true
  const begin = () => {
    const method = methods[next++]
    if (method === undefined || !kept) return
    let open: { head: ResponseHead; body: string } | undefined
    parser.begin(method, {
      onInterim: (status, headers) =>
        read.responses.push({ status, fields: pairs(headers), body: '', trailers: [], complete: true }),
      onHead(head, whole) {
        kept = head.keepAlive
        open = { head, body: whole ?? '' }
        read.responses.push(asResponse(open.head, open.body, [], false))
      },
      onBody(chunk) {
        if (open !== undefined) open.body += chunk.toString('latin1')
      },
      onEnd(trailers) {
        if (open === undefined) return
        read.responses[read.responses.length - 1] = asResponse(open.head, open.body, trailers, true)
        begin()
      }
    })
  }
  begin()
  feed(parser, pieces, read, () => kept)
  return read
}

const asResponse = (
  head: ResponseHead,
  body: string,
  trailers: readonly string[],
  complete: boolean
): ReadResponse => ({
  status: head.status,
  fields: pairs(head.headers),
  body: complete ? body : '',
  trailers: pairs(trailers),
  complete
})

const feed = (parser: ResponseParser, pieces: readonly Buffer[], read: Read, isKept: () => boolean) => {
  try {
    for (const piece of pieces) {
      parser.take(piece)
      // The connection is closed behind a response that says so.
      if (parser.isIdle && !isKept()) return
    }
    parser.finish()
  } catch (error) {
    if (!(error instanceof BadResponse)) throw error
    read.refused = error.message
  }
}

/** A longer head is refused. */
const MAX_HEAD_BYTES = 32 * 1024

const METHODS = [
  ['GET', 'GET', 'GET'],
  ['HEAD', 'GET'],
  ['GET', 'HEAD', 'POST']
] as const

const textOf = ({ responses }: { responses: readonly ReadResponse[] }, complete: boolean): string =>
  responses
    .filter(response => response.complete === complete || response.complete)
    .map(({ status, fields, body, trailers }) =>
      [status, ...fields.flat(), '', body, '', ...trailers.flat()].join('\0')
    )
    .join('\0\0')

/** A connection of its own and a handshake take so many times as long as a run without. */
const TLS_EVERY = 100
/** As many bytes as several records hold. */
const FILLING = 'filling '.repeat(9000)

/** The same bytes, or with a body of several records, through TLS: what is read may not depend on where records begin. */
const compareOverTls = async (input: string, method: string, random: Random) => {
  const length = random.below(FILLING.length)
  const large = `HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n${FILLING.slice(0, length)}`
  const bytes = Buffer.from(random.below(2) === 0 ? input : large, 'latin1')
  const plain = readByGateway([bytes], [method])
  const final = plain.responses.find(({ status }) => status >= 200)
  const { head, body, trailers, isComplete } = await readOverTls(bytes, method, random)
  if (isComplete !== (final?.complete ?? false))
    throw new Fault(`through TLS it is ${isComplete ? '' : 'not '}complete`)
  if (final?.complete !== true || head === undefined) return
  const over = { responses: [asResponse(head, body, trailers, true)] }
  if (textOf(over, true) !== textOf({ responses: [final] }, true)) throw new Fault('another response through TLS')
}

let runs = 0

const run = (input: string, random: Random): string | Promise<string> => {
  const methods = random.pick(METHODS)
  const states = runPlain(input, methods, random)
  if (runs++ % TLS_EVERY !== 0) return states
  return compareOverTls(input, methods[0], random).then(() => states)
}

const runPlain = (input: string, methods: readonly string[], random: Random): string => {
  const bytes = Buffer.from(input, 'latin1')
  const ours = readByGateway([bytes], methods)
  const split = readByGateway(splitBytes(bytes, random), methods)
  if (textOf(ours, true) !== textOf(split, true)) throw new Fault('split bytes are read in another way')

  const model = readResponses(input, methods)
  const [mine, theirs] = [ours.responses, model.responses]
  for (const [index, response] of mine.entries()) {
    const other = theirs[index]
    if (other === undefined) throw new Fault(`response ${index + 1} is none by the model (${model.refused})`)
    if (!response.complete) continue
    if (!other.complete) throw new Fault(`response ${index + 1} is not complete by the model (${model.refused})`)
    if (textOf({ responses: [response] }, true) !== textOf({ responses: [other] }, true))
      throw new Fault(`response ${index + 1} is another one by the model`)
  }
  const complete = (all: readonly ReadResponse[]) => all.filter(one => one.complete).length
  if (ours.refused === undefined && complete(mine) < complete(theirs) && bytes.length < MAX_HEAD_BYTES)
    throw new Fault('a response was lost')
  const shape = mine.map(({ status, body, complete: whole }) => `${status}${Math.min(body.length, 3)}${whole}`)
  return `${methods.length} ${shape.join()} ${ours.refused} ${model.refused}`
}

const generate = (random: Random): string =>
  withSlip(Array.from({ length: 1 + random.below(3) }, () => wellFormedResponse(random)).join(''), random)

export const upstreamResponses: Target = {
  name: 'upstream-responses',
  words: PIECES,
  seeds: readCorpus('response'),
  generate,
  run
}

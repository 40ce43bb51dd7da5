// Reads what an upstream answers on one connection with the gateway's parser, and with a model of RFC 9112.

import { BadResponse } from '../../../gateway/upstream/faults.ts'
import { ResponseParser } from '../../../gateway/upstream/parser.ts'
import { type Random, readCorpus, splitBytes } from '../mutate.ts'
import { type ReadResponse, readResponses } from './http-responses.ts'
import type { Reading } from './readings.ts'
import { wellFormedResponse, withSlip } from './well-formed.ts'

type Open = { -readonly [K in keyof ReadResponse]: ReadResponse[K] }

interface Read {
  readonly responses: Open[]
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
    const add = (status: number, headers: readonly string[], body: string, complete: boolean) =>
      read.responses.push({ status, fields: pairs(headers), body, trailers: [], complete })
    parser.begin(method, {
      onInterim: (status, headers) => add(status, headers, '', true),
      onHead({ status, headers, keepAlive }, whole) {
        kept = keepAlive
        add(status, headers, whole ?? '', false)
      },
      onBody(chunk) {
        const open = read.responses.at(-1)
        if (open !== undefined) open.body += chunk.toString('latin1')
      },
      onEnd(trailers) {
        Object.assign(read.responses.at(-1) ?? {}, { trailers: pairs(trailers), complete: true })
        begin()
      }
    })
  }
  begin()
  feed(parser, pieces, read, () => kept)
  return read
}

const feed = (parser: ResponseParser, pieces: readonly Buffer[], read: Read, isKept: () => boolean) => {
  try {
    for (const piece of pieces) {
      parser.take(piece, 0)
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

const textOf = ({ responses }: { responses: readonly ReadResponse[] }): string =>
  responses
    .filter(({ complete }) => complete)
    .map(({ status, fields, body, trailers }) =>
      [status, ...fields.flat(), '', body, '', ...trailers.flat()].join('\0')
    )
    .join('\0\0')

const compare = (input: string, random: Random): string | undefined => {
  const bytes = Buffer.from(input, 'latin1')
  const methods = random.pick(METHODS)
  const ours = readByGateway([bytes], methods)
  const split = readByGateway(splitBytes(bytes, random), methods)
  if (textOf(ours) !== textOf(split)) return 'split bytes are read in another way'

  const model = readResponses(input, methods)
  const [mine, theirs] = [ours.responses, model.responses]
  for (const [index, response] of mine.entries()) {
    const other = theirs[index]
    if (other === undefined) return `response ${index + 1} is none by the model (${model.refused})`
    if (!response.complete) continue
    if (!other.complete) return `response ${index + 1} is not complete by the model (${model.refused})`
    if (textOf({ responses: [response] }) !== textOf({ responses: [other] }))
      return `response ${index + 1} is another one by the model`
  }
  const complete = (all: readonly ReadResponse[]) => all.filter(one => one.complete).length
  const isLost = ours.refused === undefined && complete(mine) < complete(theirs) && bytes.length < MAX_HEAD_BYTES
  return isLost ? 'a response was lost' : undefined
}

export const upstreamResponses: Reading = {
  name: 'responses of an upstream',
  seeds: readCorpus('response'),
  generate: random =>
    withSlip(Array.from({ length: 1 + random.below(3) }, () => wellFormedResponse(random)).join(''), random),
  compare
}

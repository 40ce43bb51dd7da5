// Reads what clients send on one connection in three ways: the gateway's, that of node:http, and a model of RFC 9112.
import type { ReadMessages } from '../../../test/support/message-reader.ts'
import { type Random, readCorpus, splitBytes } from '../mutate.ts'
import { readByGateway } from './gateway-requests.ts'
import { type Reading as ModelReading, readRequests } from './http-requests.ts'
import { type NodeReading, readByNode } from './node-requests.ts'
import type { Reading } from './readings.ts'
import { wellFormedRequest, withSlip } from './well-formed.ts'

interface Message {
  readonly method: string
  readonly target: string
  readonly fields: string
  readonly body: string
  readonly isComplete: boolean
}

interface Readers {
  readonly ours: ReadMessages
  readonly node: NodeReading
  readonly model: ModelReading
}

const asMessages = (
  requests: readonly (Omit<Message, 'fields'> & { readonly fields: readonly string[] })[]
): Message[] =>
  requests.map(({ method, target, fields, body, isComplete }) => ({
    method,
    target,
    fields: fields.join('\n'),
    body,
    isComplete
  }))

/** What is wrong; undefined when the gateway refused, or all read the same. */
const compareRequests = ({ ours, node, model }: Readers): string | undefined => {
  const mine = asMessages(ours.requests)
  const ofModel = model.requests.map(one => ({ ...one, fields: one.fields.flat(), isComplete: one.complete }))
  const theirs = { node: asMessages(node.requests), model: asMessages(ofModel) }
  // node:http refuses raw bytes in a target, and whatever follows.
  const firstRaw = mine.findIndex(({ target }) => /[\x80-\xff]/.test(target))
  for (const [index, message] of mine.entries()) {
    const isRefused = ours.requests[index]?.isRefused === true
    if (!isRefused && model.requests[index]?.inadmissible !== undefined)
      return `request ${index + 1} is inadmissible by the model: ${model.requests[index]?.inadmissible}`
    for (const [name, read] of Object.entries(theirs)) {
      const other = read[index]
      // A refused message may be one that the other can't frame, as long as nothing is read behind it.
      if (other === undefined && isRefused && index === mine.length - 1) continue
      // node:http closes behind a trailer `Connection: close`, and takes no tab behind `chunked`; RFC 9112 does otherwise.
      if (name === 'node' && node.stopped && other?.isComplete !== true) continue
      if (name === 'node' && firstRaw !== -1 && index >= firstRaw) continue
      if (other === undefined) return `request ${index + 1} is none by the ${name}${reason(model)}`
      const fault = difference(message, other, isRefused)
      if (fault !== undefined) return `request ${index + 1} has another ${fault} by the ${name}`
    }
  }
  return lost(ours, mine, theirs.model)
}

const reason = ({ refused }: ModelReading): string => (refused === undefined ? '' : ` (${refused})`)

const difference = (mine: Message, other: Message, isRefused: boolean): string | undefined => {
  if (mine.method !== other.method) return 'method'
  if (mine.target !== other.target) return 'target'
  if (mine.fields !== other.fields) return 'field'
  // The body of a refused message is not read.
  if (isRefused) return undefined
  if (mine.isComplete && !other.isComplete) return 'end'
  return mine.isComplete && mine.body !== other.body ? 'body' : undefined
}

/** A request that everybody else can read may be missing only behind a refusal or the end of the connection. */
const lost = (ours: ReadMessages, mine: readonly Message[], theirs: readonly Message[]): string | undefined => {
  const last = ours.requests.at(-1)
  if (ours.fault !== undefined || last?.isRefused === true) return undefined
  const complete = (messages: readonly Message[]) => messages.filter(({ isComplete }) => isComplete).length
  return complete(mine) < complete(theirs) ? 'a request was lost' : undefined
}

const compare = (input: string, random: Random): string | undefined => {
  const bytes = Buffer.from(input, 'latin1')
  const ours = readByGateway([bytes])
  const fault = compareRequests({ ours, node: readByNode([bytes]), model: readRequests(input) })
  if (fault !== undefined) return fault
  const split = readByGateway(splitBytes(bytes, random))
  return textOf(ours) === textOf(split)
    ? undefined
    : `split bytes are read in another way: ${ours.fault} or ${split.fault}`
}

// How much of a body is given away before it turns out to be malformed depends on the pieces.
const textOf = (read: ReadMessages): string => {
  const messages = asMessages(read.requests).map(message =>
    read.fault === undefined || message.isComplete ? message : { ...message, body: '' }
  )
  return `${read.fault}${messages.map(message => Object.values(message).join('\0')).join('\0\0')}`
}

export const clientRequests: Reading = {
  name: 'requests of a client',
  seeds: readCorpus('request'),
  generate: random =>
    withSlip(Array.from({ length: 1 + random.below(3) }, () => wellFormedRequest(random)).join(''), random),
  compare
}

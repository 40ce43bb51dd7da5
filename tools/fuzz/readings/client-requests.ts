// Reads what clients send on one connection in three ways: the gateway's, that of node:http, and a model of RFC 9112.
import type { ReadMessages } from '../../../test/support/message-reader.ts'
import { type Random, readCorpus } from '../mutate.ts'
import { compareRequests, oursAsMessages } from './compare-requests.ts'
import { readByGateway } from './gateway-requests.ts'
import { readRequests } from './http-requests.ts'
import { readByNode } from './node-requests.ts'
import type { Reading } from './readings.ts'
import { splitBytes } from './split.ts'
import { wellFormedRequest, withSlip } from './well-formed.ts'

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
  const messages = oursAsMessages(read).map(message =>
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

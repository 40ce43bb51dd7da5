// Reads what clients send on one connection in three ways: the gateway's, that of node:http, and a model of RFC 9112.

import type { ReadMessages } from '../../../../test/support/message-reader.ts'
import { readRequests } from '../../models/http-requests.ts'
import { PIECES, type Random, readCorpus } from '../../mutate.ts'
import { compareRequests, oursAsMessages } from '../../readers/compare-requests.ts'
import { readByGateway } from '../../readers/gateway-requests.ts'
import { readByNode } from '../../readers/node-requests.ts'
import { Fault, type Target } from '../engine.ts'
import { splitBytes } from '../split.ts'
import { wellFormedRequest, withSlip } from '../well-formed.ts'

/** How often the gateway accepted or refused, beside the model. */
const verdicts = { accepted: 0, refusedByBoth: 0, refusedByUsAlone: new Map<string, number>() }

const run = (input: string, random: Random): string => {
  const bytes = Buffer.from(input, 'latin1')
  const whole = [bytes]
  const ours = readByGateway(whole)
  const model = readRequests(input)
  const fault = compareRequests({ ours, node: readByNode(whole), model })
  if (fault !== undefined) throw new Fault(fault)

  const split = readByGateway(splitBytes(bytes, random))
  if (textOf(ours) !== textOf(split))
    throw new Fault(`split bytes are read in another way: ${ours.fault} or ${split.fault}`)

  const refusedByUs = ours.fault ?? (ours.requests.some(({ isRefused }) => isRefused) ? 'head' : undefined)
  const refusedByModel = model.refused ?? model.requests.find(({ inadmissible }) => inadmissible)?.inadmissible
  if (refusedByUs === undefined) verdicts.accepted++
  else if (refusedByModel !== undefined) verdicts.refusedByBoth++
  else count(`${refusedByUs}`)
  const shape = ours.requests.map(
    ({ method, version, body, isComplete, isRefused }) =>
      `${method}${version}${Math.min(body.length, 3)}${isComplete}${isRefused}`
  )
  return `${shape.join()} ${ours.fault} ${refusedByModel}`
}

// How much of a body is given away before it turns out to be malformed depends on the pieces.
const textOf = (read: ReadMessages): string => {
  const messages = oursAsMessages(read).map(message =>
    read.fault === undefined || message.isComplete ? message : { ...message, body: '' }
  )
  return `${read.fault}${messages.map(message => Object.values(message).join('\0')).join('\0\0')}`
}

const count = (reason: string) => {
  verdicts.refusedByUsAlone.set(reason, (verdicts.refusedByUsAlone.get(reason) ?? 0) + 1)
}

const generate = (random: Random): string =>
  withSlip(Array.from({ length: 1 + random.below(3) }, () => wellFormedRequest(random)).join(''), random)

const summary = (): string => {
  const alone = Array.from(verdicts.refusedByUsAlone, ([reason, runs]) => `${reason} ${runs}`)
  return `accepted ${verdicts.accepted}, refused by both ${verdicts.refusedByBoth}, by us alone: ${alone.join(', ')}`
}

export const clientRequests: Target = {
  name: 'client-requests',
  words: PIECES,
  seeds: readCorpus('request'),
  generate,
  run,
  summary
}

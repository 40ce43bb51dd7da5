// Compares what Portaria makes of HTTP/2 requests with RFC 9113.
import type { Test } from 'tap'
import { LIBRARY_WORDS } from '../client-bytes.ts'
import { createRandom, type Fuzz, inLanes } from '../mutate.ts'
import type { StrictRequest } from '../strict-upstream.ts'
import { type Front, interleave, type Outcome, type Sent, send, startFront } from './exchange.ts'
import { ownReason, withoutLeftOut } from './explained.ts'
import { framesOf } from './frames.ts'
import { type Message, makeMessage } from './messages.ts'
import { differenceIn, faultsOf, lateFaults } from './model.ts'

type Result = Awaited<ReturnType<typeof resultsOf>>[number]

const LANES = 4
const MOST_STREAMS = 50

const show = (message: Message): string =>
  JSON.stringify(message, (_, value) => (typeof value === 'string' ? value.slice(0, 100) : value))

/** Sends them; what a lost connection took with it is sent again, each on a connection of its own. */
const resultsOf = async (front: Front, bytes: Buffer, batch: readonly Sent[], take: Take) => {
  const outcomes = await send(front, bytes, batch)
  const results: { outcome: Outcome; received: StrictRequest[]; isRepeated: boolean }[] = []
  for (const [index, sent] of batch.entries()) {
    let outcome = outcomes[index]
    const isRepeated = batch.length > 1 && outcome?.end === 'lost' && sent.message.end !== 'reset'
    if (isRepeated) outcome = (await send(front, interleave([sent], createRandom(0)), [sent]))[0]
    if (outcome === undefined) throw new Error('no outcome')
    results.push({ outcome, isRepeated, received: take(sent.message.id) })
  }
  return results
}

/** Takes what the backend got of a message. */
type Take = (id: string) => StrictRequest[]

/** What is wrong with the request that the backend got of a message. */
const forwardingFault = (message: Message, got: StrictRequest): string | undefined => {
  const taken = withoutLeftOut(message)
  const faults = faultsOf(taken)
  if (faults.length > 0) return `forwarded in spite of ${faults.join(', ')}`
  const difference = differenceIn(taken, got)
  return difference === undefined ? undefined : `forwarded with another meaning: ${difference}`
}

/** What Portaria does against the standard, or against itself; undefined: nothing. */
const faultOf = (sent: Sent, { outcome, received, isRepeated }: Result): string | undefined => {
  const { message } = sent
  const [first] = received
  if (outcome.end === 'never') return 'was never answered'
  if (LIBRARY_WORDS.test(outcome.text) || /GW_(?:INTERNAL|UPSTREAM)/.test(outcome.text))
    return `answered ${outcome.text}`
  if (first === undefined) {
    const isRefused = faultsOf(message).length > 0 || ownReason(sent) !== undefined
    return isRefused ? undefined : `refused (${outcome.end} ${outcome.text})`
  }
  if (received.length > 1 && !isRepeated) return 'forwarded twice'
  const fault = forwardingFault(message, first)
  if (fault !== undefined) return fault
  const mayEnd = lateFaults(message).length > 0 || ownReason(sent) !== undefined
  return outcome.isOk || mayEnd ? undefined : `forwarded, but ${outcome.end}: ${outcome.text}`
}

/** Runs until `goesOn` says no; returns how many messages were sent, and how many were forwarded. */
export const fuzzHttp2 = async (t: Pick<Test, 'teardown'>, { seed, goesOn, onFault }: Fuzz) => {
  const front = await startFront(t)
  const random = createRandom(seed)
  const arrived = new Map<string, StrictRequest[]>()
  /** Messages whose client did not wait for a response: the backend may get them later. */
  const abandoned = new Map<string, Message>()
  let [done, forwarded] = [0, 0]

  const take: Take = id => {
    for (const request of front.backend.takeRequests()) {
      const known = request.headers.find(([name]) => name.toLowerCase() === 'x-n')?.[1] ?? 'none'
      arrived.set(known, [...(arrived.get(known) ?? []), request])
    }
    const taken = arrived.get(id) ?? []
    arrived.delete(id)
    return taken
  }
  const check = (sent: Sent, result: Result) => {
    const { message } = sent
    if (result.received.length > 0) forwarded++
    if (message.end === 'reset' || result.isRepeated) abandoned.set(message.id, message)
    const fault = faultOf(sent, result)
    if (fault !== undefined) onFault(fault, show(message))
  }
  /** Connections end over trailers: messages with some share theirs with nothing else. */
  const pools: { readonly plain: Sent[]; readonly trailers: Sent[] } = { plain: [], trailers: [] }
  const makeBatch = (): Sent[] => {
    for (;;) {
      const message = makeMessage(`n${done++}`, random)
      const pool = pools[message.end === 'trailers' ? 'trailers' : 'plain']
      pool.push({ message, frames: framesOf(message, random) })
      if (pool.length === MOST_STREAMS) return pool.splice(0)
    }
  }
  const one = async (batch: readonly Sent[]) => {
    const results = await resultsOf(front, interleave(batch, random), batch, take)
    for (const [index, result] of results.entries()) check(batch[index] as Sent, result)
    for (const fault of front.backend.takeFaults()) onFault(`the backend got no HTTP: ${fault}`, '')
  }
  await inLanes(
    LANES,
    () => goesOn(done),
    () => one(makeBatch())
  )
  for (const [id, requests] of arrived)
    for (const request of requests) {
      const message = abandoned.get(id)
      const fault = message === undefined ? 'arrived, but was not sent, or late' : forwardingFault(message, request)
      if (fault !== undefined) onFault(`${id}: ${fault}`, request.head)
    }
  return { done, forwarded }
}

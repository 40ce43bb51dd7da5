// Compares what Portaria makes of HTTP/2 requests with RFC 9113, and with what HAProxy and nginx make of the same bytes.
import { LIBRARY_WORDS } from '../client-bytes.ts'
import { createRandom, type Fuzz, inLanes } from '../mutate.ts'
import type { StrictRequest } from '../strict-upstream.ts'
import { interleave, type Outcome, type Sent, send } from './exchange.ts'
import { explanationsOf, ownReason, withoutLeftOut } from './explained.ts'
import { framesOf } from './frames.ts'
import type { Front } from './fronts.ts'
import { type Message, makeMessage } from './messages.ts'
import { differenceIn, faultsOf, lateFaults } from './model.ts'

interface Options extends Fuzz {
  /** Portaria is the first. */
  readonly fronts: readonly Front[]
  /** Called every 20,000 messages. */
  readonly onProgress?: (done: number) => void
}

/** What one front made of one message. */
interface Result {
  readonly outcome: Outcome
  readonly received: readonly StrictRequest[]
  readonly isRepeated: boolean
}

const LANES = 4
const MOST_STREAMS = 50
const PROGRESS = 20_000

const show = (message: Message): string =>
  JSON.stringify(message, (_, value) => (typeof value === 'string' ? value.slice(0, 100) : value))

/** Sends it to one front; what a lost connection took with it is sent again, each on a connection of its own. */
const resultsOf = async (front: Front, bytes: Buffer, batch: readonly Sent[], take: Take): Promise<Result[]> => {
  const outcomes = await send(front, bytes, batch)
  const results: Result[] = []
  for (const [index, sent] of batch.entries()) {
    let outcome = outcomes[index]
    const isRepeated = batch.length > 1 && outcome?.end === 'lost' && sent.message.end !== 'reset'
    if (isRepeated) outcome = (await send(front, interleave([sent], createRandom(0)), [sent]))[0]
    if (outcome === undefined) throw new Error('no outcome')
    results.push({ outcome, isRepeated, received: take(front, sent.message.id) })
  }
  return results
}

/** Takes what the backend of a front got of a message. */
type Take = (front: Front, id: string) => StrictRequest[]

/** What is wrong with the request that the backend got of a message. */
const forwardingFault = (message: Message, got: StrictRequest): string | undefined => {
  const taken = withoutLeftOut(message)
  const faults = faultsOf(taken)
  if (faults.length > 0) return `forwarded in spite of ${faults.join(', ')}`
  const difference = differenceIn(taken, got, 'Portaria')
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

/** How a peer's result differs from Portaria's; undefined: it does not. */
const peerDifference = (message: Message, peer: Front, own: Result, its: Result): string | undefined => {
  const [first] = its.received
  if (first === undefined) return own.received.length === 0 ? undefined : 'refuses'
  if (own.received.length === 0) return 'accepts'
  const difference = differenceIn(message, first, peer.name)
  return difference === undefined ? undefined : `changes ${difference}`
}

/** Runs until `goesOn` says no; returns how many messages were sent, how many Portaria forwarded, and which differences were explained. */
export const fuzzHttp2 = async ({ fronts, seed, goesOn, onFault, onProgress }: Options) => {
  const random = createRandom(seed)
  const explained = new Map<string, number>()
  const arrived = new Map(fronts.map(front => [front, new Map<string, StrictRequest[]>()]))
  /** Messages whose client did not wait for a response: the backend may get them later. */
  const abandoned = new Map<string, Message>()
  let [done, forwarded, shown] = [0, 0, 0]

  const take: Take = (front, id) => {
    const waiting = arrived.get(front) ?? new Map<string, StrictRequest[]>()
    for (const request of front.backend.takeRequests()) {
      const known = request.headers.find(([name]) => name.toLowerCase() === 'x-n')?.[1] ?? 'none'
      waiting.set(known, [...(waiting.get(known) ?? []), request])
    }
    const taken = waiting.get(id) ?? []
    waiting.delete(id)
    return taken
  }
  const compare = (sent: Sent, results: readonly Result[][], index: number) => {
    const { message } = sent
    const [own, ...peers] = results.map(one => one[index])
    if (own === undefined) return
    if (own.received.length > 0) forwarded++
    if (message.end === 'reset' || own.isRepeated) abandoned.set(message.id, message)
    const fault = faultOf(sent, own)
    if (fault !== undefined) onFault(fault, show(message))
    for (const [n, its] of peers.entries()) {
      const peer = fronts[n + 1]
      const difference = its && peer && peerDifference(message, peer, own, its)
      if (peer === undefined || difference === undefined) continue
      const sentences = explanationsOf(peer.name, difference, sent)
      if (sentences.length === 0) onFault(`${peer.name} ${difference}: ${faultsOf(message)}`, show(message))
      for (const sentence of sentences) explained.set(sentence, (explained.get(sentence) ?? 0) + 1)
    }
  }
  /** Fronts end connections over trailers: messages with some share theirs with nothing else. */
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
    const bytes = interleave(batch, random)
    const results = await Promise.all(fronts.map(front => resultsOf(front, bytes, batch, take)))
    for (const [index, sent] of batch.entries()) compare(sent, results, index)
    for (const fault of fronts[0]?.backend.takeFaults() ?? []) onFault(`the backend got no HTTP: ${fault}`, '')
    if (done < shown + PROGRESS) return
    shown = done
    onProgress?.(done)
  }
  await inLanes(
    LANES,
    () => goesOn(done),
    () => one(makeBatch())
  )
  const [own] = arrived.values()
  for (const [id, requests] of own ?? []) {
    for (const request of requests) {
      const message = abandoned.get(id)
      const fault = message === undefined ? 'arrived, but was not sent, or late' : forwardingFault(message, request)
      if (fault !== undefined) onFault(`${id}: ${fault}`, request.head)
    }
  }
  return { done, forwarded, explained }
}

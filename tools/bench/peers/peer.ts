// A gateway under measurement, ours or another: its process, and what it claims to do.
import type { Listening } from '../processes.ts'
import { badTokens, SUBJECT } from '../tokens.ts'
import { BENCH_PATH, BODY_BYTES, WHO_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

export interface Peer extends Listening {
  /** Whether it checks tokens and roles and tells the upstream who asks. */
  readonly checks: boolean
  /** The peer that it forwards to, whose cost counts as well. */
  readonly behind?: Peer
}

/** The run means nothing: a peer does other work than it claims. */
export class VoidRun extends Error {}

interface Answer {
  readonly status: number
  readonly body: string
}

/** On a connection of its own. */
export const ask = async (
  port: number,
  path: string,
  token?: string,
  more: Record<string, string> = {}
): Promise<Answer> => {
  const headers = { ...more, connection: 'close', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) }
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers, signal: AbortSignal.timeout(10_000) })
  return { status: response.status, body: await response.text() }
}

const expectation = (peer: Peer, what: string, isMet: boolean, got: Answer): void => {
  if (isMet) return
  throw new VoidRun(`${peer.name}: ${what}, but answered ${got.status} ${JSON.stringify(got.body.slice(0, 200))}`)
}

/** @throws VoidRun when a good token fails, the upstream learns the wrong person, or a bad token gets in. */
export const probe = async (peer: Peer, { secret, token }: World): Promise<void> => {
  const good = await ask(peer.port, BENCH_PATH, token)
  expectation(peer, 'must pass a good token', good.status === 200 && good.body.length === BODY_BYTES, good)
  if (!peer.checks) return

  const who = await ask(peer.port, WHO_PATH, token, { 'x-user-id': '1' })
  expectation(peer, 'must tell the upstream who asks', who.status === 200 && who.body === `<${SUBJECT}>`, who)
  for (const bad of await badTokens(secret)) {
    const answer = await ask(peer.port, BENCH_PATH, bad.token)
    expectation(peer, `must refuse ${bad.name} with ${bad.status}`, answer.status === bad.status, answer)
  }
}

/** Every peer keeps its promises before and after. */
export const probed = async <T>(world: World, peers: readonly Peer[], measure: () => Promise<T>): Promise<T> => {
  for (const peer of peers) await probe(peer, world)
  const result = await measure()
  for (const peer of peers) await probe(peer, world)
  return result
}

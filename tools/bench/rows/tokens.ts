// What verification costs: a token seen before, tokens never seen, tokens signed by somebody else.
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { CPU, compare, interleave, MEGABYTE, requests, type Subject } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { type Peer, probed } from '../peers/peer.ts'
import { startRelay } from '../peers/relay.ts'
import { residentBytes } from '../process-cost.ts'
import { createSecret, sign } from '../tokens.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

/** More than can be answered; a subject that answers more voids its round. */
const FRESH_PER_SECOND = 40_000
const FORGED_PER_SECOND = 90_000
const IN_TURN = 20_000

/** A pool file of distinct tokens, each line `path token`. */
const writePool = async (file: string, count: number, secret: string): Promise<void> => {
  const stream = createWriteStream(file)
  for (let written = 0; written < count; written += 1000) {
    const lines = Array.from({ length: Math.min(1000, count - written) }, () => `${BENCH_PATH} ${sign(secret)}\n`)
    if (!stream.write(lines.join(''))) await once(stream, 'drain')
  }
  stream.end()
  await finished(stream)
}

/** The same tokens again and again. */
const inTurn = async (world: World, peer: Peer, name: string, count: number): Promise<Subject> => {
  const pool = join(await world.folder('pool'), 'tokens')
  await writePool(pool, count, world.secret)
  return { name, peer, load: () => ({ url: `http://127.0.0.1:${peer.port}`, pool }) }
}

/** Each token once. */
const distinct = async (world: World, peer: Peer, name: string, secret: string, most: number): Promise<Subject> => {
  const pool = join(await world.folder('pool'), 'tokens')
  const load = async (seconds: number) => {
    await writePool(pool, seconds * most, secret)
    return { url: `http://127.0.0.1:${peer.port}`, pool }
  }
  return { name, peer, load, isFresh: true }
}

/** A process of its own: memory that other tokens have left behind would hide what these take. */
const measureInTurn = async (world: World): Promise<void> => {
  const peer = await startGateway(world)
  const one = await inTurn(world, peer, 'one token, other process', 1)
  const many = await inTurn(world, peer, `${IN_TURN} tokens in turn`, IN_TURN)
  await interleave(world, [one])
  const before = residentBytes(peer.running.pid)
  const [ofOne, ofMany] = await interleave(world, [one, many])
  compare(world, 'tokens-in-turn', ofMany, ofOne)
  world.find('tokens-memory', (residentBytes(peer.running.pid) - before) / MEGABYTE)
}

export const measureTokens = async (world: World): Promise<void> => {
  world.notes.push('every token of the second and third row is sent once only')
  const gateway = await startGateway(world)
  const relay = await startRelay(world)
  await probed(world, [gateway], async () => {
    const [seen, fresh, forged, unit] = await interleave(world, [
      await inTurn(world, gateway, 'known token', 1),
      await distinct(world, gateway, 'token never seen before', world.secret, FRESH_PER_SECOND),
      { ...(await distinct(world, gateway, 'forged token', createSecret(), FORGED_PER_SECOND)), isRefused: true },
      requests(world, relay)
    ])
    compare(world, 'never-seen', fresh, seen, CPU, (a, b) => a - b)
    compare(world, 'forged', forged, unit)
  })
  await measureInTurn(world)
}

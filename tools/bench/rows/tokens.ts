// What verification costs: a token seen before, tokens never seen, tokens signed by somebody else.
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { makeFolder } from '../../../test/support/server-process.ts'
import { CPU, compare, interleave, requests, type Subject } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { startRelay } from '../peers/others.ts'
import { type Peer, probed } from '../peers/peer.ts'
import { createSecret, createSigner } from '../tokens.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

/** More than can be answered; a subject that answers more voids its round. */
const FRESH_PER_SECOND = 40_000
const FORGED_PER_SECOND = 90_000

/** Lines `path token`, with distinct tokens. */
async function* poolOf(count: number, secret: string) {
  const sign = createSigner(secret)
  for (let written = 0; written < count; written += 1000) {
    const tokens = await Promise.all(Array.from({ length: 1000 }, sign))
    yield tokens.map(token => `${BENCH_PATH} ${token}\n`).join('')
  }
}

/** Each token once. */
const distinct = async (world: World, peer: Peer, name: string, secret: string, most: number): Promise<Subject> => {
  const pool = join(makeFolder(world, 'pool'), 'tokens')
  const load = async (seconds: number) => {
    await pipeline(poolOf(seconds * most, secret), createWriteStream(pool))
    return { url: `http://127.0.0.1:${peer.port}`, pool }
  }
  return { name, peer, load, isFresh: true }
}

export const measureTokens = async (world: World): Promise<void> => {
  world.notes.push('every token of the second and third row is sent once only')
  const gateway = await startGateway(world)
  const relay = await startRelay(world)
  await probed(world, [gateway], async () => {
    const [seen, fresh, forged, unit] = await interleave(world, [
      requests(world, gateway, { name: 'known token' }),
      await distinct(world, gateway, 'token never seen before', world.secret, FRESH_PER_SECOND),
      { ...(await distinct(world, gateway, 'forged token', createSecret(), FORGED_PER_SECOND)), isRefused: true },
      requests(world, relay)
    ])
    compare(world, 'never-seen', fresh, seen, CPU, (a, b) => a - b)
    compare(world, 'forged', forged, unit)
  })
}

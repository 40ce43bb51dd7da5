// What verification costs: a token seen before, tokens never seen, tokens signed by somebody else.
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { compared, type GroupResult, probed, startOrNote } from '../group.ts'
import { interleave, type Subject, toRow } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import type { Peer } from '../peers/peer.ts'
import { createSecret, sign } from '../tokens.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

/** More than can be answered; a subject that answers more voids its round. */
const FRESH_PER_SECOND = 40_000
const FORGED_PER_SECOND = 90_000

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

const subjects = async (world: World, peer: Peer): Promise<Subject[]> => {
  const folder = await world.folder('pools')
  const url = `http://127.0.0.1:${peer.port}`
  const knownPool = join(folder, 'known')
  await writePool(knownPool, 1, world.secret)
  const distinct = (name: string, secret: string, perSecond: number) => async (_: number, seconds: number) => {
    const pool = join(folder, name)
    await writePool(pool, seconds * perSecond, secret)
    return { url, pool }
  }
  return [
    { name: 'known token', peer, load: () => ({ url, pool: knownPool }) },
    { name: 'token never seen before', peer, isFresh: true, load: distinct('fresh', world.secret, FRESH_PER_SECOND) },
    {
      name: 'forged token',
      peer,
      isFresh: true,
      isRefused: true,
      load: distinct('forged', createSecret(), FORGED_PER_SECOND)
    }
  ]
}

export const measureTokens = async (world: World): Promise<GroupResult> => {
  const notes = ['every token of the second and third row is sent once only']
  const routes = oneRoute(world.upstream.checkedPort)
  const gateway = await startOrNote('Portaria', notes, () =>
    startGateway(world, { name: 'Portaria', counting: 'redis', routes })
  )
  if (gateway === undefined) return { rows: [], findings: [], notes }
  return probed(world, [gateway], BENCH_PATH, async () => {
    const all = await interleave(world, await subjects(world, gateway))
    const [known, fresh, forged] = all.map(samples => samples.cpuMicros)
    return {
      rows: all.map(toRow),
      findings: [...compared('never-seen', fresh, known, (a, b) => a - b), ...compared('forged', forged, known)],
      notes
    }
  })
}

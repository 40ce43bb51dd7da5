// What verification costs: a token seen before, tokens never seen, tokens signed by somebody else.
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { compared, type GroupResult, probed, startOrNote } from '../group.ts'
import { interleave, MEGABYTE, type Subject, toRow } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import type { Peer } from '../peers/peer.ts'
import { startRelay } from '../peers/relay.ts'
import { residentBytes } from '../process-cost.ts'
import { createSecret, sign } from '../tokens.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'
import { known } from './http.ts'

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

const IN_TURN = 20_000

/** A process of its own: memory that other tokens have left behind would hide what these take. */
const measureInTurn = async (world: World, routes: string): Promise<GroupResult> => {
  const peer = await startGateway(world, { name: 'Portaria', counting: 'redis', routes })
  const url = `http://127.0.0.1:${peer.port}`
  const folder = await world.folder('pools')
  const pools = { one: join(folder, 'one'), many: join(folder, 'many') }
  await writePool(pools.one, 1, world.secret)
  await writePool(pools.many, IN_TURN, world.secret)
  const one = { name: 'one token, other process', peer, load: () => ({ url, pool: pools.one }) }
  const many = { name: `${IN_TURN} tokens in turn`, peer, load: () => ({ url, pool: pools.many }) }
  await interleave(world, [one])
  const before = residentBytes(peer.running.pid)
  const all = await interleave(world, [one, many])
  const growth = (residentBytes(peer.running.pid) - before) / MEGABYTE
  await peer.running.stop()
  return {
    rows: all.map(toRow),
    findings: [
      ...compared('tokens-in-turn', all[1]?.cpuMicros, all[0]?.cpuMicros),
      { target: 'tokens-memory', value: growth }
    ],
    notes: []
  }
}

export const measureTokens = async (world: World): Promise<GroupResult> => {
  const notes = ['every token of the second and third row is sent once only']
  const routes = oneRoute(world.upstream.checkedPort)
  const gateway = await startOrNote('Portaria', notes, () =>
    startGateway(world, { name: 'Portaria', counting: 'redis', routes })
  )
  if (gateway === undefined) return { rows: [], findings: [], notes }
  const relay = await startOrNote('relay', notes, () => startRelay(world))
  const measured = await probed(world, [gateway], BENCH_PATH, async () => {
    const ours = await subjects(world, gateway)
    const all = await interleave(world, relay === undefined ? ours : [...ours, known(world, relay)])
    const [seen, fresh, forged, unit] = all.map(samples => samples.cpuMicros)
    return {
      rows: all.map(toRow),
      findings: [...compared('never-seen', fresh, seen, (a, b) => a - b), ...compared('forged', forged, unit)],
      notes
    }
  })
  const inTurn = await measureInTurn(world, routes)
  return {
    rows: [...measured.rows, ...inTurn.rows],
    findings: [...measured.findings, ...inTurn.findings],
    notes
  }
}

// What ten thousand routes cost: a request among them, and a reload of them while requests pass.
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { compared, type GroupResult, probed } from '../group.ts'
import { interleave, interleaveFresh, type Row, type Subject, toRow } from '../measure.ts'
import { type PacedResult, runPaced } from '../paced.ts'
import { type Gateway, startGateway } from '../peers/gateway.ts'
import { ask, VoidRun } from '../peers/peer.ts'
import { spread } from '../statistics.ts'
import { WHO_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

const FEW = 10
const MANY = 10_000
const PACED_RATE = 1000

const pathOf = (index: number) => `/api/service-${index}`

/** `count` routes: the one that tells who asks, and prefixes of Admins. */
const routeFile = (upstreamPort: number, count: number): string => {
  const paths = [WHO_PATH, ...Array.from({ length: count - 1 }, (_, index) => `${pathOf(index)}/*`)]
  const routes = paths.map(path => `  - path: ${path}\n    upstream: app\n    roles: [Admin]\n`)
  return `upstreams:\n  app:\n    url: http://127.0.0.1:${upstreamPort}\nroutes:\n${routes.join('')}`
}

/** Requests spread evenly over all routes, in a shuffled order that is the same in every run. */
const subject = async (world: World, gateway: Gateway, count: number): Promise<Subject> => {
  const pool = join(await world.folder('pool'), 'paths')
  const stride = 7919
  const lines = Array.from(
    { length: MANY },
    (_, index) => `${pathOf((index * stride) % (count - 1))}/item ${world.token}\n`
  )
  await writeFile(pool, lines.join(''))
  return { name: gateway.name, peer: gateway, load: () => ({ url: `http://127.0.0.1:${gateway.port}`, pool }) }
}

interface Reload {
  readonly tookMs: number
  readonly load: PacedResult
}

/** Adds a route by replacing the file, asks for a reload, and waits for its first answer; paced requests go on. */
const reloadOnce = async (world: World, gateway: Gateway, round: number): Promise<Reload> => {
  const load = runPaced({
    port: gateway.port,
    path: `${pathOf(0)}/item`,
    token: world.token,
    rate: PACED_RATE,
    seconds: 5,
    skip: 1
  })
  const failed = load.then(
    () => undefined,
    error => error
  )
  await delay(2000)
  const added = pathOf(MANY + round)
  const beside = join(await world.folder('reload'), 'routes.yaml')
  await writeFile(beside, `${routeFile(world.upstream.checkedPort, MANY)}  - path: ${added}\n    upstream: app\n`)
  const startedAt = performance.now()
  await rename(beside, gateway.routeFile)
  gateway.running.signal('SIGHUP')
  while ((await ask(gateway.port, added, world.token)).status !== 200) {
    if (performance.now() - startedAt > 20_000) throw new VoidRun('the changed routes were not loaded in 20 s')
    await delay(2)
  }
  const tookMs = performance.now() - startedAt
  const error = await failed
  if (error !== undefined) throw error
  return { tookMs, load: await load }
}

const measureReload = async (world: World, gateway: Gateway): Promise<GroupResult> => {
  const reloads: Reload[] = []
  for (let round = 0; round < world.options.rounds; round += 1) reloads.push(await reloadOnce(world, gateway, round))
  const failures = reloads.reduce((sum, reload) => sum + reload.load.failed, 0)
  if (failures > 0) throw new VoidRun(`${failures} requests failed during a reload`)

  const tookMs = spread(reloads.map(reload => reload.tookMs))
  const slowestMs = spread(reloads.map(reload => reload.load.maxMs))
  const row: Row = {
    name: `reload of ${MANY} routes`,
    columns: { ms: tookMs, 'p99 ms': spread(reloads.map(reload => reload.load.p99Ms)), 'slowest ms': slowestMs }
  }
  return {
    rows: [row],
    findings: [
      { target: 'reload-time', value: tookMs },
      { target: 'reload-stall', value: slowestMs }
    ],
    notes: [
      `reload: from the replaced file (and SIGHUP) to the first answer by a new route, beside ${PACED_RATE} paced requests/s`
    ]
  }
}

export const measureRoutes = async (world: World): Promise<GroupResult> => {
  const start = (count: number) => {
    const routes = routeFile(world.upstream.checkedPort, count)
    return startGateway(world, { name: `${count} routes`, counting: 'memory', routes })
  }
  let last: Gateway | undefined
  const all = await interleaveFresh(world, async (oneRound, isLast) => {
    const pair = [await start(FEW), await start(MANY)] as const
    const samples = await probed(world, pair, `${pathOf(0)}/item`, async () =>
      interleave(oneRound, [await subject(world, pair[0], FEW), await subject(world, pair[1], MANY)])
    )
    await pair[0].running.stop()
    if (isLast) last = pair[1]
    else await pair[1].running.stop()
    return samples
  })
  const many = last ?? (await start(MANY))
  const reload = await probed(world, [many], `${pathOf(0)}/item`, () => measureReload(world, many))
  return {
    rows: [...all.map(toRow), ...reload.rows],
    findings: [...compared('many-routes', all[1]?.cpuMicros, all[0]?.cpuMicros), ...reload.findings],
    notes: [`every round of ${FEW} and ${MANY} routes is one of new processes`, ...reload.notes]
  }
}

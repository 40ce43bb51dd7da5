// Runs cells of the matrix through two gateways, one lane beside the other, and says what went wrong.
import http from 'node:http'
import https from 'node:https'
import type { Test } from 'tap'
import { isAlive, routeFile, startGatewayProcess } from '../../test/support/gateway-process.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { makeFolder, memoryKb } from '../../test/support/server-process.ts'
import { until } from '../../test/support/until.ts'
import { busyBodies } from './answer.ts'
import { startBackends } from './backend.ts'
import { BACKENDS, type Cell, type Lane, lanes, nameOf } from './cells.ts'
import { exchangeBody, type Origin } from './exchange.ts'

/** Backends have to hear of clients that have left. */
const LEAVING_MS = 10_000

/** A response that begins while the body is still arriving ends the client's connection. */
const keepsClient = ({ direction, reader }: Cell): boolean => direction !== 'both' && reader !== 'leaves'

const keepsBackend = ({ framing, reader }: Cell): boolean => framing !== 'close' && reader !== 'leaves'

/** A receiver that leaves an upload has not answered it. */
const wantedStatus = ({ direction, reader }: Cell): number => (direction === 'up' && reader === 'leaves' ? 502 : 200)

const runLane = async ({ cells }: Lane, origin: Origin): Promise<string[]> => {
  const faults: string[] = []
  let before: { cell: Cell; connection: number | undefined } | undefined
  for (const cell of cells) {
    const { status, broke, connection, isSameClient, ...outcome } = await exchangeBody(cell, `/${cell.backend}`, origin)
    const found = [...outcome.faults]
    if (broke !== undefined) found.push(broke)
    else if (status !== wantedStatus(cell)) found.push(`status ${status} instead of ${wantedStatus(cell)}`)
    // Another connection of the client may be at another worker, which has connections of its own.
    if (before !== undefined && keepsClient(before.cell) && !isSameClient)
      found.push('the connection of the client was not kept')
    if (before !== undefined && keepsBackend(before.cell) && isSameClient && connection !== before.connection)
      found.push('the connection to the backend was not reused')
    faults.push(...found.map(fault => `${nameOf(cell)}: ${fault}`))
    before = { cell, connection }
  }
  return faults
}

const KEPT = { keepAlive: true, maxSockets: 1 }

/** Two gateways with so many workers each, one of them with TLS, and what they forward to. */
export const startMatrix = async (t: Pick<Test, 'teardown'>, workers: number) => {
  const { backends, ca, caFile, tls } = await startBackends(t, makeFolder(t, 'matrix'))
  const upstreams = Object.fromEntries(
    BACKENDS.map(kind => [kind, { url: backends[kind].url, ...(kind === 'https' ? { caFile } : {}) }])
  )
  const routes = BACKENDS.map(kind => ({ path: `/${kind}/:id`, upstream: kind, public: true }))
  const { folder } = routeFile(t, { upstreams, routes })
  const redis = workers > 1 ? { REDIS_URL: (await startRedis(t)).url } : {}
  const env = { DATABASE_URL: (await startPostgres(t)).url, ...redis, WORKERS: `${workers}` }
  const gateways = {
    plain: await startGatewayProcess(t, folder, env),
    tls: await startGatewayProcess(t, folder, { ...env, ...tls })
  }
  const running = Object.values(gateways)
  const pids = running.flatMap(gateway => (workers > 1 ? gateway.workers() : [gateway.pid]))
  const before = new Map(pids.map(pid => [pid, memoryKb(pid, 'VmRSS')]))

  /** The number of cells, their faults, each with the name of its cell, and by how much the largest process has grown at its peak since the start. */
  const run = async (wanted: (cell: Cell) => boolean) => {
    const wantedLanes = lanes(wanted)
    const results = await Promise.all(
      wantedLanes.map(lane => {
        const isTls = lane.client === 'tls'
        const agent = isTls ? new https.Agent({ ...KEPT, ca }) : new http.Agent(KEPT)
        return runLane(lane, { port: gateways[lane.client].port, isTls, agent }).finally(() => agent.destroy())
      })
    )
    const faults = results.flat()
    if (!pids.every(isAlive)) faults.push(`a process ended: ${running.map(({ stderr }) => stderr()).join()}`)
    await until(() => busyBodies().length === 0, '', LEAVING_MS).catch(() =>
      faults.push(`still busy: ${JSON.stringify(busyBodies())}`)
    )
    const grown = pids.map(pid => (memoryKb(pid, 'VmHWM') - (before.get(pid) ?? 0)) / 1024)
    return { cells: wantedLanes.reduce((sum, { cells }) => sum + cells.length, 0), faults, grownMb: Math.max(...grown) }
  }
  return { run }
}

// Runs the cells of the matrix through two gateways, one lane beside the other, and says what went wrong.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { createCertificateAuthority } from '../../test/support/certificates.ts'
import { baseEnv, type GatewayProcess, isAlive, spawnGateway } from '../../test/support/gateway-process.ts'
import { accepts, freePort } from '../../test/support/ports.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { until } from '../../test/support/until.ts'
import { type Backend, startBackend } from './backend.ts'
import { type BackendKind, type Cell, type Lane, lanes, nameOf } from './cells.ts'
import { type Origin, runCell } from './exchange.ts'

export interface MatrixResult {
  readonly cells: number
  /** Each with the name of its cell. */
  readonly faults: readonly string[]
  /** By how much the largest process has grown at its peak. */
  readonly grownMb: number
}

interface MatrixOptions {
  readonly workers: number
  readonly wanted: (cell: Cell) => boolean
}

/** Backends have to hear of clients that have left. */
const LEAVING_MS = 10_000

const BACKENDS = ['http', 'https', 'unix'] as const

const memoryMb = (pid: number, field: 'VmHWM' | 'VmRSS'): number => {
  if (!isAlive(pid)) return 0
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0) / 1024
}

/** A response that begins while the body is still arriving ends the client's connection. */
const keepsClient = ({ direction, reader }: Cell): boolean => direction !== 'both' && reader !== 'leaves'

const keepsBackend = ({ framing, reader }: Cell): boolean => framing !== 'close' && reader !== 'leaves'

const runLane = async (lane: Lane, origin: Origin, backend: Backend): Promise<string[]> => {
  const faults: string[] = []
  let before: { cell: Cell; connection: number | undefined } | undefined
  for (const cell of lane.cells) {
    const outcome = await runCell(cell, origin, backend)
    const found = [...outcome.faults]
    // Another connection of the client may be at another worker, which has connections of its own.
    if (before !== undefined && keepsClient(before.cell) && !outcome.isSameClient)
      found.push('the connection of the client was not kept')
    if (
      before !== undefined &&
      keepsBackend(before.cell) &&
      outcome.isSameClient &&
      outcome.connection !== before.connection
    )
      found.push('the connection to the backend was not reused')
    faults.push(...found.map(fault => `${nameOf(cell)}: ${fault}`))
    before = { cell, connection: outcome.connection }
  }
  return faults
}

const KEPT = { keepAlive: true, maxSockets: 1 }

/** @param ca of the certificate, for clients that speak TLS */
const startOrigin = async (t: Pick<Test, 'teardown'>, env: Record<string, string>, ca?: string) => {
  const port = await freePort()
  const gateway = spawnGateway(t, { ...env, PORT: String(port), LOG_LEVEL: 'warn' })
  await until(
    () => accepts(port),
    () => `the gateway listens: ${gateway.stdout()}${gateway.stderr()}`
  )
  const agent = () => (ca === undefined ? new http.Agent(KEPT) : new https.Agent({ ...KEPT, ca }))
  return { port, isTls: ca !== undefined, agent, gateway }
}

const startGateways = async (t: Pick<Test, 'teardown'>, folder: string, workers: number) => {
  const { ca, issue } = createCertificateAuthority(folder)
  const { certFile, keyFile } = issue('gateway')
  const { url } = await startPostgres(t)
  const redis = workers > 1 ? { REDIS_URL: (await startRedis(t)).url } : {}
  const env = { ...baseEnv(folder), DATABASE_URL: url, ...redis, WORKERS: String(workers) }
  const plain = await startOrigin(t, env)
  return { plain, tls: await startOrigin(t, { ...env, TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }, ca) }
}

const processesOf = (gateways: readonly GatewayProcess[], workers: number): number[] =>
  gateways.flatMap(gateway => (workers > 1 ? gateway.workers() : [gateway.pid]))

const temporaryFolder = (t: Pick<Test, 'teardown'>): string => {
  const folder = mkdtempSync(join(tmpdir(), 'portaria-matrix-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export const runMatrix = async (t: Pick<Test, 'teardown'>, options: MatrixOptions): Promise<MatrixResult> => {
  const { workers, wanted } = options
  const [folder, certificates] = [temporaryFolder(t), temporaryFolder(t)]
  const authority = createCertificateAuthority(certificates)
  const issued = authority.issue('backend')
  const pem = { key: readFileSync(issued.keyFile, 'utf8'), cert: readFileSync(issued.certFile, 'utf8') }
  const backends = {} as Record<BackendKind, Backend>
  for (const kind of BACKENDS) backends[kind] = await startBackend(kind, certificates, pem)
  t.teardown(() => {
    for (const backend of Object.values(backends)) backend.close()
  })
  const upstreams = Object.fromEntries(
    BACKENDS.map(kind => [kind, { url: backends[kind].url, ...(kind === 'https' ? { caFile: authority.caFile } : {}) }])
  )
  const routes = BACKENDS.map(kind => ({ path: `/${kind}/:id`, upstream: kind, public: true }))
  writeFileSync(join(folder, 'routes.yaml'), stringify({ upstreams, routes }))
  const gateways = await startGateways(t, folder, workers)
  const running = [gateways.plain.gateway, gateways.tls.gateway]
  const pids = processesOf(running, workers)
  const before = new Map(pids.map(pid => [pid, memoryMb(pid, 'VmRSS')]))

  const wantedLanes = lanes(wanted)
  const results = await Promise.all(
    wantedLanes.map(lane => {
      const { agent, ...origin } = gateways[lane.client]
      const own = agent()
      return runLane(lane, { ...origin, agent: own }, backends[lane.backend]).finally(() => own.destroy())
    })
  )
  const faults = results.flat()
  if (!pids.every(isAlive)) faults.push(`a process ended: ${running.map(({ stderr }) => stderr()).join()}`)
  await until(() => Object.values(backends).every(backend => backend.busy().length === 0), '', LEAVING_MS).catch(() =>
    faults.push(`still busy: ${Object.values(backends).flatMap(({ busy }) => busy().map(nameOf))}`)
  )
  const grown = pids.map(pid => memoryMb(pid, 'VmHWM') - (before.get(pid) ?? 0))
  return { cells: wantedLanes.reduce((sum, { cells }) => sum + cells.length, 0), faults, grownMb: Math.max(...grown) }
}

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { createCertificateAuthority } from '../../test/support/certificates.ts'
import { TEST_SECRET } from '../../test/support/gateway.ts'
import { type GatewayProcess, isAlive, spawnGateway } from '../../test/support/gateway-process.ts'
import { accepts, freePorts } from '../../test/support/ports.ts'
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
  /** Called after each cell. */
  readonly onCell?: (done: number) => void
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

const runLane = async (lane: Lane, origin: Origin, backend: Backend, onCell: () => void): Promise<string[]> => {
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
    onCell()
  }
  return faults
}

const startGateways = async (t: Pick<Test, 'teardown'>, folder: string, routes: object, workers: number) => {
  const authority = createCertificateAuthority(folder)
  const files = authority.issue('gateway')
  writeFileSync(join(folder, 'routes.yaml'), stringify(routes))
  const postgres = await startPostgres(t)
  const redis = workers > 1 ? await startRedis(t) : undefined
  const [plainPort = 0, tlsPort = 0] = await freePorts(2)
  const env = {
    JWT_SECRET: TEST_SECRET,
    DATABASE_URL: postgres.url,
    ...(redis === undefined ? {} : { REDIS_URL: redis.url }),
    UPSTREAM_CONFIG: folder,
    RATE_LIMIT_MAX: '1000000',
    HOST: '127.0.0.1',
    LOG_LEVEL: 'warn',
    WORKERS: String(workers)
  }
  const tls = { TLS_CERT_FILE: files.certFile, TLS_KEY_FILE: files.keyFile }
  const agents = {
    plain: () => new http.Agent({ keepAlive: true, maxSockets: 1 }),
    tls: () => new https.Agent({ keepAlive: true, maxSockets: 1, ca: authority.ca })
  }
  return {
    plain: {
      port: plainPort,
      isTls: false,
      agent: agents.plain,
      gateway: spawnGateway(t, { ...env, PORT: String(plainPort) })
    },
    tls: {
      port: tlsPort,
      isTls: true,
      agent: agents.tls,
      gateway: spawnGateway(t, { ...env, ...tls, PORT: String(tlsPort) })
    }
  }
}

const processesOf = (gateways: readonly GatewayProcess[], workers: number): number[] =>
  gateways.flatMap(gateway => (workers > 1 ? gateway.workers() : [gateway.pid]))

export const runMatrix = async (t: Pick<Test, 'teardown'>, options: MatrixOptions): Promise<MatrixResult> => {
  const { workers, wanted, onCell } = options
  const folder = mkdtempSync(join(tmpdir(), 'portaria-matrix-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const certificates = mkdtempSync(join(tmpdir(), 'portaria-matrix-ca-'))
  t.teardown(() => rmSync(certificates, { recursive: true, force: true }))
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
  const gateways = await startGateways(t, folder, { upstreams, routes }, workers)
  const running = [gateways.plain.gateway, gateways.tls.gateway]
  for (const { gateway, port } of Object.values(gateways))
    await until(
      () => accepts(port),
      () => `the gateway listens: ${gateway.stdout()}${gateway.stderr()}`
    )
  const pids = processesOf(running, workers)
  const before = new Map(pids.map(pid => [pid, memoryMb(pid, 'VmRSS')]))

  const wantedLanes = lanes(wanted)
  let done = 0
  const results = await Promise.all(
    wantedLanes.map(lane => {
      const { agent, ...origin } = gateways[lane.client]
      const own = agent()
      const count = () => onCell?.(++done)
      return runLane(lane, { ...origin, agent: own }, backends[lane.backend], count).finally(() => own.destroy())
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

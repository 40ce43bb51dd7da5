// Starts two gateways of the soak, one with TLS, before one Postgres, one Redis and three backends, and lists what breaks them.
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type GatewayProcess, isAlive, routeFile, startGatewayProcess } from '../../test/support/gateway-process.ts'
import { startOwnPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { makeFolder, memoryKb } from '../../test/support/server-process.ts'
import { until } from '../../test/support/until.ts'
import { type Backend, startBackends } from '../matrix/backend.ts'
import type { BackendKind } from '../matrix/cells.ts'
import type { Left } from './probe.ts'

/** Of a gateway, after a full collection. */
export type Sample = Awaited<ReturnType<typeof sample>>
export type SoakGateway = Awaited<ReturnType<typeof startSoakWorld>>['gateways'][number]

export interface Trouble {
  readonly name: string
  strike(): unknown
  heal(): unknown
}

/** A collection and a line of JSON, on a machine that does much else and with stores that are away. */
const SAMPLE_MS = 180_000

type Backends = Readonly<Record<BackendKind, Backend>>

/** Each revision has a route of its own, and one of the upstreams in another form. */
const routesOf = (backends: Backends, caFile: string, revision: number) => ({
  upstreams: {
    back: { url: backends.http.url },
    tls: { url: backends.https.url, caFile, serverName: 'localhost', idleTimeout: `${60 + (revision % 2)}s` },
    unix: {
      url: backends.unix.url,
      ...(revision % 3 === 0 ? { requestHeaders: { set: { 'x-revision': `${revision}` } } } : {})
    }
  },
  routes: [
    { path: '/open/*', upstream: 'back', public: true },
    { path: '/app/*', upstream: 'back' },
    { path: '/admins/*', upstream: 'back', roles: ['Admin'] },
    { path: '/http/*', upstream: 'back', public: true },
    { path: '/https/*', upstream: 'tls', public: true },
    { path: '/unix/*', upstream: 'unix', public: true },
    { path: '/ws', upstream: 'back', websocket: {} },
    { path: '/socket.io/*', upstream: 'back', socketio: { namespaces: { '/chat': {} } } },
    { path: `/revision-${revision}`, upstream: 'back' }
  ]
})

export const startSoakWorld = async (t: Pick<Test, 'teardown'>) => {
  const folder = makeFolder(t, 'soak')
  const [postgres, redis] = await Promise.all([startOwnPostgres(t), startRedis(t)])
  const { backends, caFile, tls } = await startBackends(t, folder, { variesRecords: true })
  const each = (act: (backend: Backend) => unknown) => () => Promise.all(Object.values(backends).map(act))
  const routes = routeFile(t, routesOf(backends, caFile, 0))

  const start = async (name: string, env: Record<string, string>) => {
    const leftFile = join(folder, `left-${name}.json`)
    const gateway = await startGatewayProcess(t, routes.folder, {
      DATABASE_URL: postgres.url,
      REDIS_URL: redis.url,
      SOAK_LEFT: leftFile,
      NODE_OPTIONS: `--max-semi-space-size=8 --expose-gc --disable-warning=ExperimentalWarning --import=${join(import.meta.dirname, 'probe.ts')}`,
      ...env
    })
    const { port } = gateway
    return { name, port, isTls: 'TLS_CERT_FILE' in env, process: gateway, sample: () => sample(gateway, leftFile) }
  }
  const gateways = [await start('plain', {}), await start('tls', tls)]

  let revision = 0
  const reload = () => {
    routes.write(routesOf(backends, caFile, ++revision))
    for (const { process } of gateways) process.signal('SIGHUP')
  }
  const troubles: Trouble[] = [
    { name: 'routes reloaded', strike: reload, heal: () => undefined },
    { name: 'backends gone', strike: each(backend => backend.stop()), heal: each(backend => backend.start()) },
    { name: 'connections of backends reset', strike: each(backend => backend.reset()), heal: () => undefined },
    { name: 'Redis frozen', strike: redis.freeze, heal: redis.thaw },
    { name: 'Redis gone', strike: redis.kill, heal: redis.restart },
    { name: 'Postgres frozen', strike: postgres.freeze, heal: postgres.thaw },
    { name: 'Postgres gone', strike: postgres.kill, heal: postgres.start }
  ]
  return { gateways, troubles }
}

const sample = async ({ pid, signal }: GatewayProcess, leftFile: string) => {
  rmSync(leftFile, { force: true })
  signal('SIGUSR2')
  const read = (): Left | undefined => {
    try {
      return JSON.parse(readFileSync(leftFile, 'utf8')) as Left
    } catch {
      return undefined
    }
  }
  await until(() => read() !== undefined || !isAlive(pid), 'the gateway tells what is left', SAMPLE_MS)
  if (!isAlive(pid)) throw new Error('the gateway has ended')
  const { heapMb, handles } = read() ?? { heapMb: 0, handles: 0 }
  return { rssMb: memoryKb(pid, 'VmRSS') / 1000, heapMb, handles, fds: readdirSync(`/proc/${pid}/fd`).length }
}

/** Allocators and caches that fill up are no leak; a leak of an hour is far beyond this. */
const ALLOWED: Readonly<Record<keyof Sample, (before: number) => number>> = {
  rssMb: before => before * 1.25 + 20,
  heapMb: before => before * 1.15 + 5,
  handles: before => before + 8,
  fds: before => before + 8
}

/** What grew by more than may be; empty: flat. */
export const growthOf = (before: Sample, after: Sample): string[] =>
  (Object.keys(ALLOWED) as (keyof Sample)[])
    .filter(name => after[name] > ALLOWED[name](before[name]))
    .map(name => `${name} grew from ${before[name].toFixed(1)} to ${after[name].toFixed(1)}`)

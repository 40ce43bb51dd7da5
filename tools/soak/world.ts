// Two gateways of the soak before one Postgres, one Redis and three backends: one speaks TLS; what breaks them in turn.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCertificateAuthority } from '../../test/support/certificates.ts'
import { baseEnv, type GatewayProcess, isAlive, routeFile, spawnGateway } from '../../test/support/gateway-process.ts'
import { startOwnPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { until } from '../../test/support/until.ts'
import { type SoakBackend, startSoakBackend } from './backend.ts'
import type { BODY_BACKENDS } from './bodies.ts'
import type { Left } from './probe.ts'
import type { Place } from './traffic.ts'

export interface Sample {
  readonly rssMb: number
  readonly heapMb: number
  readonly handles: number
  readonly fds: number
}

export interface SoakGateway extends Place {
  readonly process: GatewayProcess
  /** After a full collection. */
  sample(): Promise<Sample>
}

export interface Trouble {
  readonly name: string
  strike(): unknown
  heal(): unknown
}

/** A collection and a line of JSON, on a machine that does much else and with stores that are away. */
const SAMPLE_MS = 180_000
const START_MS = 180_000

interface Teardown {
  teardown(action: () => unknown): unknown
}

/** By the scheme under which they are reached. */
type Backends = Readonly<Record<(typeof BODY_BACKENDS)[number], SoakBackend>>

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

export const startSoakWorld = async (t: Teardown) => {
  const folder = mkdtempSync(join(tmpdir(), 'portaria-soak-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const [postgres, redis] = await Promise.all([startOwnPostgres(t), startRedis(t)])
  const authority = createCertificateAuthority(folder)
  const certificate = authority.issue('gateway')
  const ofBackend = authority.issue('backend')
  const pem = { key: readFileSync(ofBackend.keyFile, 'utf8'), cert: readFileSync(ofBackend.certFile, 'utf8') }
  const backends: Backends = {
    http: await startSoakBackend(t, { at: 0, certificate: undefined }),
    https: await startSoakBackend(t, { at: 0, certificate: pem }),
    unix: await startSoakBackend(t, { at: join(folder, 'backend.sock'), certificate: undefined })
  }
  const each = (act: (backend: SoakBackend) => unknown) => () => Promise.all(Object.values(backends).map(act))
  const routes = routeFile(t, routesOf(backends, authority.caFile, 0))

  const start = async (name: string, env: Record<string, string>): Promise<SoakGateway> => {
    const leftFile = join(folder, `left-${name}.json`)
    const gateway = spawnGateway(t, {
      ...baseEnv(routes.folder),
      PORT: '0',
      DATABASE_URL: postgres.url,
      REDIS_URL: redis.url,
      SOAK_LEFT: leftFile,
      NODE_OPTIONS: `--max-semi-space-size=8 --expose-gc --disable-warning=ExperimentalWarning --import=${join(import.meta.dirname, 'probe.ts')}`,
      ...env
    })
    const said = () => gateway.stdout().includes('"listening"')
    await until(() => said() || !isAlive(gateway.pid), 'the gateway listens', START_MS)
    const port = Number((await gateway.logged('listening')).port)
    return { name, port, isTls: 'TLS_CERT_FILE' in env, process: gateway, sample: () => sample(gateway, leftFile) }
  }
  const tls = { TLS_CERT_FILE: certificate.certFile, TLS_KEY_FILE: certificate.keyFile }
  const gateways = [await start('plain', {}), await start('tls', tls)]

  let revision = 0
  const reload = () => {
    routes.write(routesOf(backends, authority.caFile, ++revision))
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

const sample = async ({ pid, signal }: GatewayProcess, leftFile: string): Promise<Sample> => {
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
  const rssKb = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  return { rssMb: rssKb / 1000, heapMb, handles, fds: readdirSync(`/proc/${pid}/fd`).length }
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

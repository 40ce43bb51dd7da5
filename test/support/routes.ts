// Makes targets, upstreams, routes and people as a table and a token hold them, and the content of a route file of one backend.
import type { User } from '../../gateway/identity.ts'
import { ROUTE_DEFAULTS, type Route } from '../../gateway/routes/route.ts'
import type { HealthCheck, Target, Upstream } from '../../gateway/routes/upstream.ts'

const PLACE = { file: 'test', line: 1, column: 1 }

export const targetAt = (port: number): Target => ({
  url: `http://127.0.0.1:${port}`,
  tls: false,
  host: '127.0.0.1',
  port,
  socketPath: undefined,
  authority: `127.0.0.1:${port}`
})

export const upstreamAt = (...ports: number[]): Upstream => ({
  name: 'backend',
  targets: ports.map(targetAt),
  timeoutMs: 2000,
  idleTimeoutMs: 2000,
  connectTimeoutMs: 1000,
  requestBufferBytes: 65536,
  ca: undefined,
  clientCertificate: undefined,
  serverName: undefined,
  preserveHost: false,
  assertion: false,
  sharedCache: false,
  requestHeaders: undefined,
  responseHeaders: undefined,
  identityHeaders: undefined,
  healthCheck: undefined,
  outlier: { errors: 5, restMs: 10_000 },
  maxConnections: undefined,
  queue: undefined,
  place: PLACE
})

export const HEALTH_CHECK: HealthCheck = {
  path: '/up',
  intervalMs: 1000,
  timeoutMs: 1000,
  status: { from: 200, to: 399 },
  host: undefined,
  rise: 1,
  fall: 2
}

/** As in a route table. */
export const inUse = (...upstreams: Upstream[]) => ({ upstreams: new Map(upstreams.map(one => [one.name, one])) })

export const routeAt = (path: string, upstream: Upstream, more: Partial<Route> = {}): Route => ({
  ...ROUTE_DEFAULTS,
  coversBelow: path.endsWith('/*'),
  id: path,
  path,
  upstream,
  place: PLACE,
  ...more
})

/** The content of a route file whose routes all lead to one backend, except external ones. @param backend its address, or all of it */
export const routesTo = <T extends object>(backend: string | object, routes: readonly T[]) => ({
  upstreams: { raw: typeof backend === 'string' ? { url: backend } : backend },
  routes: routes.map((route): T => ('external' in route ? route : { upstream: 'raw', ...route }))
})

export const person = (more: Partial<User> = {}): User => {
  const profiles = more.profiles ?? ['Agente']
  return {
    id: 7,
    name: 'Maria Souza',
    email: 'maria@corp.example',
    username: 'maria',
    provider: 'ldap',
    perfis: profiles,
    profiles,
    areas: ['Geral'],
    areaPrincipal: 'Geral',
    accessStatus: 'assigned',
    ...more
  }
}

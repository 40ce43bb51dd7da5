// Shows Admins the state of the gateway, its upstreams and its stores, and the traffic of the last hour.
import type { FastifyInstance } from 'fastify'
import { isUnwell, type Known } from '../observe/health.ts'
import type { TrafficPoint } from '../observe/traffic.ts'
import { array, boolean, integer, object, optional, string } from './admin-schemas.ts'
import { readTime, timeProperty } from './query-times.ts'

/** Each is read on demand, so none may be expensive. Times given as numbers are ms since the epoch. */
interface StatusParts extends Pick<Known, 'upstreams' | 'limiter' | 'routes' | 'audit' | 'revocations' | 'streams'> {
  checks: () => Promise<Readonly<Record<string, string>>>
  startedAt: Date
  /** Names of settings. */
  insecure: readonly string[]
}

export interface StatusRoutesParts {
  status: {
    ask: () => Promise<Status>
    /** @param since ms since the epoch */
    traffic: { stepMs: number; since: (since: number) => Promise<readonly TrafficPoint[]> }
  }
}

export type Status = Awaited<ReturnType<typeof statusOf>>

const iso = (ms: number): string => new Date(ms).toISOString()

/** Of this process, in a form that JSON can represent. */
export const statusOf = async (parts: StatusParts) => {
  const checks = await parts.checks()
  const limiter = parts.limiter()
  const { ok, loadedAt, checksum, count, lastError = [] } = parts.routes()
  const audit = parts.audit()
  return {
    status: Object.values(checks).some(isUnwell) ? 'degraded' : 'ok',
    checks,
    startedAt: parts.startedAt.toISOString(),
    upstreams: parts.upstreams().map(({ name, targets }) => ({
      name,
      targets: targets.map(({ since, reason = '', ...target }) => ({ ...target, since: iso(since), reason }))
    })),
    limiter: { ...limiter, since: iso(limiter.since), reason: limiter.reason ?? '' },
    reload: { ok, loadedAt: loadedAt.toISOString(), checksum, routes: count, complaints: lastError },
    audit: { ...audit, firstBroken: audit.firstBroken ?? null, checkedAt: audit.checkedAt?.toISOString() ?? '' },
    revocations: { ...parts.revocations(), stalenessMs: Math.round(parts.revocations().stalenessMs) },
    streams: parts.streams(),
    insecure: [...parts.insecure]
  }
}

export const statusRoutes = (app: FastifyInstance, { status }: StatusRoutesParts): void => {
  app.get(
    '/auth/admin/status',
    {
      schema: {
        summary: 'Returns the state of upstreams, limiter, route files and audit log',
        response: { 200: statusSchema }
      }
    },
    status.ask
  )

  app.get<{ Querystring: { since?: string } }>(
    '/auth/admin/traffic',
    {
      schema: {
        summary: 'Returns the traffic of the last hour through all workers of this instance, in steps',
        querystring: trafficQuery,
        response: { 200: trafficSchema }
      }
    },
    async ({ query }) => ({
      now: new Date().toISOString(),
      stepMs: status.traffic.stepMs,
      points: (await status.traffic.since(readTime('since', query.since)?.getTime() ?? 0)).map(point => ({
        ...point,
        at: iso(point.at)
      }))
    })
  )
}

const time = { type: 'string', description: 'ISO 8601, UTC' } as const

const countsBy = (description: string) => ({
  type: 'object' as const,
  additionalProperties: integer,
  description
})

const targetSchema = object({
  url: string,
  state: { type: 'string', enum: ['up', 'returning', 'down'] },
  since: time,
  reason: { type: 'string', description: "Why it is down or was down last; '' if it never was" },
  busy: { ...integer, description: 'Connections with a request in progress' },
  connections: integer,
  faults: countsBy('Requests that failed, by what went wrong')
})

const statusSchema = object({
  status: { type: 'string', enum: ['ok', 'degraded'] },
  checks: { type: 'object', additionalProperties: string, description: 'As in /health' },
  startedAt: time,
  upstreams: array(object({ name: string, targets: array(targetSchema) })),
  limiter: object({
    mode: { type: 'string', enum: ['memory', 'redis', 'degraded'] },
    since: time,
    reason: string,
    commands: { ...integer, description: 'Commands sent to Redis so far' },
    entries: { ...integer, description: 'Windows held in memory' },
    leases: integer
  }),
  reload: object({
    ok: { ...boolean, description: 'Whether the files on disk are the ones in use' },
    loadedAt: time,
    checksum: string,
    routes: integer,
    complaints: array(object({ file: string, line: integer, column: integer, message: string }))
  }),
  audit: object({
    state: { type: 'string', enum: ['unknown', 'ok', 'broken'], description: 'Result of the last check' },
    entries: integer,
    firstBroken: { type: ['integer', 'null'] },
    checkedAt: { type: 'string', description: "ISO 8601, UTC; '' before the first check" }
  }),
  revocations: object({ known: integer, stalenessMs: integer }),
  streams: countsBy('Open streams by kind'),
  insecure: { ...array(string), description: 'Settings that switch a protection off' }
})

const trafficQuery = optional({
  since: timeProperty('RFC 3339 date or date-time; default: all that is kept, an hour')
})

const trafficSchema = object({
  now: time,
  stepMs: integer,
  points: array(
    object({
      at: { type: 'string', description: 'Beginning of the step; the last step may be incomplete' },
      requests: integer,
      allowed: integer,
      refused: integer,
      failed: { ...integer, description: 'Allowed, but could not be served' },
      codes: countsBy('Refused and failed requests by code'),
      p50Ms: { type: 'number', description: 'Time until the response head; 0 without requests' },
      p95Ms: { type: 'number' },
      logins: integer,
      loginsRefused: integer
    })
  )
})

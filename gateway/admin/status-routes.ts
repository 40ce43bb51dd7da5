// Shows Admins the state of the gateway, its upstreams and its stores, and the traffic of the last hour.
import type { FastifyInstance } from 'fastify'
import type { TrafficPoint } from '../observe/traffic.ts'
import { array, boolean, integer, object, optional, string } from '../values/json-schema.ts'
import { instanceSchema, missingSchema } from './admin-schemas.ts'
import type { mergeStatus } from './merged-status.ts'
import { readTime, timeProperty } from './query-times.ts'

export interface StatusRoutesParts {
  status: {
    ask: () => Promise<Status>
    traffic: { stepMs: number; since: (since: number) => Promise<TrafficSince> }
  }
}

type Status = ReturnType<typeof mergeStatus>

interface TrafficSince {
  readonly points: readonly TrafficPoint[]
  /** Names of the instances whose traffic is included. */
  readonly instances: readonly string[]
  readonly missing: readonly string[]
}

const iso = (ms: number): string => new Date(ms).toISOString()

export const statusRoutes = (app: FastifyInstance, { status }: StatusRoutesParts): void => {
  app.get(
    '/auth/admin/status',
    {
      schema: {
        summary: 'Returns the state of all instances: upstreams, limiter, route files and audit log',
        response: { 200: statusSchema }
      }
    },
    status.ask
  )

  app.get<{ Querystring: { since?: string } }>(
    '/auth/admin/traffic',
    {
      schema: {
        summary: 'Returns the traffic of the last hour through all instances together, in steps',
        querystring: trafficQuery,
        response: { 200: trafficSchema }
      }
    },
    async ({ query }) => {
      const { points, ...rest } = await status.traffic.since(readTime('since', query.since)?.getTime() ?? 0)
      const { stepMs } = status.traffic
      return {
        ...rest,
        now: new Date().toISOString(),
        stepMs,
        points: points.map(point => ({ ...point, at: iso(point.at) }))
      }
    }
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
  faults: countsBy('Requests that failed, by what went wrong'),
  instances: { ...array(string), description: 'Those that see it in this state' }
})

const limiterMode = { type: 'string', enum: ['memory', 'redis', 'degraded'] } as const
const checks = { type: 'object', additionalProperties: string, description: 'As in /health' } as const
const streams = countsBy('Open streams by kind')

const statusSchema = object({
  status: { type: 'string', enum: ['ok', 'degraded'] },
  checks,
  startedAt: time,
  upstreams: array(object({ name: string, targets: array(targetSchema) })),
  limiter: object({
    mode: limiterMode,
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
  streams,
  insecure: { ...array(string), description: 'Settings that switch a protection off' },
  instances: array(
    object({
      instance: instanceSchema,
      status: string,
      checks,
      startedAt: time,
      limiter: limiterMode,
      checksum: { ...string, description: 'Of the route files in use' },
      streams
    })
  ),
  missing: missingSchema
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
  ),
  instances: array(instanceSchema),
  missing: missingSchema
})

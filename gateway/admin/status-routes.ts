// Shows Admins the state of the gateway, its upstreams and its stores, and the traffic of the last hour.
import type { Endpoints } from '../http/own-requests.ts'
import { array, boolean, integer, object, optional, string } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'
import { instanceSchema, missingSchema, readTime, timeProperty } from './admin-schemas.ts'

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

export const statusEndpoints = ({ status }: AdminParts): Endpoints => ({
  'GET /auth/admin/status': {
    summary: 'Returns the state of all instances: upstreams, limiter, route files and audit log',
    returns: statusSchema,
    run: () => status.ask()
  },
  'GET /auth/admin/traffic': {
    summary: 'Returns the traffic of the last hour through all instances together, in steps',
    query: trafficQuery,
    returns: trafficSchema,
    async run({ query }) {
      const { stepMs, since } = status.traffic
      const { points, ...rest } = await since(readTime('since', query.since)?.getTime() ?? 0)
      const dated = points.map(point => ({ ...point, at: new Date(point.at).toISOString() }))
      return { ...rest, now: new Date().toISOString(), stepMs, points: dated }
    }
  }
})

// Describes what the views of all instances show, as JSON Schema, and checks replies of instances by it.
import { Ajv } from 'ajv'
import { array, boolean, integer, object, string } from '../values/json-schema.ts'
import { instanceSchema, missingSchema } from './admin-schemas.ts'

const ajv = new Ajv({ strict: false, validateSchema: false })

/**
 * A schema is compiled when it is first used.
 * @throws if the value is not of this form
 */
export const checkReply = (schema: object, value: unknown): void => {
  if (!ajv.validate(schema, value)) throw new TypeError(ajv.errorsText())
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

export const statusSchema = object({
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

export const trafficSchema = object({
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

export const streamSchema = object(
  {
    id: string,
    kind: { type: 'string', enum: ['websocket', 'socketio', 'sse'] },
    user: {
      // Instances of the release before do not say which provider.
      ...object({ id: integer, provider: { type: 'string', enum: ['ldap', 'cloudidp', 'client'] }, username: string }, [
        'provider'
      ]),
      type: ['object', 'null'],
      description: 'null on public routes'
    },
    route: string,
    namespace: { ...string, description: "'' except for Socket.IO" },
    since: { ...string, description: 'ISO 8601, UTC' },
    ip: string,
    bytes: { ...integer, description: 'Bytes carried in both directions, if known' },
    instance: instanceSchema
  },
  ['namespace', 'bytes']
)

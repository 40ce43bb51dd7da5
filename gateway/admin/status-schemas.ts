// What the state of the gateway and its traffic look like, as JSON Schema.
import { timeProperty } from './query-times.ts'

const text = { type: 'string' } as const
const count = { type: 'integer' } as const
const flag = { type: 'boolean' } as const
const time = { type: 'string', description: 'ISO 8601, UTC' } as const

const object = <P extends Record<string, object>>(properties: P, optional: readonly string[] = []) => ({
  type: 'object' as const,
  required: Object.keys(properties).filter(name => !optional.includes(name)),
  properties
})

const listOf = (items: object) => ({ type: 'array' as const, items })
const countsBy = (description: string) => ({
  type: 'object' as const,
  additionalProperties: count,
  description
})

const targetSchema = object(
  {
    url: text,
    state: { type: 'string', enum: ['up', 'returning', 'down'] },
    since: time,
    reason: { type: 'string', description: "Why it is or was out last; '' when it never was" },
    busy: { ...count, description: 'Connections with a request under way' },
    connections: count,
    faults: countsBy('Requests that failed, by what went wrong')
  },
  []
)

export const statusSchema = object({
  status: { type: 'string', enum: ['ok', 'degraded'] },
  checks: { type: 'object', additionalProperties: text, description: 'As in /health' },
  startedAt: time,
  upstreams: listOf(object({ name: text, targets: listOf(targetSchema) })),
  limiter: object({
    mode: { type: 'string', enum: ['memory', 'redis', 'degraded'] },
    since: time,
    reason: text,
    commands: { ...count, description: 'Sent to Redis so far' },
    entries: { ...count, description: 'Windows kept in memory' },
    leases: count
  }),
  reload: object({
    ok: { ...flag, description: 'Whether the files on disk are those in use' },
    loadedAt: time,
    checksum: text,
    routes: count,
    complaints: listOf(object({ file: text, line: count, column: count, message: text }))
  }),
  audit: object({
    state: { type: 'string', enum: ['unknown', 'ok', 'broken'], description: 'What the last check found' },
    entries: count,
    firstBroken: { type: ['integer', 'null'] },
    checkedAt: { type: 'string', description: "ISO 8601, UTC; '' before the first check" }
  }),
  revocations: object({ known: count, stalenessMs: count }),
  streams: countsBy('Open streams by kind'),
  insecure: { ...listOf(text), description: 'Settings that switch a protection off' }
})

export const trafficQuery = {
  type: 'object',
  additionalProperties: false,
  properties: {
    since: timeProperty('ISO 8601 or ms since the epoch; default: all that is kept, an hour')
  }
} as const

export const trafficSchema = object({
  now: time,
  stepMs: count,
  points: listOf(
    object({
      at: { type: 'string', description: 'Begin of the step; the last one may still be growing' },
      requests: count,
      allowed: count,
      refused: count,
      failed: { ...count, description: 'Allowed, but the upstream or the gateway could not do it' },
      codes: countsBy('Refused and failed ones by code'),
      p50Ms: { type: 'number', description: 'Until the response head; 0 without requests' },
      p95Ms: { type: 'number' },
      logins: count,
      loginsRefused: count
    })
  )
})

// Shows Admins the state of the gateway, its upstreams and its stores, and the traffic of the last hour.
import type { Endpoints } from '../http/own-requests.ts'
import { optional } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'
import { readTime, timeProperty } from './admin-schemas.ts'
import { statusSchema, trafficSchema } from './view-schemas.ts'

const trafficQuery = optional({
  since: timeProperty('RFC 3339 date or date-time; default: all that is kept, an hour')
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
    run: ({ query }) => status.traffic(readTime('since', query.since)?.getTime() ?? 0)
  }
})

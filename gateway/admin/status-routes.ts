// Admins see how the gateway, its upstreams and its stores fare, and the last hour's traffic.
import type { FastifyInstance } from 'fastify'
import type { LimiterStatus } from '../limits/limiter.ts'
import type { AuditState } from '../observe/audit-watch.ts'
import { isUnwell } from '../observe/health.ts'
import type { TrafficPoint } from '../observe/traffic.ts'
import type { Complaint } from '../route-files/complaint.ts'
import type { UpstreamStatus } from '../upstream/upstreams.ts'
import { readTime } from './query-times.ts'
import { statusSchema, trafficQuery, trafficSchema } from './status-schemas.ts'

/** Each is read when it is asked for; none may be costly. Times are ms since the epoch where they are numbers. */
interface StatusParts {
  checks: () => Promise<Readonly<Record<string, string>>>
  startedAt: Date
  upstreams: () => readonly UpstreamStatus[]
  limiter: () => LimiterStatus
  reload: () => {
    ok: boolean
    loadedAt: Date
    checksum: string
    routes: number
    complaints: readonly Complaint[]
  }
  audit: () => AuditState
  revocations: () => { known: number; stalenessMs: number }
  streams: () => Readonly<Record<string, number>>
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

/** Of this process, as JSON can carry it. */
export const statusOf = async (parts: StatusParts) => {
  const checks = await parts.checks()
  const limiter = parts.limiter()
  const { loadedAt, ...reload } = parts.reload()
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
    reload: { ...reload, loadedAt: loadedAt.toISOString() },
    audit: { ...audit, firstBroken: audit.firstBroken ?? null, checkedAt: audit.checkedAt?.toISOString() ?? '' },
    revocations: { ...parts.revocations(), stalenessMs: Math.round(parts.revocations().stalenessMs) },
    streams: parts.streams(),
    insecure: [...parts.insecure]
  }
}

export const statusRoutes = (app: FastifyInstance, { status }: StatusRoutesParts): void => {
  app.get(
    '/auth/admin/status',
    { schema: { summary: 'Upstreams, limiter, reload, audit chain', response: { 200: statusSchema } } },
    status.ask
  )

  app.get<{ Querystring: { since?: string } }>(
    '/auth/admin/traffic',
    {
      schema: {
        summary: 'Traffic of the last hour through all workers of this instance, in steps',
        querystring: trafficQuery,
        response: { 200: trafficSchema }
      }
    },
    async ({ query }) => ({
      now: new Date().toISOString(),
      stepMs: status.traffic.stepMs,
      points: (await status.traffic.since(readTime('since', query.since) ?? 0)).map(point => ({
        ...point,
        at: iso(point.at)
      }))
    })
  )
}

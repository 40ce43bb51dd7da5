// Reports the health of the gateway and its dependencies, without names, hosts or versions.
import type { FastifyInstance } from 'fastify'
import type { LimiterStatus } from '../limits/limiter.ts'
import { isWell, type ServedCertificate } from '../listener/certificates.ts'
import type { TableStatus } from '../route-files/live.ts'
import type { GrantsState } from '../store/regranting.ts'
import type { VerifiedTokens } from '../tokens/verified-tokens.ts'
import type { UpstreamStatus } from '../upstream/upstream-pool.ts'
import { object } from '../values/json-schema.ts'
import type { AuditState } from './audit-watch.ts'
import type { ClockState } from './clock-watch.ts'

/**
 * `broken`: the audit log does not match its hash chain. `insecure`: it works, but a setting has switched a protection off.
 * `away`, `refused`, `unknown` and `groups-unreadable` are states of other systems, as found by the last background check.
 * `regranting` and `older` are states of the grants. `polling`: changes of access are not heard, but asked for twice a second.
 */
type Check = (typeof WELL | typeof UNWELL)[number]

const WELL = ['ok', 'insecure', 'unknown', 'regranting', 'polling'] as const
/** One of these makes the whole degraded. */
const UNWELL = ['degraded', 'broken', 'away', 'refused', 'groups-unreadable', 'older'] as const

export const isUnwell = (check: string): boolean => UNWELL.some(word => word === check)

export interface HealthParts {
  checks: () => Promise<Record<string, Check>>
  /** When the audit log was last read completely; undefined before the first time. */
  auditCheckedAt: () => Date | undefined
  redisReason: () => string | undefined
}

const healthSchema = object(
  {
    status: { type: 'string', enum: ['ok', 'degraded'] },
    checks: { type: 'object', additionalProperties: { type: 'string', enum: [...WELL, ...UNWELL] } },
    auditCheckedAt: { type: 'string', description: 'When the audit log was last checked; ISO 8601, UTC' },
    redisReason: { type: 'string', description: 'Why Redis is not used, while rateLimit is degraded' }
  },
  ['auditCheckedAt', 'redisReason']
)

export const healthRoutes = (app: FastifyInstance, { checks, auditCheckedAt, redisReason }: HealthParts): void => {
  const schema = { summary: 'Returns the health of the gateway', response: { 200: healthSchema } }
  app.get('/health', { schema }, async () => {
    const found = await checks()
    return {
      status: Object.values(found).some(isUnwell) ? 'degraded' : 'ok',
      checks: found,
      auditCheckedAt: auditCheckedAt()?.toISOString(),
      redisReason: redisReason()
    }
  })
}

const REMEMBERED_MS = 1000
const REVOCATIONS_OLD_MS = 10_000

/** The state of the gateway's parts, as read by metrics, health checks and the status page for Admins. */
export interface Known {
  readonly streams: () => Readonly<Record<string, number>>
  readonly refusedEvents: () => readonly { route: string; namespace: string; count: number }[]
  readonly limiter: () => LimiterStatus
  /** `ok`: the files on disk are the ones in use; `count`: number of routes. */
  readonly routes: () => TableStatus & { count: number }
  readonly tokenCache: VerifiedTokens['counts']
  /** Verified tokens by the secret that signed them, the current one first. */
  readonly tokensByKey: () => readonly number[]
  readonly revocations: () => { known: number; stalenessMs: number }
  readonly isListening: () => boolean
  readonly upstreams: () => readonly UpstreamStatus[]
  /** The listener's certificates; none: no TLS. */
  readonly certificates: () => readonly ServedCertificate[]
  readonly proxyViolations: () => number
  /** undefined: no cloud login. */
  readonly provider: () => 'ok' | 'away' | 'unknown' | undefined
  readonly audit: () => AuditState
  /** What groups grant, and the people whose access was worked out again. */
  readonly grants: { readonly state: () => GrantsState; readonly people: () => number }
  /** undefined: there is no clock to compare with. */
  readonly clock: () => ClockState | undefined
  /** Whether the database responds and can be written; checked at most once a second. */
  readonly databaseOk: () => Promise<boolean>
  /** undefined: directory login is not active. */
  readonly directory: () => 'ok' | 'away' | 'refused' | 'unknown' | 'groups-unreadable' | undefined
}

interface Checked extends Known {
  hasUpstreamDown: () => boolean
  directoryInsecure: boolean
  /** Session tokens go to an http:// address, although PUBLIC_URL is https://. */
  addressesInsecure: boolean
}

/** However often this is called, the database is checked at most once a second. */
export const rememberPing = (ping: () => Promise<boolean>): (() => Promise<boolean>) => {
  let pinged = { at: Number.NEGATIVE_INFINITY, ok: Promise.resolve(true) }
  return () => {
    const now = performance.now()
    if (now - pinged.at > REMEMBERED_MS) pinged = { at: now, ok: ping() }
    return pinged.ok
  }
}

export const createChecks = (known: Checked): HealthParts['checks'] => {
  const word = (isFine: boolean): Check => (isFine ? 'ok' : 'degraded')
  return async () => {
    const [provider, certificates, clock] = [known.provider(), known.certificates(), known.clock()]
    return {
      database: word(await known.databaseOk()),
      rateLimit: word(known.limiter().mode !== 'degraded'),
      routes: word(known.routes().ok),
      upstreams: word(!known.hasUpstreamDown()),
      revocations: revocationsOf(known),
      grants: known.grants.state(),
      audit: known.audit().state,
      ...(clock === undefined ? {} : { clock: clock.state }),
      ...(provider === undefined ? {} : { provider }),
      ...(certificates.length === 0 ? {} : { tls: word(certificates.every(isWell)) }),
      ...directoryOf(known),
      ...(known.addressesInsecure ? { addresses: 'insecure' } : {})
    }
  }
}

const revocationsOf = ({ revocations, isListening }: Checked): Check => {
  if (revocations().stalenessMs > REVOCATIONS_OLD_MS) return 'degraded'
  return isListening() ? 'ok' : 'polling'
}

const directoryOf = ({ directory, directoryInsecure }: Checked): Record<string, Check> => {
  const state = directory()
  if (directoryInsecure && (state === undefined || !isUnwell(state))) return { directory: 'insecure' }
  return state === undefined ? {} : { directory: state }
}

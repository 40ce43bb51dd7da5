// Reports the health of the gateway and of what it depends on, without names, hosts or versions.
import type { FastifyInstance } from 'fastify'
import type { Reachability } from './reachability.ts'

/**
 * `broken`: the audit log does not match its hash chain. `insecure`: it works, but a setting has switched a protection off. `away`, `refused` and `unknown` are states
 * of other systems, as the last check in the background found them.
 */
type Check = 'ok' | 'degraded' | 'broken' | 'insecure' | 'away' | 'refused' | 'unknown'

const CHECKS = [
  'ok',
  'degraded',
  'broken',
  'insecure',
  'away',
  'refused',
  'unknown'
] as const satisfies readonly Check[]
const UNWELL: ReadonlySet<string> = new Set<Check>(['degraded', 'broken', 'away', 'refused'])

/** Whether a word among the checks makes the whole unwell. */
export const isUnwell = (check: string): boolean => UNWELL.has(check)

export interface HealthParts {
  /** One word per thing that can be unwell. */
  checks: () => Promise<Record<string, Check>>
  /** When the audit log was last read as a whole; undefined before the first time. */
  auditCheckedAt: () => Date | undefined
}

const healthSchema = {
  type: 'object',
  required: ['status', 'checks'],
  properties: {
    status: { type: 'string', enum: ['ok', 'degraded'] },
    checks: { type: 'object', additionalProperties: { type: 'string', enum: CHECKS } },
    auditCheckedAt: { type: 'string', description: 'When the audit log was last checked; ISO 8601, UTC' }
  }
} as const

export const healthRoutes = (app: FastifyInstance, { checks, auditCheckedAt }: HealthParts): void => {
  app.get(
    '/health',
    { schema: { summary: 'Returns the health of the gateway', response: { 200: healthSchema } } },
    async () => {
      const found = await checks()
      return {
        status: Object.values(found).some(isUnwell) ? 'degraded' : 'ok',
        checks: found,
        auditCheckedAt: auditCheckedAt()?.toISOString()
      }
    }
  )
}

const REMEMBERED_MS = 1000
const REVOCATIONS_OLD_MS = 10_000

interface Checked {
  databaseOk: () => Promise<boolean>
  audit: () => 'ok' | 'broken' | 'unknown'
  limiterDegraded: () => boolean
  /** Whether the route files on disk are those in use. */
  routesCurrent: () => boolean
  /** Whether some upstream has no target left. */
  upstreamDown: () => boolean
  /** Since revocations were last known to be complete. */
  stalenessMs: () => number
  /** undefined: directory login is not active. */
  directory: () => 'ok' | 'away' | 'refused' | 'unknown' | undefined
  directoryInsecure: boolean
  /** Whether the listener serves what its certificate files hold; undefined: it speaks no TLS. */
  tlsWell: (() => boolean) | undefined
  /** undefined: no cloud login. */
  provider: (() => Reachability) | undefined
}

/** However often somebody asks, the database is asked once a second at most. */
export const rememberPing = (ping: () => Promise<boolean>): (() => Promise<boolean>) => {
  let pinged = { at: Number.NEGATIVE_INFINITY, ok: Promise.resolve(true) }
  return () => {
    const now = performance.now()
    if (now - pinged.at > REMEMBERED_MS) pinged = { at: now, ok: ping() }
    return pinged.ok
  }
}

export const createChecks = (checked: Checked): HealthParts['checks'] => {
  const word = (isWell: boolean): Check => (isWell ? 'ok' : 'degraded')
  return async () => ({
    database: word(await checked.databaseOk()),
    rateLimit: word(!checked.limiterDegraded()),
    routes: word(checked.routesCurrent()),
    upstreams: word(!checked.upstreamDown()),
    revocations: word(checked.stalenessMs() <= REVOCATIONS_OLD_MS),
    audit: checked.audit(),
    ...(checked.provider === undefined ? {} : { provider: checked.provider() }),
    ...(checked.tlsWell === undefined ? {} : { tls: word(checked.tlsWell()) }),
    ...directoryOf(checked)
  })
}

const directoryOf = ({ directory, directoryInsecure }: Checked): Record<string, Check> => {
  const state = directory()
  if (directoryInsecure && (state === undefined || !isUnwell(state))) return { directory: 'insecure' }
  return state === undefined ? {} : { directory: state }
}

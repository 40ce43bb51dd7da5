// Collects the state of this process: its upstreams, limiter, route files, audit log and streams.
import { isUnwell, type Known } from '../observe/health.ts'

/** Each is read on demand, so none may be expensive. Times given as numbers are ms since the epoch. */
interface StatusParts extends Pick<Known, 'upstreams' | 'limiter' | 'routes' | 'audit' | 'revocations' | 'streams'> {
  checks: () => Promise<Readonly<Record<string, string>>>
  startedAt: Date
  /** Names of settings. */
  insecure: readonly string[]
}

/** The state of one process. */
export type OwnStatus = Awaited<ReturnType<typeof statusOf>>

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

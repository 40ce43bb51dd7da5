// Provides /health, /metrics and the admin API with the state of all processes behind the listener.
import type { Logger } from 'pino'
import { statusOf } from '../admin/status-routes.ts'
import type { CloudParts } from '../cloud/start-cloud.ts'
import type { Forwarding } from '../forwarding.ts'
import { type Certificates, isWell } from '../listener/certificates.ts'
import type { Violations } from '../listener/violations.ts'
import type { DirectoryParts } from '../login/start-directory.ts'
import { createAuditWatch } from '../observe/audit-watch.ts'
import { createChecks, rememberPing } from '../observe/health.ts'
import type { Observation } from '../observe/observation.ts'
import type { LiveRoutes } from '../route-files/live.ts'
import type { Settings } from '../settings/settings.ts'
import type { Stores } from '../stores.ts'
import type { TokenParts } from '../token-parts.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import { createWorkerViews } from './merged-views.ts'
import type { Siblings } from './siblings.ts'

interface ViewParts {
  readonly settings: Settings
  readonly stores: Stores
  readonly tokenParts: TokenParts
  readonly directory: Pick<DirectoryParts, 'state'>
  readonly cloud: CloudParts
  readonly routes: LiveRoutes
  readonly upstreams: Upstreams
  readonly forwarding: Pick<Forwarding, 'streams' | 'refusedEvents'>
  readonly certificates: Certificates | undefined
  readonly violations: Violations
  readonly observation: Observation
  readonly siblings: Siblings
  readonly log: Logger
}

export const createViews = (parts: ViewParts) => {
  const {
    settings,
    stores,
    tokenParts,
    directory,
    routes,
    upstreams,
    forwarding,
    certificates,
    observation,
    siblings
  } = parts
  const { limiter } = stores
  const { revocations, feed } = tokenParts
  const startedAt = new Date()
  const databaseOk = rememberPing(stores.database.ping)
  const auditWatch = createAuditWatch(stores.audit, parts.log)
  const revocationState = () => ({ known: revocations.size(), stalenessMs: feed.staleness() })
  observation.attach({
    provider: () => parts.cloud.state?.(),
    streams: forwarding.streams.counts,
    refusedEvents: forwarding.refusedEvents,
    limiter: limiter.status,
    routes: () => ({ ...routes.status(), count: routes.current().routes.length }),
    tokenCache: tokenParts.verifiedTokens.counts,
    tokensByKey: () => tokenParts.tokens.verified,
    revocations: revocationState,
    upstreams: upstreams.status,
    audit: auditWatch.last,
    databaseOk,
    directory: directory.state,
    certificate: () => certificates?.state(),
    proxyViolations: () => parts.violations.count
  })
  const checks = createChecks({
    provider: parts.cloud.state,
    databaseOk,
    audit: () => auditWatch.last().state,
    limiterDegraded: () => limiter.status().mode === 'degraded',
    routesCurrent: () => routes.status().ok,
    upstreamDown: upstreams.hasDown,
    stalenessMs: feed.staleness,
    directory: directory.state,
    directoryInsecure: settings.ldap.insecure,
    tlsWell: certificates && (() => isWell(certificates.state()))
  })
  const status = () =>
    statusOf({
      checks,
      startedAt,
      upstreams: upstreams.status,
      limiter: limiter.status,
      reload: () => {
        const { ok, loadedAt, checksum, lastError } = routes.status()
        return { ok, loadedAt, checksum, routes: routes.current().routes.length, complaints: lastError ?? [] }
      },
      audit: auditWatch.last,
      revocations: revocationState,
      streams: forwarding.streams.counts,
      insecure: observation.insecure
    })
  siblings.answer('metrics', observation.metrics)
  siblings.answer('routes.prepare', routes.prepare)
  siblings.answer('routes.settle', (isAgreed, isAsked) => routes.settle(isAgreed === true, isAsked === true))
  return {
    checks,
    auditCheckedAt: () => auditWatch.last().checkedAt,
    close: auditWatch.close,
    ...createWorkerViews({ siblings, streams: () => forwarding.streams, status, traffic: observation.traffic })
  }
}

// Provides /health, /metrics and the admin API with the state of this process and, where asked, of all instances.
import { setTimeout } from 'node:timers/promises'
import { createInstallation } from './admin/installation.ts'
import { statusOf } from './admin/status.ts'
import type { CloudParts } from './cloud/start-cloud.ts'
import type { Forwarding, ForwardingParts } from './forwarding.ts'
import type { Certificates } from './listener/certificates.ts'
import type { Violations } from './listener/proxy-protocol.ts'
import type { DirectoryParts } from './login/start-directory.ts'
import { createAuditWatch } from './observe/audit-watch.ts'
import { watchClocks } from './observe/clock-watch.ts'
import { createChecks, rememberPing } from './observe/health.ts'

interface StateParts extends Omit<ForwardingParts, 'credentials'> {
  readonly directory: Pick<DirectoryParts, 'state'>
  readonly cloud: CloudParts
  readonly forwarding: Pick<Forwarding, 'streams' | 'refusedEvents'>
  readonly certificates: Certificates | undefined
  readonly violations: Violations
}

/** An instance that replies later, because its database does not respond, would be missing from the status of all. */
const DATABASE_MS = 400

export const createProcessState = (parts: StateParts) => {
  const { stores, tokenParts, routes, upstreams, forwarding, observation } = parts
  const { limiter } = stores
  const { revocations, feed } = tokenParts
  const startedAt = new Date()
  const auditWatch = createAuditWatch(stores.audit, parts.log, { afterRound: stores.retainAudit })
  const clock = createClock(parts)
  const known = {
    clock: () => clock?.state(),
    provider: () => parts.cloud.state?.(),
    streams: forwarding.streams.counts,
    refusedEvents: forwarding.refusedEvents,
    limiter: limiter.status,
    routes: () => ({ ...routes.status(), count: routes.current().routes.length }),
    tokenCache: tokenParts.verifiedTokens.counts,
    tokensByKey: () => tokenParts.tokens.verified,
    revocations: () => ({ known: revocations.size(), stalenessMs: feed.staleness() }),
    isListening: feed.isListening,
    upstreams: upstreams.status,
    audit: auditWatch.last,
    grants: { state: stores.regranting.state, people: stores.regranting.people },
    databaseOk: rememberPing(stores.database.ping),
    directory: parts.directory.state,
    certificates: () => parts.certificates?.state().served ?? [],
    proxyViolations: () => parts.violations.count
  }
  observation.attach(known)
  const { ldap, plainAddresses } = parts.settings
  const insecure = { directoryInsecure: ldap.active && ldap.insecure, addressesInsecure: plainAddresses.length > 0 }
  const checked = { ...known, hasUpstreamDown: upstreams.hasDown, ...insecure }
  const checks = createChecks(checked)
  const databaseOk = () => Promise.race([known.databaseOk(), setTimeout(DATABASE_MS, false, { ref: false })])
  const soonChecked = createChecks({ ...checked, databaseOk })
  const status = () => statusOf({ ...known, checks: soonChecked, startedAt, insecure: observation.insecure })
  return {
    checks,
    auditCheckedAt: () => auditWatch.last().checkedAt,
    redisReason: () => known.limiter().reason,
    close() {
      auditWatch.close()
      clock?.close()
    },
    ...createInstallation({
      instances: stores.instances,
      streams: () => forwarding.streams,
      status,
      traffic: observation.traffic
    })
  }
}

/** The embedded database has the clock of this machine. */
const createClock = ({ stores: { database, redis }, log }: StateParts) => {
  const clocks = {
    ...(database.embedded ? {} : { database: database.clock }),
    ...(redis === undefined ? {} : { redis: redis.clock })
  }
  return Object.keys(clocks).length === 0 ? undefined : watchClocks({ clocks, log })
}

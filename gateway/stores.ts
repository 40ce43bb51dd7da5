// Opens the stores: Postgres (or the embedded one), Redis if configured, and the counts that depend on it.
import type { Logger } from 'pino'
import { startInstances } from './instances/instances.ts'
import { createLimiter } from './limits/limiter.ts'
import { openRedis } from './redis/redis.ts'
import type { RouteTable } from './routes/route.ts'
import type { Settings } from './settings/settings.ts'
import { retainAudit } from './store/audit-archive.ts'
import { startAuditKey } from './store/audit-entry.ts'
import { createAuditLog } from './store/audit-log.ts'
import { createClients } from './store/clients.ts'
import { DATABASE_DEADLINES, openDatabase, shareOf } from './store/database.ts'
import { createLiveLogins } from './store/live-logins.ts'
import { createLoginNames } from './store/login-names.ts'
import { startOnlineSteps } from './store/online-steps.ts'
import { createPersonalTokenStore } from './store/personal-tokens.ts'
import { createRegranting } from './store/regranting.ts'
import { createTokenState } from './store/token-state.ts'
import { createUsers } from './store/users.ts'
import { sealingSecret } from './tokens/sealed-keys.ts'

const REDIS_WAIT_MS = 1000
/** Of the connections to Postgres, so that refreshing, logging out and revoking continue however many people log in. */
const LOGIN_SHARE = { part: 0.4, mostWaiting: 256 }
/** Lists of people, grants, the audit log and what is held back may take long; logins and changes always have the other connections. */
const LIST_SHARE = { part: 0.2, mostWaiting: 64 }
/** Entries of the audit log are written one after the other anyway, and none is given up because of those before it. */
const AUDIT_SHARE = { connections: 1, mostWaiting: Number.POSITIVE_INFINITY, waitMs: 60_000 }

export type Stores = Awaited<ReturnType<typeof openStores>>

/** @param table of the route files in use */
export const openStores = async (
  settings: Settings,
  log: Logger,
  table: () => RouteTable,
  deadlines = DATABASE_DEADLINES
) => {
  const { databaseUrl, databaseListenUrl: listenUrl, databasePoolSize: poolSize, dataDir } = settings
  const database = await openDatabase({ databaseUrl, listenUrl, poolSize, dataDir, deadlines, log })
  const secrets = [settings.jwt.secret, ...settings.jwt.previousSecrets].map(sealingSecret)
  const auditKey = await startAuditKey(database, secrets, log)
  const steps = startOnlineSteps(database, log)
  const redis = settings.redis === undefined ? undefined : openRedis(settings.redis, log)
  // Otherwise the first requests would find it unavailable.
  await redis?.ready(REDIS_WAIT_MS)
  const instances = await startInstances(redis)
  const part = ({ part, mostWaiting }: typeof LOGIN_SHARE) =>
    shareOf(database, { connections: Math.floor(poolSize * part) || 1, mostWaiting, waitMs: deadlines.acquireMs })
  const [forLogins, forLists] = [part(LOGIN_SHARE), part(LIST_SHARE)]
  const regranting = createRegranting({ database, table, log })
  const fromRouteFiles = { profiles: () => table().profiles, grantsLoaded: regranting.loaded }
  const limiter = createLimiter(redis === undefined ? { log } : { redis, log })
  return {
    database,
    /** The part of the database that logins use. */
    logins: {
      database: forLogins,
      users: createUsers(forLogins, fromRouteFiles),
      audit: createAuditLog(shareOf(database, AUDIT_SHARE)),
      liveLogins: createLiveLogins(forLogins),
      names: createLoginNames(forLogins)
    },
    /** The part of the database that long lists use. */
    lists: forLists,
    users: createUsers(database, fromRouteFiles, forLists),
    audit: createAuditLog(database, forLists),
    /** Archives what is older than AUDIT_RETENTION. */
    async retainAudit() {
      if (settings.auditRetention !== undefined)
        await retainAudit({ ...settings.auditRetention, database, secrets, log })
    },
    tokenState: createTokenState(database),
    liveLogins: createLiveLogins(database),
    clients: createClients(database, fromRouteFiles.profiles),
    personalTokens: createPersonalTokenStore(database),
    regranting,
    redis,
    instances,
    limiter,
    async close() {
      auditKey.close()
      steps.close()
      await regranting.close()
      await limiter.close()
      await instances.close()
      await redis?.close()
      await database.close()
    }
  }
}

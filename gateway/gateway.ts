// Settings become a running gateway: stores opened, parts made and handed to each other, then the listener.
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { createBrowserSession, isSessionCookie } from './access/browser-session.ts'
import { createClientAddress } from './access/client-address.ts'
import { createLimiter } from './access/request-limiter.ts'
import { adminRoutes } from './admin/admin-routes.ts'
import { statusOf } from './admin/status-routes.ts'
import { addedHeaders } from './answer.ts'
import { buildApp } from './app.ts'
import { createAuditWatch } from './audit-state.ts'
import type { Exchange } from './exchange.ts'
import { createForwardHttp } from './forward/forward-http.ts'
import { upstreamHead } from './forward/upstream-head.ts'
import { createUpstreamRequest } from './forward/upstream-request.ts'
import { createUpstreams } from './forward/upstreams.ts'
import { type Check, healthRoutes } from './health.ts'
import type { Identity } from './identity.ts'
import { createDirectory } from './login/directory.ts'
import { loginRoutes } from './login/login-routes.ts'
import { createLoginThrottle } from './login/login-throttle.ts'
import { isAttemptCookie } from './login/oauth-attempts.ts'
import { oauthRoutes } from './login/oauth-routes.ts'
import { createSignIn, type LoginOutcome } from './login/sign-in.ts'
import { createLoginAudit } from './login-audit.ts'
import { startObservation } from './observation.ts'
import { createOwnEndpoints } from './own-endpoints.ts'
import { pageRoutes } from './pages/page-routes.ts'
import { bearerToken } from './request-head.ts'
import { createLiveRoutes } from './routes/live-routes.ts'
import { ownRoutes } from './routes/own-routes.ts'
import type { Settings } from './settings.ts'
import { unassignedMayPass } from './settings-cloudidp.ts'
import { createSockets, type Sockets } from './sockets.ts'
import { listenAccessChanges } from './store/access-changes.ts'
import { createAuditLog } from './store/audit-log.ts'
import { openDatabase } from './store/database.ts'
import { createLoginMemory } from './store/login-memory.ts'
import { createLoginPermits } from './store/login-permits.ts'
import { openRedis } from './store/redis.ts'
import { createTokenState } from './store/token-state.ts'
import { createUsers, type Users } from './store/users.ts'
import { createAccessTokens } from './tokens/access-token.ts'
import { startRevocationFeed } from './tokens/revocation-feed.ts'
import { createRevocations } from './tokens/revocations.ts'
import { tokenRoutes } from './tokens/token-routes.ts'
import { createVerifiedTokens } from './tokens/verified-tokens.ts'
import { alone, type Siblings } from './worker-siblings.ts'
import { createWorkerViews } from './worker-views.ts'

export interface Gateway {
  readonly port: number
  /** Of the ops listener; undefined without one. */
  readonly opsPort: number | undefined
  /** Reads the route files again. */
  reload(): Promise<boolean>
  /** The OpenAPI document of the own endpoints; a primary of several workers has none. */
  openapi?(): unknown
  /** Stops accepting, lets requests finish for up to DRAIN_TIMEOUT, then closes everything. */
  close(): Promise<void>
}

const HEALTH_REMEMBERED_MS = 1000
const REDIS_WAIT_MS = 1000
const REVOCATIONS_OLD_MS = 10_000

/** Limits that no setting changes; tests do. */
export interface Limits {
  /** How long a client may take nothing of an answer; milliseconds. */
  clientStallMs?: number
}

/** @param siblings other processes that share the listener; none when this one is alone. */
export const startGateway = async (
  settings: Settings,
  log: Logger,
  limits: Limits = {},
  siblings: Siblings = alone
): Promise<Gateway> => {
  const startedAt = new Date()
  const observation = await startObservation(settings, log)
  const stores = await openStores(settings, log)
  const { database, users, audit, tokenState, redis, limiter } = stores
  const tokens = createAccessTokens(settings.jwt)
  const revocations = createRevocations()
  const feed = await startRevocationFeed({
    source: { ...tokenState, listen: on => listenAccessChanges(database, { ...on, log }) },
    revocations,
    log
  })
  const verifiedTokens = createVerifiedTokens({ tokens, revocations })
  const revocationsTrusted = () =>
    settings.revocationMaxStalenessMs === undefined || feed.staleness() <= settings.revocationMaxStalenessMs
  const cloudUnassignedMayPass = unassignedMayPass(settings.cloudidp.tenantId, settings.cloudidp.allowedTenants)
  const upstreams = createUpstreams({ log })
  const routes = await createLiveRoutes({
    folder: settings.upstreamConfig,
    ownRoutes: ownRoutes(),
    log,
    onSwap: table => {
      upstreams.retain(table)
      observation.onSwap(table)
      sockets.onTableSwapped()
    },
    onReload: observation.onReload,
    onChange: siblings.reload
  })
  upstreams.retain(routes.current())
  const loginAudit = createLoginAudit(audit, log)
  const auditWatch = createAuditWatch(audit, log)
  const onOutcome = (outcome: LoginOutcome) => {
    loginAudit.record(outcome)
    observation.onLogin(outcome)
  }
  const revocationState = () => ({ known: revocations.size, stalenessMs: feed.staleness() })
  const streamCounts = () => sockets.streams.counts()
  const reloadState = () => {
    const { ok, loadedAt, checksum, lastError } = routes.status()
    return { ok, loadedAt, checksum, routes: routes.current().routes.length, complaints: lastError ?? [] }
  }
  observation.attach({
    streams: streamCounts,
    limiter: limiter.status,
    routes: () => ({ ...routes.status(), count: routes.current().routes.length }),
    tokenCache: verifiedTokens,
    tokensByKey: () => tokens.verified,
    revocations: revocationState,
    upstreams: upstreams.status,
    audit: auditWatch.last
  })
  const loginMemory = createLoginMemory(database)
  const ownCookies = { has: (name: string) => isAttemptCookie(name) || isSessionCookie(name) }
  const endLogin = async ({ user, tokenId, expiresAt }: Identity, context: { requestId: string; ip: string }) => {
    await tokenState.revokeToken(tokenId, expiresAt, {
      actor: { id: user.id, username: user.username, ...context },
      action: 'logout',
      target: `user:${user.id}`
    })
    // Here at once; the others hear of it.
    revocations.learn({ tokens: [{ tokenId, expiresAt }] })
  }
  const sessionCookies = settings.browserSession
    ? createBrowserSession({
        publicUrl: settings.publicUrl,
        verifiedTokens,
        endReplaced: (login, { requestId, client }) => endLogin(login, { requestId, ip: client.address })
      })
    : undefined
  const answers = {
    corsOrigin: new URL(settings.frontendUrl).origin,
    ...(sessionCookies === undefined ? {} : { loginAddress: sessionCookies.loginAddress })
  }

  const signIn = createSignIn({
    tokens,
    onOutcome,
    syncPerson: person => users.syncPerson({ ...person, bootstrapAdmins: settings.bootstrapAdmins })
  })

  const register = (app: FastifyInstance) => {
    healthRoutes(app, { checks })
    loginRoutes(app, {
      sessionCookies,
      cloudidpActive: settings.cloudidp.active,
      directory: settings.ldap.active ? createDirectory(settings.ldap) : undefined,
      throttle: createLoginThrottle({
        ldap: settings.ldap,
        loginFailures: settings.loginFailures,
        secret: settings.jwt.secret,
        accountPermits: createLoginPermits(database),
        redis,
        knowsAddress: loginMemory.knowsAddress,
        log
      }),
      rememberAddress: loginMemory.rememberAddress,
      signIn,
      onOutcome
    })
    oauthRoutes(app, {
      sessionCookies,
      settings,
      signIn,
      usedStates: { use: (nonce, expiresAtMs) => loginMemory.useOAuthState(nonce, new Date(expiresAtMs)) },
      onOutcome,
      log
    })
    tokenRoutes(app, {
      tokens,
      loadPerson: async id => {
        const person = await users.loadPerson(id)
        return person === undefined ? undefined : { ...person, lowestAccepted: person.lowestAcceptedVersion }
      },
      revokeLogin: endLogin,
      sessionCookies
    })
    pageRoutes(app, settings)
    adminRoutes(app, {
      users: knownAtOnce(users, feed.catchUp),
      listAudit: audit.list,
      appendAudit: audit.append,
      sockets: views.sockets,
      routes: routes.current,
      cloudUnassignedMayPass,
      status: views.status
    })
  }

  let databaseChecked = { at: Number.NEGATIVE_INFINITY, ok: Promise.resolve(true) }
  const databaseOk = (): Promise<boolean> => {
    const now = performance.now()
    if (now - databaseChecked.at > HEALTH_REMEMBERED_MS) databaseChecked = { at: now, ok: database.ping() }
    return databaseChecked.ok
  }
  const checks = async (): Promise<Record<string, Check>> => ({
    database: (await databaseOk()) ? 'ok' : 'degraded',
    rateLimit: limiter.status().mode === 'degraded' ? 'degraded' : 'ok',
    routes: routes.status().ok ? 'ok' : 'degraded',
    upstreams: upstreams.hasDown() ? 'degraded' : 'ok',
    revocations: feed.staleness() > REVOCATIONS_OLD_MS ? 'degraded' : 'ok',
    ...(settings.ldap.insecure ? { directory: 'insecure' as const } : {})
  })

  const views = createWorkerViews({
    siblings,
    streams: () => sockets.streams,
    status: () =>
      statusOf({
        checks,
        startedAt,
        upstreams: upstreams.status,
        limiter: limiter.status,
        reload: reloadState,
        audit: auditWatch.ask,
        revocations: revocationState,
        streams: streamCounts,
        insecure: observation.insecure
      }),
    traffic: observation.traffic
  })
  siblings.answer('metrics', observation.metrics)
  siblings.answer('routes.prepare', routes.prepare)
  siblings.answer('routes.settle', isAgreed => routes.settle(isAgreed === true))

  const refuse = (exchange: Exchange, error: Parameters<typeof app.refuse>[1]) => app.refuse(exchange, error)
  const own = await createOwnEndpoints({ ...answers, log, refuse, register })
  const upstreamRequest = createUpstreamRequest({ tokens, ownCookies })
  const sockets: Sockets = createSockets({
    routes: routes.current,
    revocations,
    verifiedTokens,
    revocationsTrusted,
    freshAccess: async id => {
      const person = await users.loadPerson(id)
      return person === undefined || person.disabled ? undefined : person
    },
    cloudUnassignedMayPass,
    redis,
    upstreams,
    upstreamRequest,
    ownCookies,
    answers,
    refuse,
    onSwitched: observation.onClose
  })
  const forwardHttp = createForwardHttp({
    clientStallMs: limits.clientStallMs,
    upstreams,
    headFor: (exchange, route, authority) => upstreamHead(upstreamRequest(exchange, route, authority, exchange.query)),
    addedHeaders,
    ownCookies,
    refuse,
    onEventStream: sockets.registerEventStream
  })
  const app = buildApp({
    clientStallMs: limits.clientStallMs,
    clientAddress: createClientAddress(settings.trustProxy),
    routes: routes.current,
    limiter,
    rateLimit: settings.rateLimit,
    authentication: {
      verifiedTokens,
      revocationsTrusted,
      tokenOf: exchange =>
        (exchange.offer === undefined ? bearerToken(exchange.head.authorization) : exchange.offer.token) ??
        sessionCookies?.tokenOf(exchange)
    },
    authorization: {
      cloudUnassignedMayPass,
      revealReason: settings.revealReason,
      contact: settings.contact
    },
    answers,
    answerOwn: own.handle,
    forwardHttp,
    forwardUpgrade: sockets.forwardUpgrade,
    forwardPolling: sockets.forwardPolling,
    socketOrigins: [new URL(settings.publicUrl).origin, answers.corsOrigin],
    onOpen: observation.onOpen,
    observe: observation.onClose
  })

  const port = await listen(app.server, settings)
  observation.nowReady()
  return {
    port,
    opsPort: observation.opsPort,
    reload: siblings.reload ?? routes.reload,
    openapi: () => own.app.swagger(),
    async close() {
      observation.nowDraining()
      await Promise.all([drain(app.server, settings.drainTimeoutMs), sockets.drain(settings.drainTimeoutMs)])
      upstreams.close()
      await routes.close()
      await own.close()
      await feed.close()
      await loginAudit.flush()
      await limiter.close()
      await redis?.close()
      await database.close()
      await observation.close()
    }
  }
}

/** Changes of access by an Admin of this instance are felt here before they are answered. */
const knownAtOnce = (users: Users, catchUp: () => Promise<void>): Users => {
  const after =
    <Args extends unknown[], Result>(change: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      const result = await change(...args)
      await catchUp()
      return result
    }
  return {
    ...users,
    setAccess: after(users.setAccess),
    revokePerson: after(users.revokePerson),
    disablePerson: after(users.disablePerson),
    renameArea: after(users.renameArea),
    deleteArea: after(users.deleteArea)
  }
}

const openStores = async (settings: Settings, log: Logger) => {
  const database = await openDatabase({ databaseUrl: settings.databaseUrl, dataDir: settings.dataDir, log })
  const redis = settings.redis === undefined ? undefined : openRedis(settings.redis, log)
  // Or the first requests would find it away.
  await redis?.ready(REDIS_WAIT_MS)
  return {
    database,
    users: createUsers(database),
    audit: createAuditLog(database),
    tokenState: createTokenState(database),
    redis,
    limiter: createLimiter(redis === undefined ? { log } : { redis, log })
  }
}

const listen = (server: Server, { port, host }: Settings): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      const address = server.address() as AddressInfo
      resolve(address.port)
    })
  })

const IDLE_CHECK_MS = 50

/** Requests under way may finish; after `timeoutMs` their connections are cut. */
const drain = (server: Server, timeoutMs: number): Promise<void> =>
  new Promise(resolve => {
    // A connection that becomes idle after its last answer is closed at once.
    const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS)
    const late = setTimeout(() => server.closeAllConnections(), timeoutMs)
    server.close(() => {
      clearInterval(idle)
      clearTimeout(late)
      resolve()
    })
  })

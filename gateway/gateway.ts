// Settings become a running gateway: stores opened, parts made and handed to each other, then the listener.
import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { createBasicToken } from './access/basic-token.ts'
import { createBrowserSession, isSessionCookie } from './access/browser-session.ts'
import { bearerTokenOf } from './access/connection-token.ts'
import { statusOf } from './admin/status-routes.ts'
import { buildApp } from './app.ts'
import { isAttemptCookie } from './cloud/attempts.ts'
import { createOAuthClient } from './cloud/client.ts'
import { warnOfCloudLinks } from './cloud/link-warnings.ts'
import { startDirectory } from './directory-parts.ts'
import { registerEndpoints } from './endpoints.ts'
import { createForwardHttp } from './forward/forward-http.ts'
import { forwardedHeaders } from './http/answer.ts'
import { createClientAddress } from './http/client-address.ts'
import { createCrossOrigins } from './http/cross-origin.ts'
import type { Exchange } from './http/exchange.ts'
import { createOwnEndpoints } from './http/own-endpoints.ts'
import { createConnectionPlaces } from './http/server/connection-places.ts'
import { createCertificates, isWell } from './listener/certificates.ts'
import { openListener } from './listener/listener.ts'
import { createViolations } from './listener/violations.ts'
import { createLoginAudit } from './login/audit.ts'
import type { LoginOutcome } from './login/sign-in.ts'
import { createAuditWatch } from './observe/audit-watch.ts'
import { createChecks } from './observe/health.ts'
import { startObservation } from './observe/observation.ts'
import { watchReachability } from './observe/reachability.ts'
import { createLiveRoutes } from './route-files/live.ts'
import { ownRoutes } from './routes/own-routes.ts'
import type { RouteTable } from './routes/route.ts'
import { unassignedMayPass } from './settings/cloud.ts'
import { groupSources } from './settings/group-sources.ts'
import type { Settings } from './settings/settings.ts'
import { createWorkerViews } from './siblings/merged-views.ts'
import { alone, type Siblings } from './siblings/siblings.ts'
import { createSockets, type Sockets } from './sockets.ts'
import { createLoginNames } from './store/login-names.ts'
import { createRegranting } from './store/regranting.ts'
import { openStores } from './stores.ts'
import { startTokens } from './token-parts.ts'
import { upstreamHead } from './upstream/head.ts'
import { createToldHost } from './upstream/headers/told-host.ts'
import { createUpstreamRequest } from './upstream/request.ts'
import { createUpstreams } from './upstream/upstreams.ts'

export interface Gateway {
  readonly port: number
  /** Of the listener that redirects to PUBLIC_URL; undefined without one. */
  readonly redirectPort: number | undefined
  /** Of the ops listener; undefined without one. */
  readonly opsPort: number | undefined
  /** Reads the route files and the certificate files again; resolves to whether all of them are in use. */
  reload(): Promise<boolean>
  /** The OpenAPI document of the own endpoints; a primary of several workers has none. */
  openapi?(): unknown
  /** Stops accepting, lets requests finish for up to DRAIN_TIMEOUT, then closes everything. */
  close(): Promise<void>
}

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
  const stores = await openStores(settings, log, () => routes.current())
  const { database, users, audit, redis, limiter } = stores
  const tokenParts = await startTokens(settings, stores, log)
  const { tokens, revocations, feed, verifiedTokens, revocationsTrusted, endLogin } = tokenParts
  const directory = await startDirectory(settings, stores, tokenParts, log)
  const cloudUnassignedMayPass = unassignedMayPass(settings.cloudidp.tenantId, settings.cloudidp.allowedTenants)
  const upstreams = createUpstreams({ log })
  const certificates = siblings.certificates ?? (settings.tls && createCertificates({ tls: settings.tls, log }))
  const violations = createViolations(log)
  const onTable = (table: RouteTable) => {
    upstreams.retain(table)
    observation.onTable(table)
  }
  // Made last, since so much is passed to them; asked for earlier by whoever looks during the start.
  let open: Sockets | undefined
  const routes = await createLiveRoutes({
    folder: settings.upstreamConfig,
    groupSources: groupSources(settings),
    ownRoutes: ownRoutes(),
    publicUrlGiven: settings.publicUrlGiven,
    log,
    onSwap: table => {
      onTable(table)
      void regranting.apply()
      open?.onTableSwapped()
    },
    onReload: observation.onReload,
    onChange: siblings.reload
  })
  onTable(routes.current())
  const regranting = createRegranting({ database, table: routes.current, log })
  const loginAudit = createLoginAudit({
    audit: stores.logins.audit,
    personOf: createLoginNames(stores.logins.database).personOf,
    secret: settings.jwt.secret,
    log
  })
  const auditWatch = createAuditWatch(audit, log)
  const onOutcome = (outcome: LoginOutcome) => {
    loginAudit.record(outcome)
    observation.onLogin(outcome)
  }
  const revocationState = () => ({ known: revocations.size(), stalenessMs: feed.staleness() })
  const streamCounts = () => open?.streams.counts() ?? { websocket: 0, socketio: 0, sse: 0 }
  const refusedEvents = () => open?.refusedEvents() ?? []
  const reloadState = () => {
    const { ok, loadedAt, checksum, lastError } = routes.status()
    return { ok, loadedAt, checksum, routes: routes.current().routes.length, complaints: lastError ?? [] }
  }
  const cloud = settings.cloudidp.active ? createOAuthClient({ settings: settings.cloudidp, log }) : undefined
  await warnOfCloudLinks(settings.cloudidp, database, log)
  const provider =
    cloud &&
    watchReachability({
      reach: cloud.reach,
      log,
      away: 'the cloud provider cannot be reached; nobody can log in there until it can',
      back: 'the cloud provider can be reached again'
    })
  observation.attach({
    provider: () => provider?.state(),
    streams: streamCounts,
    refusedEvents,
    limiter: limiter.status,
    routes: () => ({ ...routes.status(), count: routes.current().routes.length }),
    tokenCache: verifiedTokens.counts,
    tokensByKey: () => tokens.verified,
    revocations: revocationState,
    upstreams: upstreams.status,
    audit: auditWatch.last,
    directory: directory.state,
    certificate: () => certificates?.state(),
    proxyViolations: () => violations.count
  })
  const ownCookies = { has: (name: string) => isAttemptCookie(name) || isSessionCookie(name) }
  const basicTokenOf = createBasicToken(settings.publicUrl)
  const sessionCookies = settings.browserSession
    ? createBrowserSession({
        publicUrl: settings.publicUrl,
        verifiedTokens,
        endReplaced: (login, { requestId, client }) => endLogin(login, { requestId, ip: client.address })
      })
    : undefined
  const answers = {
    origins: createCrossOrigins(settings.publicUrl, settings.frontendUrl, settings.corsOrigins),
    ...(sessionCookies === undefined ? {} : { loginAddress: sessionCookies.loginAddress })
  }

  const checks = createChecks({
    provider: provider?.state,
    pingDatabase: database.ping,
    limiterDegraded: () => limiter.status().mode === 'degraded',
    routesCurrent: () => routes.status().ok,
    upstreamDown: upstreams.hasDown,
    stalenessMs: feed.staleness,
    directory: directory.state,
    directoryInsecure: settings.ldap.insecure,
    tlsWell: certificates && (() => isWell(certificates.state()))
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
  const own = await createOwnEndpoints({
    ...answers,
    log,
    refuse,
    register: app =>
      registerEndpoints(app, {
        settings,
        stores,
        tokenParts,
        directory: directory.directory,
        cloud,
        sessionCookies,
        onOutcome,
        log,
        checks,
        routes: routes.current,
        cloudUnassignedMayPass,
        ...views
      })
  })
  const upstreamRequest = createUpstreamRequest({
    tokens,
    assertions: tokenParts.assertions,
    ownCookies,
    toldHost: createToldHost(settings)
  })
  const sockets = createSockets({
    routes: routes.current,
    revocations,
    verifiedTokens,
    revocationsTrusted,
    freshAccess: async id => {
      const person = await users.loadPerson(id)
      return person === undefined || person.disabled ? undefined : person
    },
    streamShares: settings.streamShares,
    cloudUnassignedMayPass,
    redis,
    upstreams,
    upstreamRequest,
    ownCookies,
    answers,
    refuse,
    log,
    onSwitched: observation.onClose
  })
  open = sockets
  const forwardHttp = createForwardHttp({
    upstreams,
    headFor: (exchange, route, authority) => upstreamHead(upstreamRequest(exchange, route, authority, exchange.query)),
    addedHeaders: (exchange, passed) => forwardedHeaders(exchange, passed, answers),
    ownCookies,
    refuse,
    onEventStream: sockets.registerEventStream
  })
  const clientAddress = createClientAddress(settings.trustProxy, element =>
    log.warn(
      { element },
      'a trusted proxy sends X-Forwarded-For with an element that is no address; requests through it count as its own'
    )
  )
  const places = createConnectionPlaces({
    most: settings.connectionsPerIp,
    clientAddress,
    ask: siblings.reload && (claims => siblings.ask('connections', claims)),
    onRefused: (address, count) =>
      log.warn({ address, count }, 'connections closed: a client address has as many as CONNECTIONS_PER_IP allows')
  })
  siblings.answer('connections', places.answer)
  const app = buildApp({
    clientStallMs: limits.clientStallMs,
    clientAddress,
    places,
    routes: routes.current,
    limiter,
    rateLimit: settings.rateLimit,
    authentication: {
      verifiedTokens,
      revocationsTrusted,
      tokenOf: exchange =>
        (exchange.offer === undefined ? bearerTokenOf(exchange) : exchange.offer.token) ??
        basicTokenOf(exchange) ??
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
    socketOrigins: [new URL(settings.publicUrl).origin, answers.origins.frontend],
    onOpen: observation.onOpen,
    observe: observation.onClose
  })

  await regranting.apply()
  const listener = await openListener({
    server: app.server,
    settings,
    certificates,
    isTrusted: clientAddress.trusted,
    onRefused: violations.note
  })
  const reload = async () => {
    const read = await Promise.all([routes.reload(), certificates?.reload() ?? true])
    return !read.includes(false)
  }
  observation.nowReady()
  return {
    port: listener.port,
    redirectPort: listener.redirectPort,
    opsPort: observation.opsPort,
    reload: siblings.reload ?? reload,
    openapi: () => own.app.swagger(),
    async close() {
      observation.nowDraining()
      // Whoever balances takes this instance out meanwhile.
      if (settings.drainDelayMs > 0) await setTimeout(settings.drainDelayMs)
      await Promise.all([listener.drain(settings.drainTimeoutMs), sockets.drain(settings.drainTimeoutMs)])
      upstreams.close()
      provider?.close()
      await routes.close()
      await regranting.close()
      await own.close()
      tokenParts.assertionFeed.close()
      await tokenParts.uses.close()
      await directory.close()
      await feed.close()
      await loginAudit.flush()
      await limiter.close()
      await redis?.close()
      await database.close()
      await observation.close()
    }
  }
}

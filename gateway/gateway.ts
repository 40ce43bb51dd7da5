// Assembles a running gateway from its settings: stores, tokens, sockets, state, own endpoints, then the listener.
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { createAuthenticate, createIdentify } from './access/authenticate.ts'
import { createCredentials } from './access/credentials.ts'
import { buildApp } from './app.ts'
import { startCloud } from './cloud/start-cloud.ts'
import { registerEndpoints } from './endpoints.ts'
import { createForwarding, type Forwarding } from './forwarding.ts'
import { createRequestHost } from './http/client-address.ts'
import { createOwnEndpoints } from './http/own-endpoints.ts'
import { type Certificates, createCertificates } from './listener/certificates.ts'
import { createClientQuota, type QuotaOptions } from './listener/connection-quota.ts'
import { openListener } from './listener/listener.ts'
import { createViolations } from './listener/proxy-protocol.ts'
import { createLoginAudit } from './login/audit.ts'
import { startDirectory } from './login/start-directory.ts'
import { type Observation, startObservation } from './observe/observation.ts'
import { createRefusalPage } from './pages/refusal-page.ts'
import { createProcessState } from './process-state.ts'
import { createLiveRoutes } from './route-files/live.ts'
import type { RouteDefinitions } from './route-files/read.ts'
import { ownRoutes } from './routes/own-routes.ts'
import { groupSources, unassignedMayPass } from './settings/cloud.ts'
import type { Settings } from './settings/settings.ts'
import { startTokens } from './start-tokens.ts'
import type { DatabaseDeadlines } from './store/database.ts'
import { openStores } from './stores.ts'
import { createUpstreams } from './upstream/upstreams.ts'
import { logFaultsTo } from './values/contain.ts'

export interface Gateway {
  readonly port: number
  /** Port of the listener that redirects to PUBLIC_URL and to named hosts; undefined if there is none. */
  readonly redirectPort: number | undefined
  /** Port of the ops listener; undefined if there is none. */
  readonly opsPort: number | undefined
  /**
   * Reads the route files and the certificate files again; resolves to whether all of them are in use.
   * @param isAsked someone requested it, so the log also says when nothing has changed
   */
  reload(isAsked?: boolean): Promise<boolean>
  /** Stops accepting, lets requests finish for up to DRAIN_TIMEOUT, then closes everything. */
  close(): Promise<void>
}

/** A gateway of one process, such as a worker. */
export interface SingleGateway extends Gateway {
  /** The OpenAPI document of the own endpoints. */
  openapi(): unknown
  /** Makes every response close its connection from now on. */
  announceEnd(): void
  /** As prom-client's JSON, for a process that combines those of several. */
  metrics(): Promise<unknown>
  /** How many connections of some client addresses are open here; see {@link SharedListener}. */
  connections(claims: unknown): number[]
  /** The route definitions in use, for a process that replaces another. */
  definitions(): RouteDefinitions
}

/** What processes that share a listener have in common. */
export interface SharedListener {
  /** As tracked by the primary process; undefined: no TLS. */
  readonly certificates: Certificates | undefined
  /** Asks the others how many connections of some client addresses they have. */
  readonly askConnections: NonNullable<QuotaOptions['ask']>
  /** Has all others read the route files. */
  reload(): Promise<unknown>
  /** The route definitions that another has in use; undefined: none has. */
  askDefinitions(): Promise<RouteDefinitions | undefined>
}

/** What no setting changes, but a program that embeds the gateway may. */
export interface Embedding {
  /** How long a client may leave a response unread; milliseconds. */
  clientStallMs?: number
  databaseDeadlines?: DatabaseDeadlines
  /** Runs when all else has started: gives up a port that was held until then. */
  beforeListening?(): Promise<void>
}

/** @param shared undefined: no other process shares the listener */
export const startGateway = async (
  settings: Settings,
  log: Logger,
  embedding: Embedding = {},
  shared?: SharedListener
): Promise<SingleGateway> => {
  logFaultsTo(log)
  const observation = await startObservation(settings, log)
  const routes = await createLiveRoutes({
    folder: settings.upstreamConfig,
    groupSources: groupSources(settings),
    browserSession: settings.browserSession,
    ownRoutes: ownRoutes(),
    publicUrlGiven: settings.publicUrlGiven,
    log,
    onReload: observation.onReload,
    onChange: shared?.reload,
    inUseElsewhere: shared?.askDefinitions
  })
  const stores = await openStores(settings, log, routes.current, embedding.databaseDeadlines)
  const tokenParts = await startTokens(settings, stores, log)
  const directory = await startDirectory(settings, stores, tokenParts, log)
  const cloudUnassignedMayPass = unassignedMayPass(settings.cloudidp.tenantId, settings.cloudidp.allowedTenants)
  const credentials = createCredentials(settings, tokenParts, routes.current, createRefusalPage(settings))
  const cloud = await startCloud(settings, stores.database, log)
  const upstreams = createUpstreams({ log, publicHost: new URL(settings.publicUrl).host })
  const common = { settings, log, stores, tokenParts, routes, upstreams, cloudUnassignedMayPass, observation }

  const forwarding = createForwarding({ ...common, credentials })
  const followers = [upstreams.retain, observation.onTable, forwarding.onTable, () => void stores.regranting.load()]
  for (const follower of followers) routes.follow(follower)

  const certificates = shared?.certificates ?? (settings.tls && createCertificates({ tls: settings.tls, log }))
  const violations = createViolations(log)
  const state = createProcessState({ ...common, directory, cloud, forwarding, certificates, violations })

  const loginAudit = createLoginAudit({ ...stores.logins, secret: settings.jwt.secret, log })
  const { answers, refuse, hosts, renewCookie, tokenOf } = credentials
  const publicOrigins = [new URL(settings.publicUrl).origin, answers.origins.frontend]
  const authentication = { ...tokenParts, tokenOf }
  const identify = createIdentify(authentication)
  const logins = { directory: directory.directory, cloud: cloud.client, credentials, loginAudit, identify }
  const register = (app: FastifyInstance) => registerEndpoints(app, { ...common, ...state, ...logins })
  const checkAgain = createAuthenticate(authentication)
  const own = await createOwnEndpoints({ ...answers, log, refuse, checkAgain, register })

  const { clientAddress, quota } = createClientQuota(settings, shared?.askConnections, log)
  const server = buildApp({
    clientStallMs: embedding.clientStallMs,
    clientAddress,
    routes: routes.current,
    requestHost: createRequestHost(settings),
    limiter: stores.limiter,
    rateLimit: settings.rateLimit,
    authentication,
    renewCookie,
    authorization: { cloudUnassignedMayPass, revealReason: settings.revealReason, contact: settings.contact },
    answers,
    answerOwn: own.handle,
    ...forwarding,
    // A named host has no frontend but its own pages.
    socketOrigins: exchange => (hosts.named(exchange) === undefined ? publicOrigins : [hosts.originOf(exchange)]),
    onOpen: observation.onOpen,
    observe: observation.onClose,
    observeFault: observation.onUnreadable
  })
  await embedding.beforeListening?.()
  const listener = await openListener({
    server,
    settings,
    certificates,
    quota,
    redirectOrigin: hosts.redirectOrigin,
    isTrusted: clientAddress.trusted,
    onRefused: violations.note
  })
  observation.nowReady()

  return {
    port: listener.port,
    redirectPort: listener.redirectPort,
    opsPort: observation.opsPort,
    reload: async isAsked => !(await Promise.all([routes.reload(isAsked), certificates?.reload()])).includes(false),
    openapi: () => own.app.swagger(),
    announceEnd: listener.announceEnd,
    metrics: observation.metrics,
    connections: quota.answer,
    definitions: routes.definitions,
    async close() {
      await drain(settings, observation, listener, forwarding)
      // Whatever still waits for the database then fails at once.
      const lastWrites = setTimeout(() => void stores.database.close(), LAST_WRITES_MS)
      const audit = { close: loginAudit.flush }
      // First what is not known elsewhere; and again for a login that ended meanwhile.
      for (const part of [upstreams, own, audit, routes, tokenParts, state, audit]) await part.close()
      // They may be waiting for a service that does not respond.
      for (const part of [cloud, directory]) await part.close()
      for (const part of [stores, observation]) await part.close()
      clearTimeout(lastWrites)
    }
  }
}

/** After the drain, the time for what has to be stored. */
const LAST_WRITES_MS = 1_500

/** Lets balancers take this instance out of service, then lets requests and streams finish. */
const drain = async (
  { drainDelayMs, drainTimeoutMs }: Settings,
  observation: Observation,
  listener: Awaited<ReturnType<typeof openListener>>,
  forwarding: Forwarding
): Promise<void> => {
  observation.nowDraining()
  if (drainDelayMs > 0) {
    // Connections are not kept alive, because a request could arrive on one just as it ends.
    listener.announceEnd()
    await delay(drainDelayMs)
  }
  await Promise.all([listener.drain(drainTimeoutMs), forwarding.drain(drainTimeoutMs)])
}

// Registers the gateway's own endpoints, in the order of the contract, with what each needs.
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Identify } from './access/authenticate.ts'
import type { Credentials } from './access/credentials.ts'
import { accountEndpoints } from './account/account-routes.ts'
import { jwksRoutes } from './account/jwks-routes.ts'
import type { AdminParts } from './admin/admin-parts.ts'
import { adminRoutes } from './admin/admin-routes.ts'
import type { OAuthClient } from './cloud/client.ts'
import { providerLogoutRoutes } from './cloud/logout-routes.ts'
import { oauthRoutes } from './cloud/routes.ts'
import type { Directory } from './directory/directory.ts'
import { createRequestHost } from './http/client-address.ts'
import { identityOf } from './http/exchange.ts'
import { addEndpoints } from './http/own-requests.ts'
import { type LoginAudit, loginEntry } from './login/audit.ts'
import { clientTokenRoutes } from './login/client-token-routes.ts'
import { hostSessionRoutes } from './login/host-session-routes.ts'
import { loginRoutes } from './login/routes.ts'
import { createSignIn, type LoginOutcome } from './login/sign-in.ts'
import { createLoginThrottle } from './login/throttle/throttle.ts'
import { tokenRoutes } from './login/token-routes.ts'
import { listHeldBack, unlockAddress, unlockPerson } from './login/unlock.ts'
import { type HealthParts, healthRoutes } from './observe/health.ts'
import type { Observation } from './observe/observation.ts'
import { pageRoutes } from './pages/page-routes.ts'
import type { LiveRoutes } from './route-files/live.ts'
import { appsFor, hasApps } from './routes/apps.ts'
import type { Settings } from './settings/settings.ts'
import type { TokenParts } from './start-tokens.ts'
import { knownAtOnce } from './store/access-changes.ts'
import { createAuditLog } from './store/audit-log.ts'
import { createClients } from './store/clients.ts'
import { createLoginAttempts, createSecretFailures } from './store/login-attempts.ts'
import { createLoginMemory } from './store/login-names.ts'
import { endAtProvider } from './store/provider-sessions.ts'
import type { Stores } from './stores.ts'

interface EndpointParts extends HealthParts, Pick<AdminParts, 'cloudUnassignedMayPass' | 'sockets' | 'status'> {
  routes: LiveRoutes
  settings: Settings
  stores: Stores
  tokenParts: TokenParts
  /** undefined: directory login is not active. */
  directory: Directory | undefined
  /** undefined: no cloud login. */
  cloud: OAuthClient | undefined
  credentials: Credentials
  loginAudit: LoginAudit
  /** Finds the sender of a request at an endpoint that is public. */
  identify: Identify
  observation: Observation
  log: Logger
}

const CUT_OFF =
  'the provider truncated the list of groups of a person, so none of them count: send group ids or app roles of this application only'

const CHANGES_OF_PEOPLE = [
  'setAccess',
  'setAccessOfMany',
  'revokePerson',
  'disablePerson',
  'erasePerson',
  'renameArea',
  'deleteArea'
] as const

export const registerEndpoints = (app: FastifyInstance, parts: EndpointParts): void => {
  const { settings, stores, tokenParts, cloud, loginAudit, observation, log } = parts
  const { hosts, hostLogin, sessionCookie } = parts.credentials
  const onOutcome = (outcome: LoginOutcome) => {
    if (outcome.isRepeated !== true) loginAudit.record(outcome)
    observation.onLogin(outcome)
  }
  const { database, users, audit, logins } = stores
  const { tokens, feed, endLogin } = tokenParts
  const loginMemory = createLoginMemory(logins.database)
  const loginAudits = createAuditLog(logins.database)
  const liveLogins = knownAtOnce(stores.liveLogins, ['end', 'endAll'], feed.catchUp)
  const signIn = createSignIn({
    tokens,
    onOutcome,
    beginSession: tokenParts.beginSession,
    async syncPerson(person, { requestId }) {
      const synced = await logins.users.syncPerson({ ...person, bootstrapAdmins: settings.bootstrapAdmins })
      const isGranted = parts.routes.current().grants.list.some(({ provider }) => provider === person.provider)
      if (person.groupsCutOff === true && isGranted) {
        log.warn({ requestId, user: synced.user.id, reason: 'groups-cut-off' }, CUT_OFF)
      }
      return synced
    }
  })
  const throttle = createLoginThrottle({
    ldap: settings.ldap,
    loginFailures: settings.loginFailures,
    secret: settings.jwt.secret,
    attempts: createLoginAttempts(logins.database),
    names: logins.names,
    log
  })
  healthRoutes(app, parts)
  loginRoutes(app, {
    sessionCookie,
    cloudidp: settings.cloudidp,
    directory: parts.directory,
    throttle,
    rememberAddress: loginMemory.rememberAddress,
    signIn,
    onOutcome
  })
  oauthRoutes(app, {
    hosts,
    sessionCookie,
    settings,
    client: cloud,
    signIn,
    useOnce: loginMemory.useOAuthState,
    onOutcome
  })
  providerLogoutRoutes(app, {
    client: settings.cloudidp.issuer === undefined ? undefined : cloud,
    async endSessions(logout, from) {
      const ended = await endAtProvider(database, logout, from)
      await feed.catchUp()
      return ended
    },
    log
  })
  tokenRoutes(app, {
    // Logging out here must not depend on the provider being reachable.
    providerLogoutUrl: async () => cloud?.logoutUrl().catch(() => undefined),
    tokens,
    renewLogin: tokenParts.renewLogin,
    revokeLogin: endLogin,
    sessionCookie
  })
  if (sessionCookie !== undefined) {
    const useOnce = loginMemory.useOAuthState
    hostSessionRoutes(app, { hosts, hostLogin, sessionCookie, useOnce, ...tokenParts })
  }
  pageRoutes(app, {
    ...settings,
    hosts,
    hostLogin,
    hasApps: () => hasApps(parts.routes.current()),
    appsOf(exchange) {
      const refusal = parts.identify(exchange)
      if (refusal !== undefined) throw refusal
      const asker = { ...identityOf(exchange), address: exchange.client.address }
      return appsFor(parts.routes.current(), asker, exchange.hostName, { ...parts, publicUrl: settings.publicUrl })
    }
  })
  const personalTokens = knownAtOnce(stores.personalTokens, ['create', 'end'], feed.catchUp)
  addEndpoints(app, accountEndpoints({ users, liveLogins, personalTokens }))
  jwksRoutes(app, tokenParts)
  clientTokenRoutes(app, {
    clients: createClients(logins.database),
    tokens,
    failures: createSecretFailures(logins.database),
    loginFailures: settings.loginFailures,
    store: accepted => loginAudits.append(loginEntry(accepted)),
    onOutcome
  })
  adminRoutes(app, {
    personalTokens,
    clients: knownAtOnce(stores.clients, ['update', 'remove'], feed.catchUp),
    liveLogins,
    users: knownAtOnce(users, CHANGES_OF_PEOPLE, feed.catchUp),
    heldBack: () => listHeldBack(stores.lists, settings),
    unlock: async (actor, id) => {
      await unlockPerson(database, settings, actor, id)
      throttle.forgetRefusals()
    },
    unlockAddress: async (actor, address) => {
      const unlocked = await unlockAddress(database, settings, actor, address)
      throttle.forgetRefusals()
      return unlocked
    },
    audit,
    sockets: parts.sockets,
    routes: parts.routes.current,
    cloudUnassignedMayPass: parts.cloudUnassignedMayPass,
    requestHost: createRequestHost(settings),
    status: parts.status
  })
}

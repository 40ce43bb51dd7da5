// Finds the token of a request wherever it may be, and chooses the response to requests without a valid one.
import type { GatewayError } from '../errors.ts'
import { createCrossOrigins } from '../http/cross-origin.ts'
import { askingRoute, type Exchange } from '../http/exchange.ts'
import { answerRefusal, type RefusalPage, type ResponseOptions } from '../http/own-responses.ts'
import type { Identity } from '../identity.ts'
import type { RouteTable } from '../routes/route.ts'
import type { Settings } from '../settings/settings.ts'
import type { AccessTokens } from '../tokens/access-token.ts'
import type { RenewLogin } from '../tokens/renew-login.ts'
import type { Revocations } from '../tokens/revocations.ts'
import type { VerifiedTokens } from '../tokens/verified-tokens.ts'
import { bearerTokenOf } from './authenticate.ts'
import { createBasicToken } from './basic-token.ts'
import { createHostLogin } from './host-login.ts'
import { ownCookies } from './own-cookies.ts'
import { createOwnHosts } from './own-hosts.ts'
import { createRenewCookie } from './renew-cookie.ts'
import { createSessionCookie } from './session-cookie.ts'

interface CredentialParts {
  readonly verifiedTokens: VerifiedTokens
  readonly tokens: Pick<AccessTokens, 'outlived' | 'renewsAt'>
  readonly revocations: Pick<Revocations, 'tokenState'>
  readonly renewLogin: RenewLogin
  readonly endLogin: (login: Identity, context: { requestId: string; ip: string }) => Promise<void>
}

export type Credentials = ReturnType<typeof createCredentials>

export const createCredentials = (
  settings: Settings,
  parts: CredentialParts,
  routes: () => Pick<RouteTable, 'hosts' | 'namesHost'>,
  page: RefusalPage
) => {
  const { verifiedTokens, tokens, revocations, endLogin } = parts
  const { publicUrl, frontendUrl, corsOrigins, browserSession, jwt } = settings
  const hosts = createOwnHosts(publicUrl, routes)
  const hostLogin = createHostLogin({ publicUrl, secrets: [jwt.secret, ...jwt.previousSecrets], hosts })
  const basicTokenOf = createBasicToken(hosts)
  const sessionCookie = browserSession
    ? createSessionCookie({
        publicUrl,
        hosts,
        hostLogin,
        verifiedTokens,
        outlived(token) {
          const login = tokens.outlived(token)
          return login === undefined || revocations.tokenState(login) === 'revoked' ? undefined : login
        },
        endReplaced: (login, { requestId, client }) => endLogin(login, { requestId, ip: client.address })
      })
    : undefined
  const answers: ResponseOptions = {
    origins: createCrossOrigins(publicUrl, frontendUrl, corsOrigins),
    page,
    ...(sessionCookie === undefined ? {} : { loginAddress: sessionCookie.loginAddress })
  }
  return {
    hosts,
    hostLogin,
    /** undefined: BROWSER_SESSION is off. */
    sessionCookie,
    renewCookie:
      sessionCookie === undefined
        ? undefined
        : createRenewCookie({
            cookies: sessionCookie,
            renewLogin: parts.renewLogin,
            identify: verifiedTokens.identify,
            renewsAt: tokens.renewsAt
          }),
    ownCookies,
    answers,
    refuse: (exchange: Exchange, error: GatewayError) => answerRefusal(exchange, error, answers),
    tokenOf: (exchange: Exchange): string | undefined =>
      askingRoute(exchange)?.ownAuthorization === true
        ? sessionCookie?.tokenOf(exchange)
        : ((exchange.offer === undefined ? bearerTokenOf(exchange) : exchange.offer.token) ??
          basicTokenOf(exchange) ??
          sessionCookie?.tokenOf(exchange))
  }
}

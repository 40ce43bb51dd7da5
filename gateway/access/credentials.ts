// Finds the token of a request wherever it may be, and chooses the response to requests without a valid one.
import { BadOrigin, type GatewayError } from '../errors.ts'
import { createCrossOrigins } from '../http/cross-origin.ts'
import { askingRoute, type Exchange } from '../http/exchange.ts'
import { answerRefusal, type RefusalPage, type ResponseOptions } from '../http/own-responses.ts'
import { basicCredentials, bearerToken, type RequestHead } from '../http/request.ts'
import type { Identity } from '../identity.ts'
import type { RouteTable } from '../routes/route.ts'
import type { Settings } from '../settings/settings.ts'
import type { AccessTokens } from '../tokens/access-token.ts'
import { isPersonalToken } from '../tokens/personal-tokens.ts'
import type { RenewLogin } from '../tokens/renew-login.ts'
import type { Revocations } from '../tokens/revocations.ts'
import type { VerifiedTokens } from '../tokens/verified-tokens.ts'
import { createHostLogin } from './host-login.ts'
import { createOwnHosts, type OwnHosts } from './own-hosts.ts'
import { createRenewCookie } from './renew-cookie.ts'
import { createSessionCookie, ownCookies } from './session-cookie.ts'

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
    renewCookie: sessionCookie && createRenewCookie({ ...parts, cookies: sessionCookie, renewsAt: tokens.renewsAt }),
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

const USUAL_SCHEME = 'Bearer '

/**
 * The bearer token of a request's Authorization field; undefined if it holds none. In the usual spelling it is whatever
 * follows the scheme: its verification reads every character anyway.
 */
export const bearerTokenOf = ({ head }: Exchange): string | undefined => {
  const { authorization } = head
  if (authorization === undefined) return undefined
  const isUsual = authorization.startsWith(USUAL_SCHEME) && authorization[USUAL_SCHEME.length] !== ' '
  return isUsual ? authorization.slice(USUAL_SCHEME.length) : bearerToken(authorization)
}

/**
 * Browsers send Basic credentials with requests from any page, so pages of other sites must not be able to use them. A page
 * with Referrer-Policy: no-referrer sends `Origin: null` for its own requests too (Fetch, "append a request Origin header").
 */
const isForeign = ({ origin, fetchSite }: RequestHead, ownOrigin: string): boolean => {
  const isOwnOrigin = origin === undefined || origin === ownOrigin || (origin === 'null' && fetchSite === 'same-origin')
  return !isOwnOrigin || (fetchSite !== undefined && fetchSite !== 'same-origin' && fetchSite !== 'none')
}

/**
 * Takes an access token from the password of Basic (RFC 7617) on routes that allow it, for git, npm and similar tools. The user name
 * is ignored; a password that is not an access token counts as no token.
 */
export const createBasicToken =
  ({ originOf }: Pick<OwnHosts, 'originOf'>) =>
  (exchange: Exchange): string | undefined => {
    const { head } = exchange
    if (askingRoute(exchange)?.basic !== true || head.authorization === undefined || head.authorizations !== 1)
      return undefined
    const text = basicCredentials(head.authorization)?.toString('latin1')
    if (text === undefined) return undefined
    if (isForeign(head, originOf(exchange))) throw new BadOrigin({ reason: 'basic-cross-site' })
    const password = text.slice(text.indexOf(':') + 1)
    return isPersonalToken(password) ? password : undefined
  }

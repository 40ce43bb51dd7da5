// Renews the session cookie of a browser that uses it: at half of its token's life, and at once if its access has changed.
import { GatewayError, TokenStale } from '../errors.ts'
import { askingRoute, type Exchange } from '../http/exchange.ts'
import { asGatewayError } from '../http/own-responses.ts'
import type { Identity } from '../identity.ts'
import type { Renewed, RenewLogin } from '../tokens/renew-login.ts'
import type { VerifiedTokens } from '../tokens/verified-tokens.ts'
import { boundedMap, ownText } from '../values/bounded-map.ts'
import type { SessionCookie } from './session-cookie.ts'

interface RenewCookieParts {
  readonly cookies: Pick<SessionCookie, 'fieldsOf' | 'isNavigation'>
  readonly renewLogin: RenewLogin
  readonly verifiedTokens: Pick<VerifiedTokens, 'check'>
  /** Seconds since the epoch. */
  readonly renewsAt: (login: Identity) => number
}

/** Continues with the refusal, or with the request as that of the person with the current access. */
type Outcome = GatewayError | undefined

export type RenewCookie = ReturnType<typeof createRenewCookie>

/** Renewals that are remembered, because requests with the old cookie go on for a moment. */
const MOST = 20_000
/** After a failure, such as that of the database, the next attempt waits for so long; milliseconds. */
const RETRY_MS = 10_000

interface Renewal {
  readonly renewed: Promise<Renewed>
  /** undefined: under way, or failed. */
  token: string | undefined
  failedAt: number
}

export const createRenewCookie = ({ cookies, renewLogin, verifiedTokens, renewsAt }: RenewCookieParts) => {
  const renewals = boundedMap<string, Renewal>(MOST)

  const begin = (token: string, login: Identity): Renewal => {
    const renewal: Renewal = { renewed: renewLogin(login), token: undefined, failedAt: 0 }
    renewals.set(ownText(token), renewal)
    renewal.renewed.then(
      renewed => {
        renewal.token = renewed.token
      },
      () => {
        renewal.failedAt = performance.now()
      }
    )
    return renewal
  }

  /** By the time of a slow response, another login may have ended this one and taken its place in the browser. */
  const setCookie = (exchange: Exchange, token: string): void => {
    exchange.setCookies = () => (ownerOf(token, exchange) instanceof GatewayError ? [] : cookies.fieldsOf(token))
  }

  /** The owner of a token, stale or not; or why it has none. */
  const ownerOf = (token: string, { sessionHost: host }: Exchange) =>
    verifiedTokens.check(token, { allowStale: true, host })

  /** A request never waits for this: its response carries the cookie if it begins after the renewal, or else a later one does. */
  const renewInTime = (exchange: Exchange, token: string, login: Identity): void => {
    if (Date.now() / 1000 < renewsAt(login)) return
    const known = renewals.get(token)
    const isRetried = known !== undefined && known.failedAt > 0 && performance.now() - known.failedAt > RETRY_MS
    const renewal = known === undefined || isRetried ? begin(token, login) : known
    if (renewal.token !== undefined) setCookie(exchange, renewal.token)
    else if (renewal.failedAt === 0)
      renewal.renewed.then(
        renewed => setCookie(exchange, renewed.token),
        () => undefined
      )
  }

  const renewNow = async (exchange: Exchange, token: string): Promise<Outcome> => {
    try {
      const login = ownerOf(token, exchange)
      if (login instanceof GatewayError) return login
      const { token: fresh, identity } = await begin(token, login).renewed
      exchange.identity = identity
      setCookie(exchange, fresh)
      return undefined
    } catch (error) {
      return asGatewayError(error)
    }
  }

  /** @param refusal that of the token in the cookie; undefined: it is valid */
  return (exchange: Exchange, refusal: Outcome): Outcome | Promise<Outcome> => {
    const { sessionToken, identity, offer, forwardAuth } = exchange
    // The endpoints about the session do this themselves. Proxies that ask keep no cookie, nor does what opens a socket.
    if (sessionToken === undefined || askingRoute(exchange)?.browser !== true) return refusal
    if (offer !== undefined || forwardAuth !== undefined) return refusal
    if (refusal === undefined) {
      if (identity !== undefined) renewInTime(exchange, sessionToken, identity)
      return undefined
    }
    return refusal instanceof TokenStale && cookies.isNavigation(exchange) ? renewNow(exchange, sessionToken) : refusal
  }
}

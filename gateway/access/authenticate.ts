// Identifies the sender of a request; on a route that is not public, a request without a valid token gets 401.
import { BadRequest, GatewayError, TokenStale, Unauthenticated, Unavailable } from '../errors.ts'
import { askingRoute, type Exchange } from '../http/exchange.ts'
import { bearerToken, fieldValues } from '../http/request.ts'
import { holdsOwnToken, pathHoldsOwnToken } from '../tokens/own-tokens.ts'
import { isFromElsewhere } from '../tokens/token-addresses.ts'
import type { VerifiedTokens } from '../tokens/verified-tokens.ts'

// These two endpoints report or renew the current access, so a stale token may use them.
const STALE_MAY_ASK: ReadonlySet<string> = new Set(['/auth/refresh', '/auth/logout'])

// Shared, because a flood of requests without tokens needs many of them.
const NO_TOKEN = new Unauthenticated({ reason: 'no-token' })

const TOKEN_IN_PATH = new BadRequest({ reason: 'token-in-path' })

const TOKEN_FOR_APPLICATION = new BadRequest({ reason: 'token-for-application' })

const FROM_ELSEWHERE = new Unauthenticated({ reason: 'foreign-address' })

const TOO_OLD = new Unavailable({ reason: 'revocations-too-old' })

const isPublic = ({ match }: Exchange): boolean =>
  match?.route !== undefined
    ? match.route.public || match.route.socketio !== undefined
    : (match?.refusal === 'method' || match?.refusal === 'bad-path') && match.public

/** Whether what belongs to the application behind a route with `ownAuthorization` holds a token of this gateway. */
const bringsOwnToken = ({ request: { fields } }: Exchange, isOurs: (token: string) => boolean): boolean =>
  [...fieldValues(fields, 'authorization'), ...fieldValues(fields, 'sec-websocket-protocol')].some(value =>
    holdsOwnToken(value, isOurs)
  )

export interface Authentication {
  verifiedTokens: VerifiedTokens
  /** False when revocations could not be re-read for longer than REVOCATION_MAX_STALENESS. */
  revocationsTrusted: () => boolean
  /** Source of a request's token; undefined: there is none. */
  tokenOf: (exchange: Exchange) => string | undefined
  /** Whether a text is a token of this gateway: signed by it, or one of its live access tokens. */
  isOurs: (token: string) => boolean
}

export type Identify = (exchange: Exchange) => GatewayError | undefined

export const createAuthenticate = (parts: Authentication): Identify => {
  const identify = createIdentify(parts)
  return exchange => {
    if (!isPublic(exchange)) return identify(exchange)
    // Tokens are neither checked nor shown to the backend there. Fields are removed later; these can only be refused.
    const { path, destination, head } = exchange
    const isHeld =
      pathHoldsOwnToken(path, parts.isOurs) ||
      pathHoldsOwnToken(destination, parts.isOurs) ||
      pathHoldsOwnToken(head.host ?? '', parts.isOurs) ||
      pathHoldsOwnToken(head.forwardedHost ?? '', parts.isOurs)
    return isHeld ? TOKEN_IN_PATH : undefined
  }
}

/** The same for a request that needs a valid token, whatever its route says. */
export const createIdentify =
  ({ verifiedTokens, revocationsTrusted, tokenOf, isOurs }: Authentication): Identify =>
  exchange => {
    const { route } = exchange
    if (askingRoute(exchange)?.ownAuthorization === true && bringsOwnToken(exchange, isOurs))
      return TOKEN_FOR_APPLICATION
    const token = tokenOf(exchange)
    if (token === undefined) return NO_TOKEN
    const allowStale = route !== undefined && route.upstream === undefined && STALE_MAY_ASK.has(route.path)
    const identity = verifiedTokens.check(token, { allowStale, host: exchange.sessionHost })
    // A browser's login may go on with the current access; other refusals are final.
    if (identity instanceof TokenStale && !revocationsTrusted()) return TOO_OLD
    if (identity instanceof GatewayError) return identity
    if (identity.addresses !== undefined && isFromElsewhere(identity, exchange.client.address)) return FROM_ELSEWHERE
    exchange.identity = identity
    return revocationsTrusted() ? undefined : TOO_OLD
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

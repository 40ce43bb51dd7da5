// Identifies the sender of a request, and again after it has waited; on a route that is not public, one without a valid token gets 401.
import { BadRequest, GatewayError, TokenExpired, TokenStale, Unauthenticated, Unavailable } from '../errors.ts'
import { askingRoute, type Exchange } from '../http/exchange.ts'
import { fieldValues } from '../http/request.ts'
import type { User } from '../identity.ts'
import { needsNoToken } from '../routes/decide.ts'
import type { Route } from '../routes/route.ts'
import { holdsOwnToken, pathHoldsOwnToken } from '../tokens/own-tokens.ts'
import type { PersonalTokens } from '../tokens/personal-tokens.ts'
import type { Revocations } from '../tokens/revocations.ts'
import { refusalOf, type VerifiedTokens } from '../tokens/verified-tokens.ts'
import { mayComeFrom } from '../values/addresses.ts'

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
    ? needsNoToken(match.route)
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
    if (!mayComeFrom(identity.addresses, exchange.client.address)) return FROM_ELSEWHERE
    exchange.identity = identity
    return revocationsTrusted() ? undefined : TOO_OLD
  }

interface CheckAgainParts {
  readonly revocations: Pick<Revocations, 'tokenState'>
  readonly personalTokens: Pick<PersonalTokens, 'userNow'>
  /** Why a person may not use a route; undefined: they may. */
  readonly check: (route: Route, user: User) => GatewayError | undefined
}

/**
 * Whether a request that has waited may go on: its access may have ended since it was allowed. Without a lookup. A login whose access
 * has changed is refused, because its token is to be refreshed.
 */
export const createCheckAgain =
  ({ revocations, personalTokens, check }: CheckAgainParts) =>
  (exchange: Exchange): GatewayError | undefined => {
    const { identity, route } = exchange
    if (identity === undefined || route === undefined) return undefined
    const state = revocations.tokenState(identity)
    // A login may have been renewed meanwhile.
    if (identity.kind !== 'personal') return refusalOf(state)
    if (identity.expiresAt * 1000 <= Date.now()) return new TokenExpired({ reason: 'expired' })
    if (state !== 'stale') return refusalOf(state)
    // Access tokens cannot be refreshed: they go on with what is left of their owner's access.
    const user = personalTokens.userNow(identity)
    if (user === undefined) return TOO_OLD
    exchange.identity = { ...identity, user }
    return check(route, user)
  }

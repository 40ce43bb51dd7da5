// Identifies the sender of a request; on a route that is not public, a request without a valid token gets 401.
import { BadRequest, GatewayError, Unauthenticated, Unavailable } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { bearerToken } from '../http/head.ts'
import type { ClientConnection } from '../http/server/request.ts'
import { pathHoldsOwnToken } from '../tokens/own-tokens.ts'
import { isFromElsewhere } from '../tokens/token-addresses.ts'
import type { VerifiedTokens } from '../tokens/verified-tokens.ts'
import { ownText } from '../values/own-text.ts'

// These two endpoints report or renew the current access, so a stale token may use them.
const STALE_MAY_ASK: ReadonlySet<string> = new Set(['/auth/refresh', '/auth/logout'])

// Shared, because a flood of requests without tokens needs many of them.
const NO_TOKEN = new Unauthenticated({ reason: 'no-token' })

const TOKEN_IN_PATH = new BadRequest({ reason: 'token-in-path' })

const FROM_ELSEWHERE = new Unauthenticated({ reason: 'foreign-address' })

const isPublic = ({ match }: Exchange): boolean =>
  match?.route !== undefined
    ? match.route.public || match.route.socketio !== undefined
    : match?.refusal === 'method' && match.public

export interface Authentication {
  verifiedTokens: VerifiedTokens
  /** False when revocations could not be re-read for longer than REVOCATION_MAX_STALENESS. */
  revocationsTrusted: () => boolean
  /** Source of a request's token; undefined: there is none. */
  tokenOf: (exchange: Exchange) => string | undefined
  /** Whether a text is a token of this gateway: signed by it, or one of its live access tokens. */
  isOurs: (token: string) => boolean
}

export const createAuthenticate =
  ({ verifiedTokens, revocationsTrusted, tokenOf, isOurs }: Authentication) =>
  (exchange: Exchange): GatewayError | undefined => {
    // Tokens are neither checked nor shown to the backend there. Fields are removed later; a path can only be refused.
    if (isPublic(exchange)) return pathHoldsOwnToken(exchange.path, isOurs) ? TOKEN_IN_PATH : undefined
    const token = tokenOf(exchange)
    if (token === undefined) return NO_TOKEN
    const { route } = exchange
    const allowStale = route !== undefined && route.upstream === undefined && STALE_MAY_ASK.has(route.path)
    const identity = verifiedTokens.judge(token, { allowStale })
    if (identity instanceof GatewayError) return identity
    if (identity.addresses !== undefined && isFromElsewhere(identity, exchange.client.address)) return FROM_ELSEWHERE
    exchange.identity = identity
    return revocationsTrusted() ? undefined : new Unavailable({ reason: 'revocations-too-old' })
  }

interface Brought {
  authorization: string
  token: string
}

// Compared only with what arrived on the same connection, so the timing reveals nothing about another token.
const last = new WeakMap<ClientConnection, Brought>()

/** The bearer token of a request's Authorization field; undefined when it holds none. */
export const bearerTokenOf = ({ request, head }: Exchange): string | undefined => {
  const { authorization } = head
  if (authorization === undefined) return undefined
  const known = last.get(request.connection)
  if (known?.authorization === authorization) return known.token

  const own = ownText(authorization)
  const token = bearerToken(own)
  if (token === undefined) return undefined
  if (known === undefined) last.set(request.connection, { authorization: own, token })
  else {
    known.authorization = own
    known.token = token
  }
  return token
}

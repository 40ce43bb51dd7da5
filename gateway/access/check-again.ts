// Decides whether a request that has waited may go on: its access may have ended since it was allowed.
import { type GatewayError, TokenExpired, Unavailable } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import type { PersonalTokens } from '../tokens/personal-tokens.ts'
import type { Revocations } from '../tokens/revocations.ts'
import { refusalOf } from '../tokens/verified-tokens.ts'

interface CheckAgainParts {
  readonly revocations: Pick<Revocations, 'tokenState'>
  readonly personalTokens: Pick<PersonalTokens, 'userNow'>
  /** Why a person may not use a route; undefined: they may. */
  readonly check: (route: Route, user: User) => GatewayError | undefined
}

/** Without a lookup. A login whose access has changed is refused, because its token is to be refreshed. */
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
    if (user === undefined) return new Unavailable({ reason: 'revocations-too-old' })
    exchange.identity = { ...identity, user }
    return check(route, user)
  }

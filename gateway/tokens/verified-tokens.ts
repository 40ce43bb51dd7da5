// Verifies a token once and caches the result, within limits, until it expires or is revoked.

import { GatewayError, TokenExpired, TokenRevoked, TokenStale, Unauthenticated } from '../errors.ts'
import type { Identity } from '../identity.ts'
import { boundedMap, ownText } from '../values/bounded-map.ts'
import type { AccessTokens } from './access-token.ts'
import { isPersonalToken, type PersonalTokens } from './personal-tokens.ts'
import type { Revocations, TokenState } from './revocations.ts'
import type { TokenUse } from './token-uses.ts'

/** Tokens per generation, which are all kept if they are used in turn; two generations take 60 to 100 MB. */
const GENERATION = 32_768
/** A longer one counts as more than one. */
const USUAL_LENGTH = 1024

interface Remembered {
  readonly token: string
  /** A substring of this same `token`; as part of another text, it would keep that one in memory too. */
  readonly signature: string
  readonly identity: Identity
  tokenState: TokenState
  /** Epoch of the revocations at which `tokenState` was determined. */
  epoch: number
  /** Minutes since the epoch; when the token last passed; 0: never. */
  usedMinute: number
}

interface Accepted {
  allowStale?: boolean
  /** The named host whose session cookie holds the token; absent: it comes from elsewhere. */
  host?: string | undefined
}

/** What a state refuses. */
export const refusalOf = (state: TokenState): GatewayError | undefined => {
  if (state === 'revoked') return new TokenRevoked({ reason: 'revoked' })
  return state === 'stale' ? new TokenStale({ reason: 'stale' }) : undefined
}

interface VerifiedTokensOptions {
  tokens: Pick<AccessTokens, 'check'>
  revocations: Revocations
  personalTokens: Pick<PersonalTokens, 'check' | 'usedSince'>
  now?: () => number
  generation?: number
}

export type VerifiedTokens = ReturnType<typeof createVerifiedTokens>

export const createVerifiedTokens = (options: VerifiedTokensOptions) => {
  const { tokens, revocations, personalTokens } = options
  const now = options.now ?? Date.now
  // Found by the signature, a tenth of the text to hash, and then compared completely: only exactly the same bytes are ever
  // accepted as verified.
  const remembered = boundedMap<string, Remembered>(2 * (options.generation ?? GENERATION), ({ token }) =>
    Math.max(1, token.length / USUAL_LENGTH)
  )
  let hits = 0
  let misses = 0

  const recall = (token: string): Remembered | GatewayError => {
    const signature = token.slice(token.lastIndexOf('.') + 1)
    const known = remembered.get(signature)
    if (known?.token === token) {
      hits++
      return known
    }
    misses++
    const identity = tokens.check(token)
    if (identity instanceof GatewayError) return identity
    const own = ownText(token)
    const entry: Remembered = {
      token: own,
      signature: own.slice(own.lastIndexOf('.') + 1),
      identity,
      tokenState: 'valid',
      epoch: -1,
      usedMinute: 0
    }
    remembered.set(entry.signature, entry)
    return entry
  }

  const check = (token: string, { allowStale = false, host }: Accepted = {}): Identity | GatewayError => {
    if (isPersonalToken(token)) return personalTokens.check(token)
    const entry = recall(token)
    if (entry instanceof GatewayError) return entry
    const nowMs = now()
    if (entry.identity.host !== host) return new Unauthenticated({ reason: 'foreign-host' })
    if (entry.identity.expiresAt * 1000 <= nowMs) return new TokenExpired({ reason: 'expired' })
    if (entry.epoch !== revocations.epoch) {
      entry.tokenState = revocations.tokenState(entry.identity)
      entry.epoch = revocations.epoch
    }
    const refusal = refusalOf(entry.tokenState)
    if (refusal !== undefined && !(allowStale && entry.tokenState === 'stale')) return refusal
    entry.usedMinute = Math.floor(nowMs / 60_000)
    return entry.identity
  }

  return {
    /** The identity behind the token, or 401: unauthenticated, expired, revoked, or (unless allowed) stale. */
    check,
    /** How often a token was already known, how often one had to be verified, and how many are remembered now. */
    counts: () => ({ hits, misses, size: remembered.size() }),
    /** Tokens that passed in this minute (minutes since the epoch) or later, as far as they are remembered. */
    usedSince(minute: number) {
      const uses: TokenUse[] = personalTokens.usedSince(minute)
      for (const { identity, usedMinute } of remembered.values())
        if (usedMinute >= minute) uses.push({ identity, usedAt: usedMinute * 60_000 })
      return uses
    }
  }
}

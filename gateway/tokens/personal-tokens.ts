// Verifies the access tokens that people create. All live ones are in memory as SHA-256, so no request needs a lookup.
import { hash } from 'node:crypto'
import { type GatewayError, LoginRequired, TokenExpired, TokenRevoked, Unauthenticated } from '../errors.ts'
import { type Identity, narrowedTo } from '../identity.ts'
import { boundedMap } from '../values/bounded-map.ts'
import { ownText } from '../values/own-text.ts'
import { createOwnerTable, type TokenOwner } from './owner-table.ts'
import type { Revocations } from './revocations.ts'
import { createTokenTable, type KeptToken, type PersonalTokenRow } from './token-table.ts'

/** A token has been used; `usedAt` to the minute, in milliseconds since the epoch. */
export interface PersonalTokenUse {
  readonly personalToken: number
  readonly usedAt: number
}

export interface PersonalTokenNews {
  readonly personalTokens: readonly PersonalTokenRow[]
  readonly owners: readonly TokenOwner[]
}

export interface PersonalTokens {
  judge(token: string): Identity | GatewayError
  learn(news: PersonalTokenNews): void
  /** Whether a text is a token that was created here and has not been purged; does not check its owner. */
  isLive(token: string): boolean
  /** Whether this person has a live token; if so, a change of their access must be read again. */
  isOwner(userId: number): boolean
  /** Tokens used in this minute (minutes since the epoch) or later. */
  usedSince(minute: number): PersonalTokenUse[]
  /** Removes expired tokens. */
  purge(): void
  size(): number
}

interface PersonalTokensOptions {
  revocations: Revocations
  /** Milliseconds without a login or recheck of the owner after which a token is refused. */
  confirmMs: number
  now?: () => number
}

/** For a recently used token, so that its hash need not be computed for each request. */
interface Known {
  readonly place: number
  readonly row: KeptToken
  /** Revision of its owner when `identity` was built; 0: not built yet. */
  revision: number
  identity: Identity | undefined
}

const PREFIX = 'pt_'
const SHAPE = /^pt_[A-Za-z0-9_-]{43}$/
/** Recently used tokens, whose hash and identity are remembered; about 15 MB at most. */
const REMEMBERED = 16_384

// Shared, because a flood of guesses needs many of them.
const UNKNOWN = new Unauthenticated({ reason: 'unknown-access-token' })

/** Whether a text has the form of an access token; does not check its validity. */
export const isPersonalToken = (token: string): boolean => token.startsWith(PREFIX)

/** `jti` of the identity behind a token. */
export const personalTokenId = (id: number): string => `${PREFIX}${id}`

export const hashPersonalToken = (token: string): string => hash('sha256', token, 'hex')

export const createPersonalTokens = (options: PersonalTokensOptions): PersonalTokens => {
  const { revocations, confirmMs, now = Date.now } = options
  const table = createTokenTable()
  const owners = createOwnerTable()
  const recent = boundedMap<string, Known>(REMEMBERED)

  const recall = (token: string): Known | undefined => {
    const known = recent.get(token)
    if (known !== undefined) return known
    const place = SHAPE.test(token) ? table.find(hash('sha256', token, 'buffer')) : -1
    if (place === -1) return undefined
    const found: Known = { place, row: table.at(place), revision: 0, identity: undefined }
    recent.set(ownText(token), found)
    return found
  }

  /** Rebuilt only if its owner has changed. */
  const identityFor = (known: Known, place: number): Identity => {
    const revision = owners.revision(place)
    if (known.identity !== undefined && known.revision === revision) return known.identity
    const { id, profiles, createdAt, expiresAt } = known.row
    const { user, version } = owners.at(place)
    known.revision = revision
    known.identity = {
      user: narrowedTo(user, profiles),
      subject: String(user.id),
      tokenId: personalTokenId(id),
      version,
      issuedAt: createdAt,
      expiresAt,
      authenticatedAt: 0,
      kind: 'personal',
      profilesAtMost: profiles
    }
    return known.identity
  }

  return {
    judge(token) {
      const known = recall(token)
      if (known === undefined) return UNKNOWN
      const owner = owners.find(known.row.userId)
      if (owner === -1) return UNKNOWN
      const nowMs = now()
      if (known.row.expiresAt * 1000 <= nowMs) return new TokenExpired({ reason: 'expired' })
      const identity = identityFor(known, owner)
      const ended = owners.isDisabled(owner) || known.row.version < owners.lowestAccepted(owner)
      if (ended || revocations.standing(identity) === 'revoked') return new TokenRevoked({ reason: 'revoked' })
      if (nowMs - owners.confirmedAt(owner) * 1000 > confirmMs)
        return new LoginRequired({ reason: 'owner-unconfirmed' })
      table.markUsed(known.place, Math.floor(nowMs / 60_000))
      return identity
    },
    learn({ personalTokens, owners: people }) {
      for (const owner of people) owners.set(owner)
      for (const row of personalTokens) table.add(row)
    },
    isLive: token => recall(token) !== undefined,
    isOwner: userId => owners.find(userId) !== -1,
    usedSince(minute) {
      const uses: PersonalTokenUse[] = []
      for (let place = 0; place < table.size(); place++) {
        const used = table.usedMinute(place)
        if (used !== 0 && used >= minute) uses.push({ personalToken: table.at(place).id, usedAt: used * 60_000 })
      }
      return uses
    },
    purge() {
      const owning = new Set<number>()
      const nowS = now() / 1000
      table.retain(row => {
        const owner = owners.find(row.userId)
        const isLive =
          row.expiresAt > nowS &&
          owner !== -1 &&
          row.version >= owners.lowestAccepted(owner) &&
          !revocations.isRevoked(personalTokenId(row.id))
        if (isLive) owning.add(row.userId)
        return isLive
      })
      owners.retain(owning)
      recent.clear()
    },
    size: table.size
  }
}

// Verifies the access tokens that people create: all live ones are known here, as SHA-256, so no request looks one up.
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
  /** Whether a text is a token that was made here and has not been purged; says nothing of its owner. */
  isLive(token: string): boolean
  /** Whether this person has a live token: then a change of their access must be read again. */
  isOwner(userId: number): boolean
  /** Those used in this minute (minutes since the epoch) or later. */
  usedSince(minute: number): PersonalTokenUse[]
  /** Forgets what has expired. */
  purge(): void
  size(): number
}

interface PersonalTokensOptions {
  revocations: Revocations
  /** Milliseconds without a login or recheck of the owner after which a token is refused. */
  confirmMs: number
  now?: () => number
}

/** Of a token used recently, so that its hash need not be worked out for each request. */
interface Known {
  readonly place: number
  readonly row: KeptToken
  /** Of its owner, when `identity` was made; 0: not yet. */
  revision: number
  identity: Identity | undefined
}

const PREFIX = 'pt_'
const SHAPE = /^pt_[A-Za-z0-9_-]{43}$/
/** Tokens used last, whose hash and identity are remembered; some 15 MB at the most. */
const REMEMBERED = 16_384

// One for all, since a flood of guesses asks for many.
const UNKNOWN = new Unauthenticated({ reason: 'unknown-access-token' })

/** Whether a text claims to be one; says nothing of its validity. */
export const isPersonalToken = (token: string): boolean => token.startsWith(PREFIX)

/** `jti` of the identity that a token gives. */
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

  /** Made again only when its owner has changed. */
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
      const owner = known === undefined ? -1 : owners.find(known.row.userId)
      if (known === undefined || owner === -1) return UNKNOWN
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

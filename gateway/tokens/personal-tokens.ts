// Judges the access tokens that people made for their scripts: all live ones are known here, as SHA-256, so no request looks one up.
import { hash } from 'node:crypto'
import { type GatewayError, LoginRequired, TokenExpired, TokenRevoked, Unauthenticated } from '../errors.ts'
import { type Identity, narrowedTo, type User } from '../identity.ts'
import { boundedMap } from '../values/bounded-map.ts'
import { ownText } from '../values/own-text.ts'
import type { Revocations } from './revocations.ts'
import { createTokenTable, type KeptToken, type PersonalTokenRow } from './token-table.ts'

/** The owner of a live token, as the database knows them. */
export interface TokenOwner {
  readonly user: User
  readonly version: number
  readonly lowestAccepted: number
  readonly disabled: boolean
  /** When a login or a recheck last confirmed them; seconds since the epoch. */
  readonly confirmedAt: number
}

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
  /** What `identity` was made of. */
  owner: TokenOwner | undefined
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
  const owners = new Map<number, TokenOwner>()
  const recent = boundedMap<string, Known>(REMEMBERED)

  const recall = (token: string): Known | undefined => {
    const known = recent.get(token)
    if (known !== undefined) return known
    const place = SHAPE.test(token) ? table.find(hash('sha256', token, 'buffer')) : -1
    if (place === -1) return undefined
    const found: Known = { place, row: table.at(place), owner: undefined, identity: undefined }
    recent.set(ownText(token), found)
    return found
  }

  return {
    judge(token) {
      const known = recall(token)
      const owner = known === undefined ? undefined : owners.get(known.row.userId)
      if (known === undefined || owner === undefined) return UNKNOWN
      const nowMs = now()
      if (known.row.expiresAt * 1000 <= nowMs) return new TokenExpired({ reason: 'expired' })
      const identity = identityFor(known, owner)
      const ended = owner.disabled || known.row.version < owner.lowestAccepted
      if (ended || revocations.standing(identity) === 'revoked') return new TokenRevoked({ reason: 'revoked' })
      if (nowMs - owner.confirmedAt * 1000 > confirmMs) return new LoginRequired({ reason: 'owner-unconfirmed' })
      table.markUsed(known.place, Math.floor(nowMs / 60_000))
      return identity
    },
    learn({ personalTokens, owners: people }) {
      for (const owner of people) owners.set(owner.user.id, owner)
      for (const row of personalTokens) table.add(row)
    },
    isOwner: userId => owners.has(userId),
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
        const owner = owners.get(row.userId)
        const isLive =
          row.expiresAt > nowS &&
          owner !== undefined &&
          row.version >= owner.lowestAccepted &&
          !revocations.isRevoked(personalTokenId(row.id))
        if (isLive) owning.add(row.userId)
        return isLive
      })
      for (const id of owners.keys()) if (!owning.has(id)) owners.delete(id)
      recent.clear()
    },
    size: table.size
  }
}

/** Made again only when its owner has changed. */
const identityFor = (known: Known, owner: TokenOwner): Identity => {
  if (known.identity !== undefined && known.owner === owner) return known.identity
  const { id, profiles, createdAt, expiresAt } = known.row
  known.owner = owner
  known.identity = {
    user: narrowedTo(owner.user, profiles),
    subject: String(owner.user.id),
    tokenId: personalTokenId(id),
    version: owner.version,
    issuedAt: createdAt,
    expiresAt,
    authenticatedAt: 0,
    kind: 'personal',
    profilesAtMost: profiles
  }
  return known.identity
}

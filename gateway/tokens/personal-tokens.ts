// Judges the access tokens that people made for their scripts: all live ones are known here, as SHA-256, so no request looks one up.
import { hash } from 'node:crypto'
import { type GatewayError, LoginRequired, TokenExpired, TokenRevoked, Unauthenticated } from '../errors.ts'
import { type Identity, narrowedTo, type User } from '../identity.ts'
import { boundedMap } from '../values/bounded-map.ts'
import type { Revocations } from './revocations.ts'
import type { TokenUse } from './token-uses.ts'

/** A live token as the database knows it; times in seconds since the epoch. */
export interface PersonalTokenRow {
  readonly id: number
  readonly userId: number
  /** SHA-256, hex. */
  readonly hash: string
  /** Profiles named when it was made. */
  readonly profiles: readonly string[]
  /** The owner's access version when it was made. */
  readonly version: number
  readonly createdAt: number
  readonly expiresAt: number
}

/** The owner of a live token, as the database knows them. */
export interface TokenOwner {
  readonly user: User
  readonly version: number
  readonly lowestAccepted: number
  readonly disabled: boolean
  /** When a login or a recheck last confirmed them; seconds since the epoch. */
  readonly confirmedAt: number
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
  usedSince(minute: number): TokenUse[]
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

interface Known {
  readonly row: PersonalTokenRow
  /** What `identity` was made of. */
  owner: TokenOwner | undefined
  identity: Identity | undefined
  usedMinute: number
}

const PREFIX = 'pt_'
const SHAPE = /^pt_[A-Za-z0-9_-]{43}$/
/** Texts whose hash is remembered. */
const REMEMBERED = 4096

// One for all, since a flood of guesses asks for many.
const UNKNOWN = new Unauthenticated({ reason: 'unknown-access-token' })

/** Whether a text claims to be one; says nothing of its validity. */
export const isPersonalToken = (token: string): boolean => token.startsWith(PREFIX)

/** `jti` of the identity that a token gives. */
export const personalTokenId = (id: number): string => `${PREFIX}${id}`

export const hashPersonalToken = (token: string): string => hash('sha256', token, 'hex')

export const createPersonalTokens = (options: PersonalTokensOptions): PersonalTokens => {
  const { revocations, confirmMs, now = Date.now } = options
  const byHash = new Map<string, Known>()
  const owners = new Map<number, TokenOwner>()
  const lists = new Map<string, readonly string[]>()
  const recent = boundedMap<string, Known>(REMEMBERED)

  // Thousands of tokens name the same few profiles.
  const shared = (profiles: readonly string[]): readonly string[] => {
    const key = profiles.join('\0')
    const known = lists.get(key) ?? profiles
    lists.set(key, known)
    return known
  }

  const recall = (token: string): Known | undefined => {
    const known = recent.get(token)
    if (known !== undefined) return known
    const found = SHAPE.test(token) ? byHash.get(hashPersonalToken(token)) : undefined
    if (found !== undefined) recent.set(token, found)
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
      known.usedMinute = Math.floor(nowMs / 60_000)
      return identity
    },
    learn({ personalTokens, owners: people }) {
      for (const owner of people) owners.set(owner.user.id, owner)
      for (const row of personalTokens) {
        const known: Known = {
          row: { ...row, profiles: shared(row.profiles) },
          owner: undefined,
          identity: undefined,
          usedMinute: 0
        }
        if (!byHash.has(row.hash)) byHash.set(row.hash, known)
      }
    },
    isOwner: userId => owners.has(userId),
    usedSince(minute) {
      const uses: TokenUse[] = []
      for (const { identity, usedMinute } of byHash.values())
        if (identity !== undefined && usedMinute >= minute) uses.push({ identity, usedAt: usedMinute * 60_000 })
      return uses
    },
    purge() {
      const owning = new Set<number>()
      for (const [key, { row, identity }] of byHash) {
        const isOver =
          row.expiresAt * 1000 <= now() || (identity !== undefined && revocations.standing(identity) === 'revoked')
        if (isOver) byHash.delete(key)
        else owning.add(row.userId)
      }
      for (const id of owners.keys()) if (!owning.has(id)) owners.delete(id)
      recent.clear()
    },
    size: () => byHash.size
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

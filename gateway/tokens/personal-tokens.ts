// Verifies the access tokens that people create. All live ones are in memory by their SHA-256, so no request needs a lookup.
import { hash } from 'node:crypto'
import {
  type GatewayError,
  LoginRequired,
  TokenExpired,
  TokenRevoked,
  Unauthenticated,
  Unavailable
} from '../errors.ts'
import { type Identity, narrowedTo, type User } from '../identity.ts'
import type { Revocations } from './revocations.ts'

/** A live token as stored in the database; times in seconds since the epoch. It never changes. */
export interface LiveToken {
  readonly id: number
  /** SHA-256 of its text, hexadecimal. */
  readonly hash: string
  /** Profiles named when it was created. */
  readonly profiles: readonly string[]
  /** The owner's access version when it was created. */
  readonly version: number
  readonly createdAt: number
  readonly expiresAt: number
}

/** The owner of live tokens, as the database knows them. */
export interface TokenOwner {
  readonly user: User
  readonly version: number
  readonly lowestAccepted: number
  readonly disabled: boolean
  /** When a login or a recheck last confirmed them; seconds since the epoch. */
  readonly confirmedAt: number
}

export interface OwnerNews {
  readonly owner: TokenOwner
  readonly tokens: readonly LiveToken[]
}

/** A token has been used; `usedAt` to the minute, in milliseconds since the epoch. */
export interface PersonalTokenUse {
  readonly personalToken: number
  readonly usedAt: number
}

interface PersonalTokensOptions {
  revocations: Revocations
  /** Milliseconds without a login or recheck of the owner after which a token is refused. */
  confirmMs: number
  now?: () => number
}

/** A change of access is felt within this time; milliseconds. */
const UNREAD_MS = 1000

interface KnownToken {
  readonly row: LiveToken
  readonly userId: number
  /** Minutes since the epoch; 0: not used yet. */
  usedMinute: number
  /** Built at the first use after `owner` has changed. */
  built?: { readonly owner: TokenOwner; readonly identity: Identity }
}

const PREFIX = 'pt_'
const SHAPE = /^pt_[A-Za-z0-9_-]{43}$/

// Shared, because a flood of guesses needs many of them.
const UNKNOWN = new Unauthenticated({ reason: 'unknown-access-token' })

/** Whether a text has the form of an access token; does not check its validity. */
export const isPersonalToken = (token: string): boolean => token.startsWith(PREFIX)

/** `jti` of the identity behind a token. */
export const personalTokenId = (id: number): string => `${PREFIX}${id}`

export const hashPersonalToken = (token: string): string => hash('sha256', token, 'hex')

const identityFor = (known: KnownToken, owner: TokenOwner): Identity => {
  if (known.built?.owner === owner) return known.built.identity
  const { id, profiles, createdAt, expiresAt } = known.row
  const identity: Identity = {
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
  known.built = { owner, identity }
  return identity
}

export type PersonalTokens = ReturnType<typeof createPersonalTokens>

export const createPersonalTokens = (options: PersonalTokensOptions) => {
  const { revocations, confirmMs, now = Date.now } = options
  /** By `hash`. */
  const tokens = new Map<string, KnownToken>()
  const owners = new Map<number, TokenOwner>()

  const isUnconfirmed = ({ confirmedAt }: TokenOwner, nowMs: number) => nowMs - confirmedAt * 1000 > confirmMs
  /** Whether the owner's access has changed, and could not be read since. */
  const isUnread = ({ user, version }: TokenOwner, nowMs: number): boolean => {
    const changedS = revocations.changedSince(user.id, version)
    return changedS !== undefined && nowMs - changedS * 1000 > UNREAD_MS
  }
  const find = (token: string) => (SHAPE.test(token) ? tokens.get(hashPersonalToken(token)) : undefined)

  return {
    check(token: string): Identity | GatewayError {
      const known = find(token)
      const owner = known && owners.get(known.userId)
      if (known === undefined || owner === undefined) return UNKNOWN
      const nowMs = now()
      if (known.row.expiresAt * 1000 <= nowMs) return new TokenExpired({ reason: 'expired' })
      const identity = identityFor(known, owner)
      const ended = owner.disabled || known.row.version < owner.lowestAccepted
      if (ended || revocations.tokenState(identity) === 'revoked') return new TokenRevoked({ reason: 'revoked' })
      if (isUnconfirmed(owner, nowMs)) return new LoginRequired({ reason: 'owner-unconfirmed' })
      if (isUnread(owner, nowMs)) return new Unavailable({ reason: 'revocations-too-old' })
      known.usedMinute = Math.floor(nowMs / 60_000)
      return identity
    },
    /** Adds owners and tokens, and replaces what was known about an owner. */
    learn(news: readonly OwnerNews[]) {
      for (const { owner, tokens: rows } of news) {
        owners.set(owner.user.id, owner)
        for (const row of rows)
          if (!tokens.has(row.hash)) tokens.set(row.hash, { row, userId: owner.user.id, usedMinute: 0 })
      }
    },
    /** Forgets tokens whose `hash` is not among these. */
    retain(hashes: ReadonlySet<string>) {
      for (const hash of tokens.keys()) if (!hashes.has(hash)) tokens.delete(hash)
    },
    /** Whether a text is a token that was created here and has not been purged; does not check its owner. */
    isLive: (token: string) => find(token) !== undefined,
    /** The owner of a token with its profiles, as `check` would find them now; undefined: it would refuse them. */
    userNow({ user: { id }, profilesAtMost }: Identity): User | undefined {
      const owner = owners.get(id)
      return owner === undefined || isUnread(owner, now()) ? undefined : narrowedTo(owner.user, profilesAtMost)
    },
    /** Whether the tokens of this person are refused until a login or recheck confirms them. */
    isUnconfirmed(userId: number): boolean {
      const owner = owners.get(userId)
      return owner !== undefined && isUnconfirmed(owner, now())
    },
    /** Whether this person has a live token; if so, a change of their access must be read again. */
    isOwner: (userId: number) => owners.has(userId),
    /** Tokens used in this minute (minutes since the epoch, from 1) or later. */
    usedSince(minute: number) {
      const uses: PersonalTokenUse[] = []
      for (const { row, usedMinute } of tokens.values())
        if (usedMinute >= minute) uses.push({ personalToken: row.id, usedAt: usedMinute * 60_000 })
      return uses
    },
    /** Removes tokens that were over at `nowS`, and owners without any. */
    purge(nowS: number) {
      const owning = new Set<number>()
      for (const [key, { row, userId }] of tokens) {
        const isOver =
          row.expiresAt <= nowS ||
          row.version < (owners.get(userId)?.lowestAccepted ?? 0) ||
          revocations.isRevoked(personalTokenId(row.id))
        if (isOver) tokens.delete(key)
        else owning.add(userId)
      }
      for (const userId of owners.keys()) if (!owning.has(userId)) owners.delete(userId)
    },
    size: () => tokens.size
  }
}

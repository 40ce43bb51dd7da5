// Keeps this instance's knowledge of ended tokens and changed people, which every request checks without a lookup.
import type { Identity } from '../identity.ts'

export type Standing = 'valid' | 'stale' | 'revoked'

/** What is known about a person's access: a token below `lowestAccepted` is revoked, one below `version` is stale. */
export interface PersonVersion {
  readonly userId: number
  readonly version: number
  readonly lowestAccepted: number
}

export interface RevokedToken {
  readonly jti: string
  /** Seconds since the epoch; afterwards the token is refused as expired. */
  readonly expiresAt: number
}

/** A change as announced to all instances; `many`: too many for one message, to be read from the database. */
export type AccessChange = ({ kind: 'token' } & RevokedToken) | ({ kind: 'person' } & PersonVersion) | { kind: 'many' }

/** The ids of the people and tokens that something new is known about. */
export type Changed = readonly (PersonVersion['userId'] | RevokedToken['jti'])[]

interface News {
  tokens?: readonly RevokedToken[]
  versions?: readonly PersonVersion[]
}

export interface Revocations {
  standing(identity: Identity): Standing
  /** Whether the token with this `jti` has been ended individually. */
  isRevoked(tokenId: string): boolean
  /** Raised by every change; equal epochs mean equal results. */
  readonly epoch: number
  /** Merges changes; never lowers a version, so their order and repetition do not matter. */
  learn(news: News): void
  /** Called after each `learn` that changed something. */
  onChange(listener: (changed: Changed) => void): void
  /** Removes tokens that have expired. */
  purge(): void
  size(): number
}

export const createRevocations = (now: () => number = Date.now): Revocations => {
  const tokens = new Map<string, number>()
  const versions = new Map<number, PersonVersion>()
  const listeners: ((changed: Changed) => void)[] = []

  const learnToken = ({ jti, expiresAt }: RevokedToken): boolean => {
    if (tokens.has(jti) || expiresAt <= now() / 1000) return false
    tokens.set(jti, expiresAt)
    return true
  }

  const learnVersion = (news: PersonVersion): boolean => {
    const known = versions.get(news.userId)
    if (known !== undefined && known.version >= news.version && known.lowestAccepted >= news.lowestAccepted)
      return false
    versions.set(news.userId, {
      userId: news.userId,
      version: Math.max(news.version, known?.version ?? 0),
      lowestAccepted: Math.max(news.lowestAccepted, known?.lowestAccepted ?? 0)
    })
    return true
  }

  // The epoch is a plain property, not an accessor: V8 would keep the object as a dictionary, and every request reads it.
  const revocations: Revocations & { epoch: number } = {
    epoch: 0,
    standing(identity) {
      if (tokens.has(identity.tokenId)) return 'revoked'
      const person = versions.get(identity.user.id)
      if (person === undefined || identity.version >= person.version) return 'valid'
      return identity.version < person.lowestAccepted ? 'revoked' : 'stale'
    },
    isRevoked: tokenId => tokens.has(tokenId),
    learn(news) {
      const changed = [
        ...(news.tokens ?? []).filter(learnToken).map(({ jti }) => jti),
        ...(news.versions ?? []).filter(learnVersion).map(({ userId }) => userId)
      ]
      if (changed.length === 0) return
      revocations.epoch++
      for (const listener of listeners) listener(changed)
    },
    onChange: listener => listeners.push(listener),
    purge() {
      const nowS = now() / 1000
      for (const [tokenId, expiresAt] of tokens) if (expiresAt <= nowS) tokens.delete(tokenId)
    },
    size: () => tokens.size + versions.size
  }
  return revocations
}

// Keeps this instance's knowledge of ended tokens and changed people, which every request checks without a lookup.
import type { Identity } from '../identity.ts'
import { inParts, type Parts } from '../values/in-parts.ts'

export type TokenState = 'valid' | 'stale' | 'revoked'

/** What is known about a person's access: a token below `lowestAccepted` is revoked, one below `version` is stale. */
export interface PersonVersion {
  readonly userId: number
  readonly version: number
  readonly lowestAccepted: number
}

export interface RevokedToken {
  readonly jti: string
  /** Seconds since the epoch. */
  readonly expiresAt: number
}

/** A change as announced to all instances; `many`: too many for one message, to be read from the database. */
export type AccessChange = ({ kind: 'token' } & RevokedToken) | ({ kind: 'person' } & PersonVersion) | { kind: 'many' }

/** The ids of the people and tokens that something new is known about. */
export type Changed = readonly (PersonVersion['userId'] | RevokedToken['jti'])[]

/** What was known and the database no longer has: it failed over to a server that had not received it. */
export interface Lost {
  readonly tokens: readonly RevokedToken[]
  readonly people: readonly (PersonVersion & LostPerson)[]
}

/** A person whose tokens had ended; those issued since, after the loss, are good. */
export interface LostPerson {
  readonly userId: number
  readonly lowestAccepted: number
  /** When this instance had learned it, in seconds since the epoch. */
  readonly receivedAt: number
}

interface News {
  tokens?: readonly RevokedToken[]
  versions?: readonly PersonVersion[]
  lost?: readonly LostPerson[]
}

export type Revocations = ReturnType<typeof createRevocations>

export const createRevocations = (now: () => number = Date.now) => {
  const tokens = new Map<string, number>()
  const versions = new Map<number, PersonVersion & { readonly receivedAt: number }>()
  const lostPeople = new Map<number, LostPerson>()
  const listeners: ((changed: Changed) => void)[] = []

  const learnToken = ({ jti, expiresAt }: RevokedToken): boolean => {
    const known = tokens.get(jti)
    if (expiresAt <= (known ?? 0)) return false
    tokens.set(jti, expiresAt)
    return known === undefined
  }

  const learnVersion = (news: PersonVersion): boolean => {
    const known = versions.get(news.userId)
    if (known !== undefined && known.version >= news.version && known.lowestAccepted >= news.lowestAccepted)
      return false
    versions.set(news.userId, {
      userId: news.userId,
      version: Math.max(news.version, known?.version ?? 0),
      lowestAccepted: Math.max(news.lowestAccepted, known?.lowestAccepted ?? 0),
      receivedAt: now() / 1000
    })
    return true
  }

  const learnLost = (person: LostPerson): boolean => {
    const { receivedAt = 0, lowestAccepted = 0 } = lostPeople.get(person.userId) ?? {}
    if (receivedAt >= person.receivedAt && lowestAccepted >= person.lowestAccepted) return false
    lostPeople.set(person.userId, {
      userId: person.userId,
      receivedAt: Math.max(receivedAt, person.receivedAt),
      lowestAccepted: Math.max(lowestAccepted, person.lowestAccepted)
    })
    return true
  }

  /** A token that a lost change had ended, or made stale; `iat` may be of the same second. */
  const stateByLoss = ({ user, version, issuedAt }: Identity): TokenState => {
    const lost = lostPeople.get(user.id)
    if (lost === undefined || issuedAt > lost.receivedAt) return 'valid'
    return version < lost.lowestAccepted ? 'revoked' : 'stale'
  }

  const tell = (changed: Changed) => {
    revocations.epoch++
    for (const listener of listeners) listener(changed)
  }

  // The epoch is a plain property, not an accessor: V8 would keep the object as a dictionary, and every request reads it.
  const revocations = {
    /** Raised by every change; equal epochs mean equal results. */
    epoch: 0,
    tokenState(identity: Identity): TokenState {
      if (tokens.has(identity.tokenId)) return 'revoked'
      const person = versions.get(identity.user.id)
      const byLoss = lostPeople.size === 0 ? 'valid' : stateByLoss(identity)
      if (person === undefined || identity.version >= person.version) return byLoss
      // What was lost ends a token whatever has changed since: a stale one could be renewed.
      return byLoss === 'revoked' || identity.version < person.lowestAccepted ? 'revoked' : 'stale'
    },
    /** Since when it has been known that a person's access has changed since this version; seconds since the epoch; undefined: it has not. */
    changedSince: (userId: number, version: number): number | undefined => {
      const person = versions.get(userId)
      return person !== undefined && person.version > version ? person.receivedAt : undefined
    },
    /** Whether the token with this `jti` has been ended individually. */
    isRevoked: (tokenId: string) => tokens.has(tokenId),
    /** Merges changes; never lowers a version, so their order and repetition do not matter. */
    learn(news: News): void {
      const changed = [
        ...(news.tokens ?? []).filter(learnToken).map(({ jti }) => jti),
        ...(news.versions ?? []).filter(learnVersion).map(({ userId }) => userId),
        ...(news.lost ?? []).filter(learnLost).map(({ userId }) => userId)
      ]
      if (changed.length > 0) tell(changed)
    },
    /** What is known here and missing from a complete state, which was read at `nowS` by the database's clock. */
    *missingFrom(state: News & { readonly nowS: number }): Parts<Lost> {
      // What is heard meanwhile is not lost.
      const before = { ids: [...tokens.keys()], people: [...versions.values()] }
      const [found, people] = [new Set<string>(), new Map<number, PersonVersion>()]
      yield* inParts(state.tokens ?? [], ({ jti }) => void found.add(jti))
      yield* inParts(state.versions ?? [], person => void people.set(person.userId, person))
      const lost = { tokens: [] as RevokedToken[], people: [] as (PersonVersion & LostPerson)[] }
      yield* inParts(before.ids, jti => {
        const expiresAt = tokens.get(jti) ?? 0
        if (expiresAt > state.nowS && !found.has(jti)) lost.tokens.push({ jti, expiresAt })
      })
      yield* inParts(before.people, known => {
        const { version = 0, lowestAccepted = 0 } = people.get(known.userId) ?? {}
        if (known.version > version || known.lowestAccepted > lowestAccepted) lost.people.push(known)
      })
      return lost
    },
    /** Replaces what is lost by a complete state; what is lost goes on ending the tokens issued before it was. */
    *replace(state: News, lost: Lost): Parts<void> {
      yield* inParts(state.tokens ?? [], learnToken)
      yield* inParts(lost.people, person => {
        learnLost(person)
        // What was heard since the state was read stays.
        if (versions.get(person.userId) === person) versions.delete(person.userId)
      })
      yield* inParts(state.versions ?? [], learnVersion)
      yield* inParts(state.lost ?? [], learnLost)
      tell([...tokens.keys(), ...versions.keys(), ...lostPeople.keys()])
    },
    /** Called after each `learn` that changed something. */
    onChange: (listener: (changed: Changed) => void) => void listeners.push(listener),
    /** Removes tokens that had expired at `nowS`. */
    purge(nowS: number): void {
      for (const [tokenId, expiresAt] of tokens) if (expiresAt <= nowS) tokens.delete(tokenId)
    },
    size: () => tokens.size + versions.size
  }
  return revocations
}

// What the gateway stores about people who log in: in Postgres, and in memory for a million steps.
import { hash } from 'node:crypto'
import type { AccountClue } from '../../../gateway/identity.ts'
import {
  type AttemptState,
  type BegunAttempt,
  createLoginAttempts,
  type LoginAttempts
} from '../../../gateway/store/login-attempts.ts'
import { createLoginNames, type LoginNames } from '../../../gateway/store/login-names.ts'
import type { ConfirmedPerson } from '../../../gateway/store/users.ts'
import type { openStore } from '../../../test/support/store.ts'

export interface PeopleStore {
  /** The id of the person. */
  sync(person: ConfirmedPerson): Promise<number>
  readonly names: Pick<LoginNames, 'join' | 'personOf'>
  readonly attempts: LoginAttempts
  remember(login: string, address: string, userId: number): Promise<void>
  /** The subjects that lead to a person. */
  subjectsOf(userId: number): Promise<readonly string[]>
  /** Everything happened so much earlier. */
  age(ms: number): Promise<void>
}

export const createPostgresStore = (store: Awaited<ReturnType<typeof openStore>>): PeopleStore => ({
  sync: async person => (await store.users.syncPerson(person)).user.id,
  names: createLoginNames(store.database),
  attempts: createLoginAttempts(store.database),
  remember: store.memory.rememberAddress,
  subjectsOf: userId =>
    store.database.read(async manager => {
      const rows = (await manager.query('SELECT subject FROM provider_links WHERE user_id = $1 ORDER BY subject', [
        userId
      ])) as { subject: string }[]
      return rows.map(({ subject }) => subject)
    }),
  age: ms =>
    store.database.write(async manager => {
      const earlier = `- ${Math.round(ms)}::float8 * interval '1 millisecond'`
      await manager.query(`UPDATE users SET last_login_at = last_login_at ${earlier}`)
      await manager.query(`UPDATE login_attempts SET at = at ${earlier}, expires_at = expires_at ${earlier}`)
    })
})

/** Finer than a millisecond, as Postgres is. */
const now = (): number => performance.timeOrigin + performance.now()

const HOUR_MS = 3_600_000
const STABLE = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

interface StoredAttempt extends BegunAttempt {
  account: string
  kind: 'open' | 'failed' | 'lost' | 'freed'
  at: number
  expiresAt: number
}

/** The same in memory; a differential test compares them. */
export const createMemoryStore = (): PeopleStore => {
  const links = new Map<string, number>()
  const people = new Map<number, { username: string; lastLoginAt: number }>()
  const names = new Map<string, { account: string; subject: string }>()
  const addresses = new Set<string>()
  let attempts: StoredAttempt[] = []

  const hasStableLink = (id: number) => [...links].some(([subject, owner]) => owner === id && STABLE.test(subject))

  /** A link by login name that this account takes over. */
  const formerOf = (formers: readonly string[], createdAt: Date | undefined): string | undefined =>
    formers.find(subject => {
      const id = links.get(subject)
      const lastLoginAt = id === undefined ? 0 : (people.get(id)?.lastLoginAt ?? 0)
      return (
        id !== undefined && createdAt !== undefined && lastLoginAt > createdAt.getTime() + 1000 && !hasStableLink(id)
      )
    })

  /** The login has been given to somebody else since this person's last login. */
  const isFormer = (subject: string, createdAt: Date | undefined): boolean => {
    const lastLoginAt = people.get(links.get(subject) ?? 0)?.lastLoginAt
    const isKnown = lastLoginAt !== undefined && createdAt !== undefined && !STABLE.test(subject)
    return isKnown && lastLoginAt < createdAt.getTime() - HOUR_MS
  }

  const personOf = (clue: AccountClue): number | undefined => {
    if (!('bound' in clue) && isFormer(clue.subject, clue.createdAt)) return undefined
    if (!('bound' in clue)) return links.get(clue.subject) ?? links.get(formerOf(clue.names, clue.createdAt) ?? '')
    const subjects = [clue.bound, names.get(clue.bound)?.subject ?? clue.bound]
    const found = new Set(subjects.flatMap(subject => links.get(subject) ?? []))
    return found.size === 1 ? [...found][0] : undefined
  }

  const accountsOf = ({ name, isTyped }: Pick<BegunAttempt, 'name' | 'isTyped'>): string[] => {
    const account = (isTyped ? names.get(name)?.account : undefined) ?? name
    if (!isTyped) return [account]
    return [...new Set([account, ...[...names].flatMap(([login, of]) => (of.account === account ? [login] : []))])]
  }
  const isKnown = (attempt: Pick<BegunAttempt, 'name' | 'isTyped' | 'address'>): boolean =>
    addresses.has(`${accountsOf(attempt)[0]} ${attempt.address}`)

  const stateOf = (attempt: BegunAttempt): AttemptState => {
    const accounts = accountsOf(attempt)
    return {
      now: now(),
      accounts,
      isResolved: attempt.isTyped && names.has(attempt.name),
      isKnown: isKnown(attempt),
      permits: attempts.flatMap(({ account, kind, at, expiresAt }) =>
        kind === 'freed' || !accounts.includes(account) || expiresAt < now() ? [] : [{ kind, at }]
      ),
      // Each login of the world comes from an address of its own.
      addressHeldSince: null,
      otherPairs: 0
    }
  }

  const settle = ({ attempt, accounts, outcome, keepMs }: Parameters<LoginAttempts['settle']>[0]): void => {
    const mine = attempts.find(({ id }) => id === attempt.id)
    attempts = attempts.filter(({ id }) => id !== attempt.id)
    if (outcome === 'returned') return
    if (outcome === 'accepted') {
      const isEarlier = (other: StoredAttempt) => accounts.includes(other.account) && other.at < (mine?.at ?? 0)
      attempts = attempts.filter(other => !isEarlier(other) || other.kind === 'open')
    } else {
      const expiresAt = now() + keepMs
      for (const other of attempts)
        if (accounts.includes(other.account) && other.expiresAt > now()) other.expiresAt = expiresAt
      attempts.push({ ...attempt, account: accounts[0] ?? '', kind: outcome, at: now(), expiresAt })
    }
  }

  return {
    sync: async ({ subject, username, names: formers = [], entryCreatedAt }) => {
      if (isFormer(subject, entryCreatedAt)) {
        links.set(`${subject} until ${entryCreatedAt?.toISOString()}`, links.get(subject) ?? 0)
        links.delete(subject)
      }
      const former = links.has(subject)
        ? undefined
        : formerOf(
            formers.filter(name => name !== subject),
            entryCreatedAt
          )
      const id = links.get(former ?? subject) ?? people.size + 1
      if (former !== undefined) links.delete(former)
      links.set(subject, id)
      people.set(id, { username, lastLoginAt: now() })
      return id
    },
    names: {
      join: async ({ subject, username, names: joined = [] }, beganMsAgo) => {
        for (const name of joined) {
          const isNew = names.get(name)?.account !== username || names.get(name)?.subject !== subject
          const isOver = (one: StoredAttempt) =>
            isNew && one.account === name && one.kind === 'failed' && one.at < now() - beganMsAgo
          attempts = attempts.filter(one => !isOver(one))
          names.set(name, { account: username, subject })
        }
      },
      personOf: async clue => {
        const id = personOf(clue)
        return id === undefined ? undefined : { id, username: people.get(id)?.username ?? '' }
      }
    },
    attempts: {
      begin: async (attempt, _rules, keepMs, decide) => {
        const decided = decide(stateOf(attempt))
        attempts.push({
          ...attempt,
          account: accountsOf(attempt)[0] ?? '',
          kind: 'open',
          at: now(),
          expiresAt: now() + keepMs
        })
        return decided
      },
      settle: async settlement => settle(settlement),
      isKnown: async attempt => isKnown(attempt)
    },
    remember: async (login, address) => {
      addresses.add(`${login} ${address}`)
    },
    subjectsOf: async userId => [...links].flatMap(([subject, id]) => (id === userId ? [subject] : [])).sort(),
    age: async ms => {
      for (const person of people.values()) person.lastLoginAt -= ms
      for (const attempt of attempts) {
        attempt.at -= ms
        attempt.expiresAt -= ms
      }
      attempts = attempts.filter(({ expiresAt }) => expiresAt > now())
    }
  }
}

/** An address of the documentation range for IPv6 that no other login has. */
export const addressOf = (n: number): string => `2001:db8:${hash('sha1', String(n)).slice(0, 4)}:${n}::`

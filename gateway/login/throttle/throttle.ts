// Limits failed logins per client and per account, so that no directory locks an account because of the gateway.
import { randomUUID } from 'node:crypto'
import type { BindGuard } from '../../directory/account.ts'
import { DirectoryFailure } from '../../directory/failure.ts'
import type { DirectoryPerson } from '../../directory/person.ts'
import type { AttemptOutcome } from '../../store/login-attempts.ts'
import type { LoginNames } from '../../store/login-names.ts'
import { createTurns } from '../../values/turns.ts'
import { keyedHash } from '../keyed-hash.ts'
import { type AdmissionParts, createAdmission, throttled } from './admission.ts'

/** One attempt of one client with one name and password. */
interface LoginAttempt {
  /** The name as the directory sees it; undefined if no bind would be tried. */
  readonly login: string | undefined
  readonly password: string
  /** The key that limits count by: the client's address, IPv6 as its /64. */
  readonly ipKey: string
}

interface LoginThrottleParts extends AdmissionParts {
  readonly names: Pick<LoginNames, 'join'>
  /** JWT_SECRET; the key for hashing pairs of name and password is derived from it. */
  readonly secret: string
}

/** Attempts in progress at once on one instance; further ones fail immediately. */
const MAX_UNDER_WAY = 2000
const MAX_WAITING = 250
const RETRY_MS = 1000
const DAY_MS = 24 * 60 * 60_000

export type LoginThrottle = ReturnType<typeof createLoginThrottle>

export const createLoginThrottle = (parts: LoginThrottleParts) => {
  const { ldap, loginFailures, names, log } = parts
  const admission = createAdmission(parts)
  const hash = keyedHash(parts.secret, 'portaria login pairs')
  const busy = () => throttled('login-throttled-busy', RETRY_MS)
  // One client must not hold all connections to the directory.
  const perAddress = createTurns(loginFailures.perIp, MAX_WAITING, busy)
  let underWay = 0

  const guardOf = ({ login = '', ipKey: address, password }: LoginAttempt, deadline: number): BindGuard => {
    // The same pair has another hash on another day.
    const pair = hash(JSON.stringify([Math.floor(Date.now() / DAY_MS), login, password])).slice(0, 22)
    let asked = login
    return {
      expect: name => {
        asked = name
        return admission.expect(name, address)
      },
      bind: async (account, bind) => {
        const { name } = account
        // Elsewhere `name` is that of the entry itself: under other settings it may have led to another account.
        const isTyped = account.mayHaveTwoNames
        const attempt = { id: randomUUID(), name, isTyped, address, pair }
        const settle = await admission.enter({ attempt, asked, account, deadline })
        try {
          await bind()
        } catch (error) {
          await settle(outcomeOf(error), error instanceof DirectoryFailure && error.reason === 'unknown-user')
          throw error
        }
        await settle('accepted')
      }
    }
  }

  /** All names under which an account is bound share its permits from now on; elsewhere its entry shows them each time. */
  const join = async (person: DirectoryPerson, beganAt: number): Promise<void> => {
    try {
      if (ldap.bindDn === undefined && person.names !== undefined) await names.join(person, performance.now() - beganAt)
    } catch (error) {
      log.warn({ err: error, reason: 'login-names-unjoined' }, 'the names of an account could not be joined')
    }
  }

  return {
    /** Accounts or addresses were freed; other instances notice within a second. */
    forgetRefusals: admission.forgetRefusals,
    /**
     * Runs `authenticate` as soon as this client may try, and lets each of its binds begin as soon as that account may,
     * after LDAP_TIMEOUT_MS at the latest. Throws whatever `authenticate` throws, or `GW_LOGIN_THROTTLED` with Retry-After
     * and one of the reasons `login-throttled-client`, `login-throttled-account`, `login-throttled-busy`.
     */
    attempt: async (attempt: LoginAttempt, authenticate: (guard: BindGuard) => Promise<DirectoryPerson>) => {
      if (underWay >= MAX_UNDER_WAY) throw busy()
      underWay += 1
      try {
        const beganAt = performance.now()
        const deadline = beganAt + ldap.timeoutMs
        const person = await perAddress(attempt.ipKey, async () => {
          if (performance.now() > deadline) throw throttled('login-throttled-client', RETRY_MS)
          return authenticate(guardOf(attempt, deadline))
        })
        await join(person, beganAt)
        return person
      } finally {
        underWay -= 1
      }
    }
  }
}

const outcomeOf = (error: unknown): AttemptOutcome => {
  if (!(error instanceof DirectoryFailure)) return 'lost'
  if (error.bind === 'accepted') return 'accepted'
  if (error.bind === 'refused') return 'failed'
  return error.countsAsBind ? 'lost' : 'returned'
}

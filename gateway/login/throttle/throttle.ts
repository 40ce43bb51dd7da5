// Limits failed logins per client and per account, so that no directory locks an account because of the gateway.
import { setTimeout as delay } from 'node:timers/promises'
import type { BindGuard } from '../../directory/account.ts'
import { FAILURE_FLOOR_MS } from '../../directory/directory.ts'
import { DirectoryFailure, type DirectoryReason } from '../../directory/failure.ts'
import type { DirectoryPerson } from '../../directory/person.ts'
import { LoginThrottled } from '../../errors.ts'
import type { RedisStore } from '../../redis/redis.ts'
import type { LdapSettings } from '../../settings/settings.ts'
import type { LoginNames } from '../../store/login-names.ts'
import type { PermitStore } from '../../store/login-permits.ts'
import { keyedHash } from '../keyed-hash.ts'
import { accountKey, joinNames, takePermit } from './account-permits.ts'
import { createLeaders } from './leaders.ts'
import type { PermitOutcome } from './permits.ts'
import { createAskRedis, createSharedPermits, type SharedLog } from './shared-permits.ts'
import { createTurnstile, NoPermit } from './turnstile.ts'
import { createWrongPasswords } from './wrong-passwords.ts'

/** One attempt of one client with one name and password. */
interface LoginAttempt {
  /** The name as the directory sees it; undefined if no bind would be tried. */
  readonly login: string | undefined
  readonly password: string
  /** The key that limits count by: the client's address, IPv6 as its /64. */
  readonly ipKey: string
}

export interface LoginThrottle {
  /**
   * Runs `authenticate` as soon as this client may try, and lets each of its binds begin as soon as that account may,
   * after LDAP_TIMEOUT_MS at the latest. Throws whatever `authenticate` throws, DirectoryFailure `repeated-wrong-password`
   * without a bind, or `GW_LOGIN_THROTTLED` with Retry-After and one of the reasons `login-throttled-client`,
   * `login-throttled-account`, `login-throttled-busy`.
   */
  attempt(attempt: LoginAttempt, authenticate: (guard: BindGuard) => Promise<DirectoryPerson>): Promise<DirectoryPerson>
  /** Failures of these logins no longer count; other instances know within a second. */
  release(logins: readonly string[]): Promise<void>
}

interface LoginThrottleParts {
  readonly ldap: LdapSettings
  readonly names: LoginNames
  readonly loginFailures: { readonly perIp: number; readonly windowMs: number }
  /** JWT_SECRET; the key for hashing wrong passwords is derived from it. */
  readonly secret: string
  /**
   * Permits of accounts. They must survive a crash of any part and be the same for all instances, or two of them could
   * together lock an account. They are therefore in Postgres, without which no one can log in anyway, and not in Redis, which
   * may be flushed, fail over or be unavailable while the directory's own count continues.
   */
  readonly accountPermits: PermitStore
  /** Counts clients and remembers wrong passwords for all instances; without it each instance does so alone. */
  readonly redis: RedisStore | undefined
  readonly knowsAddress: (login: string, ipKey: string) => Promise<boolean>
  readonly log: SharedLog
  /** Ms since the epoch, for what this instance counts alone. */
  readonly now?: () => number
  /** Monotonic ms. */
  readonly clock?: () => number
  /** Earliest response to a repeated wrong password, in ms. */
  readonly failureFloorMs?: number
}

/** Attempts in progress at once on one instance; further ones fail immediately. */
const MAX_UNDER_WAY = 2000
/** Time that a bind and everything around it may take beyond LDAP_TIMEOUT_MS on a busy machine. */
const GRACE_MS = 2000
/** For directories whose clocks count whole seconds. */
const CLOCK_MARGIN_MS = 1000

export const createLoginThrottle = (parts: LoginThrottleParts): LoginThrottle => {
  const { ldap, knowsAddress, clock = () => performance.now(), now = Date.now } = parts
  const { failureFloorMs = FAILURE_FLOOR_MS } = parts
  const hash = keyedHash(parts.secret, 'portaria login throttle')
  /** Of parts that are unambiguously separated. */
  const digest = (...texts: string[]): string => hash(JSON.stringify(texts))
  const half = Math.floor((ldap.lockoutThreshold - 1) / 2)
  // After a setting has been corrected, the directory is asked about a password again.
  const settingsText = JSON.stringify(ldap)
  const ask = createAskRedis(parts.redis, clock, parts.log)
  const wrongPasswords = createWrongPasswords(ask, clock)
  const clients = createTurnstile({ store: createSharedPermits(ask, now), rules: clientRules(parts), clock })
  const accounts = createTurnstile({ store: parts.accountPermits, rules: accountRules(ldap), clock })
  const leaders = createLeaders()
  let underWay = 0

  const guardOf = ({ ipKey, password }: LoginAttempt, deadline: number): BindGuard => ({
    expect: async name => {
      if (!accounts.mayRefuse()) return
      const account = (await parts.names.accountOf(name)) ?? name
      const refusal = accounts.refusal(accountKey(account), await knowsAddress(account, ipKey))
      if (refusal !== undefined) throw throttled('login-throttled-account', refusal.retryAfterMs)
    },
    bind: async (account, bind) => {
      const known = await knowsAddress(account.name, ipKey)
      const permit = () => takePermit(accounts, parts.names, account, { known, deadline, half, clock })
      const secret = digest('password', settingsText, account.name, password)
      const bindNow = () => bindWithPermit(permit, secret, bind)
      if (account.isConfirmation === true) return void (await bindNow())
      while (!(await wrongPasswords.has(secret))) {
        const leader = leaders.of(secret)
        if (leader !== undefined) {
          if (await closable('login-throttled-account', leader.accepted(deadline))) return void (await bindNow())
          continue
        }
        const done = await leaders.lead(secret, async () =>
          (await wrongPasswords.has(secret)) ? undefined : bindNow()
        )
        if (done !== undefined) return
      }
      await delay(failureFloorMs)
      throw new DirectoryFailure(
        'repeated-wrong-password',
        'the directory refused this password a moment ago; not sent again'
      )
    }
  })

  const bindWithPermit = async (
    permit: () => Promise<(outcome: PermitOutcome) => Promise<void>>,
    secret: string,
    bind: () => Promise<void>
  ): Promise<'done'> => {
    const settle = await closable('login-throttled-account', permit())
    let outcome: PermitOutcome = 'lost'
    try {
      await bind()
      outcome = 'accepted'
      return 'done'
    } catch (error) {
      outcome = outcomeOf(error)
      if (isWrongPassword(error)) await wrongPasswords.add(secret)
      throw error
    } finally {
      await settle(outcome).catch(logUnsettled(parts.log))
    }
  }

  return {
    release: async logins => {
      for (const login of logins) await accounts.release(accountKey(login))
    },
    attempt: async (attempt, authenticate) => {
      if (underWay >= MAX_UNDER_WAY) throw throttled('login-throttled-busy', CLOCK_MARGIN_MS)
      underWay += 1
      try {
        const deadline = performance.now() + ldap.timeoutMs
        const client = { key: digest('client', attempt.ipKey), known: false, deadline }
        const settle = await closable('login-throttled-client', clients.enter(client))
        let outcome: PermitOutcome = 'returned'
        try {
          const person = await authenticate(guardOf(attempt, deadline))
          await joinNames(accounts, parts, person)
          return person
        } catch (error) {
          if (isClientsFault(error)) outcome = 'failed'
          throw error
        } finally {
          await settle(outcome).catch(logUnsettled(parts.log))
        }
      } finally {
        underWay -= 1
      }
    }
  }
}

const accountRules = ({ timeoutMs, lockoutThreshold, lockoutWindowMs }: LdapSettings) => ({
  max: lockoutThreshold - 1,
  // A directory that locks at the second failure leaves one permit, which then has to be available to strangers too.
  maxForStrangers: Math.max(1, lockoutThreshold - 2),
  windowMs: lockoutWindowMs + CLOCK_MARGIN_MS,
  patienceMs: timeoutMs + GRACE_MS,
  forget: 'together' as const
})

const clientRules = ({ ldap, loginFailures: { perIp, windowMs } }: LoginThrottleParts) => ({
  max: perIp,
  maxForStrangers: perIp,
  windowMs,
  // Waits for the account's permit, then for the directory.
  patienceMs: 2 * (ldap.timeoutMs + GRACE_MS),
  forget: 'singly' as const
})

const closable = async <T>(reason: string, work: Promise<T>): Promise<T> => {
  try {
    return await work
  } catch (error) {
    throw error instanceof NoPermit ? throttled(reason, error.retryAfterMs) : error
  }
}

const throttled = (reason: string, retryAfterMs: number) =>
  new LoginThrottled({ reason, headers: { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) } })

/** Its permit then counts until the window ends, which is safe. */
const logUnsettled = (log: SharedLog) => (error: unknown) =>
  log.warn({ err: error, reason: 'login-permit-unsettled' }, 'the outcome of a login could not be stored')

const outcomeOf = (error: unknown): PermitOutcome => {
  if (!(error instanceof DirectoryFailure)) return 'lost'
  if (error.bind === 'accepted') return 'accepted'
  if (error.bind === 'refused') return 'failed'
  return error.countsAsBind ? 'lost' : 'returned'
}

const WRONG_PASSWORD: ReadonlySet<DirectoryReason> = new Set([
  'invalid-credentials',
  'unknown-user',
  'ambiguous-entry',
  'wrong-password'
])
const REFUSED_BY_US: ReadonlySet<DirectoryReason> = new Set([
  'bad-login-name',
  'bad-password',
  'foreign-domain',
  'repeated-wrong-password',
  'no-entry',
  'ambiguous-entry',
  'foreign-entry'
])

const isWrongPassword = (error: unknown): boolean =>
  error instanceof DirectoryFailure && error.bind === 'refused' && WRONG_PASSWORD.has(error.reason)

/** A directory that is unavailable or slow must not use up the failures allowed to a whole office behind one address. */
const isClientsFault = (error: unknown): boolean =>
  error instanceof DirectoryFailure && (error.bind === 'refused' || REFUSED_BY_US.has(error.reason))

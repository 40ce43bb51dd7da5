// Limits failed logins per client and per account, checked with those of the other instances, so that no directory locks an account because of the gateway.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { BindGuard, DirectoryCount, GuardedAccount } from '../../directory/account.ts'
import { DirectoryFailure } from '../../directory/failure.ts'
import type { DirectoryPerson } from '../../directory/person.ts'
import { LoginThrottled } from '../../errors.ts'
import type { LdapSettings, Settings } from '../../settings/settings.ts'
import type { AttemptOutcome, AttemptState, BegunAttempt, LoginAttempts } from '../../store/login-attempts.ts'
import type { LoginNames } from '../../store/login-names.ts'
import { boundedMap } from '../../values/bounded-map.ts'
import type { Log } from '../../values/log.ts'
import { createTurns } from '../../values/turns.ts'
import { keyedHash } from '../keyed-hash.ts'
import {
  accountRules,
  CLOCK_MARGIN_MS,
  decideAccount,
  decideAddress,
  type PermitRules,
  type PermitVerdict
} from './permits.ts'

/** One attempt of one client with one name and password. */
interface LoginAttempt {
  /** The name as the directory sees it; undefined if no bind would be tried. */
  readonly login: string | undefined
  readonly password: string
  /** The key that limits count by: the client's address, IPv6 as its /64. */
  readonly ipKey: string
}

interface LoginThrottleParts {
  readonly ldap: LdapSettings
  readonly loginFailures: Settings['loginFailures']
  /**
   * In Postgres, without which no one can log in anyway: what is counted must survive a crash of any part and be the same
   * for all instances, or two of them could together lock an account.
   */
  readonly attempts: LoginAttempts
  readonly names: Pick<LoginNames, 'join'>
  /** JWT_SECRET; the key for hashing pairs of name and password is derived from it. */
  readonly secret: string
  readonly log: Pick<Log, 'warn'>
}

/** One bind that is about to be sent. */
interface Entry {
  readonly attempt: BegunAttempt
  /** As typed and normalised; later attempts under this name may be refused without asking the database. */
  readonly asked: string
  readonly account: GuardedAccount
  /** When to stop waiting, by `performance.now()`. */
  readonly deadline: number
}

/** Attempts in progress at once on one instance; further ones fail immediately. */
const MAX_UNDER_WAY = 2000
const MAX_WAITING = 250
const RETRY_MS = 1000
/** Outcomes that wait for the database; the first ones matter, because without it no further login begins. */
const MAX_UNSETTLED = 1000
const DAY_MS = 24 * 60 * 60_000
/** If nothing is ever forgotten, at least the names that no account has. */
const NOBODY_MS = 180 * DAY_MS
const FIRST_POLL_MS = 20
const LAST_POLL_MS = 200

const throttled = (reason: string, retryAfterMs: number) =>
  new LoginThrottled({ reason, headers: { 'retry-after': String(Math.ceil(Math.min(retryAfterMs, DAY_MS) / 1000)) } })
const busy = () => throttled('login-throttled-busy', RETRY_MS)

/** Rolls the attempt back. */
class Denied extends Error {
  readonly reason: 'login-throttled-client' | 'login-throttled-account'
  readonly verdict: Exclude<PermitVerdict, { kind: 'granted' }>
  readonly isKnown: boolean

  constructor(reason: Denied['reason'], verdict: Denied['verdict'], isKnown: boolean) {
    super(reason)
    this.reason = reason
    this.verdict = verdict
    this.isKnown = isKnown
  }
}

export type LoginThrottle = ReturnType<typeof createLoginThrottle>

export const createLoginThrottle = ({ ldap, loginFailures, attempts, names, secret, log }: LoginThrottleParts) => {
  const rules = accountRules(ldap)
  const { patienceMs } = rules
  const addressRules = { max: loginFailures.perIp, windowMs: loginFailures.windowMs, patienceMs }
  // Each failure may extend the life of the ones before it, at most as often as an account may fail.
  const keepMs = Math.max(rules.windowMs * ldap.lockoutThreshold, loginFailures.windowMs) + patienceMs
  const hash = keyedHash(secret, 'portaria login pairs')
  const refusals = boundedMap<string, Refusal>(MAX_REMEMBERED)
  const oneByOne = createTurns(1, MAX_WAITING, busy)
  const inQueue = createTurns(1, MAX_WAITING, busy)
  // One at a time: a database that has just recovered would otherwise get all of them at once.
  const settleInTurn = createTurns(1, MAX_UNSETTLED, busy)
  // One client must not hold all connections to the directory.
  const perAddress = createTurns(loginFailures.perIp, MAX_WAITING, busy)
  let underWay = 0
  let unsettled = 0

  /** Throws if a login under this name was refused a moment ago, unless it comes from an address of that account. */
  const expect = async (asked: string, address: string): Promise<void> => {
    const known = [addressKey(address), nameKey(asked)].flatMap(key => refusals.get(key) ?? [])
    const refusal = known.find(({ until }) => performance.now() < until)
    if (refusal === undefined) return
    const { strangersTo, error } = refusal
    if (strangersTo === undefined || !(await attempts.isKnown({ ...strangersTo, address }))) throw error
  }

  /** Stores an outcome that the database did not take, so that no right password is counted as a failure. */
  const settleLater = async (settlement: Parameters<typeof attempts.settle>[0]): Promise<void> => {
    if (unsettled >= MAX_UNSETTLED) return
    unsettled += 1
    for (let isStored = false; !isStored; ) {
      await delay(RETRY_MS, undefined, { ref: false })
      isStored = await settleInTurn('', () => attempts.settle(settlement)).then(
        () => true,
        () => false
      )
    }
    unsettled -= 1
  }

  const decide = (state: AttemptState, account: GuardedAccount): AttemptState => {
    const { now, permits, isKnown, isResolved } = state
    const ofAddress = decideAddress(state, addressRules)
    if (ofAddress.kind !== 'granted') throw new Denied('login-throttled-client', ofAddress, isKnown)
    const isHalf = account.mayHaveTwoNames && !isResolved
    const most = isHalf ? halfOf(rules) : undefined
    const request = { now, permits, isKnown, most, reading: readingOf(account.count) }
    const verdict = decideAccount(request, isHalf ? unresolved(rules) : rules)
    if (verdict.kind !== 'granted') throw new Denied('login-throttled-account', verdict, isKnown)
    return state
  }

  const refuse = ({ attempt, asked }: Entry, { reason, isKnown }: Denied, retryAfterMs: number) => {
    const error = throttled(reason, retryAfterMs)
    const until = performance.now() + Math.min(REMEMBERED_MS, retryAfterMs)
    if (reason === 'login-throttled-client') refusals.set(addressKey(attempt.address), { error, until })
    else refusals.set(nameKey(asked), { error, until, strangersTo: isKnown ? undefined : attempt })
    return error
  }

  /** Of the connections to the database, one account takes one at most, and so does one client. */
  const inTurn = <T>({ name, address }: BegunAttempt, work: () => Promise<T>): Promise<T> =>
    oneByOne(nameKey(name), () => oneByOne(addressKey(address), work))

  /** A denial: all permits are taken by logins in progress. */
  const begin = (entry: Entry): Promise<AttemptState | Denied> =>
    inTurn(entry.attempt, async () => {
      const { attempt, asked, account } = entry
      await expect(asked, attempt.address)
      try {
        return await attempts.begin(attempt, addressRules, keepMs, state => decide(state, account))
      } catch (error) {
        if (!(error instanceof Denied)) {
          // Whether it was stored is unknown.
          void settleLater({ attempt, accounts: [], outcome: 'returned', keepMs, patienceMs })
          throw error
        }
        if (error.verdict.kind === 'refused') throw refuse(entry, error, error.verdict.retryAfterMs)
        return error
      }
    })

  /** The first in the queue asks on behalf of all behind it, so that a crowd costs no more than one. */
  const wait = (entry: Entry, { reason, isKnown }: Denied): Promise<AttemptState> => {
    const { attempt, deadline } = entry
    const queue = reason === 'login-throttled-client' ? addressKey(attempt.address) : `${isKnown} ${attempt.name}`
    return inQueue(queue, async () => {
      for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(pollMs * 2, LAST_POLL_MS)) {
        const begun = await begin(entry)
        if (!(begun instanceof Denied)) return begun
        const leftMs = deadline - performance.now()
        if (leftMs <= 0) throw throttled(begun.reason, CLOCK_MARGIN_MS)
        await delay(Math.min(pollMs, leftMs))
      }
    })
  }

  const settle = async (
    { attempt, asked }: Entry,
    { accounts }: AttemptState,
    outcome: AttemptOutcome,
    isNobody = false
  ): Promise<void> => {
    if (outcome !== 'failed' && outcome !== 'lost') refusals.delete(nameKey(asked))
    const kept = isNobody ? Math.min(keepMs, NOBODY_MS) : keepMs
    const settlement = { attempt, accounts, outcome, keepMs: kept, patienceMs }
    await attempts.settle(settlement).catch((error: unknown) => {
      log.warn(
        { err: error, reason: 'login-permit-unsettled' },
        'the outcome of a login could not be stored; it is tried again every second'
      )
      void settleLater(settlement)
    })
  }

  const guardOf = ({ login = '', ipKey: address, password }: LoginAttempt, deadline: number): BindGuard => {
    // The same pair has another hash on another day.
    const pair = hash(JSON.stringify([Math.floor(Date.now() / DAY_MS), login, password])).slice(0, 22)
    let asked = login
    return {
      expect: name => {
        asked = name
        return expect(name, address)
      },
      bind: async (account, bind) => {
        // Elsewhere `name` is that of the entry itself: under other settings it may have led to another account.
        const isTyped = account.mayHaveTwoNames
        const attempt = { id: randomUUID(), name: account.name, isTyped, address, pair }
        const entry = { attempt, asked, account, deadline }
        const first = await begin(entry)
        const begun = first instanceof Denied ? await wait(entry, first) : first
        const result = await bind().catch(async (error: unknown) => {
          const isNobody = error instanceof DirectoryFailure && error.reason === 'unknown-user'
          await settle(entry, begun, outcomeOf(error), isNobody)
          throw error
        })
        await settle(entry, begun, 'accepted')
        return result
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
    forgetRefusals: refusals.clear,
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

const addressKey = (address: string): string => `address ${address}`
const nameKey = (name: string): string => `name ${name}`

/**
 * Active Directory binds two names of an account. Until a login has shown which account a name belongs to, each name gets
 * half of an account's permits, so that two names together cannot lock it.
 */
const halfOf = ({ max }: PermitRules): number => Math.floor(max / 2)

/**
 * As many failures under the other name, each just before the directory forgets, keep those of this name alive for so long
 * there (lockOutObservationWindow counts from the last one).
 */
const unresolved = (rules: PermitRules): PermitRules => ({ ...rules, windowMs: rules.windowMs * (halfOf(rules) + 1) })

const readingOf = (count: DirectoryCount | undefined) => count && { ...count, ageMs: performance.now() - count.readAt }

interface Refusal {
  /** By `performance.now()`. */
  readonly until: number
  readonly error: InstanceType<typeof LoginThrottled>
  /** The account whose known addresses may still try; undefined: none may. */
  readonly strangersTo?: { readonly name: string; readonly isTyped: boolean } | undefined
}

/** Another instance may have freed the account or the address by then. */
const REMEMBERED_MS = 1000
const MAX_REMEMBERED = 10_000

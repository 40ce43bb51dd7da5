// Reads the state of an account from its entry: failures counted by the directory, whether it is open, what guards its binds.
import type { AccountClue } from '../identity.ts'
import { allTexts, type DirectoryEntry, firstText, generalizedTime } from './person.ts'

/** Failed binds that the directory currently counts. */
export interface DirectoryCount {
  readonly failures: number
  /** Ms until the directory forgets them; Infinity: never. */
  readonly forgottenInMs: number
  /** When the directory was asked, by `performance.now()`. */
  readonly readAt: number
}

/** A lockout is not among them, because a stranger can cause one. */
export type AccountState = 'open' | 'disabled' | 'expired'

export const ACCOUNT_ATTRIBUTES = [
  'badPwdCount',
  'badPasswordTime',
  'lockoutTime',
  'msDS-User-Account-Control-Computed',
  'userAccountControl',
  'accountExpires',
  'pwdFailureTime',
  'pwdAccountLockedTime',
  'pwdStartTime',
  'pwdEndTime',
  'nsAccountLock',
  'loginDisabled'
] as const

const ACCOUNT_DISABLED = 0x2
const LOCKED_OUT = 0x10
/** No stranger can cause it: a lock-out has the time at which it began (draft-behera-ldap-password-policy-11 §5.3.3). */
const LOCKED_BY_ADMINISTRATOR = '000001010000Z'
/** Never (MS-ADA1 §2.1). */
const NEVER = 0x7fffffffffffffffn

export const accountState = (entry: DirectoryEntry, now: number): AccountState => {
  const startsAt = generalizedTime(firstText(entry, 'pwdStartTime'))
  const endsAt = generalizedTime(firstText(entry, 'pwdEndTime'))
  const isDisabled =
    (numberOf(entry, 'userAccountControl') & ACCOUNT_DISABLED) !== 0 ||
    firstText(entry, 'nsAccountLock').toLowerCase() === 'true' ||
    firstText(entry, 'loginDisabled').toLowerCase() === 'true' ||
    firstText(entry, 'pwdAccountLockedTime') === LOCKED_BY_ADMINISTRATOR ||
    (startsAt !== undefined && startsAt > now) ||
    (endsAt !== undefined && endsAt <= now)
  if (isDisabled) return 'disabled'
  const expiresAt = fileTimeOf(entry, 'accountExpires')
  return expiresAt !== undefined && expiresAt <= now ? 'expired' : 'open'
}

/** Whether the directory currently refuses every bind of this account, so that one more does no harm. */
export const isLockedOut = (entry: DirectoryEntry, now: number, windowMs: number): boolean => {
  if (firstText(entry, 'pwdAccountLockedTime') === LOCKED_BY_ADMINISTRATOR) return true
  const computed = firstText(entry, 'msDS-User-Account-Control-Computed')
  if (computed !== '') return (Number(computed) & LOCKED_OUT) !== 0
  const lockedAt = fileTimeOf(entry, 'lockoutTime')
  return lockedAt !== undefined && isWithin(lockedAt, now, windowMs)
}

/** OpenLDAP keeps the time of a lock-out after it has run out, until the next bind (slapo-ppolicy(5)). */
export const hasLockoutTime = (entry: DirectoryEntry): boolean => firstText(entry, 'pwdAccountLockedTime') !== ''

/** `windowMs` 0: the directory never forgets. */
const isWithin = (at: number, now: number, windowMs: number): boolean => windowMs === 0 || now - at < windowMs

/** undefined if the entry does not say. Failures older than `windowMs` are not counted; with 0, all that it holds are. */
export const directoryCount = (
  entry: DirectoryEntry,
  now: number,
  windowMs: number
): Omit<DirectoryCount, 'readAt'> | undefined => {
  const failedAt = allTexts(entry, 'pwdFailureTime').flatMap(text => generalizedTime(text) ?? [])
  const recent = failedAt.filter(at => isWithin(at, now, windowMs))
  const leftMs = (at: number) => (windowMs === 0 ? Number.POSITIVE_INFINITY : at + windowMs - now)
  if (failedAt.length > 0) return { failures: recent.length, forgottenInMs: Math.max(0, ...recent.map(leftMs)) }
  const text = firstText(entry, 'badPwdCount')
  if (text === '') return undefined
  const failures = Number(text)
  const lastAt = fileTimeOf(entry, 'badPasswordTime')
  const forgottenInMs = lastAt === undefined ? 0 : leftMs(lastAt)
  return forgottenInMs <= 0 || !(failures > 0) ? NO_FAILURES : { failures, forgottenInMs }
}

export const NO_FAILURES = { failures: 0, forgottenInMs: 0 }

const numberOf = (entry: DirectoryEntry, attribute: (typeof ACCOUNT_ATTRIBUTES)[number]): number => {
  const number = Number(firstText(entry, attribute))
  return Number.isInteger(number) ? number : 0
}

/** Ms since the epoch of a FILETIME: 100 ns since 1601 (MS-DTYP §2.3.3); undefined for never. */
const fileTimeOf = (entry: DirectoryEntry, attribute: (typeof ACCOUNT_ATTRIBUTES)[number]): number | undefined => {
  const text = firstText(entry, attribute)
  if (!/^\d{1,19}$/.test(text)) return undefined
  const ticks = BigInt(text)
  return ticks === 0n || ticks === NEVER ? undefined : Number(ticks / 10_000n) - 11_644_473_600_000
}

export interface GuardedAccount {
  /**
   * What its permits count under: the canonical login of the entry, or its stable subject if that login is not its alone;
   * without an entry, the login in a DN template, or the whole name that is bound.
   */
  readonly name: string
  /** Another name may belong to the same account, unless an earlier login has shown which ones do. */
  readonly mayHaveTwoNames: boolean
  /** The directory's own count, read from the server that will receive the bind. */
  readonly count?: DirectoryCount | undefined
  /** Whose account this is, for the audit log; undefined: no one's. */
  readonly whose: AccountClue | undefined
}

export interface BindGuard {
  /** Throws if a login with exactly this name is certain to be refused now; decided without any I/O. */
  expect(name: string): Promise<void>
  /** The result of `bind`, which is run as soon as it may be sent; or throws without running it. */
  bind<T>(account: GuardedAccount, bind: () => Promise<T>): Promise<T>
}

export const unguarded: BindGuard = { expect: async () => {}, bind: (_, bind) => bind() }

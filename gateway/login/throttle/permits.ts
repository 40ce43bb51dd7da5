// Decides whether one more login of an account or a client may begin, without a store, clock or network.
import type { DirectoryCount } from '../../directory/account.ts'
import type { LdapSettings } from '../../settings/settings.ts'
import type { AccountPermit, AttemptState } from '../../store/login-attempts.ts'

export interface PermitRules {
  /** Number of logins of an account that may fail. */
  readonly max: number
  /** The same for addresses from which this account has not logged in. */
  readonly maxForStrangers: number
  /** Infinity: the directory never forgets. */
  readonly windowMs: number
  /** A login that has not ended after this time never will (its instance died), so it counts as failed. */
  readonly patienceMs: number
}

/** The directory's own report about an account's failures, and the time since it was read. */
type DirectoryReading = Omit<DirectoryCount, 'readAt'> & { readonly ageMs: number }

/**
 * Failures of an account that strangers may cause: two are kept for known addresses, but one is for strangers in any
 * case, because a person's first login comes from a new address.
 */
export const strangersMax = (lockoutThreshold: number): number => Math.max(1, lockoutThreshold - 3)

/** Time that a bind and everything around it may take beyond LDAP_TIMEOUT_MS on a busy machine. */
const GRACE_MS = 2000
/** For directories whose clocks count whole seconds. */
export const CLOCK_MARGIN_MS = 1000

export type LockoutSettings = Pick<LdapSettings, 'timeoutMs' | 'lockoutThreshold' | 'lockoutWindowMs'>

export const accountRules = ({ timeoutMs, lockoutThreshold, lockoutWindowMs }: LockoutSettings): PermitRules => ({
  max: lockoutThreshold - 1,
  maxForStrangers: strangersMax(lockoutThreshold),
  windowMs: lockoutWindowMs === 0 ? Number.POSITIVE_INFINITY : lockoutWindowMs + CLOCK_MARGIN_MS,
  patienceMs: timeoutMs + GRACE_MS
})

interface PermitRequest {
  readonly now: number
  /** All in use, by others. */
  readonly permits: readonly AccountPermit[]
  readonly isKnown: boolean
  /** An upper limit, whatever the rules allow. */
  readonly most?: number | undefined
  /** The stricter of this and our own permits applies. */
  readonly reading?: DirectoryReading | undefined
}

export type PermitVerdict =
  | { readonly kind: 'granted' }
  /** None is free, but one may become free when a login in progress ends. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'refused'; readonly retryAfterMs: number }

const GRANTED: PermitVerdict = { kind: 'granted' }
const WAIT: PermitVerdict = { kind: 'wait' }
const refusedUntil = (end: number, now: number, windowMs: number): PermitVerdict =>
  // A clock that was set back must not make anyone wait longer than the window.
  ({ kind: 'refused', retryAfterMs: Math.min(Math.max(1, end - now), windowMs) })

/** Whether a client may cause one more failure. A pair of name and password that has failed before counts once. */
export const decideAddress = (
  { now, addressHeldSince, otherPairs }: Pick<AttemptState, 'now' | 'addressHeldSince' | 'otherPairs'>,
  { max, windowMs }: { readonly max: number; readonly windowMs: number }
): PermitVerdict => {
  if (addressHeldSince !== null) return refusedUntil(addressHeldSince + windowMs, now, windowMs)
  return otherPairs < max ? GRANTED : WAIT
}

/** Whether an account may fail once more. */
export const decideAccount = (
  { now, permits, isKnown, most = Number.POSITIVE_INFINITY, reading }: PermitRequest,
  rules: PermitRules
): PermitVerdict => {
  const max = Math.min(isKnown ? rules.max : rules.maxForStrangers, most)
  const live = livePermits(permits, now, rules).map(permit => abandoned(permit, now, rules))
  const used = reading === undefined ? live : withoutHarmless(live, now, reading)
  const counted = reading === undefined ? 0 : reading.failures + used.filter(isUnseen(now, reading)).length
  if (used.length < max && counted < max) return GRANTED
  if (used.some(permit => isUnderWay(permit, now, rules))) return WAIT
  const ownEnd = used.length < max ? now : Math.max(...used.map(permit => endOf(permit, rules)))
  const theirEnd = reading === undefined || counted < max ? now : now - reading.ageMs + reading.forgottenInMs
  return refusedUntil(Math.max(ownEnd, theirEnd), now, rules.windowMs)
}

/**
 * All count until a window passes without another one: in Active Directory (lockOutObservationWindow) each failure
 * extends the life of the earlier ones.
 */
export const livePermits = (permits: readonly AccountPermit[], now: number, rules: PermitRules): AccountPermit[] => {
  const sorted = permits.toSorted((one, other) => one.at - other.at)
  let end = Number.NEGATIVE_INFINITY
  const ends = sorted.map(permit => (end = Math.max(end, endOf(permit, rules))))
  let first = sorted.length
  // From the latest to the first, as long as those before it had not ended when the directory may have checked it.
  for (let next = now; first > 0 && (ends[first - 1] ?? 0) > next; first--)
    next = Math.min(next, (sorted[first - 1]?.at ?? 0) - rules.patienceMs)
  return sorted.slice(first)
}

/** The outcome of a login whose instance died will never be known. */
const abandoned = (permit: AccountPermit, now: number, rules: PermitRules): AccountPermit =>
  permit.kind !== 'open' || isUnderWay(permit, now, rules) ? permit : { kind: 'lost', at: permit.at + rules.patienceMs }

const isUnderWay = ({ kind, at }: AccountPermit, now: number, { patienceMs }: PermitRules): boolean =>
  kind === 'open' && now - at < patienceMs

const endOf = ({ kind, at }: AccountPermit, { windowMs, patienceMs }: PermitRules): number =>
  at + windowMs + (kind === 'open' ? patienceMs : 0)

/** How long an abandoned bind may still be processed, once the directory responds again. */
const LOST_SETTLES_MS = 1000
/** The database's times are in whole milliseconds. */
const READING_SLACK_MS = 1

/** Whether a login may have failed without being included in the directory's count. */
const isUnseen =
  (now: number, { ageMs }: DirectoryReading) =>
  ({ kind, at }: AccountPermit): boolean =>
    kind === 'open' || at >= now - ageMs - (kind === 'lost' ? LOST_SETTLES_MS : READING_SLACK_MS)

/** Binds without a response did no harm if the directory counts no more failures than are known. */
const withoutHarmless = (permits: readonly AccountPermit[], now: number, reading: DirectoryReading) => {
  let harmful = Math.max(0, reading.failures - permits.filter(({ kind }) => kind === 'failed').length)
  const isAbsent = isUnseen(now, reading)
  return permits.filter(permit => {
    if (permit.kind !== 'lost' || isAbsent(permit)) return true
    harmful -= 1
    return harmful >= 0
  })
}

// Decides how many more failed logins an account or a client may cause, without a store, clock or network.

/**
 * One login that has begun and may count as a failure: `open` while in progress, `failed` once refused,
 * `lost` if its outcome will never be known. `at`: ms since the epoch of its last change. `count`: how many such
 * consecutive logins this one represents.
 */
interface Permit {
  readonly id: string
  readonly kind: 'open' | 'failed' | 'lost'
  readonly at: number
  readonly count: number
}

/** All permits of one account or client that are in use, in the order of their last change. */
export type Permits = readonly Permit[]

export interface PermitRules {
  /** Number of logins that may fail. */
  readonly max: number
  /** The same for addresses from which this person has never logged in. */
  readonly maxForStrangers: number
  readonly windowMs: number
  /** A login that has not ended after this time never will (its instance died), so it counts as failed. */
  readonly patienceMs: number
  /**
   * `singly`: each failure counts for windowMs. `together`: all count until windowMs pass without another one, because in
   * Active Directory (lockOutObservationWindow) each failure extends the life of the earlier ones.
   */
  readonly forget: 'singly' | 'together'
}

/** The directory's own report about an account's failures. */
export interface DirectoryReading {
  readonly failures: number
  /** Time since it was read. */
  readonly ageMs: number
  /** From that moment on, until the directory forgets them. */
  readonly forgottenInMs: number
}

interface PermitRequest {
  readonly id: string
  readonly known: boolean
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

/** `accepted`: the password was right. `returned`: it was not checked. `lost`: it may have been checked, or may yet be. */
export type PermitOutcome = 'accepted' | 'returned' | 'failed' | 'lost'

/** The permits that still count. */
export const livePermits = (permits: Permits, now: number, rules: PermitRules): Permits => {
  const lives = (permit: Permit) => isUnderWay(permit, now, rules) || now < endOf(permit, rules)
  return rules.forget === 'singly' ? permits.filter(lives) : permits.some(lives) ? permits : []
}

/** Takes one of `permits` (live ones) for a login that is about to begin. */
export const reservePermit = (
  permits: Permits,
  now: number,
  rules: PermitRules,
  { id, known, most = Number.POSITIVE_INFINITY, reading }: PermitRequest
): { readonly permits: Permits; readonly verdict: PermitVerdict } => {
  const max = Math.min(known ? rules.max : rules.maxForStrangers, most)
  const judged = reading === undefined ? permits : withoutHarmless(permits, now, reading)
  const used = sumOf(judged)
  const counted = reading === undefined ? 0 : reading.failures + sumOf(judged.filter(isUnseen(now, reading)))
  if (used < max && counted < max) {
    return { permits: [...judged, { id, kind: 'open', at: now, count: 1 }], verdict: { kind: 'granted' } }
  }
  if (judged.some(permit => isUnderWay(permit, now, rules))) return { permits, verdict: { kind: 'wait' } }
  const ownEnd = rules.forget === 'together' ? endOfAll(judged, rules) : endOfSome(judged, used - max + 1, rules)
  const theirEnd = reading === undefined || counted < max ? now : now - reading.ageMs + reading.forgottenInMs
  const end = Math.max(used < max ? now : ownEnd, theirEnd)
  // A clock that was set back must not make anyone wait longer than the window.
  const retryAfterMs = Math.min(Math.max(1, end - now), rules.windowMs)
  return { permits, verdict: { kind: 'refused', retryAfterMs } }
}

/** How long an abandoned bind may still be processed, once the directory responds again. */
const LOST_SETTLES_MS = 1000
/** Possible difference between the clock that times logins and the one that times reads of the directory. */
const READING_SLACK_MS = 5

/** Whether a login may have failed without being included in the directory's count. */
const isUnseen =
  (now: number, { ageMs }: DirectoryReading) =>
  ({ kind, at }: Permit): boolean =>
    kind === 'open' || at >= now - ageMs - (kind === 'lost' ? LOST_SETTLES_MS : READING_SLACK_MS)

/** Binds without a response did no harm if the directory counts no more failures than are known. */
const withoutHarmless = (permits: Permits, now: number, reading: DirectoryReading): Permits => {
  const failed = sumOf(permits.filter(({ kind }) => kind === 'failed'))
  let harmful = Math.max(0, reading.failures - failed)
  const unseen = isUnseen(now, reading)
  return permits.filter(permit => {
    if (permit.kind !== 'lost' || unseen(permit)) return true
    harmful -= permit.count
    return harmful + permit.count > 0
  })
}

const sumOf = (permits: Permits): number => permits.reduce((sum, { count }) => sum + count, 0)

/**
 * The permits that remain when a login ends. A directory forgets earlier failures when it accepts a password, so an
 * accepted login releases those that had failed, or were abandoned, before it began. Later ones may have been checked
 * after it, and stay.
 */
export const settlePermit = (
  permits: Permits,
  now: number,
  rules: PermitRules,
  id: string,
  outcome: PermitOutcome
): Permits => {
  const place = permits.findIndex(permit => permit.id === id)
  if (outcome === 'failed' || outcome === 'lost') {
    const others = permits.filter((_, index) => index !== place)
    return compact([...others, { id, kind: outcome, at: now, count: 1 }], rules)
  }
  return permits.filter(
    ({ kind }, index) => index !== place && !(outcome === 'accepted' && kind !== 'open' && index < place)
  )
}

/** Adjacent permits of one kind and nearly the same time are merged, so that a high limit costs no more than a low one. */
const compact = (permits: Permits, { windowMs }: PermitRules): Permits => {
  if (permits.length <= MAX_EXACT) return permits
  const compacted: Permit[] = []
  for (const permit of permits) {
    const last = compacted.at(-1)
    const slot = Math.floor(permit.at / (windowMs / MAX_EXACT))
    const isNear = last !== undefined && slot === Math.floor(last.at / (windowMs / MAX_EXACT))
    if (!isNear || permit.kind === 'open' || last.kind !== permit.kind) compacted.push(permit)
    else compacted[compacted.length - 1] = { ...permit, count: last.count + permit.count }
  }
  return compacted
}

const MAX_EXACT = 100

/** All permits of two names that turn out to belong to one account. */
export const mergePermits = (one: Permits, other: Permits): Permits =>
  [...one, ...other].toSorted((left, right) => left.at - right.at)

const endOfAll = (permits: Permits, rules: PermitRules): number =>
  Math.max(0, ...permits.map(permit => endOf(permit, rules)))

/** When the first `wanted` permits will be over. */
const endOfSome = (permits: Permits, wanted: number, rules: PermitRules): number => {
  const ends = permits.map(permit => ({ end: endOf(permit, rules), count: permit.count })).sort((a, b) => a.end - b.end)
  let over = 0
  for (const { end, count } of ends) {
    over += count
    if (over >= wanted) return end
  }
  return 0
}

const isUnderWay = ({ kind, at }: Permit, now: number, { patienceMs }: PermitRules): boolean =>
  kind === 'open' && now - at < patienceMs

const endOf = ({ kind, at }: Permit, { windowMs, patienceMs }: PermitRules): number =>
  at + windowMs + (kind === 'open' ? patienceMs : 0)

const LETTERS = { open: 'o', failed: 'f', lost: 'l' } as const
const KINDS: Readonly<Record<string, Permit['kind']>> = { o: 'open', f: 'failed', l: 'lost' }

/** As text for a store: `o1763683200000.id` and so on, separated by blanks; `*3` follows one that represents three. */
export const encodePermits = (permits: Permits): string =>
  permits.map(({ id, kind, at, count }) => `${LETTERS[kind]}${at}.${id}${count === 1 ? '' : `*${count}`}`).join(' ')

/** Skips anything that is not a permit. */
export const decodePermits = (text: string): Permits =>
  text.split(' ').flatMap(word => {
    const [, letter = '', at, id = '', count = 1] =
      /^([ofl])(\d{1,15})\.([\w-]{1,32})(?:\*(\d{1,9}))?$/.exec(word) ?? []
    const kind = KINDS[letter]
    return kind === undefined ? [] : [{ id, kind, at: Number(at), count: Number(count) }]
  })

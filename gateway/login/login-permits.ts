// How many more failed logins one account or one client may cause is decided, without any store, clock or network.

/**
 * One login that was begun and may stand in somebody's count of failures: `open` while under way, `failed` once refused,
 * `lost` when its end will never be known. `at`: ms since the epoch of its last change.
 */
export interface Permit {
  readonly id: string
  readonly kind: 'open' | 'failed' | 'lost'
  readonly at: number
}

/** All permits of one account or client in use, in the order of their last change. */
export type Permits = readonly Permit[]

export interface PermitRules {
  /** Logins that may fail. */
  readonly max: number
  /** The same for addresses from which this person never logged in. */
  readonly maxForStrangers: number
  readonly windowMs: number
  /** A login that has not ended after this never will (its instance died): it counts as failed. */
  readonly patienceMs: number
  /**
   * `singly`: each failure counts for windowMs. `together`: all count until there was none for windowMs, for in Active
   * Directory (lockOutObservationWindow) each failure prolongs the life of those before it.
   */
  readonly forget: 'singly' | 'together'
}

export type PermitVerdict =
  | { readonly kind: 'granted' }
  /** None is free, and the end of one under way may free it. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'refused'; readonly retryAfterMs: number }

/** `accepted`: the password was right. `returned`: nobody judged it. `lost`: it may have been judged, or may yet be. */
export type PermitOutcome = 'accepted' | 'returned' | 'failed' | 'lost'

/** Those that still count. */
export const livePermits = (permits: Permits, now: number, rules: PermitRules): Permits => {
  const lives = (permit: Permit) => isUnderWay(permit, now, rules) || now < endOf(permit, rules)
  return rules.forget === 'singly' ? permits.filter(lives) : permits.some(lives) ? permits : []
}

/** Takes one of `permits` (live ones) for a login that is about to begin. */
export const reservePermit = (
  permits: Permits,
  now: number,
  rules: PermitRules,
  { id, known }: { readonly id: string; readonly known: boolean }
): { readonly permits: Permits; readonly verdict: PermitVerdict } => {
  const max = known ? rules.max : rules.maxForStrangers
  if (permits.length < max)
    return { permits: [...permits, { id, kind: 'open', at: now }], verdict: { kind: 'granted' } }
  if (permits.some(permit => isUnderWay(permit, now, rules))) return { permits, verdict: { kind: 'wait' } }
  const ends = permits.map(permit => endOf(permit, rules)).sort((a, b) => a - b)
  const end = (rules.forget === 'together' ? ends.at(-1) : ends[permits.length - max]) ?? now
  // A clock that was set back must not make anybody wait for longer than the window.
  const retryAfterMs = Math.min(Math.max(1, end - now), rules.windowMs)
  return { permits, verdict: { kind: 'refused', retryAfterMs } }
}

/**
 * What is left of `permits` when a login ends. A directory forgets earlier failures when it accepts a password, so an
 * accepted login frees those that had failed before it began. Later ones, and those whose judgement nobody has seen, may
 * have come after it and stay.
 */
export const settlePermit = (permits: Permits, now: number, id: string, outcome: PermitOutcome): Permits => {
  const place = permits.findIndex(permit => permit.id === id)
  if (outcome === 'failed' || outcome === 'lost') {
    return [...permits.filter(permit => permit.id !== id), { id, kind: outcome, at: now }]
  }
  return permits.filter(
    ({ kind }, index) => index !== place && !(outcome === 'accepted' && kind === 'failed' && index < place)
  )
}

const isUnderWay = ({ kind, at }: Permit, now: number, { patienceMs }: PermitRules): boolean =>
  kind === 'open' && now - at < patienceMs

const endOf = ({ kind, at }: Permit, { windowMs, patienceMs }: PermitRules): number =>
  at + windowMs + (kind === 'open' ? patienceMs : 0)

const LETTERS = { open: 'o', failed: 'f', lost: 'l' } as const
const KINDS: Readonly<Record<string, Permit['kind']>> = { o: 'open', f: 'failed', l: 'lost' }

/** As text for a store: `o1763683200000.id` and so on, blank-separated. */
export const encodePermits = (permits: Permits): string =>
  permits.map(({ id, kind, at }) => `${LETTERS[kind]}${at}.${id}`).join(' ')

/** What is no permit is left out. */
export const decodePermits = (text: string): Permits =>
  text.split(' ').flatMap(word => {
    const [, letter = '', at = '', id = ''] = /^([ofl])(\d{1,15})\.([\w-]{1,32})$/.exec(word) ?? []
    const kind = KINDS[letter]
    return kind === undefined ? [] : [{ id, kind, at: Number(at) }]
  })

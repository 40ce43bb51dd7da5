// Rechecks people with a live session in the directory, spread over the interval, on one instance for all.
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Directory } from '../directory/directory.ts'
import type { DirectoryAccounts, DueAccount } from '../store/directory-accounts.ts'
import { every } from '../values/contain.ts'
import { createReports } from '../values/throttled-log.ts'
import { createTurns } from '../values/turns.ts'

interface RecheckParts {
  readonly directory: Pick<Directory, 'lookUp'>
  readonly accounts: DirectoryAccounts
  /** The person's groups in the directory, which began to be read at that time (`performance.now()`). */
  readonly applyGroups: (userId: number, groups: readonly string[], readAt: number) => Promise<unknown>
  /** Makes this instance aware of what was ended. */
  readonly catchUp: () => Promise<void>
  /** LDAP_RECHECK. */
  readonly intervalMs: number
  readonly log: Pick<Logger, 'warn' | 'info'>
}

/** Everyone's turn comes a little before the interval is over. */
const SHARE_OF_INTERVAL = 0.9
const LEASE_MS = 10_000
/** Look-ups in one turn, and at the same time: enough for 500,000 people in a quarter of an hour. */
const MOST_IN_A_TURN = 1000
const MOST_AT_ONCE = 8
/** This many people at once may really be gone; more probably mean a mistake in the directory. */
const MOST_GONE = 5
const MOST_GONE_SHARE = 0.1
const ACTOR = { id: null, username: 'directory' }

export const startRecheck = (parts: RecheckParts) => {
  const { accounts, log } = parts
  const turnMs = parts.intervalMs * SHARE_OF_INTERVAL
  const longAgoMs = parts.intervalMs * 2
  const tickMs = Math.min(1000, Math.max(25, parts.intervalMs / 40))
  const holder = randomUUID()
  const isNews = createReports()
  const inTurn = createTurns(MOST_AT_ONCE, Number.POSITIVE_INFINITY, () => new Error('too many look-ups'))
  let leads = { until: Number.NEGATIVE_INFINITY, askAt: Number.NEGATIVE_INFINITY, since: 0 }
  let live = { count: 0, countAt: Number.NEGATIVE_INFINITY }
  // Most accounts may be of people without a session, and were looked up long ago: they are read only as often as all are counted.
  let looksBack = true
  let budget = { left: 0, at: performance.now() }
  let running: Promise<void> | undefined

  const isLeader = async (now: number): Promise<boolean> => {
    if (now < leads.askAt) return now < leads.until
    const isHeld = await accounts.lead(holder, LEASE_MS)
    const since = now < leads.until ? leads.since : now
    leads = { until: isHeld ? now + LEASE_MS * 0.8 : Number.NEGATIVE_INFINITY, askAt: now + LEASE_MS / 3, since }
    return isHeld
  }

  /** The number of lookups that are due when all are spread evenly over the interval. */
  const allowance = async (now: number): Promise<number> => {
    if (now >= live.countAt) {
      live = { count: (await accounts.count()).live, countAt: now + Math.min(10_000, turnMs / 10) }
      looksBack = true
    }
    const left = Math.min(MOST_IN_A_TURN, budget.left + (live.count * (now - budget.at)) / turnMs)
    budget = { left: left - Math.floor(left), at: now }
    return Math.floor(left)
  }

  const round = async (): Promise<void> => {
    const now = performance.now()
    if (!(await isLeader(now))) return
    const regular = await allowance(now)
    // After a pause, looks are not made up for at once: someone who is gone is given half an interval before the second.
    // Overdue people (because this instance has just taken over, or a session is new) do not wait any longer.
    const [ageMs, most] = regular > 0 ? [turnMs / 2, regular] : [turnMs, 1]
    const due = await accounts.due(ageMs, most, looksBack ? undefined : longAgoMs)
    looksBack &&= due.some(one => one.ageMs > longAgoMs || one.ageMs < 0)
    // Once for this turn, because it reads all of them.
    let counted: Counted | undefined
    const turn = { ...parts, isNews, count: () => (counted ??= accounts.count()) }
    // A slow directory may take longer than the lease lasts.
    const recheckAsLeader = async (one: DueAccount) => {
      if (await isLeader(performance.now())) await recheck(turn, one)
    }
    // All of them have ended before the next round begins.
    const lookUp = async (wasMissing: boolean) => {
      const those = due.filter(one => one.wasMissing === wasMissing)
      const ends = await Promise.allSettled(those.map(one => inTurn('', () => recheckAsLeader(one))))
      const failed = ends.find(end => end.status === 'rejected')
      if (failed !== undefined) throw failed.reason
    }
    // Whether a second look may end someone depends on how many others were missed at their first.
    await lookUp(false)
    await lookUp(true)
    const lateMs = Math.max(0, ...due.map(({ ageMs }) => ageMs)) - parts.intervalMs
    if (now - leads.since > 2 * parts.intervalMs && lateMs > parts.intervalMs && isNews('behind'))
      log.warn(
        { lateMs: Math.round(lateMs), people: live.count, reason: 'recheck-behind' },
        'people are looked up in the directory later than LDAP_RECHECK says: it does not answer fast enough for so many. Set a longer LDAP_RECHECK, or add servers'
      )
  }

  const tick = () => {
    if (running !== undefined) return
    running = round()
      .catch((error: unknown) => {
        if (isNews('recheck'))
          log.warn(
            { err: error, reason: 'recheck-failed' },
            'people could not be looked up in the directory again; their access stays as it is'
          )
      })
      .finally(() => {
        running = undefined
      })
  }
  const stop = every(tickMs, tick)
  return {
    close: async () => {
      stop()
      await running
      await accounts.resign(holder).catch(() => {})
    }
  }
}

type Counted = ReturnType<DirectoryAccounts['count']>

interface Turn extends RecheckParts {
  readonly isNews: (topic: string) => boolean
  readonly count: () => Counted
}

const recheck = async (parts: Turn, account: DueAccount): Promise<void> => {
  const { directory, accounts, log, isNews } = parts
  const { userId } = account
  const readAt = performance.now()
  try {
    const found = await directory.lookUp(account)
    if (found.state === 'open') {
      await accounts.confirm(userId, found.groups !== undefined)
      if (found.groups !== undefined) await parts.applyGroups(userId, found.groups, readAt)
      else if (await accounts.missGroups(userId)) await parts.applyGroups(userId, [], readAt)
    } else if (found.state !== 'gone') await end(parts, userId, found.state, readAt)
    else if (!account.wasMissing) await accounts.miss(userId)
    else if (await isPlausible(parts)) await end(parts, userId, 'gone', readAt)
    else await accounts.postpone(userId)
  } catch (error) {
    await accounts.postpone(userId)
    if (isNews('look-up'))
      log.warn(
        { err: error, reason: 'look-up-failed' },
        'a person could not be looked up in the directory again; their access stays as it is'
      )
  }
}

const end = async (
  { accounts, catchUp, log }: RecheckParts,
  userId: number,
  reason: string,
  readAt: number
): Promise<void> => {
  if (!(await accounts.end(ACTOR, userId, reason, readAt))) return
  await catchUp()
  log.info(
    { user: userId, reason: `directory-${reason}` },
    'ended the sessions of a person because of the state of their directory account'
  )
}

/** Everyone else has been looked up since this person was first missed: were many of them missed as well? */
const isPlausible = async ({ count, log, isNews }: Turn): Promise<boolean> => {
  const { live, missing } = await count()
  if (missing <= MOST_GONE || missing <= live * MOST_GONE_SHARE) return true
  if (isNews('many-gone'))
    log.warn(
      { missing, people: live, reason: 'many-people-gone' },
      'too many people are no longer found in the directory; their sessions continue. Check LDAP_SEARCH_BASE, LDAP_SEARCH_FILTER, the permissions of LDAP_BIND_DN and the servers in LDAP_URL'
    )
  return false
}

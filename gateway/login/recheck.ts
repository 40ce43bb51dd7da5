// Rechecks people with a live session in the directory, spread over the interval, on one instance for all.

import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Directory } from '../directory/directory.ts'
import type { DirectoryAccounts, DueAccount } from '../store/directory-accounts.ts'
import { task } from '../values/contain.ts'
import { createReports } from './reports.ts'

interface RecheckParts {
  readonly directory: Pick<Directory, 'lookUp'>
  readonly accounts: DirectoryAccounts
  /** The person's current groups in the directory. */
  readonly applyGroups: (userId: number, groups: readonly string[]) => Promise<unknown>
  /** Makes this instance aware of what was ended. */
  readonly catchUp: () => Promise<void>
  /** LDAP_RECHECK. */
  readonly intervalMs: number
  readonly log: Pick<Logger, 'warn' | 'info'>
}

interface Recheck {
  close(): Promise<void>
}

/** Everyone's turn comes a little before the interval is over. */
const SHARE_OF_INTERVAL = 0.9
const LEASE_MS = 10_000
const MOST_AT_ONCE = 50
/** This many people at once may really be gone; more probably mean a mistake in the directory. */
const MOST_GONE = 5
const MOST_GONE_SHARE = 0.1
const ACTOR = { id: null, username: 'directory' }

export const startRecheck = (parts: RecheckParts): Recheck => {
  const { accounts, log } = parts
  const turnMs = parts.intervalMs * SHARE_OF_INTERVAL
  const tickMs = Math.min(1000, Math.max(25, parts.intervalMs / 40))
  const holder = randomUUID()
  const isNews = createReports(() => performance.now())
  let leads = { until: Number.NEGATIVE_INFINITY, askAt: Number.NEGATIVE_INFINITY }
  let live = { count: 0, countAt: Number.NEGATIVE_INFINITY }
  let budget = { left: 0, at: performance.now() }
  let running: Promise<void> | undefined

  const isLeader = async (now: number): Promise<boolean> => {
    if (now < leads.askAt) return now < leads.until
    const isHeld = await accounts.lead(holder, LEASE_MS)
    leads = { until: isHeld ? now + LEASE_MS * 0.8 : Number.NEGATIVE_INFINITY, askAt: now + LEASE_MS / 3 }
    return isHeld
  }

  /** The number of lookups that are due when all are spread evenly over the interval. */
  const allowance = async (now: number): Promise<number> => {
    if (now >= live.countAt)
      live = { count: (await accounts.count()).live, countAt: now + Math.min(10_000, turnMs / 10) }
    const left = Math.min(MOST_AT_ONCE, budget.left + (live.count * (now - budget.at)) / turnMs)
    budget = { left: left - Math.floor(left), at: now }
    return Math.floor(left)
  }

  const round = async (): Promise<void> => {
    const now = performance.now()
    if (!(await isLeader(now))) return
    const regular = await allowance(now)
    // Overdue people (because this instance has just taken over, or a session is new) do not wait any longer.
    const due = regular > 0 ? await accounts.due(0, regular) : await accounts.due(turnMs, 1)
    for (const account of due) await recheck(parts, account, isNews)
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
  const timer = setInterval(task(tick), tickMs)
  timer.unref()
  return {
    close: async () => {
      clearInterval(timer)
      await running
      await accounts.resign(holder).catch(() => {})
    }
  }
}

const recheck = async (parts: RecheckParts, account: DueAccount, isNews: (topic: string) => boolean): Promise<void> => {
  const { directory, accounts, log } = parts
  const { userId } = account
  try {
    const found = await directory.lookUp(account)
    if (found.state === 'open') {
      await accounts.confirm(userId, found.groups !== undefined)
      if (found.groups !== undefined) await parts.applyGroups(userId, found.groups)
      else if (await accounts.missGroups(userId)) await parts.applyGroups(userId, [])
    } else if (found.state !== 'gone') await end(parts, userId, found.state)
    else if (!account.wasMissing) await accounts.miss(userId)
    else if (await isPlausible(parts, isNews)) await end(parts, userId, 'gone')
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

const end = async ({ accounts, catchUp, log }: RecheckParts, userId: number, reason: string): Promise<void> => {
  await accounts.end(ACTOR, userId, reason)
  await catchUp()
  log.info(
    { user: userId, reason: `directory-${reason}` },
    'ended the sessions of a person because of the state of their directory account'
  )
}

/** Everyone else has been looked up since this person was first missed: were many of them missed as well? */
const isPlausible = async ({ accounts, log }: RecheckParts, isNews: (topic: string) => boolean): Promise<boolean> => {
  const { live, missing } = await accounts.count()
  if (missing <= MOST_GONE || missing <= live * MOST_GONE_SHARE) return true
  if (isNews('many-gone'))
    log.warn(
      { missing, people: live, reason: 'many-people-gone' },
      'too many people are no longer found in the directory; their sessions continue. Check LDAP_SEARCH_BASE, LDAP_SEARCH_FILTER, the permissions of LDAP_BIND_DN and the servers in LDAP_URL'
    )
  return false
}

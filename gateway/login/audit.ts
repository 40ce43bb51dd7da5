// Records every login. Refused ones name a person only if there is one, and a flood of them is summarised.
import type { Logger } from 'pino'
import type { AccountProvider } from '../identity.ts'
import type { AuditEntry } from '../store/audit-entry.ts'
import type { AuditLog } from '../store/audit-log.ts'
import type { LoginNames } from '../store/login-names.ts'
import { task } from '../values/contain.ts'
import { keyedHash } from './keyed-hash.ts'
import type { LoginOutcome } from './sign-in.ts'

interface LoginAuditParts {
  readonly audit: Pick<AuditLog, 'append'>
  readonly names: Pick<LoginNames, 'personOf'>
  /** JWT_SECRET; the key for hashing unknown names is derived from it. */
  readonly secret: string
  readonly log: Pick<Logger, 'info' | 'debug' | 'error'>
  /** Monotonic ms. */
  readonly clock?: () => number
}

/** This many refusals get an entry of their own at once, and one more from time to time. */
const BURST = 60
const REFILL_MS = 5_000
const SUM_EVERY_MS = 60_000

export type LoginAudit = ReturnType<typeof createLoginAudit>

export const createLoginAudit = (parts: LoginAuditParts) => {
  const { audit, log, clock = () => performance.now() } = parts
  const nameOf = createNames(parts)
  const pending = new Set<Promise<void>>()
  const sums = createSums(entry => keep(append(entry)), clock)
  let bucket = { left: BURST, at: clock() }

  const append = async (entry: AuditEntry, named?: number): Promise<void> => {
    try {
      await audit.append(entry, named)
    } catch (error) {
      const { requestId } = entry.actor
      log.error(
        { err: error, requestId, reason: 'audit-unwritten' },
        'a refused login could not be written to the audit log'
      )
    }
  }
  const keep = (work: Promise<void>): void => {
    const kept = work.finally(() => pending.delete(kept))
    pending.add(kept)
  }
  const isAffordable = (): boolean => {
    const now = clock()
    const left = Math.min(BURST, bucket.left + (now - bucket.at) / REFILL_MS)
    bucket = { left: left >= 1 ? left - 1 : left, at: now }
    return left >= 1
  }
  const refuse = async (outcome: LoginOutcome): Promise<void> => {
    const { provider, reason, requestId, ip } = outcome
    const { name, userId } = await nameOf(outcome)
    log.info({ requestId, provider, reason, user: userId, name, ip, ok: false }, 'login refused')
    const entry = {
      actor: { id: null, username: name, requestId, ip },
      action: 'login.failed',
      target: targetOf(provider, userId),
      details: { provider, reason }
    }
    await append(entry, userId)
  }

  return {
    /** Logs every login, and stores the entry of a refused one. */
    record(outcome: LoginOutcome) {
      const { ok, provider, reason, userId, requestId, ip } = outcome
      if (ok) log.info({ requestId, provider, reason, user: userId, ip, ok }, 'login')
      else if (reason === 'ldap-not-active') {
        // Anyone can request what is switched off, as often as they like.
        log.debug({ requestId, provider, reason, ip, ok }, 'login refused')
      } else if (isAffordable()) keep(refuse(outcome))
      else sums.add(provider, reason)
    },
    /** Resolves when everything recorded is stored, or could not be. */
    flush: async () => {
      sums.write()
      await Promise.all(pending)
    }
  }
}

/** The entry of an accepted login, which must not exist without it. */
export const loginEntry = ({ provider, reason, username, userId, requestId, ip }: LoginOutcome): AuditEntry => ({
  actor: { id: userId ?? null, username, requestId, ip },
  action: 'login',
  target: targetOf(provider, userId),
  details: { provider, reason }
})

/** How entries name an account. */
export const targetOf = (provider: AccountProvider, id: number | undefined): string =>
  id === undefined ? '' : `${provider === 'client' ? 'client' : 'user'}:${id}`

/** How a refused login is named: a password typed as a user name must not be written anywhere. */
const createNames = ({ names, secret }: LoginAuditParts) => {
  const hash = keyedHash(secret, 'portaria login names')
  const hashOf = (name: string): string => (name === '' ? '' : `unknown:${hash(name).slice(0, 16)}`)
  return async ({ provider, username, userId, whose }: LoginOutcome) => {
    // The other reasons do not involve typed text: the identifier comes from an ID token or has been proven.
    if (provider !== 'ldap' || userId !== undefined) return { name: username, userId }
    const person = whose && (await names.personOf(whose).catch(() => undefined))
    return person === undefined ? { name: hashOf(username), userId } : { name: person.username, userId: person.id }
  }
}

/** Summarises refusals without an entry of their own: one entry a minute per reason. */
const createSums = (append: (entry: AuditEntry) => void, clock: () => number) => {
  const counts = new Map<string, { provider: string; reason: string; count: number }>()
  let since = clock()
  let timer: NodeJS.Timeout | undefined

  const write = (): void => {
    clearTimeout(timer)
    timer = undefined
    const seconds = Math.max(1, Math.round((clock() - since) / 1000))
    for (const { provider, reason, count } of counts.values()) {
      append({
        actor: { id: null, username: '' },
        action: 'login.failed',
        target: '',
        details: { provider, reason, count, seconds }
      })
    }
    counts.clear()
  }

  return {
    write,
    add(provider: string, reason: string) {
      const topic = `${provider} ${reason}`
      const sum = counts.get(topic) ?? { provider, reason, count: 0 }
      counts.set(topic, { ...sum, count: sum.count + 1 })
      if (timer !== undefined) return
      since = clock()
      timer = setTimeout(task(write), SUM_EVERY_MS).unref()
    }
  }
}

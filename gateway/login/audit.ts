// Every login is on record, also the refused ones; recording never fails or delays a login.
import type { Logger } from 'pino'
import type { AuditLog } from '../store/audit-log.ts'
import type { LoginOutcome } from './sign-in.ts'

const MAX_PENDING = 1000

interface LoginAudit {
  record(outcome: LoginOutcome): void
  /** Resolves when everything recorded is stored, or could not be. */
  flush(): Promise<void>
}

export const createLoginAudit = (audit: Pick<AuditLog, 'append'>, log: Logger): LoginAudit => {
  const pending = new Set<Promise<void>>()
  let lost = 0

  const store = async (outcome: LoginOutcome) => {
    const { ok, provider, reason, username, userId, requestId, ip } = outcome
    try {
      await audit.append({
        actor: { id: userId ?? null, username, requestId, ip },
        action: ok ? 'login' : 'login.failed',
        target: userId === undefined ? '' : `user:${userId}`,
        details: { provider, reason }
      })
    } catch (error) {
      log.error({ err: error, requestId, reason: 'audit-unwritten' }, 'a login could not be put on record')
    }
  }

  return {
    record(outcome) {
      const { ok, provider, reason, userId, requestId, ip } = outcome
      log.info({ requestId, provider, reason, user: userId, ip, ok }, ok ? 'login' : 'login refused')
      if (pending.size >= MAX_PENDING) {
        lost++
        if (lost % MAX_PENDING === 1)
          log.error({ lost, reason: 'audit-overflow' }, 'logins come faster than they can be put on record')
        return
      }
      const stored = store(outcome).finally(() => pending.delete(stored))
      pending.add(stored)
    },
    flush: async () => {
      await Promise.all(pending)
    }
  }
}

// Opens the key of the audit log when a gateway starts, makes it if there is none, and keeps it sealed for its secrets.
import type { SealingSecret } from '../tokens/sealed-keys.ts'
import { every } from '../values/contain.ts'
import { appendAudit } from './audit-entry.ts'
import { keyAuditLog } from './audit-keys.ts'
import type { Database } from './database.ts'

/** More often than the copy for a secret that no instance names is dropped. */
const SEAL_EVERY_MS = 10 * 60 * 1000
const ACTOR = { id: null, username: 'gateway' }

export const startAuditKey = async (
  database: Database,
  secrets: readonly SealingSecret[]
): Promise<{ close(): void }> => {
  const made = await keyAuditLog(database, { secrets, creates: true })
  if (made !== undefined) {
    const details = { entries: made.from, hash: made.hash }
    await database.write(manager => appendAudit(manager, { actor: ACTOR, action: 'audit.key', details }))
  }
  // Next time, if the database is away.
  return {
    close: every(SEAL_EVERY_MS, () => keyAuditLog(database, { secrets, creates: false }).catch(() => undefined))
  }
}

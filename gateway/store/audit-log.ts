// Writes the audit log, reads it newest first, and checks its chain.
import { type AuditCheckpoint, type CheckStep, checkSome, readChecked } from './audit-check.ts'
import { type AuditEntry, appendAudit } from './audit-entry.ts'
import { type AuditFilter, type AuditQuery, collectAudit, listAudit } from './audit-list.ts'
import { verifyAuditLog } from './audit-verify.ts'
import type { Database } from './database.ts'

export type AuditLog = ReturnType<typeof createAuditLog>

/** @param lists the part of the database that long lists use */
export const createAuditLog = (database: Database, lists = database) => ({
  /** Throws DatabaseUnavailable, AuditKeyMissing. */
  append: (entry: AuditEntry) => database.write(manager => appendAudit(manager, entry)),
  /** Reads the whole chain. */
  verify: () => verifyAuditLog(database),
  /** See `checkSome`. */
  check: (sweep: number, leastAgeMs?: number): Promise<CheckStep | undefined> => checkSome(database, sweep, leastAgeMs),
  checked: (remembered?: Pick<AuditCheckpoint, 'verified' | 'hash'>) => readChecked(database, remembered),
  list: (filter?: AuditQuery) => listAudit(lists, filter),
  /** Everything that the filter finds, newest first; undefined if that is more than `most`. */
  collect: (filter: AuditFilter, most: number) => collectAudit(lists, filter, most)
})

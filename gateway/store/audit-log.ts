// Writes the audit log, reads it newest first, and verifies its chain.
import { isBeginning, isBeyondHead, nextRows, readAuditHead, walkFrom, walkOver } from './audit-chain.ts'
import { type AuditCheckpoint, type CheckStep, checkSome, readChecked, readCheckpoint } from './audit-check.ts'
import { type AuditEntry, appendAudit, keysOf, linkingKey } from './audit-entry.ts'
import { type AuditFilter, type AuditQuery, collectAudit, listAudit } from './audit-list.ts'
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

interface AuditVerdict {
  ok: boolean
  /** Number of entries according to the head of the chain. */
  entries: number
  /** Number of the first entry that is missing or differs from what was written. */
  firstBroken?: number
  /** Entries that were archived and removed; those that are left follow from the last of them. */
  archived?: number
  /** Entries that were written without the key since a gateway last checked the log. */
  unkeyed?: number
  /** Entries whose key no secret opens any more. */
  uncheckable?: number
}

/** Some milliseconds each, during which nothing else runs. */
const PAGE = 500

/**
 * Whether every entry follows from the previous one, and the last is the one that the head names: a changed, removed,
 * inserted or reordered entry breaks the chain, and a truncated tail does not match the head. What a gateway has checked
 * must still be there. Entries written meanwhile are left for the next time. Throws AuditKeyMissing.
 */
export const verifyAuditLog = async (database: Database): Promise<AuditVerdict> => {
  for (;;) {
    const { verdict, archived } = await verifyOnce(database)
    // What was archived meanwhile is not missing.
    if (verdict.ok || (await database.read(manager => readAuditHead(manager))).archived === archived) return verdict
  }
}

const verifyOnce = async (database: Database): Promise<{ verdict: AuditVerdict; archived: number }> => {
  const { head, keys, checkpoint } = await database.read(async manager => {
    await linkingKey(manager)
    return { head: await readAuditHead(manager), keys: keysOf(manager), checkpoint: await readCheckpoint(manager) }
  })
  const { entries, archived } = head
  const broken = (firstBroken: number) => ({ verdict: { ok: false, entries, firstBroken }, archived })
  if (!isBeginning(head, keys)) return broken(archived)
  const walk = walkFrom(archived, head.archivedHash)
  let unkeyedBefore = 0
  while (walk.number < entries) {
    // The entry that a gateway has checked last ends a page.
    const goal = checkpoint !== undefined && checkpoint.verified > walk.number ? checkpoint.verified : entries
    const most = Math.min(PAGE, goal - walk.number, entries - walk.number)
    const rows = await database.read(manager => nextRows(manager, walk.number, most))
    if (rows.length === 0 || !walkOver(walk, rows, keys)) return broken(walk.number + 1)
    if (walk.number === checkpoint?.verified) {
      if (walk.hash !== checkpoint.hash) return broken(walk.number)
      unkeyedBefore = walk.unkeyed
    }
  }
  if (walk.hash !== head.lastHash) return broken(entries)
  if ((checkpoint?.verified ?? 0) > entries) return broken(entries + 1)
  if (await database.read(manager => isBeyondHead(manager, entries))) return broken(entries + 1)
  const unkeyed = walk.unkeyed - unkeyedBefore
  const { uncheckable } = walk
  return {
    verdict: {
      ok: true,
      entries,
      ...(archived > 0 ? { archived } : {}),
      ...(unkeyed > 0 ? { unkeyed } : {}),
      ...(uncheckable > 0 ? { uncheckable } : {})
    },
    archived
  }
}

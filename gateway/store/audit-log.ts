// Writes the audit log, reads it newest first, and verifies its chain.
import { type ChainWalk, nextRows, readAuditHead, walkFrom, walkPages } from './audit-chain.ts'
import { brokenEnd, checkSome, lastChecked, lostBefore, readChecked, readCheckpoint } from './audit-check.ts'
import { type AuditEntry, appendAudit, keysOf, linkingKey, unlessErased } from './audit-entry.ts'
import { collectAudit, listAudit } from './audit-list.ts'
import { bind, type Database } from './database.ts'

export type AuditLog = ReturnType<typeof createAuditLog>

/** @param lists the part of the database that long lists use */
export const createAuditLog = (database: Database, lists = database) => ({
  /**
   * Throws DatabaseUnavailable, AuditKeyMissing.
   * @param named the person whose name and address the entry holds, and who may be erased before it is stored
   */
  append: (entry: AuditEntry, named?: number) =>
    database.write(async manager =>
      appendAudit(manager, named === undefined ? entry : await unlessErased(manager, named, entry))
    ),
  ...bind(database, { verify: verifyAuditLog, check: checkSome, checked: readChecked }),
  ...bind(lists, { list: listAudit, collect: collectAudit })
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
  const { head, keys, checked } = await database.read(async manager => {
    await linkingKey(manager)
    // Before the head: what is written and checked in between would be beyond it.
    const checkpoint = await readCheckpoint(manager)
    const head = await readAuditHead(manager)
    return { head, keys: keysOf(manager), checked: lastChecked(checkpoint, head, keysOf(manager)) }
  })
  const { entries, archived } = head
  const walkTo = (walk: ChainWalk, goal: number) =>
    walkPages(walk, goal, keys, (after, most) => database.read(manager => nextRows(manager, after, most)))
  const before = walkFrom(archived, head.archivedHash, 0, checked.unknown ?? undefined)
  let broken = await walkTo(before, Math.min(checked.verified, entries))
  const walk = walkFrom(before.number, before.hash)
  broken ??= await walkTo(walk, entries)
  broken ??= await database.read(manager => brokenEnd(manager, walk, head))
  const lost = await database.read(manager => lostBefore(manager, checked, head))
  const firstBroken = Math.min(broken ?? Number.POSITIVE_INFINITY, lost ?? Number.POSITIVE_INFINITY)
  if (Number.isFinite(firstBroken)) return { verdict: { ok: false, entries, firstBroken }, archived }
  const counts = { archived, unkeyed: walk.unkeyed, uncheckable: before.uncheckable + walk.uncheckable }
  const found = Object.entries(counts).filter(([, count]) => count > 0)
  return { verdict: { ok: true, entries, ...Object.fromEntries(found) }, archived }
}

// Verifies the whole audit log at once, for the command line.
import { isBeginning, walkFrom, walkOver } from './audit-chain.ts'
import { readCheckpoint } from './audit-check.ts'
import { keysOf, linkingKey } from './audit-keys.ts'
import { isBeyondHead, nextRows, readAuditHead } from './audit-rows.ts'
import type { Database } from './database.ts'

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

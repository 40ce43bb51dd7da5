// Writes the audit log, reads it newest first, and verifies its hash chain.
import type { EntityManager } from 'typeorm'
import { type AuditEntry, appendAudit, contentHash, GENESIS_HASH, linkHash } from './audit-entry.ts'
import { type AuditFilter, type AuditQuery, collectAudit, listAudit } from './audit-list.ts'
import type { Database } from './database.ts'
import { AuditEvent, type AuditEventRow } from './entities.ts'
import { query } from './query.ts'

interface AuditVerdict {
  ok: boolean
  /** Number of entries according to the head of the chain. */
  entries: number
  /** Number of the first entry that is missing or differs from what was written. */
  firstBroken?: number
}

export type AuditLog = ReturnType<typeof createAuditLog>

/** Checking this many takes a few milliseconds, during which nothing else runs. */
const VERIFY_PAGE = 200

/** @param lists the part of the database that long lists use */
export const createAuditLog = (database: Database, lists = database) => ({
  /** One INSERT. Throws DatabaseUnavailable. */
  append: (entry: AuditEntry) => database.read(manager => appendAudit(manager, entry)),
  /**
   * Reads the whole chain in pages; entries written in the meantime are left for the next time.
   * @param between awaited before each page but the first, to pause for the sake of requests, or to abort by throwing
   */
  verify: (between?: () => Promise<void>) => verifyAuditLog(database, between),
  list: (filter?: AuditQuery) => listAudit(lists, filter),
  /** Everything that the filter finds, newest first; undefined if that is more than `most`. */
  collect: (filter: AuditFilter, most: number) => collectAudit(lists, filter, most)
})

/**
 * Whether every entry follows from the previous one, and the last is the one that the head names: a changed, removed,
 * inserted or reordered entry breaks the chain, and a truncated tail does not match the head.
 */
const verifyAuditLog = async (database: Database, between?: () => Promise<void>): Promise<AuditVerdict> => {
  const head = await database.read(manager => query<{ entries: string; last_hash: string }>(manager, HEAD))
  const entries = Number(head[0]?.entries ?? 0)
  let previousHash = GENESIS_HASH
  let number = 0
  while (number < entries) {
    const from = number
    if (from > 0) await between?.()
    const rows = await database.read(manager => nextEntries(manager, from))
    for (const row of rows) {
      number++
      if (Number(row.id) !== number || !follows(row, previousHash)) return { ok: false, entries, firstBroken: number }
      previousHash = row.hash
      if (number === entries) break
    }
    if (rows.length === 0) return { ok: false, entries, firstBroken: number + 1 }
  }
  if (previousHash !== (head[0]?.last_hash ?? GENESIS_HASH)) return { ok: false, entries, firstBroken: entries }
  const beyond = await database.read(manager => query<{ id: string }>(manager, BEYOND, [entries]))
  return beyond.length === 0 ? { ok: true, entries } : { ok: false, entries, firstBroken: entries + 1 }
}

const HEAD = 'SELECT entries, last_hash FROM audit_head'
/** More entries than the (newest) head counts; only something outside the gateway writes these. */
const BEYOND = 'SELECT id FROM audit_events WHERE id > $1 AND id > (SELECT entries FROM audit_head) LIMIT 1'

const nextEntries = (manager: EntityManager, after: number): Promise<AuditEventRow[]> =>
  manager
    .createQueryBuilder(AuditEvent, 'entry')
    .where('entry.id > :after', { after })
    .orderBy('entry.id', 'ASC')
    .limit(VERIFY_PAGE)
    .getMany()

const follows = (row: AuditEventRow, before: string): boolean => {
  const { id: _, contentHash: stored, previousHash, hash, ...content } = row
  return stored === contentHash(content) && previousHash === before && hash === linkHash(before, stored)
}

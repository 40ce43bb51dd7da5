// The audit log can be written, read newest first, and checked link by link.
import type { EntityManager } from 'typeorm'
import { type AuditEntry, appendAudit, contentHash, GENESIS_HASH, linkHash } from './audit-entry.ts'
import type { Database } from './database.ts'
import { AuditEvent, type AuditEventRow } from './entities.ts'
import { type Page, pageBounds, query } from './query.ts'
import { storableJson, storableText } from './storable.ts'

export interface AuditItem {
  /** ISO 8601, UTC. */
  at: string
  actor: { id: number | null; username: string }
  action: string
  target: string
  before: unknown
  after: unknown
  requestId: string
  ip: string
  hash: string
}

export interface AuditQuery {
  /** An id (as actor or as target `user:<id>`), or a username in any case. */
  user?: number | string | undefined
  action?: string | undefined
  page?: number | undefined
  pageSize?: number | undefined
}

interface AuditVerdict {
  ok: boolean
  /** Entries that the head of the chain counts. */
  entries: number
  /** Number of the first entry that is missing or not what was written. */
  firstBroken?: number
}

export interface AuditLog {
  /** One INSERT, within `transaction` when given. Throws DatabaseUnavailable. */
  append(entry: AuditEntry, transaction?: EntityManager): Promise<void>
  /** Reads the whole chain in pages; entries written meanwhile are left for the next time. */
  verify(): Promise<AuditVerdict>
  list(filter?: AuditQuery): Promise<Page<AuditItem>>
}

const VERIFY_PAGE = 1_000

export const createAuditLog = (database: Database): AuditLog => ({
  append: (entry, transaction) =>
    transaction === undefined ? database.read(manager => appendAudit(manager, entry)) : appendAudit(transaction, entry),
  verify: () => verifyAuditLog(database),
  list: filter => listAudit(database, filter)
})

/**
 * Whether every entry follows from the one before, and the last is the one that the head names: a changed, removed,
 * inserted or reordered entry breaks the chain, a cut tail leaves the head behind.
 */
const verifyAuditLog = async (database: Database): Promise<AuditVerdict> => {
  const head = await database.read(manager => query<{ entries: string; last_hash: string }>(manager, HEAD))
  const entries = Number(head[0]?.entries ?? 0)
  let previousHash = GENESIS_HASH
  let number = 0
  while (number < entries) {
    const from = number
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
/** More entries than the (newest) head counts: only a hand outside the gateway writes these. */
const BEYOND = 'SELECT id FROM audit_events WHERE id > $1 AND id > (SELECT entries FROM audit_head) LIMIT 1'

const nextEntries = (manager: EntityManager, after: number): Promise<AuditEventRow[]> =>
  manager
    .createQueryBuilder(AuditEvent, 'entry')
    .where('entry.id > :after', { after })
    .orderBy('entry.id', 'ASC')
    .limit(VERIFY_PAGE)
    .getMany()

const follows = (row: AuditEventRow, previousHash: string): boolean => {
  const { at, actorId, actorUsername, action, target, requestId, ip } = row
  const [before, after, details] = [row.before, row.after, row.details].map(value => storableJson(value))
  const content = contentHash({
    at,
    actorId,
    actorUsername,
    action,
    target,
    before: before ?? null,
    after: after ?? null,
    requestId,
    ip,
    details: details ?? null
  })
  return (
    content === row.contentHash && row.previousHash === previousHash && row.hash === linkHash(previousHash, content)
  )
}

/** Newest first. */
export const listAudit = async (database: Database, filter: AuditQuery = {}): Promise<Page<AuditItem>> => {
  const { page, pageSize, offset } = pageBounds(filter.page, filter.pageSize)
  return database.read(async manager => {
    const entries = manager.createQueryBuilder(AuditEvent, 'entry')
    if (filter.action !== undefined && filter.action !== '') {
      entries.andWhere('entry.action = :action', { action: storableText(filter.action) })
    }
    if (filter.user !== undefined && filter.user !== '') entries.andWhere(...ofUser(filter.user))
    const [rows, total] = await entries.orderBy('entry.id', 'DESC').skip(offset).take(pageSize).getManyAndCount()
    return { items: rows.map(toItem), page, pageSize, total }
  })
}

const ofUser = (user: number | string): [string, Record<string, unknown>] => {
  if (typeof user === 'number' || /^[1-9][0-9]{0,9}$/.test(user)) {
    const id = Number(user)
    return ['(entry.actorId = :actor OR entry.target = :target)', { actor: clampId(id), target: `user:${id}` }]
  }
  const known = "SELECT 'user:' || id FROM users WHERE lower(username) = lower(:user)"
  return [`(lower(entry.actorUsername) = lower(:user) OR entry.target IN (${known}))`, { user: storableText(user) }]
}

/** No id is 0: beyond int4 nobody can be meant. */
const clampId = (id: number) => (Number.isInteger(id) && id <= 2_147_483_647 ? id : 0)

const toItem = (row: AuditEventRow): AuditItem => ({
  at: row.at.toISOString(),
  actor: { id: row.actorId, username: row.actorUsername },
  action: row.action,
  target: row.target,
  before: row.before,
  after: row.after,
  requestId: row.requestId,
  ip: row.ip,
  hash: row.hash
})

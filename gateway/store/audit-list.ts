// Lists entries of the audit log, newest first, with the names of the people concerned.
import type { EntityManager, SelectQueryBuilder } from 'typeorm'
import type { Database } from './database.ts'
import { AuditEvent, type AuditEventRow } from './entities.ts'
import { type Bounds, type Page, pageBounds, query } from './query.ts'
import { storableText } from './storable.ts'

export type AuditItem = ReturnType<typeof toItem>

export interface AuditFilter {
  /** An id (as actor or as target `user:<id>`), or a username in any case. */
  user?: number | string | undefined
  action?: string | undefined
  /** From this time on. */
  since?: Date | undefined
  /** Before this time. */
  until?: Date | undefined
}

export type AuditQuery = AuditFilter & Bounds

/** Newest first. */
export const listAudit = async (database: Database, filter: AuditQuery = {}): Promise<Page<AuditItem>> => {
  const { page, pageSize, offset } = pageBounds(filter)
  return database.read(async manager => {
    const [rows, total] = await entriesOf(manager, filter).skip(offset).take(pageSize).getManyAndCount()
    return { items: await toItems(manager, rows), page, pageSize, total }
  })
}

const PORTION = 1_000

/** The same without pages, newest first; undefined if there are more than `most`. */
export const collectAudit = async (
  database: Database,
  filter: AuditFilter,
  most: number
): Promise<AuditItem[] | undefined> => {
  const items: AuditItem[] = []
  let before: string | undefined
  for (;;) {
    const last = before
    const rows = await database.read(async manager => {
      const entries = entriesOf(manager, filter).limit(PORTION)
      if (last !== undefined) entries.andWhere('entry.id < :last', { last })
      const found = await entries.getMany()
      items.push(...(await toItems(manager, found)))
      return found
    })
    if (items.length > most) return undefined
    if (rows.length < PORTION) return items
    before = rows.at(-1)?.id
  }
}

const entriesOf = (manager: EntityManager, filter: AuditFilter): SelectQueryBuilder<AuditEventRow> => {
  const { user, action, since, until } = filter
  const entries = manager.createQueryBuilder(AuditEvent, 'entry').orderBy('entry.id', 'DESC')
  if (action !== undefined && action !== '') {
    entries.andWhere('entry.action = :action', { action: storableText(action) })
  }
  if (since !== undefined) entries.andWhere('entry.at >= :since', { since })
  if (until !== undefined) entries.andWhere('entry.at < :until', { until })
  if (user !== undefined && user !== '') entries.andWhere(...ofUser(user))
  return entries
}

const ofUser = (user: number | string): [string, Record<string, unknown>] => {
  if (typeof user === 'number' || /^[1-9][0-9]{0,9}$/.test(user)) {
    const id = Number(user)
    return ['(entry.actorId = :actor OR entry.target = :target)', { actor: clampId(id), target: `user:${id}` }]
  }
  const known = "SELECT 'user:' || id FROM users WHERE lower(username) = lower(:user)"
  return [`(lower(entry.actorUsername) = lower(:user) OR entry.target IN (${known}))`, { user: storableText(user) }]
}

/** No person has id 0, so it stands for ids beyond int4. */
const clampId = (id: number) => (Number.isInteger(id) && id <= 2_147_483_647 ? id : 0)

const toItems = async (manager: EntityManager, rows: readonly AuditEventRow[]): Promise<AuditItem[]> => {
  const targets = [...new Set(rows.map(({ target }) => target))].filter(target => NAMED.test(target))
  const found = targets.length === 0 ? [] : await query<{ target: string; name: string }>(manager, NAMES, [targets])
  const names = new Map(found.map(({ target, name }) => [target, name]))
  return rows.map(row => toItem(row, names.get(row.target) ?? ''))
}

const NAMED = /^(?:user|area):\d{1,9}$/

const NAMES = `
  SELECT 'user:' || id AS target, CASE WHEN name = '' THEN username ELSE name END AS name FROM users
    WHERE id IN (SELECT substr(t, 6)::int FROM unnest($1::text[]) t WHERE t LIKE 'user:%')
  UNION ALL SELECT 'area:' || id, name FROM areas
    WHERE id IN (SELECT substr(t, 6)::int FROM unnest($1::text[]) t WHERE t LIKE 'area:%')`

const toItem = (row: AuditEventRow, targetName: string) => ({
  /** ISO 8601, UTC. */
  at: row.at.toISOString(),
  actor: { id: row.actorId, username: row.actorUsername },
  action: row.action,
  target: row.target,
  /** Current name of the person, service account or area that `target` names; `''` if it no longer exists. */
  targetName,
  before: row.before,
  after: row.after,
  requestId: row.requestId,
  ip: row.ip,
  hash: row.hash
})

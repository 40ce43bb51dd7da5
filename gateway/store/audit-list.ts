// Lists entries of the audit log, newest first, with the names of the people concerned.
import type { EntityManager } from 'typeorm'
import { type AuditRow, readAuditHead, selectRows } from './audit-chain.ts'
import type { Database } from './database.ts'
import { type Bounds, MOST_COUNTED, type Page, pageBounds, query, rowId, storableText, totalOf } from './query.ts'

export type AuditItem = ReturnType<typeof toItem>

export interface AuditFilter {
  /** The id of a person or service account (as actor or as target); as text, an id or a username in any case. */
  user?: number | string | undefined
  action?: string | undefined
  /** From this time on. */
  since?: Date | undefined
  /** Before this time. */
  until?: Date | undefined
}

type AuditQuery = AuditFilter & Bounds

/** Newest first. With a filter, the total is exact up to {@link MOST_COUNTED}. */
export const listAudit = async (database: Database, filter: AuditQuery = {}): Promise<Page<AuditItem>> => {
  const { page, pageSize, offset } = pageBounds(filter)
  return database.read(async manager => {
    const search = await searchOf(manager, filter)
    const found = await (search === undefined
      ? pageOfAll(manager, offset, pageSize)
      : pageOfSome(manager, search, offset, pageSize))
    return { items: await toItems(manager, found.rows), page, pageSize, total: found.total }
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
  for (let below = ''; ; ) {
    const from = below
    const rows = await database.read(async manager => {
      const search = (await searchOf(manager, filter)) ?? { arms: ['true'], values: [] }
      const found = await rowsOf(manager, search, from, PORTION, 0)
      items.push(...(await toItems(manager, found)))
      return found
    })
    if (items.length > most) return undefined
    if (rows.length < PORTION) return items
    below = `AND e.id < ${rows.at(-1)?.id}`
  }
}

/** Numbers have no gaps, so a page is a range of them. */
const pageOfAll = async (manager: EntityManager, offset: number, size: number) => {
  const { entries, archived } = await readAuditHead(manager)
  const last = entries - offset
  const range = 'WHERE e.id > $1 AND e.id > $2 AND e.id <= $3 ORDER BY e.id DESC'
  const rows = last <= archived ? [] : await selectRows(manager, range, [last - size, archived, last])
  return { rows, total: entries - archived }
}

const pageOfSome = async (manager: EntityManager, search: Search, offset: number, size: number) => {
  const rows = await rowsOf(manager, search, '', size, offset)
  const [counted] = await query<{ total: number }>(
    manager,
    `SELECT count(*)::int AS total FROM (${idsOf(search, '', MOST_COUNTED, 0)}) AS found`,
    search.values
  )
  const total = counted?.total ?? 0
  return { rows, total: totalOf(total, total < MOST_COUNTED, rows.length, offset, size) }
}

/** Entries that meet one of several conditions, each of which has an index that ends in the number of the entry. */
interface Search {
  readonly arms: readonly string[]
  readonly values: readonly unknown[]
}

const rowsOf = (manager: EntityManager, search: Search, also: string, most: number, offset: number) =>
  selectRows(manager, `WHERE e.id IN (${idsOf(search, also, most, offset)}) ORDER BY e.id DESC`, search.values)

const idsOf = ({ arms }: Search, also: string, most: number, offset: number): string => {
  const each = arms.map(
    arm => `(SELECT e.id FROM audit_events e WHERE ${arm} ${also} ORDER BY e.id DESC LIMIT ${offset + most})`
  )
  return `SELECT id FROM (${each.join(' UNION ')}) AS any_arm ORDER BY id DESC LIMIT ${most} OFFSET ${offset}`
}

/** Undefined: everything. */
const searchOf = async (manager: EntityManager, filter: AuditFilter): Promise<Search | undefined> => {
  const { user, action, since, until } = filter
  const values: unknown[] = []
  const value = (one: unknown) => `$${values.push(one)}`
  const everywhere: string[] = []
  if (action !== undefined) everywhere.push(`e.action = ${value(storableText(action))}`)
  if (since !== undefined) everywhere.push(sinceTime(value(since)))
  if (until !== undefined) everywhere.push(beforeTime(value(until)))
  const byUser = user === undefined ? [] : await ofUser(manager, user, value)
  if (everywhere.length + byUser.length === 0) return undefined
  const arms = byUser.length === 0 ? [everywhere] : byUser.map(one => [one, ...everywhere])
  return { arms: arms.map(conditions => conditions.join(' AND ')), values }
}

// Entries are numbered in the order in which they were committed, which differs from that of their times by seconds, or by as
// much as a clock was wrong. So a period is a range of numbers, with some to spare, and every index leads to its newest
// entries. A wrong clock has hardly dated a thousand entries in a row: the outermost number of as many bounds the range.
const SPARE = "interval '1 hour'"
const IN_A_ROW = 1_000
const boundOf = (outermost: 'min' | 'max', entries: string) => `(
  SELECT CASE WHEN count(*) = ${IN_A_ROW} THEN ${outermost}(id) END
  FROM (SELECT id FROM audit_events WHERE ${entries} LIMIT ${IN_A_ROW}) AS next_to_it)`
const sinceTime = (time: string) => {
  const bound = boundOf('min', `at < ${time}::timestamptz - ${SPARE} ORDER BY at DESC, id DESC`)
  return `e.at >= ${time} AND e.id > coalesce(${bound}, 0)`
}
const beforeTime = (time: string) => {
  const bound = boundOf('max', `at >= ${time}::timestamptz + ${SPARE} AND at <= now() ORDER BY at, id`)
  return `e.at < ${time} AND e.id < coalesce(${bound}, 9223372036854775807)`
}

const ofUser = async (
  manager: EntityManager,
  user: number | string,
  value: (one: unknown) => string
): Promise<string[]> => {
  const targets = (id: number) => [`user:${id}`, `client:${id}`].map(target => `e.target = ${value(target)}`)
  const withId = (id: number) => [`e.actor_id = ${value(rowId(id))}`, ...targets(id)]
  if (typeof user === 'number') return withId(user)
  const name = storableText(user)
  // A username may be a number, too.
  const byId = /^[1-9]\d{0,9}$/.test(name) ? withId(Number(name)) : []
  const known = await query<{ id: number }>(
    manager,
    'SELECT id FROM users WHERE lower(username) = lower($1) LIMIT 20',
    [name]
  )
  return [...byId, `lower(e.actor_username) = lower(${value(name)})`, ...known.flatMap(({ id }) => targets(id))]
}

const toItems = async (manager: EntityManager, rows: readonly AuditRow[]): Promise<AuditItem[]> => {
  const targets = [...new Set(rows.map(({ target }) => target))].filter(target => NAMED.test(target))
  const found = targets.length === 0 ? [] : await query<{ target: string; name: string }>(manager, NAMES, [targets])
  const names = new Map(found.map(({ target, name }) => [target, name]))
  return rows.map(row => toItem(row, names.get(row.target) ?? ''))
}

const NAMED = /^(?:user|client|area):\d{1,9}$/

const NAMES = `
  SELECT 'user:' || id AS target, CASE WHEN name = '' THEN username ELSE name END AS name FROM users
    WHERE id IN (SELECT substr(t, 6)::int FROM unnest($1::text[]) t WHERE t LIKE 'user:%')
  UNION ALL SELECT 'client:' || user_id, name FROM clients
    WHERE user_id IN (SELECT substr(t, 8)::int FROM unnest($1::text[]) t WHERE t LIKE 'client:%')
  UNION ALL SELECT 'area:' || id, name FROM areas
    WHERE id IN (SELECT substr(t, 6)::int FROM unnest($1::text[]) t WHERE t LIKE 'area:%')`

const toItem = (row: AuditRow, targetName: string) => ({
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

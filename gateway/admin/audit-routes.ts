// Lists audit entries for Admins, newest first, and exports them as CSV.
import { BadRequest } from '../errors.ts'
import { type Asked, type Endpoints, pagingProperties } from '../http/own-requests.ts'
import type { AuditFilter, AuditItem } from '../store/audit-list.ts'
import { inParts, inTurns, type Parts } from '../values/in-parts.ts'
import { optional, textUpTo } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'
import { auditItemSchema, readTime, timeProperty } from './admin-schemas.ts'

const filterProperties = {
  user: { ...textUpTo(256), description: 'An id or a username' },
  action: textUpTo(64),
  since: timeProperty('From then on: RFC 3339 date or date-time'),
  until: timeProperty('Before then: RFC 3339 date or date-time')
} as const

/** All of them are held in memory at once. */
const MOST_IN_A_TABLE = 50_000

const filterOf = ({ user, action, since, until }: Asked['query']): AuditFilter => ({
  user,
  action,
  since: readTime('since', since),
  until: readTime('until', until)
})

export const auditEndpoints = ({ audit }: AdminParts): Endpoints => ({
  'GET /auth/admin/audit': {
    summary: 'Returns the audit log',
    query: optional({ ...filterProperties, ...pagingProperties }),
    lists: auditItemSchema,
    run: ({ query, paging }) => audit.list({ ...filterOf(query), ...paging })
  },
  'GET /auth/admin/audit.csv': {
    summary: 'Returns the audit log as CSV (RFC 4180)',
    query: optional(filterProperties),
    produces: 'text/csv',
    async run({ query, reply }) {
      const items = await audit.collect(filterOf(query), MOST_IN_A_TABLE)
      if (items === undefined) {
        const message = `more than ${MOST_IN_A_TABLE} entries; name a shorter period with since and until`
        throw new BadRequest({ message, reason: 'too-many-entries' })
      }
      reply.headers({
        'content-type': 'text/csv; charset=utf-8; header=present',
        'content-disposition': 'attachment; filename="portaria-audit.csv"'
      })
      return inTurns(auditCsv(items))
    }
  }
})

const COLUMNS = 'at,actorId,actor,action,target,targetName,before,after,ip,requestId,hash'

/** Spreadsheets evaluate cells that begin like this, some also in full width, and some names are chosen by strangers. */
const FORMULA = /^[\s"]*[=+\-@\t\r＝＋－＠]/

const disarmed = (text: string): string => (FORMULA.test(text) ? `'${text}` : text)

const cell = (text: string): string => {
  // Where numbers have a decimal comma, a cell begins after each semicolon, also within quotes.
  const safe = text.includes(';') ? text.split(';').map(disarmed).join(';') : disarmed(text)
  return /[",\r\n]/.test(safe) || safe !== text ? `"${safe.replaceAll('"', '""')}"` : safe
}

const json = (value: unknown): string => (value === null || value === undefined ? '' : JSON.stringify(value))

const row = ({ at, actor, action, target, targetName, before, after, ip, requestId, hash }: AuditItem): string => {
  const who = [String(actor.id ?? ''), actor.username]
  return [at, ...who, action, target, targetName, json(before), json(after), ip, requestId, hash].map(cell).join(',')
}

/** Starts with a byte order mark; without it, Excel reads UTF-8 as Windows-1252. */
function* auditCsv(items: readonly AuditItem[]): Parts<string> {
  const lines = [`\ufeff${COLUMNS}`]
  yield* inParts(items, item => lines.push(row(item)))
  return `${lines.join('\r\n')}\r\n`
}

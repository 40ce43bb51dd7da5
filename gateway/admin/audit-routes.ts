// Lists audit entries for Admins, newest first, and exports them as CSV.
import type { FastifyInstance } from 'fastify'
import { BadRequest } from '../errors.ts'
import { type PagingQuery, pageOf, paging, pagingProperties } from '../http/own-requests.ts'
import type { AuditFilter, AuditItem, AuditQuery } from '../store/audit-list.ts'
import type { Page } from '../store/query.ts'
import { optional } from '../values/json-schema.ts'
import { auditItemSchema } from './admin-schemas.ts'
import { readTime, timeProperty } from './query-times.ts'

export interface AuditRoutesParts {
  listAudit: (filter: AuditQuery) => Promise<Page<AuditItem>>
  collectAudit: (filter: AuditFilter, most: number) => Promise<AuditItem[] | undefined>
}

interface FilterQuery {
  user?: string
  action?: string
  since?: string
  until?: string
}

const filterProperties = {
  user: { type: 'string', minLength: 1, maxLength: 256, description: 'An id or a username' },
  action: { type: 'string', minLength: 1, maxLength: 64 },
  since: timeProperty('From then on: RFC 3339 date or date-time'),
  until: timeProperty('Before then: RFC 3339 date or date-time')
} as const

/** All of them are held in memory at once. */
const MOST_IN_A_TABLE = 50_000

const filterOf = ({ user, action, since, until }: FilterQuery): AuditFilter => ({
  user: user !== undefined && /^[1-9]\d{0,9}$/.test(user) ? Number(user) : user,
  action,
  since: readTime('since', since),
  until: readTime('until', until)
})

export const auditRoutes = (app: FastifyInstance, { listAudit, collectAudit }: AuditRoutesParts): void => {
  app.get<{ Querystring: PagingQuery & FilterQuery }>(
    '/auth/admin/audit',
    {
      schema: {
        summary: 'Returns the audit log',
        querystring: optional({ ...filterProperties, ...pagingProperties }),
        response: { 200: pageOf(auditItemSchema) }
      }
    },
    async ({ query }) => listAudit({ ...filterOf(query), ...paging(query) })
  )

  app.get<{ Querystring: FilterQuery }>(
    '/auth/admin/audit.csv',
    {
      schema: {
        summary: 'Returns the audit log as CSV (RFC 4180)',
        querystring: optional(filterProperties),
        produces: ['text/csv']
      }
    },
    async ({ query }, reply) => {
      const items = await collectAudit(filterOf(query), MOST_IN_A_TABLE)
      if (items === undefined) {
        const message = `more than ${MOST_IN_A_TABLE} entries; name a shorter period with since and until`
        throw new BadRequest({ message, reason: 'too-many-entries' })
      }
      return reply
        .headers({
          'content-type': 'text/csv; charset=utf-8; header=present',
          'content-disposition': 'attachment; filename="portaria-audit.csv"'
        })
        .send(auditCsv(items))
    }
  )
}

const COLUMNS = 'at,actorId,actor,action,target,targetName,before,after,ip,requestId,hash'

/** Spreadsheets evaluate cells that begin like this, and the names in refused logins are chosen by strangers. */
const FORMULA = /^[=+\-@\t\r]/

const cell = (text: string): string => {
  const safe = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) || safe !== text ? `"${safe.replaceAll('"', '""')}"` : safe
}

const json = (value: unknown): string => (value === null || value === undefined ? '' : JSON.stringify(value))

const row = ({ at, actor, action, target, targetName, before, after, ip, requestId, hash }: AuditItem): string =>
  [
    at,
    String(actor.id ?? ''),
    actor.username,
    action,
    target,
    targetName,
    json(before),
    json(after),
    ip,
    requestId,
    hash
  ]
    .map(cell)
    .join(',')

/** Starts with a byte order mark; without it, Excel reads UTF-8 as Windows-1252. */
const auditCsv = (items: readonly AuditItem[]): string => `\ufeff${[COLUMNS, ...items.map(row)].join('\r\n')}\r\n`

// Admins read what was done, by whom and to whom, newest first.
import type { FastifyInstance } from 'fastify'
import { type PagingQuery, pageOf, paging, pagingProperties } from '../http/own-requests.ts'
import type { AuditItem, AuditQuery } from '../store/audit-log.ts'
import type { Page } from '../store/query.ts'
import { auditItemSchema } from './admin-schemas.ts'

export interface AuditRoutesParts {
  listAudit: (filter: AuditQuery) => Promise<Page<AuditItem>>
}

const auditQuery = {
  type: 'object',
  additionalProperties: false,
  properties: {
    user: { type: 'string', minLength: 1, maxLength: 256, description: 'An id or a username' },
    action: { type: 'string', minLength: 1, maxLength: 64 },
    ...pagingProperties
  }
} as const

export const auditRoutes = (app: FastifyInstance, { listAudit }: AuditRoutesParts): void => {
  app.get<{ Querystring: PagingQuery & { user?: string; action?: string } }>(
    '/auth/admin/audit',
    { schema: { summary: 'The audit log', querystring: auditQuery, response: { 200: pageOf(auditItemSchema) } } },
    async ({ query }) => {
      const { user } = query
      const who = user !== undefined && /^[1-9]\d{0,9}$/.test(user) ? Number(user) : user
      return listAudit({ user: who, action: query.action, ...paging(query) })
    }
  )
}

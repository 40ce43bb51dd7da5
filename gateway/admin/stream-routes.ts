// Shows Admins who has which stream open, and ends one.
import type { FastifyInstance } from 'fastify'
import { NotFound } from '../errors.ts'
import type { StreamItem } from '../forward/stream.ts'
import { actorOf, nothing, type PagingQuery, pageOf, paging, pagingQuery } from '../http/own-requests.ts'
import type { AuditEntry } from '../store/audit-entry.ts'
import { integer, object, string } from '../values/json-schema.ts'
import { instanceSchema, missingSchema } from './admin-schemas.ts'

export interface SocketRoutesParts {
  sockets: {
    list(
      page: number,
      pageSize: number
    ): Promise<{ items: (StreamItem & { instance: string })[]; total: number; missing: string[] }>
    has(id: string): Promise<boolean>
    end(id: string): Promise<unknown>
  }
  appendAudit: (entry: AuditEntry) => Promise<void>
}

const socketItemSchema = object(
  {
    id: string,
    kind: { type: 'string', enum: ['websocket', 'socketio', 'sse'] },
    user: {
      ...object({ id: integer, username: string }),
      type: ['object', 'null'],
      description: 'null on public routes'
    },
    route: string,
    namespace: { ...string, description: "'' except for Socket.IO" },
    since: { ...string, description: 'ISO 8601, UTC' },
    ip: string,
    bytes: { ...integer, description: 'Bytes carried in both directions, if known' },
    instance: instanceSchema
  },
  ['namespace', 'bytes']
)

const idParams = object({ id: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' } })

export const socketRoutes = (app: FastifyInstance, { sockets, appendAudit }: SocketRoutesParts): void => {
  app.get<{ Querystring: PagingQuery }>(
    '/auth/admin/sockets',
    {
      schema: {
        summary: 'Lists the open streams of all instances, one instance after the other, oldest first',
        querystring: pagingQuery,
        response: { 200: pageOf(socketItemSchema, { missing: missingSchema }) }
      }
    },
    async ({ query }) => {
      const { page, pageSize } = paging(query)
      const { items: found, ...rest } = await sockets.list(page, pageSize)
      const items = found.map(item => ({ ...item, user: item.user ?? null, namespace: item.namespace ?? '' }))
      return { items, page, pageSize, ...rest }
    }
  )

  app.delete<{ Params: { id: string } }>(
    '/auth/admin/sockets/:id',
    { schema: { summary: 'Ends a stream', params: idParams, response: { 204: nothing } } },
    async (request, reply) => {
      const { id } = request.params
      if (!(await sockets.has(id))) throw new NotFound({ reason: 'no-stream' })
      // No transaction covers a stream, so its end is recorded first.
      await appendAudit({ actor: actorOf(request), action: 'stream.end', target: `stream:${id}` })
      await sockets.end(id)
      return reply.code(204).send()
    }
  )
}

// Shows Admins who has which stream open, and ends one.
import { NotFound } from '../errors.ts'
import { type Endpoints, pageOf, pagingQuery } from '../http/own-requests.ts'
import { object } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'
import { missingSchema } from './admin-schemas.ts'
import { streamSchema } from './view-schemas.ts'

export const streamEndpoints = ({ sockets, audit }: AdminParts): Endpoints => ({
  'GET /auth/admin/sockets': {
    summary: 'Lists the open streams of all instances, one instance after the other, oldest first',
    query: pagingQuery,
    returns: pageOf(streamSchema, { missing: missingSchema }),
    async run({ paging }) {
      const { items, ...rest } = await sockets.list(paging.page, paging.pageSize)
      return { items, ...paging, ...rest }
    }
  },
  'DELETE /auth/admin/sockets/:id': {
    summary: 'Ends a stream',
    params: object({ id: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' } }),
    async run({ actor, params: { id = '' } }) {
      if (!(await sockets.has(id))) throw new NotFound({ reason: 'no-stream' })
      // No transaction covers a stream, so its end is recorded first.
      await audit.append({ actor, action: 'stream.end', target: `stream:${id}` })
      await sockets.end(id)
    }
  }
})

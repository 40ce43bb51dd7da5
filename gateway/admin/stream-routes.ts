// Shows Admins who has which stream open, and ends one.
import { NotFound } from '../errors.ts'
import { type Endpoints, pageOf, pagingQuery } from '../http/own-requests.ts'
import { integer, object, string } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'
import { instanceSchema, missingSchema } from './admin-schemas.ts'

const streamSchema = object(
  {
    id: string,
    kind: { type: 'string', enum: ['websocket', 'socketio', 'sse'] },
    user: {
      // Instances of the release before do not say which provider.
      ...object({ id: integer, provider: { type: 'string', enum: ['ldap', 'cloudidp', 'client'] }, username: string }, [
        'provider'
      ]),
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

export const streamEndpoints = ({ sockets, audit }: AdminParts): Endpoints => ({
  'GET /auth/admin/sockets': {
    summary: 'Lists the open streams of all instances, one instance after the other, oldest first',
    query: pagingQuery,
    returns: pageOf(streamSchema, { missing: missingSchema }),
    async run({ paging }) {
      const { items: found, ...rest } = await sockets.list(paging.page, paging.pageSize)
      const items = found.map(item => ({ ...item, user: item.user ?? null, namespace: item.namespace ?? '' }))
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

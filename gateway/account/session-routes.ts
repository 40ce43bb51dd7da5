// Shows people their own live sessions, and ends one of them or all others.
import type { FastifyInstance } from 'fastify'
import { identityOf } from '../http/exchange.ts'
import { actorOf, changeById, listSchema, nothing, type PagingQuery, paging } from '../http/own-requests.ts'
import { type Sessions, sessionItemSchema, sessionUse } from '../store/sessions.ts'

interface SessionRoutesParts {
  sessions: Pick<Sessions, 'list' | 'end' | 'endAll' | 'recordUse'>
}

export const sessionRoutes = (app: FastifyInstance, { sessions }: SessionRoutesParts): void => {
  app.get<{ Querystring: PagingQuery }>(
    '/auth/sessions',
    { schema: listSchema('Lists your own live sessions, the most recently used first', sessionItemSchema) },
    async ({ exchange, query }) => {
      const identity = identityOf(exchange)
      const { user, tokenId } = identity
      await sessions.recordUse(sessionUse({ identity, usedAt: Date.now() }))
      return sessions.list(user.id, { tokenId, ...paging(query) })
    }
  )

  app.delete(
    '/auth/sessions',
    { schema: { summary: 'Ends all your sessions except the current one', response: { 204: nothing } } },
    async (request, reply) => {
      const { user, tokenId } = identityOf(request.exchange)
      await sessions.endAll(actorOf(request), user.id, tokenId)
      return reply.code(204).send()
    }
  )

  changeById(app, 'DELETE /auth/sessions/:id', 'Ends one of your sessions', (actor, id) =>
    sessions.end(actor, actor.id, id)
  )
}

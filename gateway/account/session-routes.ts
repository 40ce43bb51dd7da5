// Shows people their own live sessions, and ends one of them or all others.
import type { FastifyInstance } from 'fastify'
import { identityOf } from '../http/exchange.ts'
import { actorOf, idParams, listSchema, nothing, type PagingQuery, paging } from '../http/own-requests.ts'
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

  app.delete<{ Params: { id: string } }>(
    '/auth/sessions/:id',
    { schema: { summary: 'Ends one of your sessions', params: idParams, response: { 204: nothing } } },
    async (request, reply) => {
      await sessions.end(actorOf(request), identityOf(request.exchange).user.id, Number(request.params.id))
      return reply.code(204).send()
    }
  )
}

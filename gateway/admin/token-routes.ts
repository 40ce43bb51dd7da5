// Shows Admins the access tokens of all people, and ends one.
import type { FastifyInstance } from 'fastify'
import { actorOf, idParams, listSchema, nothing, type PagingQuery, paging } from '../http/own-requests.ts'
import type { PersonalTokenStore } from '../store/personal-tokens.ts'

export interface TokenAdminParts {
  personalTokens: Pick<PersonalTokenStore, 'list' | 'end'>
}

const itemSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['id', 'name', 'profiles', 'expiresAt', 'lastUsedAt', 'user'],
  properties: {
    id: { type: 'integer' },
    name: { type: 'string' },
    profiles: { type: 'array', items: { type: 'string' } },
    expiresAt: { type: 'string' },
    lastUsedAt: { type: 'string' },
    user: {
      type: 'object',
      required: ['id', 'username', 'name'],
      properties: { id: { type: 'integer' }, username: { type: 'string' }, name: { type: 'string' } }
    }
  }
} as const

export const tokenAdminRoutes = (app: FastifyInstance, { personalTokens }: TokenAdminParts): void => {
  app.get<{ Querystring: PagingQuery }>(
    '/auth/admin/tokens',
    { schema: listSchema('Lists the live access tokens of all people, newest first', itemSchema) },
    async ({ query }) => personalTokens.list(paging(query))
  )

  app.delete<{ Params: { id: string } }>(
    '/auth/admin/tokens/:id',
    { schema: { summary: 'Ends an access token', params: idParams, response: { 204: nothing } } },
    async (request, reply) => {
      await personalTokens.end(actorOf(request), Number(request.params.id))
      return reply.code(204).send()
    }
  )
}

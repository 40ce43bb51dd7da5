// Shows Admins the access tokens of all people, and ends one.
import type { FastifyInstance } from 'fastify'
import { changeById, listSchema, type PagingQuery, paging } from '../http/own-requests.ts'
import type { PersonalTokenStore } from '../store/personal-tokens.ts'
import { array, closed, integer, object, string } from '../values/json-schema.ts'

export interface TokenAdminParts {
  personalTokens: Pick<PersonalTokenStore, 'list' | 'end'>
}

const itemSchema = closed({
  id: integer,
  name: string,
  profiles: array(string),
  expiresAt: string,
  lastUsedAt: string,
  user: object({ id: integer, username: string, name: string })
})

export const tokenAdminRoutes = (app: FastifyInstance, { personalTokens }: TokenAdminParts): void => {
  app.get<{ Querystring: PagingQuery }>(
    '/auth/admin/tokens',
    { schema: listSchema('Lists the live access tokens of all people, newest first', itemSchema) },
    async ({ query }) => personalTokens.list(paging(query))
  )

  changeById(app, 'DELETE /auth/admin/tokens/:id', 'Ends an access token', personalTokens.end)
}

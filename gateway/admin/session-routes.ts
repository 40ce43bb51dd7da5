// Shows Admins the live sessions of a person, and ends all of them.
import type { FastifyInstance } from 'fastify'
import { NotFound } from '../errors.ts'
import { changeById, idParams, listSchema, type PagingQuery, paging } from '../http/own-requests.ts'
import { type Sessions, sessionItemSchema } from '../store/sessions.ts'
import type { Users } from '../store/users.ts'

export interface SessionAdminParts {
  sessions: Pick<Sessions, 'list' | 'endAll'>
  users: Pick<Users, 'loadPerson'>
}

export const sessionAdminRoutes = (app: FastifyInstance, { sessions, users }: SessionAdminParts): void => {
  const personId = async (id: number): Promise<number> => {
    const person = await users.loadPerson(id)
    if (person === undefined || person.user.provider === 'client') throw new NotFound({ reason: 'no-person' })
    return person.user.id
  }

  app.get<{ Params: { id: string }; Querystring: PagingQuery }>(
    '/auth/admin/users/:id/sessions',
    {
      schema: {
        ...listSchema('Lists the live sessions of a person, the most recently used first', sessionItemSchema),
        params: idParams
      }
    },
    async ({ exchange, params, query }) =>
      sessions.list(await personId(Number(params.id)), { tokenId: exchange.identity?.tokenId ?? '', ...paging(query) })
  )

  const summary = 'Ends all sessions of a person, but not the access tokens'
  changeById(app, 'DELETE /auth/admin/users/:id/sessions', summary, async (actor, id) =>
    sessions.endAll(actor, await personId(id))
  )
}

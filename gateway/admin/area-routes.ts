// Lets Admins manage areas, and lists profiles.
import type { FastifyInstance } from 'fastify'
import { actorOf, changeById, idParams, listSchema, type PagingQuery, pageOf, paging } from '../http/own-requests.ts'
import type { Users } from '../store/users.ts'
import { namedSchema, nameSchema } from './admin-schemas.ts'

export interface AreaRoutesParts {
  users: Pick<Users, 'listAreas' | 'createArea' | 'renameArea' | 'deleteArea' | 'listProfiles'>
}

type ById = { Params: { id: string } }

export const areaRoutes = (app: FastifyInstance, { users }: AreaRoutesParts): void => {
  app.get<{ Querystring: PagingQuery }>(
    '/auth/admin/areas',
    { schema: listSchema('Lists areas by name', namedSchema) },
    async ({ query }) => users.listAreas(paging(query))
  )

  app.post<{ Body: { name: string } }>(
    '/auth/admin/areas',
    { schema: { summary: 'Creates an area', body: nameSchema, response: { 201: namedSchema } } },
    async (request, reply) => reply.code(201).send(await users.createArea(actorOf(request), request.body.name))
  )

  app.patch<ById & { Body: { name: string } }>(
    '/auth/admin/areas/:id',
    { schema: { summary: 'Renames an area', params: idParams, body: nameSchema, response: { 200: namedSchema } } },
    async request => users.renameArea(actorOf(request), Number(request.params.id), request.body.name)
  )

  changeById(app, 'DELETE /auth/admin/areas/:id', 'Deletes an area and removes it from everyone', users.deleteArea)

  app.get(
    '/auth/admin/profiles',
    { schema: { summary: 'Lists profiles', response: { 200: pageOf(namedSchema) } } },
    async () => {
      const items = await users.listProfiles()
      return { items, page: 1, pageSize: 50, total: items.length }
    }
  )
}

// Lets Admins manage areas, and lists profiles.
import { type Asked, type Endpoints, pageFrom } from '../http/own-requests.ts'
import { closed, integer, object, string } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'

const nameSchema = closed({ name: { type: 'string', minLength: 1, maxLength: 256 } })

const namedSchema = object({ id: integer, name: string })

type Name = Asked<{ name: string }>

export const areaEndpoints = ({ users }: AdminParts): Endpoints => ({
  'GET /auth/admin/areas': {
    summary: 'Lists areas by name',
    lists: namedSchema,
    run: ({ paging }) => users.listAreas(paging)
  },
  'POST /auth/admin/areas': {
    summary: 'Creates an area',
    body: nameSchema,
    creates: namedSchema,
    run: ({ actor, body }: Name) => users.createArea(actor, body.name)
  },
  'PATCH /auth/admin/areas/:id': {
    summary: 'Renames an area',
    body: nameSchema,
    returns: namedSchema,
    run: ({ actor, id, body }: Name) => users.renameArea(actor, id, body.name)
  },
  'DELETE /auth/admin/areas/:id': {
    summary: 'Deletes an area and removes it from everyone',
    run: ({ actor, id }) => users.deleteArea(actor, id)
  },
  'GET /auth/admin/profiles': {
    summary: 'Lists profiles',
    lists: namedSchema,
    run: async ({ paging }) => pageFrom(await users.listProfiles(), paging)
  }
})

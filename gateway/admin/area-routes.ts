// Lets Admins manage areas, and lists profiles and what groups are granted, and to how many.
import { type Asked, type Endpoints, pageFrom, pageOf, pagingQuery } from '../http/own-requests.ts'
import { array, closed, integer, object, string, textUpTo } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'

const nameSchema = closed({ name: textUpTo(256) })

const namedSchema = object({ id: integer, name: string })

const grantSchema = object({
  group: { ...string, description: 'DN of a directory group, or value of the claim' },
  provider: { type: 'string', enum: ['ldap', 'cloudidp'] },
  tenant: { ...string, description: "'' for any tenant" },
  profiles: array(string),
  areas: array(string),
  place: { ...string, description: 'file:line:column' },
  people: { ...integer, description: 'Number of people in the group, as last seen' }
})

const peopleCutOff = {
  ...integer,
  description: 'People for whom the provider truncated the list of groups; they get nothing'
}

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
  },
  'GET /auth/admin/grants': {
    summary: 'Lists what the route files grant to groups, and to how many people',
    query: pagingQuery,
    returns: pageOf(grantSchema, { peopleCutOff }),
    run: ({ paging }) => users.listGrants(paging)
  }
})

// Lets Admins change the access of many people at once, and see what groups grant, and to how many.
import { type Asked, type Endpoints, pageOf, pagingQuery } from '../http/own-requests.ts'
import type { BulkChange } from '../store/users.ts'
import { array, closed, integer, names, object, optional, string } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'

const changeOf = (maxItems: number, maxLength: number) =>
  optional({ add: names(maxItems, maxLength), remove: names(maxItems, maxLength) })

const bulkSchema = closed(
  {
    ids: {
      type: 'array',
      minItems: 1,
      maxItems: 500,
      uniqueItems: true,
      items: { type: 'integer', minimum: 1, maximum: 2_147_483_647 }
    },
    profiles: changeOf(100, 64),
    areas: changeOf(500, 256),
    areaPrincipal: {
      type: 'string',
      minLength: 1,
      maxLength: 256,
      description: 'One of the areas of each of these people'
    }
  },
  ['profiles', 'areas', 'areaPrincipal']
)

const outcomeSchema = object({
  changed: { ...integer, description: 'Number of people whose access has changed' },
  failed: array(object({ id: integer, code: string }))
})

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

export const grantEndpoints = ({ users }: AdminParts): Endpoints => ({
  'POST /auth/admin/users/access': {
    summary: 'Adds and removes access for many people; each is changed and audited separately',
    body: bulkSchema,
    returns: outcomeSchema,
    run: ({ actor, body }: Asked<BulkChange>) => users.setAccessOfMany(actor, body)
  },
  'GET /auth/admin/grants': {
    summary: 'Lists what the route files grant to groups, and to how many people',
    query: pagingQuery,
    returns: pageOf(grantSchema, { peopleCutOff }),
    run: ({ paging }) => users.listGrants(paging)
  }
})

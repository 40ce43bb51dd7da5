// Lets Admins change the access of many people at once, and see what groups grant, and to how many.
import type { FastifyInstance } from 'fastify'
import { actorOf, type PagingQuery, pageOf, paging, pagingQuery } from '../http/own-requests.ts'
import type { BulkChange, Users } from '../store/users.ts'

export interface GrantRoutesParts {
  users: Pick<Users, 'setAccessOfMany' | 'listGrants'>
}

const names = (maxItems: number, maxLength: number) =>
  ({
    type: 'array',
    maxItems,
    uniqueItems: true,
    items: { type: 'string', minLength: 1, maxLength }
  }) as const

const changeOf = (maxItems: number, maxLength: number) =>
  ({
    type: 'object',
    additionalProperties: false,
    properties: { add: names(maxItems, maxLength), remove: names(maxItems, maxLength) }
  }) as const

const bulkSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['ids'],
  properties: {
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
  }
} as const

const outcomeSchema = {
  type: 'object',
  required: ['changed', 'failed'],
  properties: {
    changed: { type: 'integer', description: 'Number of people whose access has changed' },
    failed: {
      type: 'array',
      items: {
        type: 'object',
        required: ['id', 'code'],
        properties: { id: { type: 'integer' }, code: { type: 'string' } }
      }
    }
  }
} as const

const text = { type: 'string' } as const
const texts = { type: 'array', items: text } as const

const grantSchema = {
  type: 'object',
  required: ['group', 'provider', 'tenant', 'profiles', 'areas', 'place', 'people'],
  properties: {
    group: { ...text, description: 'DN of a directory group, or value of the claim' },
    provider: { type: 'string', enum: ['ldap', 'cloudidp'] },
    tenant: { ...text, description: "'' for any tenant" },
    profiles: texts,
    areas: texts,
    place: { ...text, description: 'file:line:column' },
    people: { type: 'integer', description: 'Number of people in the group, as last seen' }
  }
} as const

const grantsPage = pageOf(grantSchema)
const grantsSchema = {
  ...grantsPage,
  required: [...grantsPage.required, 'peopleCutOff'],
  properties: {
    ...grantsPage.properties,
    peopleCutOff: {
      type: 'integer',
      description: 'People for whom the provider truncated the list of groups; they get nothing'
    }
  }
} as const

export const grantRoutes = (app: FastifyInstance, { users }: GrantRoutesParts): void => {
  app.post<{ Body: BulkChange }>(
    '/auth/admin/users/access',
    {
      schema: {
        summary: 'Adds and removes access for many people; each is changed and audited separately',
        body: bulkSchema,
        response: { 200: outcomeSchema }
      }
    },
    async request => users.setAccessOfMany(actorOf(request), request.body)
  )

  app.get<{ Querystring: PagingQuery }>(
    '/auth/admin/grants',
    {
      schema: {
        summary: 'Lists what the route files grant to groups, and to how many people',
        querystring: pagingQuery,
        response: { 200: grantsSchema }
      }
    },
    async ({ query }) => {
      const { page, pageSize } = paging(query)
      const { items, peopleCutOff } = await users.listGrants()
      const shown = items.slice((page - 1) * pageSize, page * pageSize)
      return { items: shown, page, pageSize, total: items.length, peopleCutOff }
    }
  )
}

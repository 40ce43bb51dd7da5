// Lets Admins create service accounts, change their access, rotate their secrets and remove them.
import type { FastifyInstance } from 'fastify'
import { actorOf, idParams, listSchema, nothing, type PagingQuery, paging } from '../http/own-requests.ts'
import type { Clients, ClientWish } from '../store/clients.ts'
import { accessSchema } from './admin-schemas.ts'

export interface ClientRoutesParts {
  clients: Pick<Clients, 'list' | 'get' | 'create' | 'update' | 'rotate' | 'remove'>
}

const conditions = {
  expiresAt: { type: ['string', 'null'], maxLength: 64, description: 'ISO 8601; null: the account does not expire' },
  addresses: {
    type: 'array',
    maxItems: 100,
    uniqueItems: true,
    items: { type: 'string', minLength: 1, maxLength: 64 },
    description: 'IP addresses and CIDR blocks from which it may be used; none: anywhere'
  }
} as const

const wishProperties = {
  name: { type: 'string', minLength: 1, maxLength: 64 },
  ...accessSchema.properties,
  ...conditions
} as const

const wishSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['name', 'profiles', 'areas', 'areaPrincipal'],
  properties: wishProperties
} as const

const changeSchema = {
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  properties: wishProperties
} as const

const strings = { type: 'array', items: { type: 'string' } } as const

const clientProperties = {
  id: { type: 'integer' },
  clientId: { type: 'string' },
  name: { type: 'string' },
  profiles: strings,
  areas: strings,
  areaPrincipal: { type: 'string' },
  expiresAt: { type: 'string', description: "ISO 8601, UTC; '': never" },
  addresses: strings,
  lastUsedAt: { type: 'string', description: "ISO 8601, UTC; '' if never" }
} as const

const clientSchema = {
  type: 'object',
  additionalProperties: false,
  required: Object.keys(clientProperties),
  properties: clientProperties
} as const

const clientWithSecretSchema = {
  type: 'object',
  additionalProperties: false,
  required: [...Object.keys(clientProperties), 'clientSecret'],
  properties: { ...clientProperties, clientSecret: { type: 'string', description: 'Shown only in this response' } }
} as const

type ById = { Params: { id: string } }

export const clientRoutes = (app: FastifyInstance, { clients }: ClientRoutesParts): void => {
  app.get<{ Querystring: PagingQuery }>(
    '/auth/admin/clients',
    { schema: listSchema('Lists service accounts by name', clientSchema) },
    async ({ query }) => clients.list(paging(query))
  )

  app.get<ById>(
    '/auth/admin/clients/:id',
    { schema: { summary: 'Returns a service account', params: idParams, response: { 200: clientSchema } } },
    async ({ params }) => clients.get(Number(params.id))
  )

  app.post<{ Body: ClientWish }>(
    '/auth/admin/clients',
    { schema: { summary: 'Creates a service account', body: wishSchema, response: { 201: clientWithSecretSchema } } },
    async (request, reply) => reply.code(201).send(await clients.create(actorOf(request), request.body))
  )

  app.patch<ById & { Body: Partial<ClientWish> }>(
    '/auth/admin/clients/:id',
    {
      schema: {
        summary: 'Changes the given fields. Tokens become stale; if expiry or addresses change, they end',
        params: idParams,
        body: changeSchema,
        response: { 200: clientSchema }
      }
    },
    async request => clients.update(actorOf(request), Number(request.params.id), request.body)
  )

  app.post<ById>(
    '/auth/admin/clients/:id/rotate',
    {
      schema: {
        summary: 'Creates a new secret; the previous one works for another 24 hours',
        params: idParams,
        response: { 200: clientWithSecretSchema }
      }
    },
    async request => clients.rotate(actorOf(request), Number(request.params.id))
  )

  app.delete<ById>(
    '/auth/admin/clients/:id',
    {
      schema: { summary: 'Removes a service account and ends its tokens', params: idParams, response: { 204: nothing } }
    },
    async (request, reply) => {
      await clients.remove(actorOf(request), Number(request.params.id))
      return reply.code(204).send()
    }
  )
}

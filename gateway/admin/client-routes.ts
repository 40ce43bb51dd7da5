// Lets Admins create service accounts, change their access, rotate their secrets and remove them.
import type { FastifyInstance } from 'fastify'
import { actorOf, changeById, idParams, listSchema, type PagingQuery, paging } from '../http/own-requests.ts'
import type { Clients, ClientWish } from '../store/clients.ts'
import { array, closed, integer, names, optional, string } from '../values/json-schema.ts'
import { accessSchema } from './admin-schemas.ts'

export interface ClientRoutesParts {
  clients: Pick<Clients, 'list' | 'get' | 'create' | 'update' | 'rotate' | 'remove'>
}

const wishProperties = {
  name: { type: 'string', minLength: 1, maxLength: 64 },
  ...accessSchema.properties,
  expiresAt: {
    type: ['string', 'null'],
    maxLength: 64,
    description: 'RFC 3339 date or date-time; null: the account does not expire'
  },
  addresses: {
    ...names(100, 64),
    description: 'IP addresses and CIDR blocks from which it may be used; none: anywhere'
  }
}

const clientProperties = {
  id: integer,
  clientId: string,
  name: string,
  profiles: array(string),
  areas: array(string),
  areaPrincipal: string,
  expiresAt: { ...string, description: "ISO 8601, UTC; '': never" },
  addresses: array(string),
  lastUsedAt: { ...string, description: "ISO 8601, UTC; '' if never" }
}
const clientSchema = closed(clientProperties)
const clientWithSecretSchema = closed({
  ...clientProperties,
  clientSecret: { ...string, description: 'Shown only in this response' }
})

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
    {
      schema: {
        summary: 'Creates a service account',
        body: closed(wishProperties, ['expiresAt', 'addresses']),
        response: { 201: clientWithSecretSchema }
      }
    },
    async (request, reply) => reply.code(201).send(await clients.create(actorOf(request), request.body))
  )

  app.patch<ById & { Body: Partial<ClientWish> }>(
    '/auth/admin/clients/:id',
    {
      schema: {
        summary: 'Changes the given fields. Tokens become stale; if expiry or addresses change, they end',
        params: idParams,
        body: { ...optional(wishProperties), minProperties: 1 },
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

  changeById(app, 'DELETE /auth/admin/clients/:id', 'Removes a service account and ends its tokens', clients.remove)
}

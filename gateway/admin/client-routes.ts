// Lets Admins create service accounts, change their access, rotate their secrets and remove them.
import type { Asked, Endpoints } from '../http/own-requests.ts'
import type { ClientWish } from '../store/clients.ts'
import { array, closed, integer, names, optional, string, textUpTo } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'
import { accessSchema } from './admin-schemas.ts'

const wishProperties = {
  name: textUpTo(64),
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

export const clientEndpoints = ({ clients }: AdminParts): Endpoints => ({
  'GET /auth/admin/clients': {
    summary: 'Lists service accounts by name',
    lists: clientSchema,
    run: ({ paging }) => clients.list(paging)
  },
  'GET /auth/admin/clients/:id': {
    summary: 'Returns a service account',
    returns: clientSchema,
    run: ({ id }) => clients.get(id)
  },
  'POST /auth/admin/clients': {
    summary: 'Creates a service account',
    body: closed(wishProperties, ['expiresAt', 'addresses']),
    creates: clientWithSecretSchema,
    run: ({ actor, body }: Asked<ClientWish>) => clients.create(actor, body)
  },
  'PATCH /auth/admin/clients/:id': {
    summary: 'Changes the given fields. Tokens become stale; if expiry or addresses change, they end',
    body: { ...optional(wishProperties), minProperties: 1 },
    returns: clientSchema,
    run: ({ actor, id, body }: Asked<Partial<ClientWish>>) => clients.update(actor, id, body)
  },
  'POST /auth/admin/clients/:id/rotate': {
    summary: 'Creates a new secret; the previous one works for another 24 hours',
    returns: clientWithSecretSchema,
    run: ({ actor, id }) => clients.rotate(actor, id)
  },
  'DELETE /auth/admin/clients/:id': {
    summary: 'Removes a service account and ends its tokens',
    run: ({ actor, id }) => clients.remove(actor, id)
  }
})

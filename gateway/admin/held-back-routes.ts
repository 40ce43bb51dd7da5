// Shows Admins which accounts and client addresses the login throttle holds back, and frees an address.
import { type Asked, type Endpoints, pageFrom } from '../http/own-requests.ts'
import type { HeldBack } from '../login/unlock.ts'
import { closed, integer, object, string, textUpTo } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'

const itemSchema = object({
  kind: { ...string, enum: ['account', 'address'] },
  name: { ...string, description: 'The username, or the client address (IPv6: the /64)' },
  userId: { type: ['integer', 'null'], description: 'The person of the account' },
  provider: { ...string, description: '`ldap`, or `client` for secrets of service accounts' },
  failures: {
    ...integer,
    description: 'Failed logins that count; of an address, different pairs of name and password'
  },
  until: { type: ['string', 'null'], description: 'ISO 8601, UTC; null: until a login succeeds' }
})

export type HeldItem = ReturnType<typeof itemsOf>[number]

const itemsOf = ({ accounts, addresses }: HeldBack) => [
  ...accounts.map(({ username, userId, failures, until }) => ({
    kind: 'account',
    name: username,
    userId,
    provider: 'ldap',
    failures,
    until: until?.toISOString() ?? null
  })),
  ...addresses.map(({ address, provider, failures, until }) => ({
    kind: 'address',
    name: address,
    userId: null,
    provider,
    failures,
    until: until.toISOString()
  }))
]

export const heldBackEndpoints = ({ heldBack, unlockAddress }: AdminParts): Endpoints => ({
  'GET /auth/admin/held-back': {
    summary: 'Lists the accounts, then the addresses, that failed logins hold back',
    lists: itemSchema,
    run: async ({ paging }) => pageFrom(itemsOf(await heldBack()), paging)
  },
  'POST /auth/admin/held-back/unlock': {
    summary: 'Frees a client address that failed logins hold back; the accounts that it tried stay as they are',
    body: closed({ address: textUpTo(64) }),
    returns: object({ address: string, freed: { ...integer, description: 'Failures that counted' } }),
    run: ({ actor, body }: Asked<{ address: string }>) => unlockAddress(actor, body.address)
  }
})

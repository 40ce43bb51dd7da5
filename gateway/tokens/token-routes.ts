// What the bearer of a token may ask about it: who am I, today's access, and the end of it.
import type { FastifyInstance } from 'fastify'
import { TokenRevoked, Unauthenticated } from '../errors.ts'
import { identityOf } from '../exchange.ts'
import type { Identity, User } from '../identity.ts'
import { tokenAnswerSchema, userSchema } from '../user-schema.ts'
import type { AccessTokens } from './access-token.ts'

export interface PersonToday {
  user: User
  version: number
  lowestAccepted: number
  disabled: boolean
}

export interface TokenRoutesParts {
  tokens: AccessTokens
  /** The person as the database knows them now; undefined: unknown. Throws `GW_UNAVAILABLE` when it is away. */
  loadPerson: (id: number) => Promise<PersonToday | undefined>
  /** Ends a login durably and everywhere. */
  revokeLogin: (identity: Identity, context: { requestId: string; ip: string }) => Promise<void>
}

export const tokenRoutes = (app: FastifyInstance, { tokens, loadPerson, revokeLogin }: TokenRoutesParts): void => {
  app.get(
    '/auth/me',
    { schema: { summary: 'The bearer as the token says', response: { 200: userSchema } } },
    async request => identityOf(request.exchange).user
  )

  app.post(
    '/auth/refresh',
    {
      schema: { summary: 'A token with the access of today, for the same login', response: { 200: tokenAnswerSchema } }
    },
    async request => {
      const login = identityOf(request.exchange)
      const person = await loadPerson(login.user.id)
      // The id alone is no proof: a restored or re-filled database may give it to somebody else.
      const same = person?.user.provider === login.user.provider && person.user.username === login.user.username
      if (person === undefined || !same) throw new Unauthenticated({ reason: 'person-unknown' })
      if (person.disabled || login.version < person.lowestAccepted) throw new TokenRevoked({ reason: 'person-revoked' })
      return { token: await tokens.reissue(person.user, person.version, login), user: person.user }
    }
  )

  app.post(
    '/auth/logout',
    { schema: { summary: 'Ends this login everywhere', response: { 204: { type: 'null' } } } },
    async (request, reply) => {
      const { requestId, client } = request.exchange
      await revokeLogin(identityOf(request.exchange), { requestId, ip: client.address })
      return reply.code(204).send()
    }
  )
}

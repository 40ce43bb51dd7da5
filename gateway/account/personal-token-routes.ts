// Lets people create access tokens for their own scripts, see when each was last used, and end them.
import { LoginRequired } from '../errors.ts'
import { identityOf } from '../http/exchange.ts'
import type { Asked, Endpoints } from '../http/own-requests.ts'
import { type PersonalTokenStore, type TokenWish, tokenItemProperties } from '../store/personal-tokens.ts'
import { closed, names } from '../values/json-schema.ts'

/** A stolen login token must not turn into a year of access, so creating a token requires a login more recent than this. */
const FRESH_LOGIN_S = 15 * 60

const itemSchema = closed(tokenItemProperties)

const madeSchema = closed({
  ...tokenItemProperties,
  token: { type: 'string', description: 'Shown only in this response' }
})

const wishSchema = closed({
  name: { type: 'string', minLength: 1, maxLength: 64 },
  profiles: names(100, 64),
  expiresAt: {
    type: 'string',
    minLength: 1,
    maxLength: 64,
    description: 'RFC 3339 date or date-time, at most a year ahead'
  }
})

export const personalTokenEndpoints = (personalTokens: PersonalTokenStore): Endpoints => ({
  'GET /auth/tokens': {
    summary: 'Lists your own live access tokens, newest first',
    lists: itemSchema,
    async run({ actor, paging }) {
      const { items, ...page } = await personalTokens.list(paging, actor.id)
      return { ...page, items: items.map(({ user: _, ...item }) => item) }
    }
  },
  'POST /auth/tokens': {
    summary: 'Creates an access token',
    body: wishSchema,
    creates: madeSchema,
    run({ exchange, actor, body }: Asked<TokenWish>) {
      const login = identityOf(exchange)
      if (Date.now() / 1000 - login.authenticatedAt > FRESH_LOGIN_S)
        throw new LoginRequired({ reason: 'login-too-old' })
      return personalTokens.create(actor, login, body)
    }
  },
  'DELETE /auth/tokens/:id': {
    summary: 'Ends one of your access tokens',
    run: ({ actor, id }) => personalTokens.end(actor, id, actor.id)
  }
})

// Serves people what is theirs: their access and where it comes from, their sessions, and access tokens for their own scripts.
import { LoginRequired, Unauthenticated } from '../errors.ts'
import { identityOf } from '../http/exchange.ts'
import { type Asked, type Endpoints, userProperties } from '../http/own-requests.ts'
import { isLoginOf } from '../identity.ts'
import { type LiveLogins, loginItemSchema, loginUse } from '../store/live-logins.ts'
import { accessSourceProperties } from '../store/people.ts'
import { type PersonalTokenStore, type TokenWish, tokenItemProperties } from '../store/personal-tokens.ts'
import type { Users } from '../store/users.ts'
import { closed, names, textUpTo } from '../values/json-schema.ts'

interface AccountParts {
  readonly users: Users
  readonly liveLogins: LiveLogins
  readonly personalTokens: PersonalTokenStore
}

export const accountEndpoints = (parts: AccountParts): Endpoints => {
  const endpoints: Endpoints = { ...accessEndpoints(parts), ...sessionEndpoints(parts), ...tokenEndpoints(parts) }
  const refuseOthers = async ({ exchange }: Asked): Promise<void> => {
    const login = identityOf(exchange)
    const person = await parts.users.loadPerson(login.user.id)
    if (person !== undefined && !isLoginOf(login, person)) throw new Unauthenticated({ reason: 'person-unknown' })
  }
  const guarded = Object.entries(endpoints).map(([name, endpoint]) => {
    const run = async (asked: Asked) => {
      await refuseOthers(asked)
      return endpoint.run(asked)
    }
    return [name, { ...endpoint, run }]
  })
  return Object.fromEntries(guarded)
}

const { profiles, areas, areaPrincipal, accessStatus } = userProperties

const accessEndpoints = ({ users }: AccountParts): Endpoints => ({
  'GET /auth/account/access': {
    summary: 'Returns your current access, and where each part of it comes from',
    // Picks what is shown.
    returns: closed({ profiles, areas, areaPrincipal, accessStatus, ...accessSourceProperties }),
    run: async ({ actor }) => (await users.loadItem(actor.id)).item
  }
})

const sessionEndpoints = ({ liveLogins }: AccountParts): Endpoints => ({
  'GET /auth/sessions': {
    summary: 'Lists your own live sessions, the most recently used first',
    lists: loginItemSchema,
    async run({ exchange, paging }) {
      const identity = identityOf(exchange)
      const { user, tokenId } = identity
      await liveLogins.recordUse(loginUse({ identity, usedAt: Date.now() }))
      return liveLogins.list(user.id, { tokenId, ...paging })
    }
  },
  'DELETE /auth/sessions': {
    summary: 'Ends all your sessions except the current one',
    run: ({ exchange, actor }) => liveLogins.endAll(actor, actor.id, identityOf(exchange).tokenId)
  },
  'DELETE /auth/sessions/:id': {
    summary: 'Ends one of your sessions',
    run: ({ actor, id }) => liveLogins.end(actor, actor.id, id)
  }
})

/** A stolen login token must not turn into a year of access, so creating a token requires a login more recent than this. */
const FRESH_LOGIN_S = 15 * 60

const madeSchema = closed({
  ...tokenItemProperties,
  token: { type: 'string', description: 'Shown only in this response' }
})

const wishSchema = closed({
  name: textUpTo(64),
  profiles: names(100, 64),
  expiresAt: { ...textUpTo(64), description: 'RFC 3339 date or date-time, at most a year ahead' }
})

const tokenEndpoints = ({ personalTokens }: AccountParts): Endpoints => ({
  'GET /auth/tokens': {
    summary: 'Lists your own live access tokens, newest first',
    lists: closed(tokenItemProperties),
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

// Serves the endpoints for the bearer of a token: who am I, refresh, and logout.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { SessionCookie } from '../access/session-cookie.ts'
import { identityOf } from '../http/exchange.ts'
import { describeOnly, tokenAnswerSchema, userSchema } from '../http/own-requests.ts'
import { accepts } from '../http/request.ts'
import type { Identity } from '../identity.ts'
import type { AccessTokens } from '../tokens/access-token.ts'
import type { RenewLogin } from '../tokens/renew-login.ts'
import { boolean, object } from '../values/json-schema.ts'
import { isRecord } from '../values/records.ts'

interface TokenRoutesParts {
  tokens: Pick<AccessTokens, 'renewsAt'>
  renewLogin: RenewLogin
  /** Ends a login permanently, on all instances. */
  revokeLogin: (identity: Identity, context: { requestId: string; ip: string }) => Promise<void>
  /** Where a browser ends its session at the cloud provider; undefined: nowhere, or currently unknown. */
  providerLogoutUrl: () => Promise<string | undefined>
  /** BROWSER_SESSION: the login may also be kept in a cookie. */
  sessionCookie?: SessionCookie | undefined
}

const logoutSchema = object({
  logoutUrl: { type: 'string', description: 'Address at which the browser ends the session at the cloud provider' }
})

/** Whether the person came from the cloud provider and explicitly asks to be logged out there too. */
const wantsProviderLogout = ({ body, headers }: FastifyRequest, { user }: Identity): boolean =>
  user.provider === 'cloudidp' &&
  isRecord(body) &&
  body.provider === true &&
  accepts(headers.accept, 'application/json')

export const tokenRoutes = (app: FastifyInstance, parts: TokenRoutesParts): void => {
  const { tokens, renewLogin, revokeLogin, providerLogoutUrl, sessionCookie } = parts

  /** In seconds since the epoch, so that pages that cannot read the cookie can renew it, and warn in time. */
  const reportLife = (reply: FastifyReply, login: Identity) => {
    reply.header('portaria-session-expires', login.expiresAt)
    const renewsAt = tokens.renewsAt(login)
    if (Number.isFinite(renewsAt)) reply.header('portaria-session-renews', Math.floor(renewsAt))
  }

  app.get(
    '/auth/me',
    { schema: { summary: 'Returns the user described by the token', response: { 200: userSchema } } },
    async (request, reply) => {
      const login = identityOf(request.exchange)
      reportLife(reply, login)
      return login.user
    }
  )

  app.post(
    '/auth/refresh',
    {
      schema: {
        summary: 'Returns a token with the current access, for the same login',
        response: { 200: tokenAnswerSchema }
      }
    },
    async (request, reply) => {
      const { token, identity } = await renewLogin(identityOf(request.exchange))
      reportLife(reply, identity)
      if (sessionCookie !== undefined) reply.header('set-cookie', sessionCookie.renew(request.exchange, token))
      // A token that scripts could not read before is not revealed to them now.
      const hidden = sessionCookie?.isByCookie(request.exchange) === true
      return { token: hidden ? '' : token, user: identity.user }
    }
  )

  app.post(
    '/auth/logout',
    {
      schema: {
        summary: 'Ends this login on all instances',
        body: object({ provider: boolean }, ['provider']),
        response: { 200: logoutSchema, 204: { type: 'null' } }
      },
      // The body may be missing.
      validatorCompiler: describeOnly
    },
    async (request, reply) => {
      const { requestId, client } = request.exchange
      const login = identityOf(request.exchange)
      await revokeLogin(login, { requestId, ip: client.address })
      if (sessionCookie !== undefined) reply.header('set-cookie', await sessionCookie.endAfter(request.exchange))
      const logoutUrl = wantsProviderLogout(request, login) ? await providerLogoutUrl() : undefined
      return logoutUrl === undefined ? reply.code(204).send() : { logoutUrl }
    }
  )
}

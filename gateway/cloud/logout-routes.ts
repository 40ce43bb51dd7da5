// Ends sessions on behalf of the cloud provider: OpenID Connect Back-Channel Logout 1.0.
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { BadRequest, NotFound, Unavailable } from '../errors.ts'
import { FORM, oauthErrorSchema, withForms } from '../http/own-requests.ts'
import type { ProviderLogout } from '../store/provider-sessions.ts'
import { object, string } from '../values/json-schema.ts'
import { createReports } from '../values/throttled-log.ts'
import type { OAuthClient } from './client.ts'
import { OAuthFailure } from './failure.ts'
import { LogoutTokenError } from './provider-tokens.ts'

interface LogoutRoutesParts {
  /** undefined: no issuer can sign logout tokens. */
  client: Pick<OAuthClient, 'checkLogout'> | undefined
  /** Undefined: the token was already used. */
  endSessions: (logout: ProviderLogout, from: { requestId: string; ip: string }) => Promise<number | undefined>
  log: Pick<FastifyBaseLogger, 'info' | 'warn'>
}

const errorSchema = { ...oauthErrorSchema, description: 'See OpenID Connect Back-Channel Logout 1.0, §2.8' }

export const providerLogoutRoutes = (app: FastifyInstance, { client, endSessions, log }: LogoutRoutesParts): void => {
  const isNews = createReports()
  withForms(app, scope => {
    scope.post<{ Body: string | undefined }>(
      '/auth/oauth/cloudidp/backchannel-logout',
      {
        schema: {
          summary: 'Lets the cloud provider end sessions (OpenID Connect Back-Channel Logout)',
          consumes: [FORM],
          body: object({ logout_token: string }),
          response: { 200: { type: 'null' }, 400: errorSchema }
        }
      },
      async ({ body, exchange }, reply) => {
        if (client === undefined) throw new NotFound({ reason: 'no-issuer' })
        const from = { requestId: exchange.requestId, ip: exchange.client.address }
        try {
          const logout = await client.checkLogout(readToken(body))
          const sessions = await endSessions(logout, from)
          if (sessions === undefined) throw new LogoutTokenError('the logout token has already been used')
          log.info({ ...from, sessions }, 'the cloud provider ended sessions')
          return reply.code(200).send()
        } catch (error) {
          // §2.8: 400 also if the logout failed.
          const isAway = error instanceof OAuthFailure || error instanceof Unavailable
          if (!isAway && !(error instanceof LogoutTokenError)) throw error
          // Anyone can send tokens. The access log has a line for each.
          exchange.error = new BadRequest({ reason: 'logout-token', cause: error })
          if (isNews(error.message))
            log.warn({ ...from, reason: 'logout-token', err: error }, 'refused a logout from the cloud provider')
          // The sender of a logout token does not learn what the provider or the database responded.
          const description = isAway ? 'the logout token cannot be processed at the moment' : error.message
          return reply.code(400).send({ error: 'invalid_request', error_description: description })
        }
      }
    )
  })
}

/** Exactly one `logout_token` (§2.5); other parameters are ignored. */
const readToken = (body: string | undefined): string => {
  if (typeof body !== 'string') throw new LogoutTokenError(`the body must be ${FORM}`)
  const [token, ...more] = new URLSearchParams(body).getAll('logout_token')
  if (token === undefined || token === '' || more.length > 0)
    throw new LogoutTokenError('the body must contain exactly one logout_token')
  return token
}

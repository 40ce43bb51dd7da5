// Finds the token of a request wherever it may be, and chooses the response to requests without a valid one.

import type { GatewayError } from '../errors.ts'
import { type AnswerOptions, answerRefusal, type RefusalPage } from '../http/answer.ts'
import { createCrossOrigins } from '../http/cross-origin.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Identity } from '../identity.ts'
import type { Settings } from '../settings/settings.ts'
import type { VerifiedTokens } from '../tokens/verified-tokens.ts'
import { bearerTokenOf } from './authenticate.ts'
import { createBasicToken } from './basic-token.ts'
import { createBrowserSession } from './browser-session.ts'
import { ownCookies } from './own-cookies.ts'

interface CredentialParts {
  readonly verifiedTokens: VerifiedTokens
  readonly endLogin: (login: Identity, context: { requestId: string; ip: string }) => Promise<void>
}

export type Credentials = ReturnType<typeof createCredentials>

export const createCredentials = (
  settings: Settings,
  { verifiedTokens, endLogin }: CredentialParts,
  page: RefusalPage
) => {
  const { publicUrl, frontendUrl, corsOrigins, browserSession } = settings
  const basicTokenOf = createBasicToken(publicUrl)
  const sessionCookies = browserSession
    ? createBrowserSession({
        publicUrl,
        verifiedTokens,
        endReplaced: (login, { requestId, client }) => endLogin(login, { requestId, ip: client.address })
      })
    : undefined
  const answers: AnswerOptions = {
    origins: createCrossOrigins(publicUrl, frontendUrl, corsOrigins),
    page,
    ...(sessionCookies === undefined ? {} : { loginAddress: sessionCookies.loginAddress })
  }
  return {
    /** undefined: BROWSER_SESSION is off. */
    sessionCookies,
    ownCookies,
    answers,
    refuse: (exchange: Exchange, error: GatewayError) => answerRefusal(exchange, error, answers),
    tokenOf: (exchange: Exchange): string | undefined =>
      exchange.route?.ownAuthorization === true
        ? sessionCookies?.tokenOf(exchange)
        : ((exchange.offer === undefined ? bearerTokenOf(exchange) : exchange.offer.token) ??
          basicTokenOf(exchange) ??
          sessionCookies?.tokenOf(exchange))
  }
}

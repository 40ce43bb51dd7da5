// Finds the token of a request wherever it may be, and chooses the response to requests without a valid one.

import { bearerTokenOf } from './access/authenticate.ts'
import { createBasicToken } from './access/basic-token.ts'
import { createBrowserSession, isSessionCookie } from './access/browser-session.ts'
import { isAttemptCookie } from './cloud/attempts.ts'
import type { GatewayError } from './errors.ts'
import { type AnswerOptions, answerRefusal } from './http/answer.ts'
import { createCrossOrigins } from './http/cross-origin.ts'
import type { Exchange } from './http/exchange.ts'
import { createFloodMemory } from './http/flood-memory.ts'
import type { Settings } from './settings/settings.ts'
import type { TokenParts } from './token-parts.ts'

export type Credentials = ReturnType<typeof createCredentials>

export const createCredentials = (settings: Settings, { verifiedTokens, endLogin }: TokenParts) => {
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
    memory: createFloodMemory(),
    page: {
      brand: settings.brandName,
      contact: settings.contact,
      home: frontendUrl === publicUrl ? '/' : frontendUrl,
      cloudLogin: settings.cloudidp.successRedirectUrl,
      cloudName: settings.cloudidp.name
    },
    ...(sessionCookies === undefined ? {} : { loginAddress: sessionCookies.loginAddress })
  }
  return {
    /** undefined: BROWSER_SESSION is off. */
    sessionCookies,
    /** Cookies that no backend sees or sets. */
    ownCookies: { has: (name: string) => isAttemptCookie(name) || isSessionCookie(name) },
    answers,
    refuse: (exchange: Exchange, error: GatewayError) => answerRefusal(exchange, error, answers),
    tokenOf: (exchange: Exchange): string | undefined =>
      (exchange.offer === undefined ? bearerTokenOf(exchange) : exchange.offer.token) ??
      basicTokenOf(exchange) ??
      sessionCookies?.tokenOf(exchange)
  }
}

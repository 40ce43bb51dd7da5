// Says why a cloud login failed: one stable word, and an explanation for the log without token, code or secret.

/** All values of `reason` for logins that fail after their state was accepted. Words may be added, never changed. */
type OAuthReason =
  | 'cloudidp-not-active'
  /** The provider redirected the browser back with an error (RFC 6749 §4.1.2.1). */
  | 'provider-refused'
  /** The provider, or the connection to it. */
  | 'provider-unreachable'
  | 'provider-timeout'
  | 'provider-error'
  | 'provider-nonsense'
  | 'provider-metadata'
  /** The response of the token endpoint (RFC 6749 §5.2). */
  | 'client-refused'
  | 'code-refused'
  /** Whose response it is, and whom it identifies. */
  | 'issuer-mismatch'
  | 'id-token-missing'
  | 'id-token-invalid'
  /** Asked to let the person log in again, the provider went on with its session. */
  | 'login-not-repeated'
  | 'profile-refused'
  | 'subject-missing'
  | 'subject-mismatch'
  | 'tenant-unknown'
  | 'tenant-refused'

const MAX_EXPLANATION_LENGTH = 200

/** A failed cloud login. None of it is disclosed to the client. */
export class OAuthFailure extends Error {
  readonly reason: OAuthReason
  /** The name that the provider gave, if it got that far. */
  readonly username: string

  constructor(reason: OAuthReason, explanation: string, username = '') {
    super(explanation)
    this.name = 'OAuthFailure'
    this.reason = reason
    this.username = username
  }
}

/** Text from outside on one line of printable ASCII, truncated and quoted. */
export const quoted = (text: string): string =>
  JSON.stringify(text.slice(0, MAX_EXPLANATION_LENGTH).replace(/[^\x20-\x7e]/g, '?'))

/**
 * A library's error in our words. Its own properties may contain whole responses of the provider, including tokens, so only
 * names, codes and messages are copied.
 */
export const asOAuthFailure = (thrown: unknown, fallback: OAuthReason): OAuthFailure => {
  const chain = causes(thrown)
  const ours = chain.find(error => error instanceof OAuthFailure)
  if (ours !== undefined) return ours
  return new OAuthFailure(check(chain) ?? fallback, chain.map(describe).join(' ← '))
}

const causes = (thrown: unknown): Error[] => {
  const chain: Error[] = []
  for (let error = thrown; error instanceof Error && chain.length < 5; error = error.cause) chain.push(error)
  return chain
}

/** An error of openid-client or of the network. */
type ForeignError = Error & Readonly<Record<'code' | 'error' | 'status', unknown>>

const describe = (thrown: Error): string => {
  const { name, code, error, status, message } = thrown as ForeignError
  const named = [name, code, error, status].filter(part => typeof part === 'string' || typeof part === 'number')
  const words = named.map(part =>
    String(part)
      .slice(0, 60)
      .replace(/[^\x21-\x7e]/g, '?')
  )
  return `${words.join(' ')}: ${quoted(message)}`
}

/** What the error codes of RFC 6749 §5.2, openid-client and the network mean here. */
const REASONS: Readonly<Record<string, OAuthReason>> = {
  invalid_client: 'client-refused',
  unauthorized_client: 'client-refused',
  invalid_grant: 'code-refused',
  OAUTH_TIMEOUT: 'provider-timeout',
  TimeoutError: 'provider-timeout',
  AbortError: 'provider-timeout',
  OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED: 'subject-mismatch',
  OAUTH_RESPONSE_IS_NOT_CONFORM: 'provider-error',
  OAUTH_RESPONSE_BODY_ERROR: 'provider-error',
  ECONNREFUSED: 'provider-unreachable',
  ECONNRESET: 'provider-unreachable',
  ENOTFOUND: 'provider-unreachable',
  EAI_AGAIN: 'provider-unreachable',
  UND_ERR_SOCKET: 'provider-unreachable',
  UND_ERR_CONNECT_TIMEOUT: 'provider-timeout',
  UND_ERR_HEADERS_TIMEOUT: 'provider-timeout',
  UND_ERR_BODY_TIMEOUT: 'provider-timeout'
}

const check = (chain: readonly Error[]): OAuthReason | undefined => {
  for (const { error, code, name } of chain as readonly ForeignError[]) {
    for (const word of [error, code, name]) {
      const reason = typeof word === 'string' && Object.hasOwn(REASONS, word) ? REASONS[word] : undefined
      if (reason !== undefined) return reason
    }
  }
  return chain.some(error => error.message === 'fetch failed') ? 'provider-unreachable' : undefined
}

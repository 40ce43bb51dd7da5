// Reads a token request of a service account: grant type first, then credentials (RFC 6749 §2.3.1, §4.4, §5.2).

/** An error of RFC 6749 §5.2; `reason` is for the log only. */
export class TokenRequestError extends Error {
  readonly error: 'invalid_request' | 'invalid_client' | 'unsupported_grant_type' | 'invalid_scope' | 'slow_down'
  readonly status: 400 | 401 | 429
  readonly reason: string

  constructor(error: TokenRequestError['error'], description: string, reason: string, status: 400 | 401 | 429 = 400) {
    super(description)
    this.name = 'TokenRequestError'
    this.error = error
    this.status = status
    this.reason = reason
  }
}

interface ClientCredentials {
  readonly clientId: string
  readonly secret: string
}

const MAX_LENGTH = 512

/**
 * The credentials of a client credentials request. Parameters without a value count as omitted. Repeated parameters are
 * refused (RFC 6749 §3.2), and so are credentials in two places (§2.3). Throws TokenRequestError.
 */
export const readTokenRequest = (form: string, authorization: string | undefined): ClientCredentials => {
  const parameters = readForm(form)
  const grantType = parameters.get('grant_type')
  if (grantType === undefined) throw new TokenRequestError('invalid_request', 'grant_type is missing', 'no-grant-type')
  if (grantType !== 'client_credentials')
    throw new TokenRequestError('unsupported_grant_type', 'grant_type must be client_credentials', 'grant-type')
  if (parameters.has('scope'))
    throw new TokenRequestError('invalid_scope', 'This server has no scopes; omit scope', 'scope')
  return readCredentials(parameters, authorization)
}

const readForm = (form: string): ReadonlyMap<string, string> => {
  const parameters = new Map<string, string>()
  const seen = new Set<string>()
  for (const [name, value] of new URLSearchParams(form)) {
    if (seen.has(name)) throw new TokenRequestError('invalid_request', 'A parameter is repeated', 'repeated-parameter')
    seen.add(name)
    if (value !== '') parameters.set(name, value)
  }
  return parameters
}

const readCredentials = (
  parameters: ReadonlyMap<string, string>,
  authorization: string | undefined
): ClientCredentials => {
  const secret = parameters.get('client_secret')
  const clientId = parameters.get('client_id')
  if (authorization === undefined) {
    if (clientId === undefined || secret === undefined) throw noCredentials()
    return bounded({ clientId, secret })
  }
  if (secret !== undefined)
    throw new TokenRequestError('invalid_request', 'Send the client secret in one place only', 'two-credentials')
  const basic = readBasic(authorization)
  if (clientId !== undefined && clientId !== basic.clientId)
    throw new TokenRequestError('invalid_request', 'client_id differs from Authorization', 'two-clients')
  return bounded(basic)
}

/** Both halves are form-encoded before they are joined (RFC 6749 §2.3.1). */
const readBasic = (authorization: string): ClientCredentials => {
  const [, encoded = ''] = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization) ?? []
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  const clientId = colon === -1 ? undefined : formDecode(text.slice(0, colon))
  const secret = formDecode(text.slice(colon + 1))
  if (clientId === undefined || clientId === '' || secret === undefined || secret === '') throw noCredentials()
  return { clientId, secret }
}

const formDecode = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

const bounded = (credentials: ClientCredentials): ClientCredentials => {
  if (credentials.clientId.length > MAX_LENGTH || credentials.secret.length > MAX_LENGTH)
    throw wrongCredentials('too-long')
  return credentials
}

const noCredentials = () => wrongCredentials('no-credentials')

/** The same response whatever is wrong with the client: unknown, wrong secret, expired, or a foreign address. */
export const wrongCredentials = (reason: string): TokenRequestError =>
  new TokenRequestError('invalid_client', 'Client authentication failed', reason, 401)

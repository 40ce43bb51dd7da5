// Issues tokens to service accounts: the OAuth 2.0 client credentials grant (RFC 6749 §4.4).
import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { BadRequest, LoginThrottled, Unauthenticated } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { FORM, oauthErrorSchema, withForms } from '../http/own-requests.ts'
import type { ProvenClient } from '../store/client-secrets.ts'
import type { Clients } from '../store/clients.ts'
import type { createSecretFailures } from '../store/login-attempts.ts'
import { type AccessTokens, fitsToken } from '../tokens/access-token.ts'
import { mayComeFrom } from '../tokens/token-addresses.ts'
import { object, string } from '../values/json-schema.ts'
import { createTurns } from '../values/turns.ts'
import type { LoginOutcome } from './sign-in.ts'

interface ClientTokenParts {
  clients: Pick<Clients, 'prove'>
  tokens: Pick<AccessTokens, 'issue' | 'verify'>
  /** Failed secrets per address, counted across all instances. */
  failures: ReturnType<typeof createSecretFailures>
  loginFailures: { readonly perIp: number; readonly windowMs: number }
  /** Writes an accepted login to the audit log. Throws `GW_UNAVAILABLE`. */
  store: (accepted: LoginOutcome) => Promise<void>
  /** Called with every outcome, for the audit log and the metrics; the reason is a stable word. */
  onOutcome: (outcome: LoginOutcome) => void
}

/** Requests of one address that may wait while as many others are in progress as may fail. */
const MAX_WAITING = 250

const tokenSchema = object({
  access_token: string,
  token_type: { type: 'string', enum: ['Bearer'] },
  expires_in: { type: 'integer', description: 'Seconds' }
})

export const clientTokenRoutes = (app: FastifyInstance, parts: ClientTokenParts): void => {
  const inTurn = createTurns(parts.loginFailures.perIp, MAX_WAITING, () => new TooManyFailures(1))
  withForms(app, scope => {
    scope.post<{ Body: string | undefined }>(
      '/auth/token',
      {
        schema: {
          summary: 'Issues a token for a service account (OAuth 2.0 client credentials)',
          response: { 200: tokenSchema, 400: oauthErrorSchema, 401: oauthErrorSchema, 429: oauthErrorSchema }
        }
      },
      async ({ body, exchange, headers }, reply) => {
        reply.header('pragma', 'no-cache')
        try {
          if (typeof body !== 'string')
            throw new TokenRequestError('invalid_request', `The body must be ${FORM}`, 'body-type')
          const credentials = readTokenRequest(body, headers.authorization)
          const address = exchange.client.key
          const client = await inTurn(address, () => counted(parts, address, () => prove(parts, credentials, exchange)))
          return await issue(parts, client, exchange)
        } catch (error) {
          if (!(error instanceof TokenRequestError)) throw error
          return refuse(reply, exchange, error, headers.authorization !== undefined)
        }
      }
    )
  })
}

const prove = async (
  { clients, onOutcome }: ClientTokenParts,
  { clientId, secret }: { clientId: string; secret: string },
  { requestId, client }: Exchange
): Promise<ProvenClient> => {
  const proven = await clients.prove(clientId, secret)
  const reason = refusalOf(proven, client.address)
  if (proven !== undefined && reason === undefined) return proven
  const who = {
    provider: 'client' as const,
    username: proven?.person.user.username ?? '',
    userId: proven?.person.user.id
  }
  onOutcome({ ok: false, reason: reason ?? '', ...who, requestId, ip: client.address })
  throw wrongCredentials(reason ?? '')
}

const refusalOf = (proven: ProvenClient | undefined, address: string): string | undefined => {
  if (proven === undefined) return 'wrong-secret'
  if (!mayComeFrom(proven.addresses, address)) return 'foreign-address'
  return fitsToken(proven.person.user) ? undefined : 'token-too-long'
}

const issue = async (parts: ClientTokenParts, client: ProvenClient, { requestId, client: from }: Exchange) => {
  const { person, addresses, expiresAt } = client
  const token = await parts.tokens.issue(person.user, person.version, { addresses, expiresAt })
  const identity = parts.tokens.verify(token)
  const { id: userId, username } = person.user
  const accepted = {
    ok: true,
    reason: 'ok',
    provider: 'client',
    username,
    userId,
    requestId,
    ip: from.address
  } as const
  await parts.store(accepted)
  parts.onOutcome(accepted)
  return { access_token: token, token_type: 'Bearer', expires_in: identity.expiresAt - identity.issuedAt }
}

/** A refused request is logged like any other; only its body follows RFC 6749 (§5.2). */
const refuse = (reply: FastifyReply, exchange: Exchange, error: TokenRequestError, byHeader: boolean) => {
  const { status, reason } = error
  const Refusal = status === 401 ? Unauthenticated : status === 429 ? LoginThrottled : BadRequest
  exchange.error = new Refusal({ reason: `client-${reason}` })
  if (status === 401 && byHeader) reply.header('www-authenticate', 'Basic realm="Portaria", charset="UTF-8"')
  if (error instanceof TooManyFailures) reply.header('retry-after', String(error.retryAfterS))
  return reply.code(status).send({ error: error.error, error_description: error.message })
}

/** Runs `work` unless the secrets of this address have failed too often; wrong credentials count as one more failure. */
const counted = async <T>(
  { failures, loginFailures: { perIp, windowMs } }: ClientTokenParts,
  address: string,
  work: () => Promise<T>
): Promise<T> => {
  const heldMs = await failures.heldForMs(address, perIp, windowMs)
  if (heldMs !== undefined) throw new TooManyFailures(Math.ceil(heldMs / 1000))
  try {
    return await work()
  } catch (error) {
    if (error instanceof TokenRequestError) await failures.add(randomUUID(), address, windowMs)
    throw error
  }
}

/** An error of RFC 6749 §5.2; `reason` is for the log only. */
class TokenRequestError extends Error {
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
const readTokenRequest = (form: string, authorization: string | undefined): ClientCredentials => {
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
const wrongCredentials = (reason: string): TokenRequestError =>
  new TokenRequestError('invalid_client', 'Client authentication failed', reason, 401)

class TooManyFailures extends TokenRequestError {
  readonly retryAfterS: number

  constructor(retryAfterS: number) {
    super('slow_down', 'Too many failed attempts from this address; try again later', 'throttled', 429)
    this.retryAfterS = retryAfterS
  }
}

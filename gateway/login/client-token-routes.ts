// Issues tokens to service accounts: the OAuth 2.0 client credentials grant (RFC 6749 §4.4).
import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { BadRequest, type GatewayError, LoginThrottled, TokenExpired, Unauthenticated, Unavailable } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { FORM, oauthErrorSchema, withForms } from '../http/own-requests.ts'
import { basicCredentials } from '../http/request.ts'
import type { User } from '../identity.ts'
import { decode } from '../routes/canonical-path.ts'
import type { Settings } from '../settings/settings.ts'
import type { Clients, ProvenClient } from '../store/clients.ts'
import type { createSecretFailures } from '../store/login-attempts.ts'
import { type AccessTokens, fitsToken } from '../tokens/access-token.ts'
import { mayComeFrom } from '../values/addresses.ts'
import { object, string } from '../values/json-schema.ts'
import { createTurns } from '../values/turns.ts'
import type { LoginOutcome } from './sign-in.ts'

interface ClientTokenParts {
  clients: Pick<Clients, 'prove'>
  tokens: Pick<AccessTokens, 'issue' | 'verify'>
  /** Failed secrets per address, counted across all instances. */
  failures: ReturnType<typeof createSecretFailures>
  loginFailures: Settings['loginFailures']
  /** Writes an accepted login to the audit log. Throws `GW_UNAVAILABLE`. */
  store: (accepted: LoginOutcome) => Promise<void>
  /** Called with every outcome, for the audit log and the metrics; the reason is a stable word. */
  onOutcome: (outcome: LoginOutcome) => void
}

/** Requests of one address that may wait while as many others are in progress as may fail. */
const MAX_WAITING = 250
/** How long they wait: without a database, each of those in progress takes seconds to fail. */
const MAX_WAIT_MS = 10_000

const tokenSchema = object({
  access_token: string,
  token_type: { type: 'string', enum: ['Bearer'] },
  expires_in: { type: 'integer', description: 'Seconds' }
})

const formSchema = object(
  { grant_type: { type: 'string', enum: ['client_credentials'] }, client_id: string, client_secret: string },
  ['client_id', 'client_secret']
)

const REFUSED = Object.fromEntries([400, 401, 429, 503].map(status => [status, oauthErrorSchema]))

export const clientTokenRoutes = (app: FastifyInstance, parts: ClientTokenParts): void => {
  const throttled = () => new TokenRefusal('throttled', 1)
  const inTurn = createTurns(parts.loginFailures.perIp, MAX_WAITING, throttled, MAX_WAIT_MS)
  withForms(app, scope => {
    scope.post<{ Body: string | undefined }>(
      '/auth/token',
      {
        schema: {
          summary: 'Issues a token for a service account (OAuth 2.0 client credentials)',
          consumes: [FORM],
          body: formSchema,
          response: { 200: tokenSchema, ...REFUSED }
        }
      },
      async ({ body, exchange, headers }, reply) => {
        reply.header('pragma', 'no-cache')
        try {
          if (typeof body !== 'string') throw new TokenRefusal('body-type')
          const credentials = readTokenRequest(body, headers.authorization)
          const client = await inTurn(exchange.client.key, () => prove(parts, credentials, exchange))
          return await issue(parts, client, exchange)
        } catch (error) {
          if (error instanceof Unavailable) return answerError(reply, exchange, error, 'temporarily_unavailable')
          // In its last second, or by this machine's clock: tokens count in whole seconds.
          const refusal = error instanceof TokenExpired ? new TokenRefusal('expired') : error
          if (!(refusal instanceof TokenRefusal)) throw error
          return refuse(reply, exchange, refusal, headers.authorization !== undefined)
        }
      }
    )
  })
}

/** The client, unless the secrets of its address have failed too often; wrong credentials count as one more failure. */
const prove = async (
  { clients, failures, loginFailures, onOutcome }: ClientTokenParts,
  { clientId, secret }: { clientId: string; secret: string },
  { requestId, client: { key, address } }: Exchange
): Promise<ProvenClient> => {
  const heldMs = await failures.heldForMs(key, loginFailures.perIp, loginFailures.windowMs)
  const failed = { ok: false, provider: 'client', requestId, ip: address } as const
  if (heldMs !== undefined) {
    // The audit log has the failures that led to it.
    onOutcome({ ...failed, reason: 'throttled', username: '', userId: undefined, isRepeated: true })
    throw new TokenRefusal('throttled', Math.ceil(heldMs / 1000))
  }
  const refused = async (reason: string, { id: userId, username = '' }: Partial<User> = {}): Promise<never> => {
    onOutcome({ ...failed, reason, username, userId })
    await failures.add(randomUUID(), key, loginFailures.windowMs)
    throw new TokenRefusal(reason)
  }
  const proven = await clients.prove(clientId, secret)
  if (typeof proven === 'string') return refused(proven)
  const { person, addresses } = proven
  if (!mayComeFrom(addresses, address)) return refused('foreign-address', person.user)
  return fitsToken(person.user, { addresses }) ? proven : refused('token-too-long', person.user)
}

const issue = async (parts: ClientTokenParts, client: ProvenClient, { requestId, client: from }: Exchange) => {
  const { person, addresses, expiresAt } = client
  const token = await parts.tokens.issue(person.user, person.version, { addresses, expiresAt })
  const identity = parts.tokens.verify(token)
  const { id: userId, username } = person.user
  const who = { provider: 'client', username, userId, requestId, ip: from.address } as const
  const accepted = { ok: true, reason: 'ok', ...who }
  await parts.store(accepted)
  parts.onOutcome(accepted)
  return { access_token: token, token_type: 'Bearer', expires_in: identity.expiresAt - identity.issuedAt }
}

/** A refused request is logged like any other; only its body follows RFC 6749 (§5.2). */
const refuse = (reply: FastifyReply, exchange: Exchange, refusal: TokenRefusal, byHeader: boolean) => {
  const [error, description] = REFUSALS[refusal.reason] ?? WRONG_CREDENTIALS
  const Refusal = { invalid_client: Unauthenticated, slow_down: LoginThrottled }[error] ?? BadRequest
  if (error === 'invalid_client')
    reply.header('www-authenticate', byHeader ? 'Basic realm="Portaria", charset="UTF-8"' : 'Bearer')
  if (refusal.retryAfterS !== undefined) reply.header('retry-after', String(refusal.retryAfterS))
  return answerError(reply, exchange, new Refusal({ reason: `client-${refusal.reason}`, message: description }), error)
}

const answerError = (reply: FastifyReply, exchange: Exchange, refusal: GatewayError, error: string) => {
  exchange.error = refusal
  return reply.code(refusal.statusCode).send({ error, error_description: refusal.message })
}

/** Error and description by the reason for the log (RFC 6749 §5.2). */
const REFUSALS: Readonly<Record<string, readonly [error: string, description: string]>> = {
  'body-type': ['invalid_request', `The body must be ${FORM}`],
  'repeated-parameter': ['invalid_request', 'A parameter is repeated'],
  'no-grant-type': ['invalid_request', 'grant_type is missing'],
  'grant-type': ['unsupported_grant_type', 'grant_type must be client_credentials'],
  scope: ['invalid_scope', 'This server has no scopes; omit scope'],
  'two-credentials': ['invalid_request', 'Send the client secret in one place only'],
  'two-clients': ['invalid_request', 'client_id differs from Authorization'],
  throttled: ['slow_down', 'Too many failed attempts from this address; try again later']
}
/** The same response whatever is wrong with the client: unknown, wrong secret, expired, or a foreign address. */
const WRONG_CREDENTIALS = ['invalid_client', 'Client authentication failed'] as const

class TokenRefusal extends Error {
  readonly reason: string
  readonly retryAfterS: number | undefined

  constructor(reason: string, retryAfterS?: number) {
    super(reason)
    this.reason = reason
    this.retryAfterS = retryAfterS
  }
}

const MAX_LENGTH = 512

/**
 * The credentials of a client credentials request. Parameters without a value count as omitted. Repeated parameters are
 * refused (RFC 6749 §3.2), and so are credentials in two places (§2.3). Throws TokenRefusal.
 */
const readTokenRequest = (form: string, authorization: string | undefined) => {
  const parameters = new URLSearchParams(form)
  if (new Set(parameters.keys()).size < parameters.size) throw new TokenRefusal('repeated-parameter')
  const read = (name: string): string => parameters.get(name) ?? ''
  const grantType = read('grant_type')
  if (grantType !== 'client_credentials') throw new TokenRefusal(grantType === '' ? 'no-grant-type' : 'grant-type')
  if (read('scope') !== '') throw new TokenRefusal('scope')
  const inForm = { clientId: read('client_id'), secret: read('client_secret') }
  if (authorization !== undefined && inForm.secret !== '') throw new TokenRefusal('two-credentials')
  const { clientId, secret } = authorization === undefined ? inForm : readBasic(authorization)
  if (clientId === '' || secret === '') throw new TokenRefusal('no-credentials')
  if (inForm.clientId !== '' && inForm.clientId !== clientId) throw new TokenRefusal('two-clients')
  if (clientId.length > MAX_LENGTH || secret.length > MAX_LENGTH) throw new TokenRefusal('too-long')
  return { clientId, secret }
}

/** Both halves are form-encoded before they are joined (RFC 6749 §2.3.1). */
const readBasic = (authorization: string) => {
  const [clientId = '', ...secret] = (basicCredentials(authorization)?.toString('utf8') ?? '').split(':')
  return { clientId: formDecode(clientId), secret: formDecode(secret.join(':')) }
}

/** Empty if it cannot be decoded. */
const formDecode = (text: string): string => decode(text.replaceAll('+', ' ')) ?? ''

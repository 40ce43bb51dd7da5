// Sends a browser to the cloud provider, and logs the person in when it returns.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { OwnHosts } from '../access/own-hosts.ts'
import type { SessionCookie } from '../access/session-cookie.ts'
import { BadRequest, OAuthFailed, OAuthState, Unavailable } from '../errors.ts'
import { describeOnly, REDIRECT } from '../http/own-requests.ts'
import type { LoginContext, LoginOutcome, SignedIn, SignIn } from '../login/sign-in.ts'
import type { Settings } from '../settings/settings.ts'
import { object, string } from '../values/json-schema.ts'
import { encodeRawBytes } from '../values/urls.ts'
import {
  type Attempt,
  beginAttempt,
  endAttempt,
  findAttempt,
  type StateReason,
  type VerifiedState,
  verifyState
} from './attempts.ts'
import type { OAuthClient } from './client.ts'
import { asOAuthFailure, OAuthFailure, quoted } from './failure.ts'

interface OAuthRoutesParts {
  settings: Pick<Settings, 'cloudidp' | 'jwt' | 'publicUrl'>
  hosts: Pick<OwnHosts, 'named'>
  /** undefined: this provider is not active. */
  client: OAuthClient | undefined
  signIn: SignIn
  /** True for exactly one caller, on all instances, until `expiresAt`. Without a database it throws, and the attempt stays usable. */
  useOnce: (nonce: string, expiresAt: Date) => Promise<boolean>
  /** Called for every login that fails after its state was accepted. Failures in `signIn` are reported there. */
  onOutcome: (outcome: LoginOutcome) => void
  /** BROWSER_SESSION: the login is also kept in a cookie. */
  sessionCookie?: SessionCookie | undefined
  /** Milliseconds since the epoch. */
  now?: () => number
}

const START = '/auth/oauth/cloudidp/start'
const CALLBACK = '/auth/oauth/cloudidp/callback'

/**
 * Registers start and callback. They throw `GW_OAUTH_STATE` (400), `GW_BAD_REQUEST` (400: no code), `GW_OAUTH_FAILED` (401;
 * also when this provider is not active, as a directory login does), `GW_UNAVAILABLE` (503) and what `signIn` throws.
 */
export const oauthRoutes = (app: FastifyInstance, parts: OAuthRoutesParts): void => {
  const { settings, client, now = Date.now } = parts
  const attempts = {
    secrets: [settings.jwt.secret, ...settings.jwt.previousSecrets],
    maxAgeMs: settings.cloudidp.stateMaxAgeMs,
    isSecure: settings.publicUrl.startsWith('https:')
  }

  const start = async (request: FastifyRequest, reply: FastifyReply) => {
    refusePrefetch(request)
    // The provider comes back to PUBLIC_URL, where the attempt must have begun.
    if (parts.hosts.named(request.exchange) !== undefined)
      return redirect(reply, settings.publicUrl + START + encodeRawBytes(request.exchange.query), [])
    if (client === undefined) throw failed(notActive())
    const query = queryOf(request.raw.url ?? '')
    const [page] = /^\d{1,40}$/.exec(query.get('page') ?? '') ?? []
    const beginning = { page, again: query.get('again') === '1' }
    const { attempt, setCookies } = beginAttempt(request.headers.cookie, beginning, now(), attempts)
    const location = await client.authorizationUrl(attempt).catch(error => {
      throw failed(asOAuthFailure(error, 'provider-metadata'))
    })
    return redirect(reply, location, setCookies)
  }

  /** The state is verified before anything else, even before the kind of response. */
  const checkState = (request: FastifyRequest): Returned => {
    const answer = readCallback(request.raw.url ?? '')
    const state = verifyState(answer.state, now(), attempts)
    if (typeof state === 'string') throw refused(state)
    const attempt = findAttempt(request.headers.cookie, answer.state ?? '', state, attempts)
    if (attempt === undefined) throw refused('state-foreign-browser')
    if (answer.code === undefined && answer.error === undefined) throw new BadRequest({ reason: 'code-missing' })
    return { answer, state, attempt, end: endAttempt(state, attempts) }
  }

  const callback = async (request: FastifyRequest, reply: FastifyReply) => {
    refusePrefetch(request)
    const returned = checkState(request)
    const { requestId, client: from } = request.exchange
    const context = { requestId, ip: from.address, userAgent: request.headers['user-agent'] }
    const { nonce, expiresAt } = returned.state
    const isFirst = await parts.useOnce(nonce.toString('base64url'), new Date(expiresAt))
    if (!isFirst) throw refused('state-replayed', returned.end)
    const signedIn = await logIn(returned, context, parts)
    const cookies = (await parts.sessionCookie?.begin(request.exchange, signedIn.token)) ?? []
    return redirect(reply, successUrl(returned.attempt, signedIn, settings), [returned.end, ...cookies])
  }

  // A link preview or scanner sends HEAD: it learns whether the address is still valid, and nothing is used up.
  const peek = async (request: FastifyRequest, reply: FastifyReply) => {
    checkState(request)
    return reply.code(204).headers(PRIVATE).send()
  }

  app.get(START, { schema: { summary: 'Starts a cloud login', response: REDIRECT } }, start)
  app.head(CALLBACK, peek)
  const schema = { summary: 'Receives the cloud provider’s redirect', querystring: callbackSchema, response: REDIRECT }
  app.get(CALLBACK, { schema, validatorCompiler: describeOnly, exposeHeadRoute: false }, callback)
}

const callbackSchema = object({ code: string, state: string, error: string, iss: string }, ['code', 'error', 'iss'])

interface Returned {
  answer: ReturnType<typeof readCallback>
  state: VerifiedState
  attempt: Attempt
  /** The Set-Cookie field that ends the attempt. */
  end: string
}

const PRIVATE = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' }

const redirect = (reply: FastifyReply, location: string, setCookies: string[]) =>
  reply
    .code(302)
    .headers({ ...PRIVATE, location, 'set-cookie': setCookies })
    .send()

const setting = (cookie: string | undefined) => (cookie === undefined ? {} : { 'set-cookie': cookie })

const refused = (reason: StateReason, setCookie?: string) => new OAuthState({ reason, headers: setting(setCookie) })

const failed = (failure: OAuthFailure, setCookie?: string) =>
  new OAuthFailed({ reason: failure.reason, cause: failure, headers: setting(setCookie) })

const notActive = () => new OAuthFailure('cloudidp-not-active', 'CLOUDIDP is not active')

/** A prefetch is not a decision to log in. An error status keeps the prefetched response from being used. */
const refusePrefetch = ({ headers }: FastifyRequest): void => {
  const purposes = [headers['sec-purpose'], headers.purpose, headers['x-purpose'], headers['x-moz']]
  if (purposes.some(purpose => /prefetch|prerender|preview/i.test(String(purpose ?? '')))) {
    throw new Unavailable({ reason: 'prefetch' })
  }
}

const queryOf = (url: string) => new URLSearchParams(/\?(.*)/s.exec(url)?.[1])

/** The parameters of RFC 6749 §4.1.2 and RFC 9207; none may be repeated (RFC 6749 §3.1). */
const readCallback = (url: string) => {
  const query = queryOf(url)
  const one = (name: string): string | undefined => {
    const values = query.getAll(name)
    if (values.length > 1) throw refused('repeated-parameter')
    return values[0] === '' ? undefined : values[0]
  }
  return { state: one('state'), code: one('code'), error: one('error'), iss: one('iss') }
}

const logIn = async (
  { answer, attempt, end }: Returned,
  context: LoginContext,
  { client, signIn, onOutcome }: OAuthRoutesParts
): Promise<SignedIn> => {
  try {
    if (client === undefined) throw notActive()
    const { code, error, iss } = answer
    if (code === undefined || error !== undefined) {
      throw new OAuthFailure('provider-refused', `the provider returned the error ${quoted(error ?? '')}`)
    }
    return await signIn(await client.identify({ code, iss }, attempt), context)
  } catch (thrown) {
    if (!(thrown instanceof OAuthFailure)) throw thrown
    const { reason, username } = thrown
    onOutcome({ ...context, provider: 'cloudidp', ok: false, reason, username, userId: undefined })
    throw failed(thrown, end)
  }
}

/** The fragment never reaches a server (RFC 3986 §3.5). */
const successUrl = (
  { page }: Attempt,
  { token, user }: SignedIn,
  { publicUrl, cloudidp }: OAuthRoutesParts['settings']
): string => {
  const result = `#auth=${Buffer.from(JSON.stringify({ token, user })).toString('base64url')}`
  return page === undefined ? cloudidp.successRedirectUrl + result : `${publicUrl}/auth/login${result}&page=${page}`
}

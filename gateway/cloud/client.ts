// Performs a login with the cloud provider, and turns its response into a verified person or a failure with a reason.
import type { FastifyBaseLogger } from 'fastify'
import * as oidc from 'openid-client'
import type { CloudIdpSettings } from '../settings/settings.ts'
import type { Attempt } from './attempts.ts'
import { asOAuthFailure, OAuthFailure } from './failure.ts'
import { type Claims, provePerson } from './person.ts'
import { createProviderFetch, isAllowedAddress, type ProviderFetch, withDeadline } from './provider-fetch.ts'
import {
  checkAnswerIssuer,
  createProviderMetadata,
  isTemplate,
  type ProviderMetadata,
  profileSource,
  reachProvider,
  readJson
} from './provider-metadata.ts'
import {
  checkDirectIdToken,
  checkIdToken,
  checkLoggedInAgain,
  checkLogoutToken,
  createTokenVerifier,
  type VerifyProviderToken
} from './provider-tokens.ts'

/** The parameters with which the provider redirected the browser back (RFC 6749 §4.1.2, RFC 9207 §2). */
interface AuthorizationAnswer {
  readonly code: string
  readonly iss: string | undefined
}

interface OAuthClientOptions {
  readonly settings: CloudIdpSettings
  readonly log: Pick<FastifyBaseLogger, 'warn'>
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** For all requests of one login to the provider; a single response may take half of it. */
  readonly deadlineMs?: number | undefined
}

const DEADLINE_MS = 10_000
const MAX_ACCESS_TOKEN_LENGTH = 16 * 1024

export type OAuthClient = ReturnType<typeof createOAuthClient>

export const createOAuthClient = (options: OAuthClientOptions) => {
  const { settings, log, now = Date.now, deadlineMs = DEADLINE_MS } = options
  const limits = { insecure: settings.insecure, timeoutMs: deadlineMs / 2 }
  const metadataOf = createProviderMetadata({ settings, log, now, fetch: createProviderFetch(limits) })
  const authentication = createAuthentication(settings.clientSecret)
  const verify = createTokenVerifier({ clientId: settings.clientId, fetch: createProviderFetch(limits), now })

  const identify = async (answer: AuthorizationAnswer, attempt: Attempt, signal: AbortSignal) => {
    const metadata = await metadataOf()
    const ways = { metadata, settings, authentication, fetch: createProviderFetch({ ...limits, signal }) }
    const { accessToken, idToken, config } = await exchangeCode(answer, attempt, ways)
    const isOpenId = settings.issuer !== undefined
    const claims = isOpenId
      ? checkIdToken(await verifiedClaims(idToken, metadata, verify), settings.clientId, attempt.oidcNonce)
      : idToken === undefined
        ? undefined
        : checkDirectIdToken(idToken, settings.clientId, now())
    if (claims !== undefined) checkLoggedInAgain(claims, attempt.againSince)
    if (isTemplate(metadata)) checkAnswerIssuer(answer.iss, { ...metadata, issuer: String(claims?.iss) })
    const profile = await readProfile(config, accessToken, isOpenId ? claims : undefined, { metadata, settings })
    return provePerson({ idToken: claims, profile, isOpenId, profileSource: profileSource(settings) }, settings)
  }

  return {
    /** The URL at which the browser logs in. Throws OAuthFailure if the provider cannot be discovered. */
    async authorizationUrl(attempt: Attempt) {
      const metadata = await metadataOf()
      if (!isAllowedAddress(metadata.authorization_endpoint, settings.insecure)) {
        throw new OAuthFailure('provider-metadata', 'CLOUDIDP_AUTHORIZATION_URL is not https')
      }
      const { href } = oidc.buildAuthorizationUrl(configure(metadata, settings.clientId, oidc.None()), {
        redirect_uri: settings.redirectUri,
        scope: settings.scope,
        state: attempt.state,
        code_challenge: await oidc.calculatePKCECodeChallenge(attempt.codeVerifier),
        code_challenge_method: 'S256',
        // `max_age` makes the provider say in the ID token when the person logged in (OpenID Connect Core §2, §3.1.2.1).
        ...(attempt.againSince === undefined ? {} : { prompt: promptAgain(metadata), max_age: '0' }),
        ...(settings.issuer === undefined ? {} : { nonce: attempt.oidcNonce })
      })
      return href
    },
    /** Exchanges the code, once, and reads the profile. Throws OAuthFailure. */
    identify: (answer: AuthorizationAnswer, attempt: Attempt) =>
      withDeadline(deadlineMs, signal => identify(answer, attempt, signal)),
    /** The URL at which the browser ends its session at the provider; undefined if the provider publishes none. */
    async logoutUrl() {
      const { end_session_endpoint: address } = settings.issuer === undefined ? {} : await metadataOf()
      if (address === undefined || !isAllowedAddress(address, settings.insecure)) return undefined
      const url = new URL(address)
      url.searchParams.set('client_id', settings.clientId)
      url.searchParams.set('post_logout_redirect_uri', settings.successRedirectUrl)
      return url.href
    },
    /** The sessions that a logout token ends. Throws LogoutTokenError, OAuthFailure. */
    checkLogout: (token: string) =>
      withDeadline(deadlineMs, async () => {
        const metadata = await metadataOf()
        return checkLogoutToken(token, { metadata, verify, now: now() })
      }),
    /** Resolves when the provider responds. Throws OAuthFailure. */
    reach: () => withDeadline(deadlineMs, () => reachProvider(settings, createProviderFetch(limits)))
  }
}

/** Google knows none, consent and select_account, and refuses others. */
const promptAgain = ({ authorization_endpoint: address }: ProviderMetadata) =>
  URL.parse(address)?.host === 'accounts.google.com' ? 'select_account' : 'login'

const verifiedClaims = async (
  idToken: string | undefined,
  metadata: ProviderMetadata,
  verify: VerifyProviderToken
): Promise<Claims> => {
  if (idToken === undefined) throw new OAuthFailure('id-token-missing', 'the provider sent no ID token')
  try {
    return (await verify(idToken, metadata)).claims
  } catch (error) {
    throw asOAuthFailure(error, 'id-token-invalid')
  }
}

/** URLs are checked by our own fetch, which allows loopback and CLOUDIDP_INSECURE. */
const configure = (
  metadata: ProviderMetadata,
  clientId: string,
  authentication: oidc.ClientAuth,
  fetch?: ProviderFetch
): oidc.Configuration => {
  const config = new oidc.Configuration({ ...metadata }, clientId, {}, authentication)
  oidc.allowInsecureRequests(config)
  if (fetch !== undefined) config[oidc.customFetch] = fetch as oidc.CustomFetch
  return config
}

/** Sends the client secret as this provider accepts it (RFC 6749 §2.3.1): a registration often allows only one way. */
const createAuthentication = (secret: string) => {
  const [basic, post] = [oidc.ClientSecretBasic(secret), oidc.ClientSecretPost(secret)]
  let last: oidc.ClientAuth | undefined
  return {
    /** Both ways, the one that worked last first, or else the likelier one. */
    candidates: ({
      token_endpoint_auth_methods_supported: methods = ['client_secret_basic']
    }: ProviderMetadata): readonly [oidc.ClientAuth, oidc.ClientAuth?] => {
      if (secret === '') return [oidc.None()]
      const named = methods.find(method => method === 'client_secret_basic' || method === 'client_secret_post')
      const first = last ?? (named === 'client_secret_post' ? post : basic)
      return first === post ? [post, basic] : [basic, post]
    },
    worked: (way: oidc.ClientAuth): void => {
      last = way
    }
  }
}

interface CodeExchange {
  readonly metadata: ProviderMetadata
  readonly settings: CloudIdpSettings
  readonly authentication: ReturnType<typeof createAuthentication>
  readonly fetch: ProviderFetch
}

const exchangeCode = async (answer: AuthorizationAnswer, attempt: Attempt, ways: CodeExchange) => {
  const { metadata, authentication } = ways
  if (ways.settings.issuer !== undefined && !isTemplate(metadata)) checkAnswerIssuer(answer.iss, metadata)
  const [first, second] = authentication.candidates(metadata)
  try {
    return await requestTokens(first, answer, attempt, ways)
  } catch (error) {
    const failure = tokenFailure(error)
    // The client is authenticated before the code is checked (RFC 6749 §4.1.3), so a code refused with its client is unused.
    if (failure.reason !== 'client-refused' || second === undefined) throw failure
    return await requestTokens(second, answer, attempt, ways).catch(again => {
      throw tokenFailure(again)
    })
  }
}

const tokenFailure = (error: unknown): OAuthFailure =>
  asOAuthFailure(error, isChallenge(error) ? 'client-refused' : 'provider-nonsense')

const isChallenge = (error: unknown): boolean => error instanceof oidc.WWWAuthenticateChallengeError

const requestTokens = async (
  way: oidc.ClientAuth,
  { code }: AuthorizationAnswer,
  attempt: Attempt,
  { metadata, settings, authentication, fetch }: CodeExchange
) => {
  let idToken: string | undefined
  const tokenFetch: ProviderFetch = async (url, request) => {
    // The token request must repeat the exact bytes of the authorization request (RFC 6749 §4.1.3).
    request.body?.set('redirect_uri', settings.redirectUri)
    const response = await fetch(url, request)
    if (request.method !== 'POST' || response.status !== 200) return response
    const body = await readJson(response)
    // Removed here and verified separately: with the keys of its own tenant's issuer, or without keys.
    if (body.id_token !== undefined && typeof body.id_token !== 'string') {
      throw new OAuthFailure('id-token-invalid', 'the ID token is not a string')
    }
    idToken = body.id_token
    // What else it says is not used: some send a list as scope, or null.
    return Response.json({ access_token: body.access_token, token_type: body.token_type })
  }
  // `iss` was verified above.
  const plain = { ...metadata, authorization_response_iss_parameter_supported: false }
  const config = configure(plain, settings.clientId, way, tokenFetch)
  if (metadata.jwks_uri !== undefined) oidc.enableNonRepudiationChecks(config)
  const callback = new URL(settings.redirectUri)
  callback.search = new URLSearchParams({ code, state: attempt.state }).toString()
  const checks = { pkceCodeVerifier: attempt.codeVerifier, expectedState: attempt.state }
  const { access_token: accessToken } = await oidc.authorizationCodeGrant(config, callback, checks)
  authentication.worked(way)
  if (accessToken.length > MAX_ACCESS_TOKEN_LENGTH)
    throw new OAuthFailure('provider-nonsense', 'the access token is too long')
  return { accessToken, idToken, config }
}

const readProfile = async (
  config: oidc.Configuration,
  accessToken: string,
  claims: Claims | undefined,
  { metadata, settings }: { metadata: ProviderMetadata; settings: CloudIdpSettings }
): Promise<Claims> => {
  try {
    const url = new URL(settings.profileUrl)
    // With CLOUDIDP_ISSUER the default of CLOUDIDP_PROFILE_URL is the discovered endpoint, not Microsoft's.
    if (typeof claims?.sub === 'string' && url.host === 'graph.microsoft.com') {
      return metadata.userinfo_endpoint === undefined ? {} : await oidc.fetchUserInfo(config, accessToken, claims.sub)
    }
    const headers = new Headers({ accept: 'application/json' })
    const response = await oidc.fetchProtectedResource(config, accessToken, url, 'GET', null, headers)
    if (response.status !== 200) {
      throw new OAuthFailure(
        response.status >= 400 && response.status < 500 ? 'profile-refused' : 'provider-error',
        `the profile endpoint responded with ${response.status}`
      )
    }
    return await readJson(response)
  } catch (error) {
    throw asOAuthFailure(error, isChallenge(error) ? 'profile-refused' : 'provider-nonsense')
  }
}

// Finds the provider's endpoints, in the settings or by discovery, and refreshes them in the background.
import type { FastifyBaseLogger } from 'fastify'
import type { CloudIdpSettings } from '../settings/settings.ts'
import { isRecord } from '../values/records.ts'
import { asOAuthFailure, OAuthFailure } from './failure.ts'
import { isAllowedAddress, type ProviderFetch } from './provider-fetch.ts'

/** The members of OpenID Connect Discovery §3 that the gateway uses. */
export interface ProviderMetadata {
  readonly issuer: string
  readonly authorization_endpoint: string
  readonly token_endpoint: string
  readonly jwks_uri?: string
  readonly userinfo_endpoint?: string
  /** OpenID Connect RP-Initiated Logout 1.0 §2.1. */
  readonly end_session_endpoint?: string
  readonly token_endpoint_auth_methods_supported?: string[]
  readonly id_token_signing_alg_values_supported?: string[]
  readonly authorization_response_iss_parameter_supported?: boolean
}

interface MetadataOptions {
  readonly settings: CloudIdpSettings
  readonly fetch: ProviderFetch
  readonly log: Pick<FastifyBaseLogger, 'warn'>
  readonly now: () => number
}

const KEEP_MS = 60 * 60 * 1000
/** Delay before a provider that was unavailable is contacted again, instead of at every login in between. */
const COOLDOWN_MS = 2000
export const TENANT_PLACEHOLDER = '{tenantid}'
const MICROSOFT = /^https:\/\/login\.(microsoftonline\.(com|us)|partner\.microsoftonline\.cn)$/
const GUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Explicit endpoints, or those of CLOUDIDP_ISSUER: fetched at the first login, cached for an hour, kept during outages. */
export const createProviderMetadata = (options: MetadataOptions): (() => Promise<ProviderMetadata>) => {
  const { settings, log, now } = options
  if (settings.issuer === undefined) {
    const known = explicitEndpoints(settings)
    return async () => known
  }
  let known: ProviderMetadata | undefined
  let asked = { at: 0, lastsMs: 0 }
  let failure: OAuthFailure | undefined
  let asking: Promise<ProviderMetadata> | undefined

  const ask = async (issuer: string): Promise<ProviderMetadata> => {
    try {
      known = await discover(issuer, options)
      failure = undefined
      asked = { at: now(), lastsMs: KEEP_MS }
      return known
    } catch (error) {
      failure = asOAuthFailure(error, 'provider-metadata')
      asked = { at: now(), lastsMs: COOLDOWN_MS }
      log.warn(
        { reason: failure.reason, err: failure, kept: known !== undefined },
        'the cloud provider could not be discovered'
      )
      if (known === undefined) throw failure
      return known
    } finally {
      asking = undefined
    }
  }

  return async () => {
    const sinceMs = now() - asked.at
    // Below 0, the clock has been set back.
    if (sinceMs >= 0 && sinceMs < asked.lastsMs) {
      if (known !== undefined) return known
      if (failure !== undefined) throw failure
    }
    asking ??= ask(settings.issuer ?? '')
    return asking
  }
}

const explicitEndpoints = (settings: CloudIdpSettings): ProviderMetadata => ({
  issuer: profileSource(settings),
  authorization_endpoint: settings.authorizationUrl,
  token_endpoint: settings.tokenUrl,
  token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic']
})

/** The profile endpoint without its query, within which the subjects of explicit endpoints are unique. */
export const profileSource = (settings: CloudIdpSettings): string => {
  const address = settings.profileUrl
  return address.split(/[?#]/, 1)[0] ?? address
}

const baseOf = (issuer: string): string =>
  issuer.replace(/\/\.well-known\/openid-configuration$/, '').replace(/\/$/, '')

const discoveryAddress = (issuer: string): string => `${baseOf(issuer)}/.well-known/openid-configuration`

/**
 * Resolves when the provider can be discovered; a configured one, when it responds, whatever the response: a broken one responds with
 * 5xx. Throws OAuthFailure.
 */
export const reachProvider = async (settings: CloudIdpSettings, fetch: ProviderFetch): Promise<void> => {
  const { issuer, tokenUrl } = settings
  try {
    if (issuer !== undefined) return void (await discover(issuer, { fetch, settings }))
    const { status } = await fetch(tokenUrl, { method: 'GET', headers: { accept: 'application/json' } })
    if (status >= 500) throw new OAuthFailure('provider-error', `the provider responded with ${status}`)
  } catch (error) {
    throw asOAuthFailure(error, 'provider-unreachable')
  }
}

const discover = async (
  issuer: string,
  { fetch, settings }: Pick<MetadataOptions, 'fetch' | 'settings'>
): Promise<ProviderMetadata> => {
  const base = baseOf(issuer)
  const response = await fetch(discoveryAddress(issuer), {
    method: 'GET',
    headers: { accept: 'application/json' }
  })
  if (response.status !== 200) throw new OAuthFailure('provider-error', `discovery responded with ${response.status}`)
  const document = await readJson(response)
  if (!isOf(document.issuer, base))
    throw new OAuthFailure('provider-metadata', 'the discovered issuer is not CLOUDIDP_ISSUER')
  for (const name of ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const) {
    const address = document[name]
    if (typeof address !== 'string' || !isAllowedAddress(address, settings.insecure)) {
      throw new OAuthFailure('provider-metadata', `the discovered ${name} cannot be used`)
    }
  }
  return pick(document)
}

/** A JSON object (RFC 8259), or OAuthFailure. */
export const readJson = async (response: Response): Promise<Record<string, unknown>> => {
  let value: unknown
  try {
    value = JSON.parse(await response.text())
  } catch {
    throw new OAuthFailure('provider-nonsense', 'a response that is not JSON')
  }
  if (!isRecord(value)) throw new OAuthFailure('provider-nonsense', 'a response that is not a JSON object')
  return value
}

/**
 * OpenID Connect Discovery §4.3: the issuer must match. Microsoft's URLs may name the tenant by an alias or a domain; the
 * document then contains its id, or `{tenantid}` for the one that the ID token names.
 */
const isOf = (found: unknown, asked: string): found is string => {
  if (typeof found !== 'string') return false
  if (found.replace(/\/$/, '') === asked) return true
  const [askedUrl, foundUrl] = [URL.parse(asked), URL.parse(found)]
  if (askedUrl === null || foundUrl === null) return false
  const [, tenant = '', ...rest] = pathOf(foundUrl).replace(/\/$/, '').split('/')
  const [, askedTenant = '', ...askedRest] = pathOf(askedUrl).split('/')
  // A GUID has one spelling there, in lower case.
  if (GUID.test(askedTenant) && tenant !== askedTenant.toLowerCase()) return false
  const isMicrosoft = MICROSOFT.test(askedUrl.origin)
  if (tenant !== TENANT_PLACEHOLDER && !(isMicrosoft && GUID.test(tenant))) return false
  if (isMicrosoft && foundUrl.origin === 'https://sts.windows.net') return rest.length === 0
  return foundUrl.origin === askedUrl.origin && rest.join('/') === askedRest.join('/')
}

const pathOf = ({ pathname }: URL): string => {
  try {
    return decodeURI(pathname)
  } catch {
    return pathname
  }
}

/** Whether ID tokens of this issuer may come from the provider of CLOUDIDP_ISSUER. */
export const isOfProvider = (found: string, issuer: string): boolean => isOf(found, baseOf(issuer))

/** Whether the issuer is known only once there is an ID token, because each tenant has its own. */
export const isTemplate = ({ issuer }: ProviderMetadata): boolean => issuer.includes(TENANT_PLACEHOLDER)

/** RFC 9207 §2.4: the `iss` of an authorization response names the provider we asked, and is present if announced. */
export const checkAnswerIssuer = (iss: string | undefined, metadata: ProviderMetadata): void => {
  const isAnnounced = metadata.authorization_response_iss_parameter_supported === true
  if (iss === undefined ? isAnnounced : iss !== metadata.issuer) {
    throw new OAuthFailure('issuer-mismatch', 'the response came from another issuer (RFC 9207)')
  }
}

const pick = (document: Record<string, unknown>): ProviderMetadata => {
  const text = (name: string) => (typeof document[name] === 'string' ? { [name]: document[name] } : {})
  const texts = (name: string) =>
    Array.isArray(document[name]) ? { [name]: document[name].filter(item => typeof item === 'string') } : {}
  return {
    issuer: String(document.issuer),
    authorization_endpoint: String(document.authorization_endpoint),
    token_endpoint: String(document.token_endpoint),
    ...text('jwks_uri'),
    ...text('userinfo_endpoint'),
    ...text('end_session_endpoint'),
    ...texts('token_endpoint_auth_methods_supported'),
    ...texts('id_token_signing_alg_values_supported'),
    authorization_response_iss_parameter_supported: document.authorization_response_iss_parameter_supported === true
  }
}

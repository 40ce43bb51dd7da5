// Reads the cloud provider's settings: complete if enabled, tenant filled in, nothing sent in clear text.

import { MAX_TIMER_MS } from '../values/quantities.ts'
import type { LdapSettings } from './directory.ts'
import { checkUrl, isPlainBeyondLoopback, type Reader } from './reader.ts'

const CALLBACK = '/auth/oauth/cloudidp/callback'
const OPEN_TENANTS: readonly string[] = ['common', 'organizations', 'consumers']

/** Whether anyone can have an account in it; Microsoft ignores the case of its name. */
export const isOpenTenant = (tenantId: string): boolean => OPEN_TENANTS.includes(tenantId.toLowerCase())

/** If anyone can have a cloud account, unassigned accounts pass nothing unless their tenant is listed. */
export const unassignedMayPass = (tenantId: string, allowedTenants: readonly string[] | undefined): boolean =>
  allowedTenants !== undefined || !isOpenTenant(tenantId)

/**
 * Ids of the only tenants whose people may log in, in lower case; undefined: all, or it is known only at the login. A single tenant and
 * a list each exclude everybody else.
 */
export const admittedTenants = ({
  tenantId,
  allowedTenants
}: Pick<CloudIdpSettings, 'tenantId' | 'allowedTenants'>) => {
  // No ID token repeats a domain; the provider's own addresses and issuer then identify it.
  const own = isOpenTenant(tenantId) || tenantId.includes('.') ? undefined : tenantId.toLowerCase()
  if (!isTenantListed(allowedTenants)) return own === undefined ? undefined : [own]
  const listed = allowedTenants.map(tenant => tenant.toLowerCase())
  return own === undefined ? listed : listed.filter(tenant => tenant === own)
}

/** Whether only people of listed tenants may log in, so that an account needs one. */
export const isTenantListed = (allowedTenants: readonly string[] | undefined): allowedTenants is readonly string[] =>
  allowedTenants !== undefined && !allowedTenants.includes('*')

interface Origins {
  readonly publicUrl: string
  readonly frontendUrl: string
  readonly frontendUrlGiven: boolean
}

export type CloudIdpSettings = Readonly<ReturnType<typeof readCloudIdp>>

export const readCloudIdp = (reader: Reader, isListed: boolean, origins: Origins, warnings: string[]) => {
  const active = reader.boolean('CLOUDIDP_ENABLED') && isListed
  const insecure = reader.boolean('CLOUDIDP_INSECURE')
  const tenantId = readTenant(reader)
  const endpoint = (name: EndpointName) => readEndpoint(reader, name, { tenantId, insecure, active, warnings })
  const issuer = endpoint('CLOUDIDP_ISSUER')
  const success = origins.frontendUrlGiven ? `${origins.frontendUrl}/login` : `${origins.publicUrl}/auth/login`
  const cloudidp = {
    active,
    tenantId,
    clientId: reader.text('CLOUDIDP_CLIENT_ID') ?? '',
    clientSecret: reader.text('CLOUDIDP_CLIENT_SECRET') ?? '',
    redirectUri: readRedirect(reader, 'CLOUDIDP_REDIRECT_URI') ?? `${origins.publicUrl}${CALLBACK}`,
    successRedirectUrl: asciiUrl(readRedirect(reader, 'CLOUDIDP_SUCCESS_REDIRECT_URL') ?? success),
    stateMaxAgeMs: reader.duration('CLOUDIDP_STATE_MAX_AGE_MS', { min: 1, max: MAX_TIMER_MS }),
    issuer,
    /** Tenant ids, `['*']` for all, or undefined. */
    allowedTenants: readAllowedTenants(reader),
    insecure,
    authorizationUrl: endpoint('CLOUDIDP_AUTHORIZATION_URL') ?? '',
    tokenUrl: endpoint('CLOUDIDP_TOKEN_URL') ?? '',
    profileUrl: endpoint('CLOUDIDP_PROFILE_URL') ?? '',
    scope: readScope(reader, issuer !== undefined),
    /** Claim that lists groups or roles. */
    groupsClaim:
      reader.matching(
        'CLOUDIDP_GROUPS_CLAIM',
        CLAIM,
        'must be the name of a claim such as groups or realm_access.roles'
      ) ?? '',
    /** Name of the provider, for the login button. */
    name: reader.matching('CLOUDIDP_NAME', PROVIDER_NAME, 'must be one line of at most 64 characters')
  }
  if (active) checkActive(reader, cloudidp, warnings)
  return cloudidp
}

const CLAIM = /^[^\s\p{Cc}]{1,256}$/u
const PROVIDER_NAME = /^[^\p{Cc}\p{Bidi_Control}]{1,64}$/u

const checkActive = (reader: Reader, cloudidp: CloudIdpSettings, warnings: string[]): void => {
  for (const name of ['CLOUDIDP_CLIENT_ID', 'CLOUDIDP_CLIENT_SECRET'] as const) {
    if (reader.text(name) === undefined) reader.mistake(name, 'is required when CLOUDIDP_ENABLED is true')
  }
  if (
    cloudidp.issuer === undefined &&
    reader.given('CLOUDIDP_AUTHORIZATION_URL') !== reader.given('CLOUDIDP_TOKEN_URL')
  ) {
    const missing = reader.given('CLOUDIDP_TOKEN_URL') ? 'CLOUDIDP_AUTHORIZATION_URL' : 'CLOUDIDP_TOKEN_URL'
    reader.mistake(missing, 'is required too: the authorization and token endpoints must belong to the same provider')
  }
  checkTenantOfAddress(reader, cloudidp)
  if (cloudidp.allowedTenants?.includes('*'))
    warnings.push('People from any tenant may log in (CLOUDIDP_ALLOWED_TENANTS=*)')
  else if (cloudidp.allowedTenants === undefined && isOpenTenant(cloudidp.tenantId)) {
    warnings.push(
      `Anyone can have an account in the tenant ${cloudidp.tenantId}: unassigned people cannot use any proxied route until CLOUDIDP_ALLOWED_TENANTS is set`
    )
  }
}

const MICROSOFT = /(?:^|\.)(?:microsoftonline\.(?:com|us|cn)|windows\.net)$/

/**
 * The tenant is compared with that of an ID token, which contains an id and never a domain, and which is required only with an
 * issuer. Otherwise the addresses alone limit the login to the tenant, and these do not.
 */
const checkTenantOfAddress = (
  reader: Reader,
  { tenantId, allowedTenants, issuer, authorizationUrl }: CloudIdpSettings
): void => {
  const isCompared = issuer !== undefined && !tenantId.includes('.')
  if (allowedTenants !== undefined || isCompared || isOpenTenant(tenantId)) return
  const url = URL.parse(issuer ?? authorizationUrl)
  if (url === null || !MICROSOFT.test(url.hostname) || !url.pathname.split('/').some(isOpenTenant)) return
  const name = issuer === undefined ? 'CLOUDIDP_AUTHORIZATION_URL' : 'CLOUDIDP_ISSUER'
  reader.mistake(name, 'admits every tenant, whatever CLOUDIDP_TENANT_ID says: write {{tenant}} in its place')
}

type EndpointName = 'CLOUDIDP_ISSUER' | 'CLOUDIDP_AUTHORIZATION_URL' | 'CLOUDIDP_TOKEN_URL' | 'CLOUDIDP_PROFILE_URL'

const readEndpoint = (
  reader: Reader,
  name: EndpointName,
  { tenantId, insecure, active, warnings }: { tenantId: string; insecure: boolean; active: boolean; warnings: string[] }
): string | undefined => {
  const text = reader.text(name)?.replaceAll('{{tenant}}', encodeURIComponent(tenantId))
  if (text === undefined) return undefined
  if (/[{}]/.test(text)) {
    reader.mistake(name, 'must not contain placeholders other than {{tenant}}')
    return undefined
  }
  const url = checkUrl(reader, name, text, { query: name !== 'CLOUDIDP_ISSUER' })
  if (url === undefined || !isPlainBeyondLoopback(url)) return text
  if (!insecure)
    reader.mistake(name, 'must be https:// except for loopback; set CLOUDIDP_INSECURE=true to allow http://')
  else if (active) warnings.push(`Connections to the cloud provider are not encrypted (${name}, CLOUDIDP_INSECURE)`)
  return text
}

// Kept as written, because the provider compares it byte by byte with the registered one (RFC 6749 §3.1.2.3, RFC 9700 §2.1).
const readRedirect = (reader: Reader, name: 'CLOUDIDP_REDIRECT_URI' | 'CLOUDIDP_SUCCESS_REDIRECT_URL') => {
  const text = reader.text(name)
  if (text !== undefined) checkUrl(reader, name, text, { query: true })
  return text
}

/** As a Location field may contain it (RFC 3986); as written if it is ASCII already. */
const asciiUrl = (text: string): string => (/^[!-~]*$/.test(text) ? text : (URL.parse(text)?.href ?? text))

const readTenant = (reader: Reader): string => {
  const tenant = reader.text('CLOUDIDP_TENANT_ID') ?? 'common'
  if (/^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?$/.test(tenant)) return tenant
  reader.mistake('CLOUDIDP_TENANT_ID', 'must be a tenant id or a domain name')
  return 'common'
}

const readAllowedTenants = (reader: Reader): readonly string[] | undefined => {
  const tenants = reader.list('CLOUDIDP_ALLOWED_TENANTS')
  if (tenants.length === 0) return undefined
  if (tenants.includes('*') && tenants.length > 1)
    reader.mistake('CLOUDIDP_ALLOWED_TENANTS', 'must be either * alone or a list of tenant ids')
  else if (tenants.some(tenant => tenant !== '*' && !/^[\w.-]{1,128}$/.test(tenant)))
    reader.mistake('CLOUDIDP_ALLOWED_TENANTS', 'must be * or a comma-separated list of tenant ids')
  return tenants
}

const readScope = (reader: Reader, hasIssuer: boolean): string => {
  const fallback = hasIssuer ? 'openid profile email' : 'openid profile email User.Read'
  const scope = reader.text('CLOUDIDP_SCOPE') ?? fallback
  // RFC 6749 §3.3
  if (!/^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/.test(scope))
    reader.mistake('CLOUDIDP_SCOPE', 'must be scopes separated by single spaces')
  else if (hasIssuer && !scope.split(' ').includes('openid'))
    reader.mistake('CLOUDIDP_SCOPE', 'must contain openid when CLOUDIDP_ISSUER is set')
  return scope
}

/** Which providers can report people's groups, so that grants without a source are noticed. */
export interface GroupSources {
  readonly directory: boolean
  /** `by-tenant`: anyone can have an account, and other tenants choose their own claims. */
  readonly claims: 'none' | 'any' | 'by-tenant'
}

interface GroupProviders {
  readonly ldap: Pick<LdapSettings, 'active' | 'searchBase'>
  readonly cloudidp: Pick<CloudIdpSettings, 'issuer' | 'tenantId' | 'allowedTenants'>
}

/** A domain is not compared with the tenants of ID tokens, so that a list may admit others. */
const isOfManyTenants = ({ tenantId, allowedTenants = [] }: GroupProviders['cloudidp']): boolean =>
  isOpenTenant(tenantId) || (tenantId.includes('.') && (allowedTenants.includes('*') || allowedTenants.length > 1))

export const groupSources = ({ ldap, cloudidp }: GroupProviders): GroupSources => ({
  directory: ldap.active && ldap.searchBase !== undefined,
  claims: cloudidp.issuer === undefined ? 'none' : isOfManyTenants(cloudidp) ? 'by-tenant' : 'any'
})

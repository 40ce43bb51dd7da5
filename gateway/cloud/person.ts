// Builds a person with a stable subject from the provider's data, with groups, tenant and session, or says why they may not log in.
import type { ProvenPerson } from '../identity.ts'
import { admittedTenants, isTenantListed } from '../settings/cloud.ts'
import type { CloudIdpSettings } from '../settings/settings.ts'
import { isRecord } from '../values/records.ts'
import { OAuthFailure, quoted } from './failure.ts'

export type Claims = Readonly<Record<string, unknown>>

/** The provider's data. `idToken` is absent if CLOUDIDP_ISSUER is unset and the provider sent none. */
interface Findings {
  readonly idToken: Claims | undefined
  readonly profile: Claims
  /** Whether `idToken` was validated with the keys of a discovered issuer. */
  readonly isOpenId: boolean
  /** The namespace of the subject if no issuer has verified it. */
  readonly profileSource: string
}

type PersonSettings = Pick<CloudIdpSettings, 'tenantId' | 'allowedTenants' | 'groupsClaim'>

/** OpenID Connect Core §2: a subject has at most 255 ASCII characters. */
const MAX_IDENTIFIER_LENGTH = 255
const MAX_NAME_LENGTH = 256

/**
 * The person. The issuer of the link is the ID token's own `iss` with CLOUDIDP_ISSUER, otherwise the URL of the
 * profile endpoint, within which subjects are unique. Throws OAuthFailure.
 */
export const provePerson = (findings: Findings, settings: PersonSettings): ProvenPerson => {
  const { idToken, profile, isOpenId, profileSource } = findings
  const names = namesOf(profile, idToken ?? {})
  checkTenant(idToken, settings, names.username)
  const subject = subjectOf(findings, names.username)
  const issuer = isOpenId ? String(idToken?.iss ?? '') : profileSource
  const person = { provider: 'cloudidp' as const, issuer, subject, ...names }
  // Nothing else is believed that is not verified with the keys of an issuer.
  if (!isOpenId || idToken === undefined) return person
  return {
    ...person,
    ...claimedGroups(settings.groupsClaim, idToken, profile),
    tenant: typeof idToken.tid === 'string' ? idToken.tid : undefined,
    providerSession: typeof idToken.sid === 'string' && idToken.sid !== '' ? idToken.sid : undefined,
    idTokenIssuedAt: typeof idToken.iat === 'number' ? idToken.iat : undefined,
    linkWithoutIssuer: linkWithoutIssuer(idToken, profileSource, settings)
  }
}

const namesOf = (profile: Claims, idToken: Claims) => {
  const first = (...names: string[]): string => {
    const said = names.flatMap(name => [cleanName(profile[name]), cleanName(idToken[name])])
    return said.find(text => text !== '') ?? ''
  }
  const email = first('mail', 'email', 'userPrincipalName')
  const username = first('preferred_username', 'userPrincipalName')
  return { email, username: username === '' ? email : username, name: first('displayName', 'name') }
}

const cleanName = (value: unknown): string => {
  if (typeof value !== 'string') return ''
  const start = value.slice(0, 4 * MAX_NAME_LENGTH).toWellFormed()
  const letters = [...start.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu, '')]
  return letters.slice(0, MAX_NAME_LENGTH).join('').trim()
}

// Only an identifier that never changes identifies a person: e-mail addresses and login names can be reassigned.
const subjectOf = ({ idToken, profile, isOpenId }: Findings, username: string): string => {
  const subject = isOpenId ? idToken?.sub : (present(profile.id) ?? present(profile.sub))
  const text = typeof subject === 'number' && Number.isSafeInteger(subject) ? String(subject) : subject
  if (!isIdentifier(text)) throw new OAuthFailure('subject-missing', 'the provider sent no stable subject', username)
  // OpenID Connect Core §5.3.2: a different `sub` means that the two responses are about different people.
  const [told, proven] = [present(profile.sub), present(idToken?.sub)]
  if (told !== undefined && proven !== undefined && told !== proven) {
    throw new OAuthFailure('subject-mismatch', 'the profile and the ID token name different subjects', username)
  }
  return text
}

/** No control characters, and no half of a surrogate pair. */
const isIdentifier = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= MAX_IDENTIFIER_LENGTH && /^[^\p{Cc}\p{Cs}]+$/u.test(value)

const present = (value: unknown): unknown => (value === null || value === '' ? undefined : value)

const checkTenant = (idToken: Claims | undefined, settings: PersonSettings, username: string): void => {
  const tid = typeof idToken?.tid === 'string' ? idToken.tid.toLowerCase() : undefined
  if (tid === undefined && isTenantListed(settings.allowedTenants))
    throw new OAuthFailure(
      'tenant-unknown',
      'CLOUDIDP_ALLOWED_TENANTS is set, but the ID token names no tenant (tid)',
      username
    )
  if (tid !== undefined && tid !== '' && !isIdentifier(tid))
    throw new OAuthFailure('tenant-unknown', 'the tenant in the ID token (tid) is no identifier', username)
  const admitted = admittedTenants(settings)
  if (tid === undefined || admitted === undefined || admitted.includes(tid)) return
  const explanation = `tenant ${quoted(tid)} is not admitted by CLOUDIDP_TENANT_ID and CLOUDIDP_ALLOWED_TENANTS`
  throw new OAuthFailure('tenant-refused', explanation, username)
}

const MAX_VALUE_LENGTH = 512

/**
 * Without CLOUDIDP_ISSUER, an Entra account is linked by its Graph `id`, which equals the `oid` of its ID token within one
 * tenant. Only a tenant named in the settings is trusted; an e-mail address never is.
 */
export const linkWithoutIssuer = (
  { tid, oid }: Claims,
  source: string,
  { tenantId, allowedTenants = [] }: Omit<PersonSettings, 'groupsClaim'>
): ProvenPerson['linkWithoutIssuer'] => {
  if (typeof tid !== 'string' || !isIdentifier(oid)) return undefined
  const isNamed = [tenantId, ...allowedTenants].some(tenant => tenant.toLowerCase() === tid.toLowerCase())
  return isNamed ? { issuer: source, subject: oid } : undefined
}

/**
 * The values of a claim in the ID token, else in userinfo; empty if neither has it, because providers omit it for people
 * without groups. A list replaced by a reference (Entra: `_claim_names`, `hasgroups`) is marked as truncated.
 *
 * @param claim its name, or a dotted path such as `realm_access.roles`
 */
const claimedGroups = (claim: string, idToken: Claims, profile: Claims) => {
  for (const claims of [idToken, profile]) {
    if (isCutOff(claim, claims)) return { groups: [], groupsCutOff: true }
    const groups = valuesOf(valueAt(claims, claim))
    if (groups !== undefined) return { groups, groupsCutOff: false }
  }
  return { groups: [], groupsCutOff: false }
}

// https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference (groups overage claim)
const isCutOff = (claim: string, claims: Claims): boolean => {
  const names = claims._claim_names
  if (isRecord(names) && Object.hasOwn(names, claim)) return true
  const isGroups = claim === 'groups' && claims.groups === undefined
  return isGroups && (claims.hasgroups === true || claims.hasgroups === 'true')
}

// A name that contains dots (such as a URL) is first looked up literally.
const valueAt = (claims: Claims, claim: string): unknown => {
  if (Object.hasOwn(claims, claim)) return claims[claim]
  let value: unknown = claims
  for (const step of claim.split('.')) {
    if (!isRecord(value) || !Object.hasOwn(value, step)) return undefined
    value = value[step]
  }
  return value
}

const valuesOf = (value: unknown): string[] | undefined => {
  if (typeof value === 'string') return value === '' ? [] : [value]
  // Zitadel: an object for each role, `{"agente": {"<id of an organization>": "<its domain>"}}`.
  const isOfObjects = isRecord(value) && Object.values(value).every(isRecord)
  const values: unknown = isOfObjects ? Object.keys(value) : value
  if (!Array.isArray(values)) return undefined
  return values.filter(item => typeof item === 'string' && item !== '' && item.length <= MAX_VALUE_LENGTH)
}

// Reads what an ID token contains besides the identity: groups or roles, tenant, and the session at the provider.
import type { ProvenPerson } from '../identity.ts'
import type { CloudIdpSettings } from '../settings/settings.ts'
import { isRecord } from '../values/records.ts'
import type { Claims } from './person.ts'

const MAX_VALUE_LENGTH = 512

type ClaimedGroups = Pick<ProvenPerson, 'groups' | 'groupsCutOff'>

type Surroundings = ClaimedGroups & Pick<ProvenPerson, 'tenant' | 'providerSession' | 'idTokenIssuedAt'>

/** Only for claims that are verified with the keys of an issuer. */
export const claimedSurroundings = (groupsClaim: string, idToken: Claims, profile: Claims): Surroundings => ({
  ...claimedGroups(groupsClaim, idToken, profile),
  tenant: typeof idToken.tid === 'string' ? idToken.tid : undefined,
  providerSession: typeof idToken.sid === 'string' && idToken.sid !== '' ? idToken.sid : undefined,
  idTokenIssuedAt: typeof idToken.iat === 'number' ? idToken.iat : undefined
})

/**
 * Without CLOUDIDP_ISSUER, an Entra account is linked by its Graph `id`, which equals the `oid` of its ID token within one
 * tenant. Only a tenant named in the settings is trusted; an e-mail address never is.
 */
export const linkWithoutIssuer = (
  { tid, oid }: Claims,
  source: string,
  { tenantId, allowedTenants = [] }: Pick<CloudIdpSettings, 'tenantId' | 'allowedTenants'>
): ProvenPerson['linkWithoutIssuer'] => {
  if (typeof tid !== 'string' || typeof oid !== 'string' || oid === '' || oid.length > 255) return undefined
  const isNamed = [tenantId, ...allowedTenants].some(tenant => tenant.toLowerCase() === tid.toLowerCase())
  return isNamed ? { issuer: source, subject: oid } : undefined
}

/**
 * The values of a claim in the ID token, else in userinfo; empty if neither has it, because providers omit it for people
 * without groups. A list replaced by a reference (Entra: `_claim_names`, `hasgroups`) is marked as truncated.
 *
 * @param claim its name, or a dotted path such as `realm_access.roles`
 */
const claimedGroups = (claim: string, idToken: Claims, profile: Claims): ClaimedGroups => {
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
  if (!Array.isArray(value)) return undefined
  return value.filter(item => typeof item === 'string' && item !== '' && item.length <= MAX_VALUE_LENGTH)
}

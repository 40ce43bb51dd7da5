// Finds the profiles and areas that grants give to the members of groups.
import { createHash } from 'node:crypto'
import type { Provider } from '../identity.ts'
import { dnKey } from '../values/ldap-text.ts'
import type { SourceLocation } from '../values/source-location.ts'

/** One entry of `grants:` in a route file. */
export interface Grant {
  /** The kind of group: of the directory (`group:`), or a value of CLOUDIDP_GROUPS_CLAIM (`claim:`). */
  readonly provider: Provider
  /** As written: the DN of the group, or the value of the claim. */
  readonly group: string
  /** Members of other tenants get nothing (`tid` of the ID token, in lower case); undefined: any tenant. */
  readonly tenant: string | undefined
  readonly profiles: readonly string[]
  readonly areas: readonly string[]
  readonly place: SourceLocation
}

/** The groups in which a provider last saw a person, in the form in which they are compared. */
export interface SeenGroups {
  readonly provider: Provider
  /** In lower case; `''` if none was named. */
  readonly tenant: string
  readonly groups: readonly string[]
}

export interface Grants {
  /** In the order of the files. */
  readonly list: readonly Grant[]
  /** Changes whenever a person could be granted something else. */
  readonly checksum: string
  /** What these groups are granted, in the order of the files. */
  of(seen: readonly SeenGroups[]): readonly Grant[]
}

/** The form in which groups are compared: a DN by RFC 4517, a claim exactly. undefined: not the name of a group. */
export const groupKey = (provider: Provider, group: string): string | undefined =>
  provider === 'ldap' ? dnKey(group) : group

export const createGrants = (list: readonly Grant[]): Grants => {
  // No provider reports a group of the name that stands for all that are none.
  const byGroup = Map.groupBy(list, ({ provider, group }) => `${provider} ${groupKey(provider, group) ?? '\0'}`)
  const of = (seen: readonly SeenGroups[]): readonly Grant[] => {
    const found = new Set<Grant>()
    for (const { provider, tenant, groups } of seen)
      for (const group of groups)
        for (const grant of byGroup.get(`${provider} ${group}`) ?? [])
          if (grant.tenant === undefined || grant.tenant === tenant) found.add(grant)
    return list.filter(grant => found.has(grant))
  }
  return { list, checksum: checksumOf(list), of }
}

// Locations are excluded: a comment above a grant changes nothing for anyone.
const checksumOf = (list: readonly Grant[]): string =>
  createHash('sha256')
    .update(JSON.stringify(list.map(({ place: _, ...grant }) => grant)))
    .digest('hex')

export const NO_GRANTS: Grants = createGrants([])

/** Names without repetition, in order of their first appearance. */
export const namesIn = (grants: readonly Grant[], what: 'profiles' | 'areas'): string[] => [
  ...new Set(grants.flatMap(grant => grant[what]))
]

// Turns `profiles:` and `grants:` of route files into names and grants, or into complaints.
import { PROFILES } from '../../identity.ts'
import type { Grant } from '../../routes/grants.ts'
import { dnKey } from '../../values/ldap-text.ts'
import { areaName, PROFILE_NAME_PATTERN, profileName } from '../../values/names.ts'
import { nearestHint } from '../../values/spelling.ts'
import { listOf, type RouteFile } from '../check-form.ts'
import { type Complain, type Complaint, complain, complainTo } from '../complaint.ts'
import type { GrantData } from '../schema/route-file-schema.ts'

/** Words for people without a profile in tests and commands. */
const TAKEN: ReadonlySet<string> = new Set(['anonymous', 'unassigned', 'cloud-unassigned', 'group', 'claim'])

/** All profiles that routes and grants of these files may name: the three built-in ones first. */
export const collectProfiles = (files: readonly RouteFile[], complaints: Complaint[]): string[] => {
  const profiles: string[] = [...PROFILES]
  for (const { document, data, verdict } of files) {
    for (const [index, written] of listOf<string>(data.profiles).entries()) {
      if (!verdict.isSound('profiles', index)) continue
      const name = profileName(written)
      const say = (message: string) => complaints.push(complain(document.locationOf(['profiles', index]), message))
      const other = profiles.find(known => known !== name && known.toLowerCase() === name.toLowerCase())
      if (TAKEN.has(name.toLowerCase())) say(`"${name}" stands for people without a profile`)
      else if (other !== undefined) say(`"${name}" differs from the profile "${other}" only in case`)
      else if (!profiles.includes(name)) profiles.push(name)
    }
  }
  return profiles
}

/** What is wrong with a role that is not a profile. */
export const unknownRole = (role: string, profiles: readonly string[], word = 'role'): string => {
  const hint = nearestHint(role, profiles)
  if (hint !== '') return `unknown ${word} "${role}"${hint}`
  return `unknown ${word} "${role}": must be one of ${profiles.join(', ')}${isName(role) ? `, or be listed under "profiles"` : ''}`
}

const isName = (role: string): boolean => new RegExp(PROFILE_NAME_PATTERN, 'u').test(role)

export const collectGrants = (file: RouteFile, profiles: readonly string[], complaints: Complaint[]): Grant[] =>
  listOf<GrantData>(file.data.grants).flatMap((grant, index) => {
    const { document, verdict } = file
    if (verdict.soundPart(grant, 'grants', index) === undefined || !verdict.isSound('grants', index)) return []
    const before = complaints.length
    const say = complainTo(complaints, (...path) => document.locationOf(['grants', index, ...path]))
    checkWho(grant, say)
    const areas = (grant.areas ?? []).map(area => areaName(area) ?? '')
    for (const [at, area] of areas.entries()) if (area === '') say(AREA, 'areas', at)
    for (const [at, profile] of (grant.profiles ?? []).entries()) {
      if (!profiles.includes(profileName(profile))) say(unknownRole(profile, profiles, 'profile'), 'profiles', at)
    }
    if (complaints.length > before) return []
    return [
      {
        provider: grant.group === undefined ? 'cloudidp' : 'ldap',
        group: grant.group ?? grant.claim ?? '',
        tenant: grant.tenant?.toLowerCase(),
        profiles: (grant.profiles ?? []).map(profileName),
        areas,
        place: document.locationOf(['grants', index])
      }
    ]
  })

const AREA = 'the name of an area has at most 64 characters, none of them a control character'

const checkWho = ({ group, claim, tenant, profiles, areas }: GrantData, say: Complain): void => {
  if ((group === undefined) === (claim === undefined)) say('a grant needs either "group" or "claim"')
  if (group !== undefined && (dnKey(group) ?? '[]') === '[]') {
    const find = /^[\p{L}\p{N} ._-]{1,64}$/u.test(group)
      ? `; "portaria grants --find ${/ /.test(group) ? `'${group}'` : group}" shows it`
      : ''
    say(`"group" must be a full distinguished name such as CN=Suporte,OU=Grupos,DC=corp,DC=example${find}`, 'group')
  }
  if (group !== undefined && tenant !== undefined)
    say('"tenant" goes with "claim": a directory has no tenants', 'tenant')
  if (profiles === undefined && areas === undefined) say('a grant needs "profiles" or "areas"')
}

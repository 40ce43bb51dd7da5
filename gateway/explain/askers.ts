// Names all kinds of people whom the rules distinguish, for questions such as "who may pass here?".
import { PROFILES } from '../identity.ts'
import { askerOf } from '../route-files/test-lines.ts'
import type { Asker } from '../routes/decide.ts'
import { NO_GRANTS } from '../routes/grants.ts'
import type { RouteTable } from '../routes/route.ts'
import { nearestHint } from '../values/spelling.ts'

export interface NamedAsker extends Asker {
  /** As written after `--as`. */
  readonly name: string
}

const person = (name: string, profiles: string[], assigned: boolean, provider: 'ldap' | 'cloudidp'): NamedAsker => ({
  name,
  user: { profiles, accessStatus: assigned ? 'assigned' : 'unassigned', provider }
})

const withoutArea = (profile: string) => person(`${profile} without area`, [profile], false, 'ldap')

/** From the least to the most trusted: anonymous, people of either provider without access, and each profile alone. */
export const ASKERS: readonly NamedAsker[] = [
  { name: 'anonymous' },
  person('cloud-unassigned', [], false, 'cloudidp'),
  person('unassigned', [], false, 'ldap'),
  ...PROFILES.toReversed().map(profile => person(profile, [profile], true, 'ldap'))
]

/** The same, including the profiles that route files name. */
export const askersWith = (profiles: readonly string[]): readonly NamedAsker[] => [
  ...ASKERS,
  ...furtherOf(profiles).map(profile => person(profile, [profile], true, 'ldap'))
]

/** People with a profile but no area: not assigned, but they have a role. */
export const HALF_ASSIGNED: readonly NamedAsker[] = PROFILES.toReversed().map(profile => withoutArea(profile))

export const halfAssignedWith = (profiles: readonly string[]): readonly NamedAsker[] => [
  ...HALF_ASSIGNED,
  ...furtherOf(profiles).map(withoutArea)
]

const furtherOf = (profiles: readonly string[]): string[] =>
  profiles.filter(profile => !(PROFILES as readonly string[]).includes(profile))

/**
 * The people that words such as `Agente`, `Agente+Supervisor` (also joined by blank or comma), `unassigned` or `anonymous`
 * stand for. Several profiles are one assigned person with all of them; `group:"DN"` is a person with what that group is granted.
 */
export const readAsker = (
  words: string,
  { profiles, grants }: Pick<RouteTable, 'profiles' | 'grants'> = { profiles: PROFILES, grants: NO_GRANTS }
):
  | { readonly asker: NamedAsker; readonly complaint?: undefined }
  | { readonly asker?: undefined; readonly complaint: string } => {
  const [, kind, group = ''] = /^\s*(group|claim):"?(.+?)"?\s*$/s.exec(words) ?? []
  if (kind !== undefined) return { asker: { name: `${kind}:${group}`, ...askerOf(`${kind}:"${group}"`, grants) } }
  const askers = askersWith(profiles)
  const names = [...new Set(words.split(/[\s,+]+/).filter(name => name !== ''))]
  const [only] = names
  const known = names.length === 1 ? askers.find(({ name }) => name === only) : undefined
  if (known !== undefined) return { asker: known }
  const unknown = names.find(name => !profiles.includes(name))
  if (unknown === undefined && names.length > 0) return { asker: person(names.join('+'), names, true, 'ldap') }
  const all = askers.map(({ name }) => name)
  if (unknown !== undefined && all.includes(unknown))
    return { complaint: `"${unknown}" cannot be combined with others` }
  const shown = (unknown ?? '').slice(0, 40)
  return { complaint: `unknown role "${shown}"${nearestHint(shown, all)}: must be one of ${all.join(', ')}` }
}

/** A particular person, as described by a token. */
export const askerNamed = (name: string, user: NonNullable<Asker['user']>): NamedAsker => ({ name, user })

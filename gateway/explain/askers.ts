// Everybody whom the rules tell apart has a name, for questions such as "who may pass here?".
import { PROFILES } from '../identity.ts'
import type { Asker } from '../routes/decide.ts'
import { nearestHint } from '../values/spelling.ts'

export interface NamedAsker extends Asker {
  /** As written after `--as`. */
  readonly name: string
}

const person = (name: string, profiles: string[], assigned: boolean, provider: 'ldap' | 'cloudidp'): NamedAsker => ({
  name,
  user: { profiles, accessStatus: assigned ? 'assigned' : 'unassigned', provider }
})

/** From the least to the most trusted: nobody, people without access of either provider, and each profile alone. */
export const ASKERS: readonly NamedAsker[] = [
  { name: 'anonymous' },
  person('cloud-unassigned', [], false, 'cloudidp'),
  person('unassigned', [], false, 'ldap'),
  ...PROFILES.toReversed().map(profile => person(profile, [profile], true, 'ldap'))
]

/** People with a profile and no area: assigned they are not, yet they have a role. */
export const HALF_ASSIGNED: readonly NamedAsker[] = PROFILES.toReversed().map(profile =>
  person(`${profile} without area`, [profile], false, 'ldap')
)

/**
 * Whom words such as `Agente`, `Agente+Supervisor` (blank and comma join too), `unassigned` or `anonymous` mean. Several
 * profiles are one assigned person who has them all.
 */
export const readAsker = (
  words: string
):
  | { readonly asker: NamedAsker; readonly complaint?: undefined }
  | { readonly asker?: undefined; readonly complaint: string } => {
  const names = [...new Set(words.split(/[\s,+]+/).filter(name => name !== ''))]
  const [only] = names
  const known = names.length === 1 ? ASKERS.find(({ name }) => name === only) : undefined
  if (known !== undefined) return { asker: known }
  const unknown = names.find(name => !(PROFILES as readonly string[]).includes(name))
  if (unknown === undefined && names.length > 0) return { asker: person(names.join('+'), names, true, 'ldap') }
  const all = ASKERS.map(({ name }) => name)
  if (unknown !== undefined && all.includes(unknown)) return { complaint: `"${unknown}" stands alone` }
  const shown = (unknown ?? '').slice(0, 40)
  return { complaint: `unknown role "${shown}"${nearestHint(shown, all)}: must be one of ${all.join(', ')}` }
}

/** Somebody in particular, as a token describes them. */
export const askerNamed = (name: string, user: NonNullable<Asker['user']>): NamedAsker => ({ name, user })

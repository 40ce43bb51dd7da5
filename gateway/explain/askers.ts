// Names all kinds of people whom the rules distinguish, for questions such as "who may pass here?".
import { PROFILES } from '../identity.ts'
import { readWho } from '../route-files/who.ts'
import type { Asker } from '../routes/decide.ts'
import { NO_GRANTS } from '../routes/grants.ts'
import type { RouteTable } from '../routes/route.ts'

export interface NamedAsker extends Asker {
  /** As written after `--as`. */
  readonly name: string
}

/** Someone with no other profile than `profile`. */
const named = (name: string, profile = ''): NamedAsker => ({
  name,
  ...readWho(name, { profiles: [profile], grants: NO_GRANTS }).asker
})

/** The built-in profiles, from the least trusted, then those that route files name. */
const inOrder = (profiles: readonly string[]): string[] => [
  ...PROFILES.toReversed(),
  ...profiles.filter(profile => !(PROFILES as readonly string[]).includes(profile))
]

/** From the least to the most trusted: anonymous, people of either provider without access, and each profile alone. */
export const askersWith = (profiles: readonly string[] = PROFILES): NamedAsker[] => [
  ...['anonymous', 'cloud-unassigned', 'unassigned'].map(name => named(name)),
  ...inOrder(profiles).map(profile => named(profile, profile))
]

/** People with a profile but no area: not assigned, but they have a role. */
export const halfAssignedWith = (profiles: readonly string[]): NamedAsker[] =>
  inOrder(profiles).map(profile => named(`${profile} without area`, profile))

/** Service accounts: their tokens are refused at most of the gateway's own endpoints. */
export const clientsWith = (profiles: readonly string[]): NamedAsker[] =>
  inOrder(profiles).map(profile => named(`client ${profile}`, profile))

/**
 * Reads WHO as test lines have it ({@link readWho}); on a command line, roles may also be joined by blanks or commas, and groups
 * need no quotes.
 */
export const readAsker = (
  words: string,
  known: Pick<RouteTable, 'profiles' | 'grants'> = { profiles: PROFILES, grants: NO_GRANTS }
):
  | { readonly asker: NamedAsker; readonly complaint?: undefined }
  | { readonly asker?: undefined; readonly complaint: string } => {
  const [, kind, group = '', from = ''] = /^\s*(group|claim):"?(.+?)"?(\s+from\s+[\da-f:.]+)?\s*$/is.exec(words) ?? []
  const name = kind === undefined ? inOneForm(words) : `${kind}:${group}${from}`
  const { asker, complaint } = readWho(kind === undefined ? name : `${kind}:"${group}"${from}`, known)
  return asker === undefined ? { complaint } : { asker: { name, ...asker } }
}

const inOneForm = (words: string): string => {
  const [, client = '', roles = '', area = '', from] =
    /^\s*(client\s)?(.*?)(\swithout\s+area)?(?:\s+from\s+(\S+))?\s*$/s.exec(words) ?? []
  const names = new Set(roles.split(/[\s,+]+/).filter(name => name !== ''))
  return `${client === '' ? '' : 'client '}${[...names].join('+').slice(0, 200)}${area === '' ? '' : ' without area'}${from === undefined ? '' : ` from ${from}`}`
}

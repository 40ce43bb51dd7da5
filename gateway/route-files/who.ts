// Reads WHO in test lines and after `--as`: the kind of person that asks.
import type { Provider } from '../identity.ts'
import type { Asker } from '../routes/decide.ts'
import { type Grant, type Grants, groupKey, namesIn } from '../routes/grants.ts'
import { formatAddress, parseAddress } from '../values/addresses.ts'
import { oncePer } from '../values/bounded-map.ts'
import { dnKey } from '../values/ldap-text.ts'
import { profileName } from '../values/names.ts'
import { whoComplaint } from './hints/test-lines.ts'

/** WHO, without roles. */
const ALONE = ['anonymous', 'unassigned', 'cloud-unassigned'] as const

/** In a line: either in quotes, or up to the arrow. */
export const WHO = String.raw`(?:group|claim):"(?:[^"\\]|\\.)+"|\S(?:.*?\S)?`

const GROUP = /^(group|claim):"((?:[^"\\]|\\.)+)"$/
const WITHOUT_AREA = ' without area'
const CLIENT = 'client '
/** A name in quotes may contain the same words. */
const FROM = /^(.*\S)\s+from\s+([^\s"]+)$/

interface Known {
  readonly profiles: readonly string[]
  readonly grants: Grants
}

type Read =
  | { readonly asker: Asker; readonly complaint?: undefined }
  | { readonly asker?: undefined; readonly complaint: string }

/**
 * `anonymous`, `unassigned` or `cloud-unassigned` (a user of the directory, or of the cloud provider, without profile and
 * area); one or several roles joined by `+` (an assigned directory user), with ` without area` one who has only these;
 * `client ROLE` (a service account); `group:"DN"` and `claim:"VALUE"` (a person in this group only, with what `grants:` give). Each may be
 * followed by ` from ADDRESS`; without it, the address is in no network of any route.
 */
export const readWho = (who: string, known: Known): Read => {
  const [, person = who, from] = FROM.exec(who) ?? []
  const read = readPerson(person, known)
  if (from === undefined || read.asker === undefined) return read
  const address = parseAddress(from)
  return address === undefined
    ? { complaint: `"${from}" is no IP address` }
    : { asker: { ...read.asker, address: formatAddress(address) } }
}

const readPerson = (who: string, { profiles, grants }: Known): Read => {
  if (who === 'anonymous') return { asker: {} }
  if (who === 'unassigned' || who === 'cloud-unassigned') {
    const provider = who === 'unassigned' ? 'ldap' : 'cloudidp'
    return { asker: { user: { profiles: [], accessStatus: 'unassigned', provider } } }
  }
  const [, kind, group = ''] = GROUP.exec(who) ?? []
  if (kind !== undefined) return memberOf(kind === 'group' ? 'ldap' : 'cloudidp', group, grants)
  if (/^(?:group|claim):/.test(who))
    return { complaint: 'a group must be written in quotes, as in group:"CN=Suporte,DC=corp"' }
  const isClient = who.startsWith(CLIENT)
  const hasNoArea = !isClient && who.endsWith(WITHOUT_AREA)
  const roles = who.slice(isClient ? CLIENT.length : 0, hasNoArea ? -WITHOUT_AREA.length : undefined)
  const names = roles.split('+').map(profileName)
  if (!names.every(name => profiles.includes(name))) return { complaint: whoComplaint(roles, ALONE, profiles) }
  const accessStatus = hasNoArea ? 'unassigned' : 'assigned'
  return isClient
    ? { asker: { user: { profiles: names, accessStatus, provider: 'client' }, kind: 'client' } }
    : { asker: { user: { profiles: names, accessStatus, provider: 'ldap' } } }
}

/** A person in one group, to whom nothing is assigned. A claim belongs to the tenant that the grant is for. */
const memberOf = (provider: Provider, group: string, grants: Grants): Read => {
  if (provider === 'ldap' && (dnKey(group) ?? '[]') === '[]')
    return { complaint: `"${group}" is no distinguished name` }
  const key = groupKey(provider, group) ?? ''
  const given = grants.list.filter(grant => grant.provider === provider && keyOf(grant) === key)
  const profiles = namesIn(given, 'profiles')
  const isAssigned = profiles.length > 0 && given.some(({ areas }) => areas.length > 0)
  return { asker: { user: { profiles, accessStatus: isAssigned ? 'assigned' : 'unassigned', provider } } }
}

/** Read once, because each line with a group asks for those of all grants. */
const keyOf = oncePer(({ provider, group }: Grant): string => groupKey(provider, group) ?? '')

// Reads the groups of an account, including nested groups if the directory supports it.
import { DirectoryFailure } from './failure.ts'
import {
  anyOf,
  type Filter,
  type FoundEntry,
  type LdapConnection,
  memberInChain,
  parseFilter
} from './ldap-connection.ts'
import { escapeFilterValue } from './names.ts'
import { allTexts, firstText, isActiveDirectory, spelledUsername } from './person.ts'
import type { DirectoryPlan } from './plan.ts'

const MOST_GROUPS = 2000

export interface GroupsRead {
  /** DNs, as the directory spells them; undefined: unknown. */
  readonly groups?: readonly string[]
  /** Why they could not be read: an error, a missing base, or more than can be read. */
  readonly groupsUnreadable?: DirectoryFailure
}

/** Never throws. */
export const readGroups = async (
  plan: DirectoryPlan,
  connection: LdapConnection,
  entry: FoundEntry,
  username: string
): Promise<GroupsRead> => {
  try {
    return { groups: await findGroups(plan, connection, entry, username) }
  } catch (error) {
    return { groupsUnreadable: connection.failureOf(error) }
  }
}

const findGroups = async (
  plan: DirectoryPlan,
  connection: LdapConnection,
  entry: FoundEntry,
  username: string
): Promise<readonly string[]> => {
  if (plan.groups !== undefined) {
    const { base, filter } = plan.groups
    // A `memberUid` is compared with its case (RFC 2307 §3).
    const names = new Set([username, spelledUsername(entry)].filter(name => name !== ''))
    const filters = [...names].map(name => parseFilter(filter(entry.dn, name)))
    return searchGroups(connection, base, anyOf(...filters), false)
  }
  if (!isActiveDirectory(entry)) return groupsIn(entry)
  const base = await namingContextOf(connection)
  // From a server that only resembles Active Directory.
  if (base === undefined) return groupsIn(entry)
  return searchGroups(connection, base, memberInChain(entry.dn), true)
}

/** AD LDS returns more than 1,500 values in parts, as `memberOf;range=0-1499` (MS-ADTS §3.1.1.3.1.3.3). */
const groupsIn = (entry: FoundEntry): readonly string[] => {
  const isInParts = Object.keys(entry).some(name => /^memberOf;range=/i.test(name))
  if (isInParts) throw new DirectoryFailure('too-many-groups', 'more groups than the directory returns at once')
  return allTexts(entry, 'memberOf')
}

const GROUP_CLASSES = ['group', 'groupOfNames', 'groupOfUniqueNames', 'groupOfURLs', 'posixGroup']
const MOST_NAMED = 100

/** DNs of the groups with this cn. @throws DirectoryFailure */
export const groupsNamed = async (
  plan: DirectoryPlan,
  connection: LdapConnection,
  cn: string
): Promise<readonly string[]> => {
  const classes = GROUP_CLASSES.map(name => `(objectClass=${name})`).join('')
  const filter = parseFilter(`(&(cn=${escapeFilterValue(cn)})(|${classes}))`)
  const base = plan.groups?.base ?? (await namingContextOf(connection)) ?? plan.search?.base ?? ''
  const { entries } = await connection.search(base, { filter, attributes: ['1.1'], most: MOST_NAMED })
  return entries.map(({ dn }) => dn)
}

const searchGroups = async (
  connection: LdapConnection,
  base: string,
  filter: Filter,
  paged: boolean
): Promise<readonly string[]> => {
  const { entries, isCut } = await connection.search(base, { filter, attributes: ['1.1'], most: MOST_GROUPS, paged })
  if (isCut) throw new DirectoryFailure('too-many-groups', `more than ${MOST_GROUPS} groups`)
  return entries.map(({ dn }) => dn)
}

/** Where Active Directory keeps its accounts (MS-ADTS §3.1.1.3.2.5); undefined for other servers. */
export const namingContextOf = async (connection: LdapConnection): Promise<string | undefined> => {
  const { entries } = await connection.search('', { scope: 'base', attributes: ['defaultNamingContext'], binary: true })
  const [root] = entries
  const context = root === undefined ? '' : firstText(root, 'defaultNamingContext')
  return context === '' ? undefined : context
}

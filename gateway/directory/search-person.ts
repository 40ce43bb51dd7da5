// Finds the entry of a name that was typed, and whether that name, or the entry's own, leads to it alone.
import { ACCOUNT_ATTRIBUTES } from './account.ts'
import { type BindOutcome, DirectoryFailure } from './failure.ts'
import {
  anyValue,
  type Filter,
  type FoundEntry,
  type LdapConnection,
  parseFilter,
  type Search
} from './ldap-connection.ts'
import { escapeFilterValue, foldLogin } from './names.ts'
import { firstText, guidBytes, hasStableSubject, isActiveDirectory, PERSON_ATTRIBUTES, usernameOf } from './person.ts'
import type { DirectoryPlan } from './plan.ts'

const ENTRY_ATTRIBUTES = [...PERSON_ATTRIBUTES, ...ACCOUNT_ATTRIBUTES]

/** undefined if nothing matches. @throws DirectoryFailure `ambiguous-entry` if more than one entry matches. */
export const findOne = async (
  connection: LdapConnection,
  base: string,
  filter: NonNullable<Search['filter']>
): Promise<FoundEntry | undefined> => {
  const { entries, isCut } = await connection.search(base, { filter, attributes: ENTRY_ATTRIBUTES, binary: true })
  const [entry, another] = entries
  if (another !== undefined || isCut)
    throw connection.failureOf(new DirectoryFailure('ambiguous-entry', 'more than one entry matches the filter'))
  // A bind under an empty name proves nothing (RFC 4513 §5.1.1).
  return entry?.dn.trim() === '' ? undefined : entry
}

/**
 * Entries with this stable subject. The bytes of an objectGUID go only to servers that have one: others may end the
 * connection at a value that is not UTF-8 (ldap3_proto, in lldap and Kanidm).
 */
export const subjectFilter = async (connection: LdapConnection, base: string, subject: string): Promise<Filter> => {
  const objectGUID = guidBytes(subject) ?? ''
  const isKnown = await connection.search(base, { filter: '(objectGUID=*)', attributes: ['1.1'], most: 1 }).then(
    ({ entries, isCut }) => isCut || entries.length > 0,
    () => true
  )
  return anyValue({ entryUUID: subject, ...(isKnown ? { objectGUID } : {}) })
}

type PersonSearch = NonNullable<DirectoryPlan['search']>

/**
 * What was typed in full is tried first, then without the suffix of LDAP_DOMAIN. A failure if nothing matches, or more
 * than one entry.
 */
export const findTyped = async (
  connection: LdapConnection,
  search: PersonSearch,
  { full, login }: { readonly full: string; readonly login: string }
) => {
  const byFull = await find(connection, search, full)
  // Asked for also when the full name was found: it may be somebody else's, and an unknown name must not take longer.
  const byLogin = login === full ? undefined : await find(connection, search, login)
  const found = byFull ?? byLogin
  if (found === undefined) return new DirectoryFailure('unknown-user', 'no entry matches the filter')
  if (found instanceof DirectoryFailure) return found
  // Without its domain, what was typed finds another.
  const isShared =
    byFull !== undefined && byLogin !== undefined && (byLogin instanceof DirectoryFailure || byLogin.dn !== found.dn)
  const text = byFull === undefined ? login : full
  const isExact = search.comparesWholeValues && !isShared
  const isUsernameUnique = await isOnlyOne(connection, search.base, found)
  const isUsernameOwn = isUsernameUnique || (isExact && usernameOf(found) === text)
  if (!isUsernameOwn && !(await isToldApart(connection, search, found, isExact ? text : undefined)))
    return sharedUsername()
  return { entry: found, text, isExact, isUsernameOwn, isUsernameUnique, isShared }
}

const find = async (
  connection: LdapConnection,
  { base, filter }: PersonSearch,
  text: string
): Promise<FoundEntry | DirectoryFailure | undefined> => {
  try {
    return await findOne(connection, base, filter(text))
  } catch (error) {
    if (error instanceof DirectoryFailure && error.reason === 'ambiguous-entry') return error
    throw error
  }
}

/**
 * Whether an entry can be told from all others: by a stable subject, else by its username, else by the text with which
 * exactly this entry was found. Otherwise one of them would be taken for the other.
 */
export const isToldApart = async (
  connection: LdapConnection,
  search: PersonSearch,
  entry: FoundEntry,
  foundBy: string | undefined
): Promise<boolean> => {
  if (hasStableSubject(entry)) return true
  const username = usernameOf(entry)
  if (username === undefined) {
    if (foundBy === undefined) return false
    const name = escapeFilterValue(foundBy)
    const { entries, isCut } = await entriesWith(connection, search.base, `(|(uid=${name})(sAMAccountName=${name}))`)
    return !isCut && entries.every(({ dn }) => dn === entry.dn)
  }
  if (await isOnlyOne(connection, search.base, entry)) return true
  const byUsername = search.comparesWholeValues ? await find(connection, search, username) : undefined
  return !(byUsername instanceof DirectoryFailure) && byUsername?.dn === entry.dn
}

export const sharedUsername = (bind?: BindOutcome): DirectoryFailure =>
  new DirectoryFailure(
    'shared-username',
    'the entry has no entryUUID or objectGUID that can be read, and another entry has its login too: nothing shows whose login it is',
    bind === undefined ? {} : { bind }
  )

/** Whether nothing more needs to be asked: sAMAccountName is unique (MS-ADTS), and so is what found only this entry. */
export const hasUsernameAlone = (entry: FoundEntry, foundBy: string): boolean =>
  (isActiveDirectory(entry) && firstText(entry, 'sAMAccountName') !== '') || usernameOf(entry) === foundBy

/**
 * The whole names under which Active Directory binds this account: what was bound, its userPrincipalName, and its
 * sAMAccountName with the domain, unless that is the userPrincipalName of another entry, which comes first.
 */
export const boundNames = async (
  plan: DirectoryPlan,
  connection: LdapConnection,
  base: string,
  entry: FoundEntry,
  bound: string
): Promise<readonly string[]> => {
  const principal = foldLogin(firstText(entry, 'userPrincipalName')) ?? bound
  const account = plan.bindName(usernameOf(entry) ?? '')
  const own = new Set([bound, principal])
  if (own.has(account)) return [...own]
  const { entries } = await entriesWith(connection, base, `(userPrincipalName=${escapeFilterValue(account)})`)
  return entries.length === 0 ? [...own, account] : [...own]
}

/** Whether no other entry has its username; false if it has none. */
export const isOnlyOne = async (connection: LdapConnection, base: string, entry: FoundEntry): Promise<boolean> => {
  const username = usernameOf(entry)
  if (username === undefined) return false
  // Unique within a domain (MS-ADTS), but a global catalog shows several.
  const attribute = firstText(entry, 'sAMAccountName') === '' ? 'uid' : 'sAMAccountName'
  const { entries, isCut } = await entriesWith(connection, base, `(${attribute}=${escapeFilterValue(username)})`)
  return entries.length === 1 && !isCut
}

const entriesWith = (connection: LdapConnection, base: string, filter: string) =>
  connection.search(base, { filter, attributes: ['1.1'] })

/**
 * Whether the entry shows that there are no failures, rather than hiding their number: of an attribute that cannot be read, or does not
 * exist, neither a filter nor its opposite is true (RFC 4511 §4.5.1.7), but some servers know true and false alone.
 */
export const showsNoFailure = async (connection: LdapConnection, dn: string): Promise<boolean> => {
  const lacks = async (attribute: string) => {
    const filter = parseFilter(`(!(${attribute}=*))`)
    return (await connection.search(dn, { scope: 'base', filter, attributes: ['1.1'] })).entries.length === 1
  }
  return (await lacks('pwdFailureTime')) && !(await lacks('portariaNoSuchAttribute'))
}

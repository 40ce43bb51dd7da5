// Finds the entry of a name that was typed, and whether that name, or the entry's own, leads to it alone.
import { DirectoryFailure } from './failure.ts'
import { findOne } from './lookup.ts'
import { escapeFilterValue, foldLogin } from './names.ts'
import { firstText, isActiveDirectory, usernameOf } from './person.ts'
import type { DirectoryPlan } from './plan.ts'
import type { DirectorySession, FoundEntry } from './session.ts'

type PersonSearch = NonNullable<DirectoryPlan['search']>

interface TypedEntry {
  readonly entry: FoundEntry
  /** What was inserted into the filter when it was found. */
  readonly text: string
  readonly isExact: boolean
  readonly isUsernameOwn: boolean
  /** No other entry below the base has its username, however it was found. */
  readonly isUsernameUnique: boolean
  /** What was typed with its domain found this entry; without, it finds another. */
  readonly isShared: boolean
}

/**
 * What was typed in full is tried first, then without the suffix of LDAP_DOMAIN. A failure if nothing matches, or more
 * than one entry.
 */
export const findTyped = async (
  session: DirectorySession,
  search: PersonSearch,
  { full, login }: { readonly full: string; readonly login: string }
): Promise<TypedEntry | DirectoryFailure> => {
  const byFull = await find(session, search, full)
  // Asked for also when the full name was found: it may be somebody else's, and an unknown name must not take longer.
  const byLogin = login === full ? undefined : await find(session, search, login)
  const found = byFull ?? byLogin
  if (found === undefined) return new DirectoryFailure('unknown-user', 'no entry matches the filter')
  if (found instanceof DirectoryFailure) return found
  const isShared =
    byFull !== undefined && byLogin !== undefined && (byLogin instanceof DirectoryFailure || byLogin.dn !== found.dn)
  const text = byFull === undefined ? login : full
  const isExact = search.comparesWholeValues && !isShared
  const isUsernameUnique = await isOnlyOne(session, search.base, found)
  const isUsernameOwn = isUsernameUnique || (isExact && usernameOf(found) === text)
  return { entry: found, text, isExact, isUsernameOwn, isUsernameUnique, isShared }
}

const find = async (
  session: DirectorySession,
  { base, filter }: PersonSearch,
  text: string
): Promise<FoundEntry | DirectoryFailure | undefined> => {
  try {
    return await findOne(session, base, filter(text))
  } catch (error) {
    if (error instanceof DirectoryFailure && error.reason === 'ambiguous-entry') return error
    throw error
  }
}

/** Whether nothing more needs to be asked: sAMAccountName is unique (MS-ADTS), and so is what found only this entry. */
export const hasUsernameAlone = (entry: FoundEntry, foundBy: string): boolean =>
  (isActiveDirectory(entry) && firstText(entry, 'sAMAccountName') !== '') || usernameOf(entry) === foundBy

/**
 * The whole names under which Active Directory binds this account: what was bound, its userPrincipalName, and its
 * sAMAccountName with the domain, unless that is the userPrincipalName of another entry, which comes first.
 */
export const boundNames = async (
  plan: DirectoryPlan,
  session: DirectorySession,
  base: string,
  entry: FoundEntry,
  bound: string
): Promise<readonly string[]> => {
  const principal = foldLogin(firstText(entry, 'userPrincipalName')) ?? bound
  const account = plan.bindName(usernameOf(entry) ?? '')
  const own = new Set([bound, principal])
  if (own.has(account)) return [...own]
  const filter = `(userPrincipalName=${escapeFilterValue(account)})`
  const { entries } = await session.search(base, { filter, attributes: ['1.1'] })
  return entries.length === 0 ? [...own, account] : [...own]
}

const isOnlyOne = async (session: DirectorySession, base: string, entry: FoundEntry): Promise<boolean> => {
  const username = usernameOf(entry)
  if (username === undefined) return false
  // Unique within a domain (MS-ADTS), but a global catalog shows several.
  const attribute = firstText(entry, 'sAMAccountName') === '' ? 'uid' : 'sAMAccountName'
  const filter = `(${attribute}=${escapeFilterValue(username)})`
  const { entries, isCut } = await session.search(base, { filter, attributes: ['1.1'] })
  return entries.length === 1 && !isCut
}

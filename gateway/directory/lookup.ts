// Searches for the one entry of a person and its attributes.
import { ACCOUNT_ATTRIBUTES } from './account.ts'
import { DirectoryFailure } from './failure.ts'
import { escapeFilterValue } from './names.ts'
import { firstText, guidBytes, PERSON_ATTRIBUTES } from './person.ts'
import { anyValue, type DirectorySession, type Filter, type FoundEntry, parseFilter, type Search } from './session.ts'

const ENTRY_ATTRIBUTES = [...PERSON_ATTRIBUTES, ...ACCOUNT_ATTRIBUTES]

/** undefined if nothing matches. @throws DirectoryFailure `ambiguous-entry` if more than one entry matches. */
export const findOne = async (
  session: DirectorySession,
  base: string,
  filter: NonNullable<Search['filter']>
): Promise<FoundEntry | undefined> => {
  const { entries, isCut } = await session.search(base, { filter, attributes: ENTRY_ATTRIBUTES, binary: true })
  const [entry, another] = entries
  if (another !== undefined || isCut)
    throw session.failureOf(new DirectoryFailure('ambiguous-entry', 'more than one entry matches the filter'))
  // A bind under an empty name proves nothing (RFC 4513 §5.1.1).
  return entry?.dn.trim() === '' ? undefined : entry
}

/** Where Active Directory keeps its accounts (MS-ADTS §3.1.1.3.2.5); undefined for other servers. */
export const namingContextOf = async (session: DirectorySession): Promise<string | undefined> => {
  const { entries } = await session.search('', { scope: 'base', attributes: ['defaultNamingContext'], binary: true })
  const [root] = entries
  const context = root === undefined ? '' : firstText(root, 'defaultNamingContext')
  return context === '' ? undefined : context
}

/** The account behind a name that Active Directory has bound: an explicit principal name takes precedence. */
export const principalFilters = (login: string, bindName: string): readonly string[] => [
  `(userPrincipalName=${escapeFilterValue(bindName)})`,
  `(sAMAccountName=${escapeFilterValue(login)})`
]

/** Whether the entry shows that there are no failures, rather than hiding their number (RFC 4511 §4.5.1.7). */
export const showsNoFailure = async (session: DirectorySession, dn: string): Promise<boolean> => {
  const filter = parseFilter('(!(pwdFailureTime=*))')
  const { entries } = await session.search(dn, { scope: 'base', filter, attributes: ['1.1'] })
  return entries.length === 1
}

/** Entries with this stable subject, an objectGUID or entryUUID; undefined if it is neither. */
export const subjectFilter = (subject: string): Filter | undefined => {
  const objectGUID = guidBytes(subject)
  return objectGUID === undefined ? undefined : anyValue({ objectGUID, entryUUID: subject })
}

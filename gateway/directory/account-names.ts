// Decides which names prove who somebody is. Links, guards, the audit log and `unlock` use its result; nothing else decides names.

/** How an account was reached: by the name that was bound, or by the text with which its entry was found. */
interface Reached {
  /** As bound, or as inserted into the filter; normalised. */
  readonly text: string
  /** Whether `text` leads to this account and to no other: a whole value, not a piece of one. */
  readonly isExact: boolean
  /** Whether the `username` in the entry leads to this account and to no other. */
  readonly isUsernameOwn: boolean
}

/** What an entry says about its names; each undefined if the attribute cannot be read. */
interface EntryNames {
  /** sAMAccountName, else uid. */
  readonly username: string | undefined
  /** Undefined if the entry has no identifier that never changes. */
  readonly stableSubject: string | undefined
}

/**
 * The subject, the canonical login, and the login attributes of this very entry, which may move a link by login name, and join guards.
 * @param entry undefined: it was not read, so that the login alone is the person, and proves nothing else.
 */
export const accountNames = (entry: EntryNames | undefined, { text, isExact, isUsernameOwn }: Reached) => {
  const username = entry?.username ?? text
  const subject = entry?.stableSubject ?? loginSubject(username)
  if (entry === undefined) return { subject, username, names: [] }
  // An entry that is only known by its login could otherwise take over the person who had its alias as login.
  const provesText = isExact && (entry.stableSubject !== undefined || entry.username === undefined)
  const proven = [...(isUsernameOwn && entry.username !== undefined ? [username] : []), ...(provesText ? [text] : [])]
  return { subject, username, names: [...new Set(proven)] }
}

/** Whether a subject is an entryUUID or an objectGUID in canonical form, rather than a login. */
export const isStable = (subject: string): boolean => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(subject)

/** A login that looks like a stable subject must not be taken for the account that has it. */
export const loginSubject = (login: string): string => (isStable(login) ? `login ${login}` : login)

/**
 * The guard of a login that no entry has. With the part before `@`, because an account that exists has one guard for its
 * uid and its mail: the answers to both must be the same.
 */
export const guardOfUnknown = (login: string): string => {
  const at = login.lastIndexOf('@')
  return at > 0 ? login.slice(0, at) : login
}

/** Letters that NFD leaves whole, and those that Active Directory takes for them. */
const WHOLE: ReadonlyMap<string, string> = new Map(
  Object.entries({ ø: 'o', ł: 'l', đ: 'd', ð: 'd', ħ: 'h', æ: 'ae', œ: 'oe' })
)

/** The guard of a login whose DN may be of Active Directory, which ignores accents (MS-ADTS §3.1.1.2.2.4.13). */
export const guardOfDn = (login: string): string =>
  login
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .replace(/[^\p{ASCII}]/gu, letter => WHOLE.get(letter) ?? letter)

/** Whether a filter compares the login with whole values, not with pieces such as `(mail={{username}}@corp.example)`. */
export const comparesWholeValues = (filter: string): boolean =>
  !filter.replace(/=\s*\{\{username\}\}\s*\)/g, ')').includes('{{username}}')

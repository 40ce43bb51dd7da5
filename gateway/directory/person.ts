// Builds a person from a directory entry: stable subject, name and e-mail.
import { accountNames, isStable } from './account-names.ts'
import { foldLogin } from './names.ts'

export interface DirectoryPerson {
  /** entryUUID or objectGUID in lower-case canonical form, else the canonical login. Never an e-mail. */
  readonly subject: string
  /** displayName, else cn; `''` if the directory has neither. */
  readonly name: string
  readonly email: string
  /** The canonical login: sAMAccountName, else uid, else the login that was bound, in lower case. */
  readonly username: string
  /** The same for every person of the directory: a gateway has one directory, and moving it must not duplicate people. */
  readonly issuer: string
  /** The value that was inserted into the search filter; undefined if no entry was read. */
  readonly login?: string
  /** The login attributes of this very entry, in lower case: these prove whose link or guard is meant. */
  readonly names?: readonly string[]
  /** What its permits count under; undefined: the canonical login. */
  readonly guard?: string
  /** Another entry could be found by what was typed, so that it proved nothing. */
  readonly isNameShared?: boolean
  /** Other entries have the same username. */
  readonly isUsernameShared?: boolean
  /** When the entry was created in the directory. */
  readonly entryCreatedAt?: Date
  /** DNs of the person's groups, as the directory spells them. undefined: unknown. */
  readonly groups?: readonly string[] | undefined
  /** Why the groups could not be read. */
  readonly groupsUnreadable?: Error | undefined
}

const DIRECTORY_ISSUER = 'ldap'

/** The attributes to request in order to identify the person. */
export const PERSON_ATTRIBUTES = [
  'displayName',
  'cn',
  'mail',
  'entryUUID',
  'objectGUID',
  'uid',
  'sAMAccountName',
  'userPrincipalName',
  'msDS-PrincipalName',
  'memberOf',
  'createTimestamp',
  'whenCreated'
] as const

/** An entry as libraries return it: values as text or bytes, one or many, names in any case (RFC 4512 §2.5). */
export type DirectoryEntry = Readonly<Record<string, unknown>>

const MAX_TEXT_LENGTH = 256

/** @param reached how the entry was found; without an entry, what was bound. */
export const personOf = (
  entry: DirectoryEntry | undefined,
  reached: Parameters<typeof accountNames>[1]
): DirectoryPerson => {
  const names = accountNames(entry && { username: usernameOf(entry), stableSubject: subjectOf(entry) }, reached)
  const { subject, username } = names
  if (entry === undefined) return { subject, name: '', email: '', username, issuer: DIRECTORY_ISSUER }
  const displayName = firstText(entry, 'displayName')
  const createdAt =
    generalizedTime(firstText(entry, 'createTimestamp')) ?? generalizedTime(firstText(entry, 'whenCreated'))
  return {
    ...names,
    name: displayName === '' ? firstText(entry, 'cn') : displayName,
    email: firstText(entry, 'mail'),
    issuer: DIRECTORY_ISSUER,
    login: reached.text,
    ...(createdAt === undefined ? {} : { entryCreatedAt: new Date(createdAt) })
  }
}

/** The canonical login of an entry; undefined if it has none that can be read. */
export const usernameOf = (entry: DirectoryEntry): string | undefined => {
  const text = spelledUsername(entry)
  return text === '' ? undefined : (foldLogin(text) ?? text.toLowerCase())
}

/** The same as the entry spells it; `''` if it has none that can be read. */
export const spelledUsername = (entry: DirectoryEntry): string => {
  const accountName = firstText(entry, 'sAMAccountName')
  return accountName === '' ? firstText(entry, 'uid') : accountName
}

/** entryUUID (RFC 4530 §2.1), else objectGUID. */
export const subjectOf = (entry: DirectoryEntry): string | undefined => {
  const uuid = firstText(entry, 'entryUUID').toLowerCase()
  return isStable(uuid) ? uuid : guidOf(entry)
}

/** Whether it has an identifier that never changes. Otherwise its login is the identity. */
export const hasStableSubject = (entry: DirectoryEntry): boolean => subjectOf(entry) !== undefined

/** Whether the entry comes from Active Directory, or from a server that behaves like it. */
export const isActiveDirectory = (entry: DirectoryEntry): boolean => guidOf(entry) !== undefined

/** Active Directory answers WhoAmI with `u:DOMAIN\account`, which msDS-PrincipalName gives for an entry (MS-ADTS). */
export const isSameAccount = (name: string, entry: DirectoryEntry, domain: string | undefined): boolean => {
  const account = name.toLowerCase()
  const principal = firstText(entry, 'msDS-PrincipalName').toLowerCase()
  if (principal !== '') return account === principal
  const label = domain?.toLowerCase().split('.')[0]
  const samAccountName = firstText(entry, 'sAMAccountName').toLowerCase()
  return label !== undefined && samAccountName !== '' && account === `${label}\\${samAccountName}`
}

/** The first value as one line of readable text of at most 256 code points; `''` if there is none. */
export const firstText = (entry: DirectoryEntry, attribute: string): string => {
  // A code point has at most four bytes, so the rest is cut off before anything is processed.
  const text =
    valuesOf(entry, attribute)[0]
      ?.subarray(0, MAX_TEXT_LENGTH * 8)
      .toString('utf8') ?? ''
  // Control characters, line separators, and marks that change the direction of the text that follows.
  const readable = text.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]+/gu, ' ').trim()
  return [...readable].slice(0, MAX_TEXT_LENGTH).join('').trim()
}

/** All values as one line of text each. */
export const allTexts = (entry: DirectoryEntry, attribute: string): string[] =>
  valuesOf(entry, attribute).map(value => value.toString('utf8'))

const guidOf = (entry: DirectoryEntry): string | undefined => {
  const [bytes] = valuesOf(entry, 'objectGUID')
  if (bytes?.length !== 16) return undefined
  return swapped(bytes)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** The 16 bytes of the objectGUID in a subject; undefined if it is not one. */
export const guidBytes = (subject: string): Buffer | undefined =>
  isStable(subject) ? swapped(Buffer.from(subject.replaceAll('-', ''), 'hex')) : undefined

/** The first three groups of an objectGUID are little-endian (MS-DTYP §2.3.4.2). */
const swapped = (bytes: Buffer): Buffer =>
  Buffer.from([3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].map(index => bytes[index] ?? 0))

const valuesOf = (entry: DirectoryEntry, attribute: string): Buffer[] => {
  const key = Object.keys(entry).find(name => name.toLowerCase() === attribute.toLowerCase())
  const values: unknown = key === undefined ? [] : entry[key]
  return (Array.isArray(values) ? values : [values]).flatMap((value: unknown) => {
    if (typeof value === 'string') return [Buffer.from(value)]
    return Buffer.isBuffer(value) ? [value] : []
  })
}

/** GeneralizedTime in UTC or with a numeric offset (RFC 4517 §3.3.13), in ms since the epoch. */
export const generalizedTime = (text: string): number | undefined => {
  const [, year, month, day, hour, minute = '00', second = '00', fraction = '', zone = 'Z'] =
    /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)?(\d\d)?(?:[.,](\d+))?(Z|[+-]\d\d(?:\d\d)?)$/.exec(text) ?? []
  if (year === undefined) return undefined
  const offset = zone === 'Z' ? 'Z' : `${zone.slice(0, 3)}:${zone.length > 3 ? zone.slice(3) : '00'}`
  const at = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${`${fraction}000`.slice(0, 3)}${offset}`)
  return Number.isNaN(at) ? undefined : at
}

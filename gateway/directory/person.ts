// A directory entry has become the person that the gateway knows: stable subject, plain name, e-mail.

export interface DirectoryPerson {
  /** entryUUID or objectGUID in lower-case canonical form, else the normalised login. Never an e-mail. */
  readonly subject: string
  /** displayName, else cn; `''` when the directory does not say. */
  readonly name: string
  readonly email: string
  /** The normalised login. */
  readonly username: string
  /** The same for every directory person: one gateway has one directory, and moving it must not double its people. */
  readonly issuer: string
  /** DNs of the groups that this person is in, as the directory spells them. undefined: not known. */
  readonly groups?: readonly string[] | undefined
}

const DIRECTORY_ISSUER = 'ldap'

/** All that is ever asked of an entry. */
export const ENTRY_ATTRIBUTES = [
  'displayName',
  'cn',
  'mail',
  'entryUUID',
  'objectGUID',
  'sAMAccountName',
  'msDS-PrincipalName'
] as const

type AttributeName = (typeof ENTRY_ATTRIBUTES)[number]

/** An entry as libraries give it: values as text or bytes, one or many, names in any case (RFC 4512 §2.5). */
export type DirectoryEntry = Readonly<Record<string, unknown>>

const MAX_TEXT_LENGTH = 256

export const personOf = (login: string, entry: DirectoryEntry | undefined): DirectoryPerson => {
  if (entry === undefined) return { subject: login, name: '', email: '', username: login, issuer: DIRECTORY_ISSUER }
  const displayName = textOf(entry, 'displayName')
  return {
    subject: uuidOf(entry) ?? guidOf(entry) ?? login,
    name: displayName === '' ? textOf(entry, 'cn') : displayName,
    email: textOf(entry, 'mail'),
    username: login,
    issuer: DIRECTORY_ISSUER
  }
}

/** Active Directory answers WhoAmI with `u:DOMAIN\account`, which msDS-PrincipalName gives for an entry (MS-ADTS). */
export const isSameAccount = (name: string, entry: DirectoryEntry, domain: string | undefined): boolean => {
  const account = name.toLowerCase()
  const principal = textOf(entry, 'msDS-PrincipalName').toLowerCase()
  if (principal !== '') return account === principal
  const label = domain?.toLowerCase().split('.')[0]
  const samAccountName = textOf(entry, 'sAMAccountName').toLowerCase()
  return label !== undefined && samAccountName !== '' && account === `${label}\\${samAccountName}`
}

/** The first value as one line of readable text of at most 256 code points; `''` without one. */
const textOf = (entry: DirectoryEntry, attribute: AttributeName): string => {
  const bytes = bytesOf(entry, attribute)
  if (bytes === undefined) return ''
  // Four bytes a code point at most: what lies beyond is cut before any of it is looked at.
  const text = bytes.subarray(0, MAX_TEXT_LENGTH * 8).toString('utf8')
  // Controls, line separators and marks that turn the direction of what follows.
  const readable = text.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]+/gu, ' ').trim()
  return [...readable].slice(0, MAX_TEXT_LENGTH).join('').trim()
}

/** entryUUID (RFC 4530 §2.1). */
const uuidOf = (entry: DirectoryEntry): string | undefined => {
  const text = textOf(entry, 'entryUUID').toLowerCase()
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text) ? text : undefined
}

/** objectGUID: 16 bytes, the first three groups little-endian (MS-DTYP §2.3.4.2). */
const guidOf = (entry: DirectoryEntry): string | undefined => {
  const bytes = bytesOf(entry, 'objectGUID')
  if (bytes?.length !== 16) return undefined
  const group = (...indices: number[]) => Buffer.from(indices.map(index => bytes[index] ?? 0)).toString('hex')
  return [group(3, 2, 1, 0), group(5, 4), group(7, 6), group(8, 9), group(10, 11, 12, 13, 14, 15)].join('-')
}

const bytesOf = (entry: DirectoryEntry, attribute: AttributeName): Buffer | undefined => {
  const key = Object.keys(entry).find(name => name.toLowerCase() === attribute.toLowerCase())
  const values = key === undefined ? undefined : entry[key]
  const value: unknown = Array.isArray(values) ? values[0] : values
  if (typeof value === 'string') return Buffer.from(value)
  return Buffer.isBuffer(value) ? value : undefined
}

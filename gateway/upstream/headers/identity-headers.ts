// Writes a verified person as the trusted x-user-* header lines that every upstream receives.
import type { User } from '../../identity.ts'
import { oncePer, ownText } from '../../values/bounded-map.ts'

// Printable ASCII except `%`; everything else is percent-encoded as UTF-8.
const UNSAFE = /[^\x20-\x24\x26-\x7e]/gu
const UNSAFE_IN_LIST = /[^\x20-\x24\x26-\x2b\x2d-\x7e]/gu

const percentEncode = (text: string): string =>
  Array.from(Buffer.from(text, 'utf8'), byte => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')

// A lone surrogate has no UTF-8 form; toWellFormed first replaces it with U+FFFD.
const escapeWith = (unsafe: RegExp, text: string): string => {
  const escaped = text.toWellFormed().replace(unsafe, percentEncode)
  // RFC 9112 §5.1: blanks at the ends of a field value are not part of it, so they are encoded in order to survive.
  return escaped.replace(/^ +| +$/g, percentEncode)
}

/** One value: characters outside printable ASCII, `%`, and blanks at the ends, percent-encoded as UTF-8. */
export const encodeValue = (text: string): string => escapeWith(UNSAFE, text)

/** Items joined by `,`; a `,` within an item is percent-encoded too. */
export const encodeList = (items: readonly string[]): string =>
  items.map(item => escapeWith(UNSAFE_IN_LIST, item)).join(',')

/** `[name, value, …]` of all identity headers; '' if there is no value, or no user. */
export const identityFields = (user: User | undefined): string[] => [
  'x-user-id',
  user === undefined ? '' : String(user.id),
  'x-user-name',
  encodeValue(user?.name ?? ''),
  'x-user-email',
  encodeValue(user?.email ?? ''),
  'x-user-username',
  encodeValue(user?.username ?? ''),
  'x-user-provider',
  user?.provider ?? '',
  'x-user-profiles',
  encodeList(user?.profiles ?? []),
  'x-user-areas',
  encodeList(user?.areas ?? []),
  'x-user-area-principal',
  encodeValue(user?.areaPrincipal ?? ''),
  'x-user-access-status',
  user?.accessStatus ?? ''
]

/** The same as text for a request head, each line ending in CRLF; built once per token, as one flat string. */
export const identityHeaderBlock = oncePer((user: User): string => {
  const fields = identityFields(user)
  let lines = ''
  for (let i = 0; i < fields.length; i += 2) if (fields[i + 1] !== '') lines += `${fields[i]}: ${fields[i + 1]}\r\n`
  return ownText(lines)
})

// Writes a verified person as the trusted x-user-* header lines that every upstream receives.
import type { User } from '../../identity.ts'
import { IDENTITY_ATTRIBUTES, type IdentityHeader } from '../../routes/upstream.ts'
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

/** The trusted headers of every upstream: `x-user-id`, …, `x-user-access-status`. */
const IDENTITY_HEADERS: readonly IdentityHeader[] = IDENTITY_ATTRIBUTES.filter(one => one !== 'login').map(
  attribute => ({ name: `x-user-${attribute.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`, attribute })
)

/** '': the person has none. */
const valueFor = (attribute: IdentityHeader['attribute'], user: User): string => {
  if (attribute === 'login') return user.username === '' ? '' : escapeWith(UNSAFE, `${user.provider}:${user.username}`)
  const value = user[attribute]
  if (typeof value !== 'object') return escapeWith(UNSAFE, String(value))
  return value.map(item => escapeWith(UNSAFE_IN_LIST, item)).join(',')
}

/** `[name, value, …]` of all identity headers; '' if there is no value, or no user. */
export const identityFields = (user: User | undefined): string[] =>
  IDENTITY_HEADERS.flatMap(({ name, attribute }) => [name, user === undefined ? '' : valueFor(attribute, user)])

/** Field lines, as one flat string, of the headers for which the person has a value. */
export const identityLines = (headers: readonly IdentityHeader[], user: User): string => {
  const lines = headers.map(({ name, attribute }) => {
    const value = valueFor(attribute, user)
    return value === '' ? '' : `${name}: ${value}\r\n`
  })
  return ownText(lines.join(''))
}

/** Built once per token. */
export const identityHeaderBlock = oncePer((user: User): string => identityLines(IDENTITY_HEADERS, user))

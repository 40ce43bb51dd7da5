// Compares distinguished names as the directory would, in any spelling, and parses search filters (RFC 4515).
import { isUtf8 } from 'node:buffer'

/** One RDN: its attribute-value pairs as `type=value`, normalised and sorted. */
type Rdn = readonly string[]

/** Canonical short names for attribute types that have several spellings (RFC 4514 §3, RFC 4519 §2), by lower-case spelling. */
const TYPE_ALIASES = new Map(
  Object.entries({
    cn: ['commonname', '2.5.4.3'],
    sn: ['surname', '2.5.4.4'],
    c: ['countryname', '2.5.4.6'],
    l: ['localityname', '2.5.4.7'],
    st: ['stateorprovincename', '2.5.4.8'],
    street: ['streetaddress', '2.5.4.9'],
    o: ['organizationname', '2.5.4.10'],
    ou: ['organizationalunitname', '2.5.4.11'],
    dc: ['domaincomponent', '0.9.2342.19200300.100.1.25'],
    uid: ['userid', '0.9.2342.19200300.100.1.1']
  }).flatMap(([name, others]) => others.map(other => [other, name]))
)

/** Whether both are the same name, ignoring case, spacing and escapes (distinguishedNameMatch, RFC 4517 §4.2.15). */
export const isSameDn = (one: string, other: string): boolean => {
  const key = dnKey(one)
  return key !== undefined && key === dnKey(other)
}

/** A text that all spellings of one name share, and no other name does; undefined if the text is not a name. */
export const dnKey = (text: string): string | undefined => {
  const rdns = parseDn(text)
  return rdns === undefined ? undefined : JSON.stringify(rdns)
}

/** The RDNs of a name in normal form (RFC 4514 §3), or undefined if it is not a name. The empty name has no RDN. */
export const parseDn = (text: string): readonly Rdn[] | undefined => {
  if (text.trim() === '') return []
  const rdns: string[][] = [[]]
  let rest = text
  while (true) {
    const pair = PAIR.exec(rest)
    if (pair === null) return undefined
    const value = readValue(pair[2] ?? '')
    if (value === undefined) return undefined
    rdns.at(-1)?.push(`${normaliseType(pair[1] ?? '')}=${value}`)
    rest = rest.slice(pair[0].length)
    if (rest === '') return rdns.map(rdn => rdn.toSorted())
    if (rest.startsWith(',')) rdns.push([])
    rest = rest.slice(1)
  }
}

/** Type, `=`, value up to an unescaped separator. */
const PAIR = /^\s*([A-Za-z][\w-]*|(?:[Oo][Ii][Dd]\.)?\d+(?:\.\d+)*)\s*=((?:[^\\",;+<>\u0000]|\\.)*)(?=[,+]|$)/su

const normaliseType = (type: string): string => {
  const lower = type.toLowerCase().replace(/^oid\./, '')
  return TYPE_ALIASES.get(lower) ?? lower
}

const readValue = (escaped: string): string | undefined => {
  const text = escaped.trimStart()
  if (text.startsWith('#')) return readHexValue(text.trimEnd().slice(1))
  // An escaped blank belongs to the value, but blanks at the ends are ignored when names are compared.
  const bytes: Buffer[] = []
  for (const [piece] of text.matchAll(/\\[0-9A-Fa-f]{2}|\\.|[^\\]+/gsu)) {
    if (/^\\[0-9A-Fa-f]{2}$/.test(piece)) bytes.push(Buffer.from(piece.slice(1), 'hex'))
    else if (!piece.startsWith('\\')) bytes.push(Buffer.from(piece))
    else if (/^\\[ "#+,;<=>\\]$/.test(piece)) bytes.push(Buffer.from(piece.slice(1)))
    else return undefined
  }
  return foldValue(Buffer.concat(bytes))
}

const STRING_TAGS: ReadonlySet<number> = new Set([0x04, 0x0c, 0x13, 0x14, 0x16])

/** `#` and the BER encoding in hex: read as text if it is a short string, otherwise kept as it is. */
const readHexValue = (hex: string): string | undefined => {
  if (!/^(?:[0-9A-Fa-f]{2})+$/.test(hex)) return undefined
  const bytes = Buffer.from(hex, 'hex')
  const isShortString = STRING_TAGS.has(bytes[0] ?? 0) && bytes[1] === bytes.length - 2 && bytes.length < 130
  return isShortString ? foldValue(bytes.subarray(2)) : asHex(bytes)
}

/** No text looks like this: a text begins with no blank. */
const asHex = (bytes: Buffer): string => ` #${bytes.toString('hex')}`

/** RFC 4518 preparation, as far as names of people and places need it. */
const foldValue = (bytes: Buffer): string => {
  if (!isUtf8(bytes)) return asHex(bytes)
  return bytes.toString().normalize('NFKC').toLowerCase().replace(/\s+/g, ' ').trim()
}

export type LdapFilter =
  | { readonly type: 'and'; readonly filters: readonly LdapFilter[] }
  | { readonly type: 'or'; readonly filters: readonly LdapFilter[] }
  | { readonly type: 'not'; readonly filter: LdapFilter }
  | { readonly type: 'present'; readonly attribute: string }
  | { readonly type: 'compare'; readonly operator: Operator; readonly attribute: string; readonly value: Buffer }
  /** `pieces` stand between the asterisks; the first and the last may be empty. */
  | { readonly type: 'substrings'; readonly attribute: string; readonly pieces: readonly Buffer[] }
  /** `attribute` or `rule` is there (RFC 4511 §4.5.1.7.7). */
  | {
      readonly type: 'extensible'
      readonly attribute: string | undefined
      readonly rule: string | undefined
      readonly withDn: boolean
      readonly value: Buffer
    }

type Operator = '=' | '>=' | '<=' | '~='

/** Keywords or numbers, with options such as `;lang-pt` (RFC 4512 §2.5); `_` occurs in Active Directory. */
const DESCRIPTION = '(?:[A-Za-z][\\w-]*|\\d+(?:\\.\\d+)+)(?:;[\\w-]+)*'
const ITEM = new RegExp(
  `^(?:(${DESCRIPTION})(=|>=|<=|~=)|(${DESCRIPTION})?(:dn)?(?::([A-Za-z][\\w-]*|\\d+(?:\\.\\d+)+))?:=)`,
  'i'
)
const VALUE = /^(?:[^\0()\\]|\\[0-9a-f]{2})*/i

class NoFilter extends Error {}

/** The filter, or undefined if the text is not exactly one. */
export const parseLdapFilter = (text: string): LdapFilter | undefined => {
  let rest = text.trim()
  const skip = (length: number) => {
    rest = rest.slice(length).trimStart()
  }
  const take = (character: string) => {
    if (!rest.startsWith(character)) throw new NoFilter()
    skip(1)
  }
  const filter = (): LdapFilter => {
    take('(')
    const found = component()
    take(')')
    return found
  }
  const component = (): LdapFilter => {
    const operator = rest[0]
    if (operator === '!') {
      skip(1)
      return { type: 'not', filter: filter() }
    }
    if (operator !== '&' && operator !== '|') return item()
    skip(1)
    const filters = [filter()]
    while (rest.startsWith('(')) filters.push(filter())
    return { type: operator === '&' ? 'and' : 'or', filters }
  }
  const item = (): LdapFilter => {
    const head = ITEM.exec(rest)
    // A blank after the operator belongs to the value.
    const value = VALUE.exec(rest.slice(head?.[0].length))?.[0] ?? ''
    if (head === null) throw new NoFilter()
    rest = rest.slice(head[0].length + value.length)
    return itemOf(head, value)
  }
  try {
    const parsed = filter()
    return rest === '' ? parsed : undefined
  } catch (error) {
    if (error instanceof NoFilter) return undefined
    throw error
  }
}

const itemOf = ([, attribute = '', operator, matched, dn, rule]: RegExpExecArray, value: string): LdapFilter => {
  if (operator === undefined) {
    if (value.includes('*') || (matched === undefined && rule === undefined)) throw new NoFilter()
    return { type: 'extensible', attribute: matched, rule, withDn: dn !== undefined, value: bytesOf(value) }
  }
  if (operator === '=' && value === '*') return { type: 'present', attribute }
  const pieces = value.split('*')
  if (pieces.length === 1) return { type: 'compare', operator: operator as Operator, attribute, value: bytesOf(value) }
  if (operator !== '=' || pieces.slice(1, -1).includes('')) throw new NoFilter()
  return { type: 'substrings', attribute, pieces: pieces.map(bytesOf) }
}

const bytesOf = (value: string): Buffer =>
  Buffer.concat(
    value
      .split(/(\\[0-9a-f]{2})/i)
      .map(part => (part.startsWith('\\') ? Buffer.from(part.slice(1), 'hex') : Buffer.from(part)))
  )

// Compares distinguished names as the directory would, in any spelling.

/** One RDN: its attribute-value pairs as `type=value`, normalised and sorted. */
type Rdn = readonly string[]

/** Canonical short names for attribute types that have several spellings (RFC 4514 §3, RFC 4519 §2), by lower-case spelling. */
const TYPE_ALIASES: Readonly<Record<string, string>> = {
  commonname: 'cn',
  '2.5.4.3': 'cn',
  surname: 'sn',
  '2.5.4.4': 'sn',
  countryname: 'c',
  '2.5.4.6': 'c',
  localityname: 'l',
  '2.5.4.7': 'l',
  stateorprovincename: 'st',
  '2.5.4.8': 'st',
  streetaddress: 'street',
  '2.5.4.9': 'street',
  organizationname: 'o',
  '2.5.4.10': 'o',
  organizationalunitname: 'ou',
  '2.5.4.11': 'ou',
  domaincomponent: 'dc',
  '0.9.2342.19200300.100.1.25': 'dc',
  userid: 'uid',
  '0.9.2342.19200300.100.1.1': 'uid'
}

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
  return TYPE_ALIASES[lower] ?? lower
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
const foldValue = (bytes: Buffer): string | undefined => {
  const text = decodeUtf8(bytes)
  if (text === undefined) return asHex(bytes)
  return text.normalize('NFKC').toLowerCase().replace(/\s+/g, ' ').trim()
}

const decodeUtf8 = (bytes: Buffer): string | undefined => {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

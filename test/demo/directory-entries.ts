// Makes the demo directory's tree searchable: entries, scopes and filters as in RFC 4511 §4.5.1.
import { createHash } from 'node:crypto'
import { type BerElement, LdapFault, readElements } from '../../gateway/directory/messages.ts'
import { escapeDnValue } from '../../gateway/directory/names.ts'
import { isSameDn, parseDn } from '../../gateway/values/distinguished-names.ts'

export interface DemoPerson {
  readonly username: string
  readonly password: string
  readonly name: string
  readonly email: string
  /** DNs of groups. */
  readonly groups?: readonly string[]
}

/** The route file says what its members may do. */
export const DEMO_GROUP = 'cn=suporte,ou=groups,dc=demo,dc=example'

export interface DemoEntry {
  readonly dn: string
  /** undefined: binding as this entry is impossible. */
  readonly password: string | undefined
  /** Values by attribute name. */
  readonly attributes: Readonly<Record<string, readonly string[]>>
}

const OPERATIONAL = new Set(['entryuuid'])

export const demoEntries = (baseDn: string, people: readonly DemoPerson[]): DemoEntry[] => [
  { dn: baseDn, password: undefined, attributes: { objectClass: ['top', 'domain'], dc: ['demo'] } },
  {
    dn: `ou=people,${baseDn}`,
    password: undefined,
    attributes: { objectClass: ['organizationalUnit'], ou: ['people'] }
  },
  ...people.map(({ username, password, name, email, groups = [] }) => ({
    dn: `uid=${escapeDnValue(username)},ou=people,${baseDn}`,
    password,
    attributes: {
      objectClass: ['top', 'person', 'organizationalPerson', 'inetOrgPerson'],
      uid: [username],
      cn: [name],
      sn: [name.split(' ').at(-1) ?? name],
      displayName: [name],
      mail: [email],
      ...(groups.length === 0 ? {} : { memberOf: groups }),
      entryUUID: [uuidFrom(`${username},${baseDn}`)]
    }
  }))
]

/** The same name has the same UUID (version 8, RFC 9562 §5.8) at every start. */
const uuidFrom = (name: string): string => {
  const hex = createHash('sha256').update(name).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** `scope` as on the wire: 0 base, 1 one level, 2 subtree, 3 subordinates. */
export const isInScope = (dn: string, base: string, scope: number): boolean => {
  const path = parseDn(dn) ?? []
  const basePath = parseDn(base) ?? []
  const depth = path.length - basePath.length
  if (depth < 0 || JSON.stringify(path.slice(depth)) !== JSON.stringify(basePath)) return false
  if (scope === 0) return depth === 0
  if (scope === 1) return depth === 1
  return scope === 2 || depth > 0
}

/** The attributes that a search asked for (RFC 4511 §4.5.1.8): names, `*`, `+`, `1.1`, or all user attributes. */
export const selectAttributes = (
  { attributes }: DemoEntry,
  wanted: readonly string[]
): [string, readonly string[]][] => {
  const names = new Set(wanted.map(name => name.toLowerCase()))
  const wantsUserAttributes = names.size === 0 || names.has('*')
  return Object.entries(attributes).filter(([name]) => {
    const isOperational = OPERATIONAL.has(name.toLowerCase())
    return names.has(name.toLowerCase()) || (isOperational ? names.has('+') : wantsUserAttributes)
  })
}

/** Whether a filter as it came over the wire (RFC 4511 §4.5.1.7) holds; what can't be evaluated does not. */
export const matchesFilter = ({ tag, content }: BerElement, entry: DemoEntry, depth = 0): boolean => {
  if (depth > 20) throw new LdapFault('a filter too deep')
  const inner = (element: BerElement) => matchesFilter(element, entry, depth + 1)
  switch (tag) {
    case 0xa0:
      return readElements(content).every(inner)
    case 0xa1:
      return readElements(content).some(inner)
    case 0xa2:
      return !readElements(content).some(inner)
    case 0x87:
      return valuesOf(entry, content.toString()).length > 0
    case 0xa3:
    case 0xa4:
    case 0xa5:
    case 0xa6:
    case 0xa8:
      return matchesAssertion(tag, readElements(content), entry)
    default:
      return false
  }
}

const matchesAssertion = (tag: number, [type, assertion]: BerElement[], entry: DemoEntry): boolean => {
  if (type === undefined || assertion === undefined) throw new LdapFault('a filter without an assertion')
  const wanted = fold(assertion.content.toString())
  return valuesOf(entry, type.content.toString()).some(value => {
    if (tag === 0xa4) return matchesPieces(value, readElements(assertion.content))
    if (tag === 0xa5) return value >= wanted
    return tag === 0xa6 ? value <= wanted : value === wanted
  })
}

/** Initial [0], any [1] and final [2] pieces, in this order and without overlap. */
const matchesPieces = (value: string, pieces: readonly BerElement[]): boolean => {
  let position = 0
  return pieces.every(({ tag, content }) => {
    const piece = fold(content.toString())
    const at = tag === 0x82 ? value.length - piece.length : value.indexOf(piece, position)
    const fits = at >= position && value.startsWith(piece, at) && (tag !== 0x80 || at === 0)
    position = at + piece.length
    return fits
  })
}

const valuesOf = ({ attributes }: DemoEntry, type: string): string[] =>
  Object.entries(attributes)
    .filter(([name]) => name.toLowerCase() === type.toLowerCase())
    .flatMap(([, values]) => values.map(fold))

const fold = (value: string): string => value.normalize('NFKC').toLowerCase().replace(/\s+/g, ' ').trim()

export const findEntry = (entries: readonly DemoEntry[], dn: string): DemoEntry | undefined =>
  entries.find(entry => isSameDn(entry.dn, dn))

// Parses the text of an LDAP search filter (RFC 4515), with blanks between its parts.

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

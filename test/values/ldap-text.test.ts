// Filters are read as RFC 4515 says, in any spelling, and nothing else is one; which texts are distinguished names, and which
// of them are the same name (RFC 4514, RFC 4517 §4.2.15).
import t from 'tap'
import { dnKey, isSameDn, type LdapFilter, parseDn, parseLdapFilter } from '../../gateway/values/ldap-text.ts'
import { fc } from '../support/worlds.ts'

const escaped = (bytes: Buffer) => [...bytes].map(byte => `\\${byte.toString(16).padStart(2, '0')}`).join('')

const write = (filter: LdapFilter, blank: () => string): string => {
  const inside = (): string => {
    if (filter.type === 'and' || filter.type === 'or') {
      const parts = filter.filters.map(part => write(part, blank)).join(blank())
      return `${filter.type === 'and' ? '&' : '|'}${blank()}${parts}${blank()}`
    }
    if (filter.type === 'not') return `!${blank()}${write(filter.filter, blank)}${blank()}`
    if (filter.type === 'present') return `${filter.attribute}=*`
    if (filter.type === 'compare') return `${filter.attribute}${filter.operator}${escaped(filter.value)}`
    if (filter.type === 'substrings') return `${filter.attribute}=${filter.pieces.map(escaped).join('*')}`
    const { attribute = '', rule, withDn, value } = filter
    return `${attribute}${withDn ? ':dn' : ''}${rule === undefined ? '' : `:${rule}`}:=${escaped(value)}`
  }
  return `(${blank()}${inside()})`
}

const attribute = fc.constantFrom(
  'uid',
  'sAMAccountName',
  'cn;lang-pt',
  '2.5.4.3',
  'o;x-a;lang-en',
  'x-y_z',
  '0.9.2342.1;binary'
)
const rule = fc.constantFrom('caseExactMatch', '1.2.840.113556.1.4.803')
const value = fc.uint8Array({ maxLength: 4 }).map(bytes => Buffer.from(bytes))
const filled = fc.uint8Array({ minLength: 1, maxLength: 4 }).map(bytes => Buffer.from(bytes))
const item: fc.Arbitrary<LdapFilter> = fc.oneof(
  fc.record({ type: fc.constant('present' as const), attribute }),
  fc.record({
    type: fc.constant('compare' as const),
    operator: fc.constantFrom('=' as const, '>=' as const, '<=' as const, '~=' as const),
    attribute,
    value
  }),
  fc
    .tuple(value, fc.array(filled, { maxLength: 2 }), value, attribute)
    .filter(([first, middle, last]) => first.length + middle.length + last.length > 0)
    .map(([first, middle, last, attribute]) => ({
      type: 'substrings' as const,
      attribute,
      pieces: [first, ...middle, last]
    })),
  fc
    .record({
      type: fc.constant('extensible' as const),
      attribute: fc.option(attribute, { nil: undefined }),
      rule: fc.option(rule, { nil: undefined }),
      withDn: fc.boolean(),
      value
    })
    .filter(({ attribute, rule }) => attribute !== undefined || rule !== undefined)
)
const { filter } = fc.letrec<{ filter: LdapFilter }>(tie => ({
  filter: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    item,
    fc.record({ type: fc.constant('not' as const), filter: tie('filter') }),
    fc.record({
      type: fc.constantFrom('and' as const, 'or' as const),
      filters: fc.array(tie('filter'), { minLength: 1, maxLength: 3 })
    }) as fc.Arbitrary<LdapFilter>
  )
}))

t.test('every filter is read as it was written, whatever blanks are between its parts', async t => {
  const blanks = fc.infiniteStream(fc.constantFrom('', '', ' ', '\n  '))
  fc.assert(
    fc.property(filter, blanks, (model, stream) => {
      const blank = () => String(stream.next().value)
      t.same(parseLdapFilter(write(model, blank)), model)
    }),
    { numRuns: 300 }
  )
})

t.test('every prefix of a filter, and what has more in it, is no filter', async () => {
  fc.assert(
    fc.property(filter, model => {
      const text = write(model, () => '')
      for (let end = 0; end < text.length; end++) if (parseLdapFilter(text.slice(0, end)) !== undefined) return false
      return [`${text})`, `(${text}`, `(${text})`, `${text}${text}`, `${text}x`].every(
        more => parseLdapFilter(more) === undefined
      )
    }),
    { numRuns: 200 }
  )
})

t.test('examples of RFC 4515 and of manuals', async t => {
  for (const text of (
    '(cn=Babs Jensen)¦(!(cn=Tim Howes))¦(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))¦' +
    '(o=univ*of*mich*)¦(seeAlso=)¦(cn:caseExactMatch:=Fred Flintstone)¦(cn:=Betty Rubble)¦' +
    '(sn:dn:2.4.6.8.10:=Barney Rubble)¦(o:dn:=Ace Industry)¦(:1.2.3:=Wilma Flintstone)¦' +
    '(:DN:2.4.6.8.10:=Dino)¦(o=Parens R Us \\28for all your parenthetical needs\\29)¦(cn=*\\2A*)¦' +
    '(filename=C:\\5cMyFile)¦(bin=\\00\\00\\00\\04)¦(sn=Lu\\c4\\8di\\c4\\87)¦' +
    '(1.3.6.1.4.1.1466.0=\\04\\02\\48\\69)¦' +
    '(&(objectClass=user)(!(userAccountControl:1.2.840.113556.1.4.803:=2))(sAMAccountName={{username}}))¦' +
    '(memberOf=CN=Suporte,OU=Grupos,DC=corp,DC=example)'
  ).split('¦'))
    t.not(parseLdapFilter(text), undefined, text)
  t.strictSame(parseLdapFilter('(cn= Ana )'), {
    type: 'compare',
    operator: '=',
    attribute: 'cn',
    value: Buffer.from(' Ana ')
  })
  t.strictSame(parseLdapFilter('(cn=ã\\c3\\a9)'), {
    type: 'compare',
    operator: '=',
    attribute: 'cn',
    value: Buffer.from('ãé')
  })
  for (const text of (
    '¦uid=x¦()¦(&)¦(|)¦(!)¦(uid)¦(=x)¦(:=x)¦(:dn:=x)¦(uid=\\q)¦(uid=\\2)¦(uid=a(b)¦(uid=a)b)¦(uid=a**b)¦' +
    '(uid>=a*)¦(uid:=a*)¦({{username}}=x)¦(uid x=y)¦(1=x)¦(2.=x)¦(é=x)¦(uid;=x)¦(uid=x)(mail=x)¦' +
    '(!(a=b)(c=d))¦(&(a=b)c=d)¦(uid=\0)'
  ).split('¦'))
    t.equal(parseLdapFilter(text), undefined, text)
})

t.test('an attribute type has one meaning, as a short name, a long one or a number', async t => {
  const spellings: Readonly<Record<string, readonly string[]>> = {
    cn: ['commonName', '2.5.4.3'],
    sn: ['surname', '2.5.4.4'],
    c: ['countryName', '2.5.4.6'],
    l: ['localityName', '2.5.4.7'],
    st: ['stateOrProvinceName', '2.5.4.8'],
    street: ['streetAddress', '2.5.4.9'],
    o: ['organizationName', '2.5.4.10'],
    ou: ['organizationalUnitName', '2.5.4.11'],
    dc: ['domainComponent', '0.9.2342.19200300.100.1.25'],
    uid: ['userid', '0.9.2342.19200300.100.1.1']
  }
  for (const [name, others] of Object.entries(spellings))
    for (const other of others) {
      t.ok(isSameDn(`${name}=x`, `${other}=x`), other)
      t.ok(isSameDn(`${name}=x`, ` ${other.toUpperCase()} = x`), `${other} in upper case`)
    }
  for (const prefix of ['oid.', 'OID.', 'oId.']) t.ok(isSameDn('cn=x', `${prefix}2.5.4.3=x`), prefix)
  t.ok(isSameDn('10.21.32=x', 'oid.10.21.32=x'), 'a number without a name')
  t.notOk(isSameDn('10.21.32=x', '10.21.33=x'))
  t.notOk(isSameDn('title=x', 'cn=x'))
})

t.test('what is no name is the same as nothing, not even itself', async t => {
  const texts = 'nonsense¦!cn=x¦.cn=x¦cn=x;dc=y¦cn=x+¦,cn=x¦cn¦=x¦cn=a"b¦cn=<x>¦cn=a\0¦1.=x'.split('¦')
  for (const text of [...texts, 'cn=\\z', 'cn=#', 'cn=#zz', 'cn=#z0c0178', 'cn=#0c0178zz', 'cn=#0c017', 'cn=#\\30']) {
    t.equal(dnKey(text), undefined, JSON.stringify(text))
    t.notOk(isSameDn(text, text), JSON.stringify(text))
  }
  for (const empty of ['', '  ']) t.same(parseDn(empty), [], 'the empty name is one')
})

t.test('a value in hexadecimal is the text that it encodes, and otherwise only itself', async t => {
  for (const tag of ['04', '0c', '13', '14', '16']) t.ok(isSameDn(`cn=#${tag}0178`, 'cn=X'), tag)
  const long = 'a'.repeat(127)
  t.ok(isSameDn(`cn=#0c7f${'61'.repeat(127)}`, `cn=${long}`), 'the longest text with a length of one byte')
  const others = {
    'a number': 'cn=#020178',
    'a length beyond the end': 'cn=#0c0278',
    'a length before the end': 'cn=#0c0078',
    'a tag alone': 'cn=#0c',
    'an indefinite length': `cn=#0c80${'61'.repeat(128)}`
  }
  for (const [what, name] of Object.entries(others)) {
    t.ok(isSameDn(name, name.toUpperCase().replace('CN', 'cn ')), what)
    for (const text of ['cn=x', 'cn=', `cn=${long}a`, name.replace('#', '\\#'), 'cn=#020179'])
      t.notOk(isSameDn(name, text), `${what} is not ${text}`)
  }
})

// LD-17
t.test('bytes that are no text are compared as bytes, and are never the text that spells them', async t => {
  t.ok(isSameDn('cn=\\ff', 'cn=\\FF'))
  t.notOk(isSameDn('cn=\\ff', 'cn=\\fe'))
  t.notOk(isSameDn('cn=\\ff', 'cn=\\#ff'))
  t.notOk(isSameDn('cn=\\ff', 'cn=\ufffd'))
})

// One account has one name here, and no name is ever read as DN or filter syntax.
// LD-02, LD-03, LD-04, LD-05, LD-07, LD-17
import { FilterParser } from 'ldapts'
import t from 'tap'
import {
  escapeDnValue,
  escapeFilterValue,
  fillPlaceholders,
  isPlainLogin,
  readLogin
} from '../../gateway/directory/names.ts'
import { isSameDn, parseDn } from '../../gateway/values/ldap-text.ts'
import { words } from '../support/words.ts'
import { fc } from '../support/worlds.ts'

const DOMAIN = 'Corp.Example'

t.test('every spelling of one account leads to one login', async t => {
  const blank = [' maria ', 'corp \\ maria', 'maria @ corp.example']
  const others = words`maria Maria MARIA CORP\maria corp\MARIA maria@corp.example Maria@CORP.Example`
  for (const spelling of [...blank, ...others]) t.same(readLogin(spelling, DOMAIN), { login: 'maria' }, spelling)
  const rows: Record<string, [typed: string, login: string]> = {
    'a decomposed letter is composed': ['joa\u0303o', 'joão'],
    'the Kelvin sign is canonically K': ['\u212aelvin', 'kelvin'],
    'directories fold inner blanks': ['rui  da   silva', 'rui da silva'],
    'so are blanks of other scripts': ['\u1680rui\u1680silva', 'rui silva'],
    'capitals at the end of a word are read as such': ['ΟΔΟΣ', 'οδος'],
    'letters beyond the basic plane': ['\u{10400}', '\u{10428}'],
    'the longest': ['\u{20000}'.repeat(256), '\u{20000}'.repeat(256)],
    'only the last @ begins the domain': ['a@b@corp.example', 'a@b'],
    'only the first backslash ends the domain': ['CORP\\a\\b', 'a\\b'],
    'behind a domain @ is a letter': ['CORP\\maria@other.example', 'maria@other.example']
  }
  for (const [what, [typed, login]] of Object.entries(rows)) t.same(readLogin(typed, DOMAIN), { login }, what)
})

t.test('with a service account the name of another domain is a login in itself, unless it has a backslash', async t => {
  const rows: [typed: string, read: object][] = [
    ['maria@other.example', { login: 'maria@other.example' }],
    ['maria@corp.example', { login: 'maria' }],
    ['CORP\\maria', { login: 'maria' }],
    ['OTHER\\maria', { refusal: 'foreign-domain' }],
    ['OTHER\\maria@corp.example', { refusal: 'foreign-domain' }]
  ]
  for (const [typed, read] of rows) t.same(readLogin(typed, DOMAIN, true), read, typed)
})

t.test('a domain that is not ours is refused', async t => {
  const foreign = words`
    OTHER\maria corp.example\maria \maria maria@corp maria@other.example maria@ a@corp.example@other
  `
  for (const spelling of foreign) t.same(readLogin(spelling, DOMAIN), { refusal: 'foreign-domain' }, spelling)
  for (const empty of ['CORP\\', '@corp.example'])
    t.same(readLogin(empty, DOMAIN), { refusal: 'bad-login-name' }, empty)
  const login = 'maria@other.example'
  t.same(readLogin(login, undefined), { login }, 'without LDAP_DOMAIN @ is a letter')
})

t.test('a spelling that directories may fold in different ways is refused', async t => {
  const ambiguous = {
    'zero-width space': 'boss\u200b',
    'soft hyphen': 'bo\u00adss',
    'Mongolian soft hyphen': 'bo\u1806ss',
    'object replacement character': 'boss\ufffc',
    'byte order mark at the end': 'boss\ufeff',
    'annotation anchor': 'bo\ufff9ss',
    'line separator': 'boss\u2028',
    'paragraph separator': 'bo\u2029ss',
    'letter of private use': 'boss\ue000',
    'letter that is not assigned': 'boss\u0378',
    'right-to-left override': '\u202eboss',
    'invisible Hangul filler': 'boss\u3164',
    'variation selector': 'boss\ufe0f',
    'full-width letters': 'ｂｏｓｓ',
    ligature: 'ﬁn',
    'sharp s': 'straße',
    'dotted capital i': 'İvan',
    'dotless i': 'ıvan',
    'long s': 'bo\u017fs',
    'small sigma at the end': 'οδοσ',
    'no-break space': 'maria\u00a0silva',
    NUL: 'boss\u0000',
    'line feed': 'boss\n',
    'lone surrogate': 'boss\ud800',
    blank: '   ',
    empty: '',
    'too long': 'a'.repeat(257)
  }
  for (const [what, username] of Object.entries(ambiguous)) {
    for (const domain of [DOMAIN, undefined])
      t.same(readLogin(username, domain), { refusal: 'bad-login-name' }, `${what}, ${domain}`)
  }
})

t.test('a login is the same after it was read once', async t => {
  const isStable = (username: string) => {
    const { login } = readLogin(username, undefined)
    return login === undefined || readLogin(login, undefined).login === login
  }
  t.doesNotThrow(() => fc.assert(fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), isStable)))
})

t.test('a value escaped for a DN is read back as one value of one RDN', async t => {
  const dnOf = (value: string) => `uid=${escapeDnValue(value)},ou=people,dc=corp`
  const reference = (value: string) => value.normalize('NFKC').toLowerCase().replace(/\s+/g, ' ').trim()
  const check = (value: string) => {
    const rdns = parseDn(dnOf(value))
    return JSON.stringify(rdns) === JSON.stringify([[`uid=${reference(value)}`], ['ou=people'], ['dc=corp']])
  }
  const known = [
    'a,dc=x',
    'a+uid=b',
    ' lead',
    'trail ',
    ' ',
    '\\ ',
    '#a',
    'a"b',
    'a\\b',
    'a<b>',
    'a;b',
    'a=b',
    'a\0b',
    'a\r\nb',
    'é'
  ]
  for (const value of known) t.ok(check(value), JSON.stringify(value))
  const dnLike = fc.string({ unit: fc.constantFrom(...'a ,+"\\<>;=#\u0000\n*()é😀') })
  fc.assert(
    fc.property(
      fc.oneof(
        dnLike,
        fc.string({ unit: 'binary' }).filter(value => value.isWellFormed())
      ),
      check
    )
  )
})

t.test('a value escaped for a filter is read back as one equality', async t => {
  const check = (value: string) => {
    const filter = FilterParser.parseString(
      fillPlaceholders('(&(objectClass=person)(uid={{username}}))', { username: value }, escapeFilterValue)
    )
    const [, uid] = 'filters' in filter && Array.isArray(filter.filters) ? filter.filters : []
    return uid?.constructor.name === 'EqualityFilter' && uid.attribute === 'uid' && uid.value === value
  }
  for (const value of ['*', '*)(uid=*))(|(uid=*', 'a)(objectClass=*', '\\', 'admin)(&)', 'a\0', '$&', "$'"])
    t.ok(check(value), value)
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', minLength: 1 }).filter(value => value.isWellFormed()),
      check
    )
  )
})

t.test('each character that a DN or a filter reads as syntax is escaped, and no other', async t => {
  const rows: [value: string, inDn: string, inFilter: string][] = [
    ['maria', 'maria', 'maria'],
    ['é😀/@.-_', 'é😀/@.-_', 'é😀/@.-_'],
    ['a  b # c', 'a  b # c', 'a  b # c'],
    ['  a  ', '\\  a \\ ', '  a  '],
    [' ', '\\ ', ' '],
    ['##a#', '\\##a#', '##a#'],
    ['"+,;<>=', '\\"\\+\\,\\;\\<\\>\\=', '"+,;<>='],
    ['\\', '\\\\', '\\5c'],
    ['**()', '**()', '\\2a\\2a\\28\\29'],
    ['\0\n\u001f\u007f', '\\00\\0a\\1f\\7f', '\\00\n\u001f\u007f'],
    ['!~\u0080', '!~\u0080', '!~\u0080']
  ]
  for (const [value, inDn, inFilter] of rows) {
    t.equal(escapeDnValue(value), inDn, JSON.stringify(value))
    t.equal(escapeFilterValue(value), inFilter, JSON.stringify(value))
  }
})

t.test('every placeholder that has a value gets it, escaped, and nothing else changes', async t => {
  const values = { dn: '$&', username: '{{dn}}', '': 'x' }
  const fill = (template: string) => fillPlaceholders(template, values, value => `<${value}>`)
  t.equal(fill('{{username}} {{dn}}{{username}}'), '<{{dn}}> <$&><{{dn}}>')
  for (const kept of ['{{other}}', '{{}}', '{dn}', '{{ dn }}', '{{dn}', 'dn']) t.equal(fill(kept), kept)
})

t.test('a login of letters, digits, dots, underscores and hyphens alone needs no escaping', async t => {
  for (const plain of ['maria', 'A', 'Z9', 'a.b_c-0']) t.ok(isPlainLogin(plain), plain)
  for (const other of ['', 'a b', ' a', 'a ', 'ã', '@a', 'a@', 'a/b', 'a\n', '\\a', 'a\0'])
    t.notOk(isPlainLogin(other), JSON.stringify(other))
})

t.test('the two ways to escape are not interchangeable', async t => {
  t.not(parseDn(`uid=${escapeFilterValue('a,dc=evil')},dc=corp`)?.length, 2, 'filter escaping lets a comma into a DN')
  t.throws(() => FilterParser.parseString(`(uid=${escapeDnValue('a,b')})`), 'DN escaping is nonsense in a filter')
})

t.test('distinguished names are compared as names, not as text', async t => {
  const same: [string, string][] = [
    ['uid=Maria,ou=People,dc=corp', 'UID=maria, OU=people , DC=CORP'],
    ['cn=Silva\\, Rui,dc=corp', 'cn=Silva\\2c Rui,dc=corp'],
    ['cn=a+uid=b,dc=corp', 'uid=B+cn=A,dc=corp'],
    ['cn=Jo\\c3\\a3o,dc=corp', 'cn=joão,dc=corp'],
    ['uid=rui  silva,dc=corp', 'uid=rui silva,dc=corp']
  ]
  const different: [string, string][] = [
    ['CN=Admins,OU=Evil,DC=x', 'CN=Admins,OU=IT,DC=x'],
    ['uid=a\\,dc=corp', 'uid=a,dc=corp'],
    ['uid=a,dc=corp', 'uid=a,dc=corp,dc=example'],
    ['uid=a+cn=b,dc=corp', 'uid=a,cn=b,dc=corp']
  ]
  for (const [one, other] of same) t.ok(isSameDn(one, other), `${one} is ${other}`)
  for (const [one, other] of different) t.notOk(isSameDn(one, other), `${one} is not ${other}`)
})

// Which texts are distinguished names, and which of them are the same name (RFC 4514, RFC 4517 §4.2.15).
import t from 'tap'
import { dnKey, isSameDn, parseDn } from '../../gateway/values/ldap-text.ts'

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

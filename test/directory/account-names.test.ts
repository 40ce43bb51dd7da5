// Which names prove who somebody is: the table of docs/login/active-directory.md, row by row.
// RV-58, RV-59, RV-70, LD-07
import t from 'tap'
import { accountNames, comparesWholeValues, guardOfDn, guardOfUnknown } from '../../gateway/directory/account-names.ts'
import { planOf } from '../../gateway/directory/plan.ts'
import { settingsFor } from '../support/openldap.ts'

const UUID = '00112233-4455-6677-8899-aabbccddeeff'
const entry = { username: 'alpha', stableSubject: UUID }
const names = (text: string, isExact: boolean, isUsernameOwn: boolean) =>
  accountNames(entry, { text, isExact, isUsernameOwn })

t.test('an entry proves its own login, and what found it and nothing else', async t => {
  const same = { subject: UUID, username: 'alpha' }
  t.same(names('alpha', true, true), { ...same, names: ['alpha'] })
  t.same(names('beta@corp.example', true, true), { ...same, names: ['alpha', 'beta@corp.example'] })
  t.same(names('beta', false, true), { ...same, names: ['alpha'] }, 'a piece of a name')
  t.same(names('beta@corp.example', true, false), { ...same, names: ['beta@corp.example'] }, 'two entries have its uid')
  t.same(names('beta', false, false), { ...same, names: [] })
})

t.test('an entry known only by its login proves no alias, which may have been the login of another', async t => {
  const known = { username: 'alpha', stableSubject: undefined }
  const proven = (text: string, isUsernameOwn = true) =>
    accountNames(known, { text, isExact: true, isUsernameOwn }).names
  t.same(proven('alpha'), ['alpha'])
  t.same(proven('beta'), ['alpha'])
  t.same(proven('beta', false), [])
  t.same(accountNames({ ...known, username: undefined }, { text: 'beta', isExact: true, isUsernameOwn: false }).names, [
    'beta'
  ])
})

t.test('without an entry the login is the identity, and never that of a stable subject', async t => {
  const blind = (text: string) => accountNames(undefined, { text, isExact: true, isUsernameOwn: true })
  t.same(blind('alpha'), { subject: 'alpha', username: 'alpha', names: [] })
  t.same(blind(UUID), { subject: `login ${UUID}`, username: UUID, names: [] })
})

t.test('letters that Active Directory takes for others lead to one guard, even if NFD leaves them whole', async t => {
  const letters = ['søren', 'łukasz đorđe', 'ħal', 'ægir', 'œdipe', 'ǿǽ', '李明']
  t.same(letters.map(guardOfDn), ['soren', 'lukasz dorde', 'hal', 'aegir', 'oedipe', 'oae', '李明'])
})

t.test('accents are ignored for a DN template, unless it begins with uid=, whatever follows', async t => {
  const ignores = (userDnTemplate: string) =>
    planOf(settingsFor('ldap://127.0.0.1:1', { userDnTemplate })).mayIgnoreAccents
  t.same(['cn={{username}},dc=corp', 'cn={{username}}.ext,dc=corp'].map(ignores), [true, true])
  t.same(['UID={{username}},dc=corp', 'uid={{username}}.ext,dc=corp'].map(ignores), [false, false])
})

t.test('a name that nobody has shares the guard of its local part', async t => {
  t.same(['u1', 'u1@corp.example', '@corp.example'].map(guardOfUnknown), ['u1', 'u1', '@corp.example'])
})

t.test('a filter that completes the login finds by pieces', async t => {
  for (const whole of ['(uid={{username}})', '(|(uid={{username}})(mail= {{username}} ))'])
    t.ok(comparesWholeValues(whole))
  for (const piece of [
    '(mail={{username}}@corp.example)',
    '(|(uid={{username}})(mail={{username}}@x))',
    '(cn=*{{username}})'
  ])
    t.notOk(comparesWholeValues(piece), piece)
})

// What an entry says of its account: which names prove who it is (the table of docs/login/active-directory.md, row by row), whether
// it is open or locked out, and how many failed binds the directory counts.
// RV-58, RV-59, RV-62, RV-63, RV-70, LD-07, LD-17
import t from 'tap'
import { accountState, directoryCount, isLockedOut } from '../../gateway/directory/account.ts'
import { accountNames, comparesWholeValues, guardOfDn, guardOfUnknown } from '../../gateway/directory/account-names.ts'
import { type DirectoryEntry, generalizedTime, guidBytes } from '../../gateway/directory/person.ts'
import { planOf } from '../../gateway/directory/plan.ts'
import { settingsFor } from '../support/openldap.ts'
import { words } from '../support/words.ts'

const UUID = '00112233-4455-6677-8899-aabbccddeeff'
const alpha = { username: 'alpha', stableSubject: UUID }
const names = (text: string, isExact: boolean, isUsernameOwn: boolean) =>
  accountNames(alpha, { text, isExact, isUsernameOwn })

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

const NOW = Date.UTC(2026, 0, 1, 12)
const WINDOW = 600_000
const entry = (attributes: Record<string, string | string[]> = {}) =>
  ({ dn: 'uid=maria,dc=corp', ...attributes }) as DirectoryEntry
/** 100 ns since 1601, as Active Directory writes times. */
const fileTime = (ms: number) => String((BigInt(ms) + 11_644_473_600_000n) * 10_000n)

t.test('an account is disabled or expired as its directory writes it, and open otherwise', async t => {
  const state = (attributes: Record<string, string>) => accountState(entry(attributes), NOW)
  t.equal(state({}), 'open')
  for (const flags of ['514', '2', '66050']) t.equal(state({ userAccountControl: flags }), 'disabled', flags)
  for (const flags of ['512', '0', 'x', '2.5']) t.equal(state({ userAccountControl: flags }), 'open', flags)
  for (const name of ['nsAccountLock', 'loginDisabled']) {
    for (const yes of ['TRUE', 'true']) t.equal(state({ [name]: yes }), 'disabled', `${name} ${yes}`)
    t.equal(state({ [name]: 'FALSE' }), 'open', name)
  }
  t.equal(state({ accountExpires: fileTime(NOW - 1) }), 'expired')
  t.equal(state({ accountExpires: fileTime(NOW) }), 'expired')
  t.equal(state({ accountExpires: fileTime(NOW + 1) }), 'open')
  for (const never of ['0', '9223372036854775807', '', '-1', 'x', '99999999999999999999'])
    t.equal(state({ accountExpires: never }), 'open', never)
  // slapo-ppolicy (OpenLDAP 2.5)
  t.equal(state({ pwdEndTime: '20260101120000Z' }), 'disabled')
  t.equal(state({ pwdStartTime: '20260101120001Z' }), 'disabled')
  for (const open of ['20260101120000Z', 'x']) t.equal(state({ pwdStartTime: open }), 'open')
  t.equal(state({ pwdAccountLockedTime: '000001010000Z' }), 'disabled')
  t.equal(state({ pwdAccountLockedTime: '20260101115900Z' }), 'open', 'a lock-out, which a stranger can cause')
  t.equal(state({ pwdEndTime: '20260101120001Z' }), 'open')
  t.equal(state({ pwdEndTime: 'x' }), 'open')
})

t.test('a lockout is what the directory computes, or lasts as long as its failures count', async t => {
  const isLocked = (attributes: Record<string, string>) => isLockedOut(entry(attributes), NOW, WINDOW)
  t.equal(isLocked({}), false)
  t.equal(isLocked({ pwdAccountLockedTime: '000001010000Z' }), true)
  t.equal(isLocked({ pwdAccountLockedTime: '20260101115900Z' }), false, 'it may have run out')
  t.equal(isLocked({ 'msDS-User-Account-Control-Computed': '16' }), true)
  t.equal(isLocked({ 'msDS-User-Account-Control-Computed': '8388624' }), true)
  const since = { lockoutTime: fileTime(NOW - WINDOW + 1) }
  t.equal(isLocked({ 'msDS-User-Account-Control-Computed': '0', ...since }), false, 'it has been unlocked')
  t.equal(isLocked(since), true)
  t.equal(isLocked({ lockoutTime: fileTime(NOW - WINDOW) }), false)
  t.equal(isLocked({ lockoutTime: '0' }), false)
})

t.test('failures count until the window after them is over', async t => {
  const count = (attributes: Record<string, string | string[]>) => directoryCount(entry(attributes), NOW, WINDOW)
  t.equal(count({}), undefined, 'the entry does not say')
  const failed = (...agoS: number[]) =>
    agoS.map(ago => `${new Date(NOW - ago * 1000).toISOString().replace(/[-:T]|\.\d+/g, '')}`)
  t.same(count({ pwdFailureTime: failed(700, 100, 50) }), { failures: 2, forgottenInMs: 550_000 })
  t.same(count({ pwdFailureTime: failed(600) }), { failures: 0, forgottenInMs: 0 })
  t.same(count({ pwdFailureTime: failed(100), badPwdCount: '9' }), { failures: 1, forgottenInMs: 500_000 })
  const bad = (number: string, agoMs: number) => ({ badPwdCount: number, badPasswordTime: fileTime(NOW - agoMs) })
  t.same(count(bad('3', 1000)), { failures: 3, forgottenInMs: WINDOW - 1000 })
  t.same(count(bad('3', WINDOW - 1)), { failures: 3, forgottenInMs: 1 })
  for (const none of [bad('3', WINDOW), bad('0', 1000), bad('x', 1000), { badPwdCount: '3' }])
    t.same(count(none), { failures: 0, forgottenInMs: 0 }, JSON.stringify(none))
})

t.test('a directory that never forgets counts all that it holds, whatever its age', async t => {
  const count = (attributes: Record<string, string | string[]>) => directoryCount(entry(attributes), NOW, 0)
  t.same(count({ pwdFailureTime: ['20200101000000Z', '20260101115959Z'] }), {
    failures: 2,
    forgottenInMs: Number.POSITIVE_INFINITY
  })
  t.same(count({ badPwdCount: '4', badPasswordTime: fileTime(0) }), {
    failures: 4,
    forgottenInMs: Number.POSITIVE_INFINITY
  })
  t.equal(isLockedOut(entry({ lockoutTime: fileTime(1) }), NOW, 0), true)
})

t.test('a person of Active Directory is looked up by the bytes of the objectGUID', async t => {
  t.equal(guidBytes('00112233-4455-6677-8899-aabbccddeeff')?.toString('hex'), '33221100554477668899aabbccddeeff')
  for (const login of ['maria', '00112233445566778899aabbccddeeff']) t.equal(guidBytes(login), undefined)
})

t.test('a time of a directory may have an offset, in hours or in minutes too', async t => {
  const at = Date.UTC(2026, 10, 22, 10)
  for (const text of words`
    20261122100000Z 2026112210Z 20261122110000+01 20261122113000+0130 202611220800-0200
  `)
    t.equal(generalizedTime(text), at, text)
  t.equal(generalizedTime('20261122100000.5Z'), at + 500)
  for (const text of ['', '20261122100000', '20261122100000+013', 'x20261122100000Z'])
    t.equal(generalizedTime(text), undefined)
})

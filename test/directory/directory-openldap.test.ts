// People log in against a real OpenLDAP server, and every failure has its true reason in the log and none elsewhere.
// LD-01, LD-03, LD-04, LD-06, LD-07, LD-12, LD-13, LD-14, LD-19, LD-21, LD-23
import { inspect } from 'node:util'
import t from 'tap'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { failureOf } from '../support/ldap-server.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { until } from '../support/until.ts'
import { words } from '../support/words.ts'

const ldap = await startOpenLdap(t)
const directory = createDirectory(ldap.settings())
const WRONG = 'Canario-nao-e-a-senha'

t.test('a person logs in and is known by the subject, name and e-mail of the entry', async t => {
  const maria = await directory.authenticate('maria', ldap.password)
  t.match(maria, { name: 'Maria da Silva', email: 'maria@corp.example', username: 'maria', issuer: 'ldap' })
  t.match(maria.subject, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'entryUUID')
  const carlos = await directory.authenticate('carlos', ldap.password)
  t.equal(carlos.name, 'Carlos Lima', 'cn where there is no displayName')
  t.match(await directory.authenticate('João', ldap.password), { name: 'João Gonçalves 李', username: 'joão' })
})

// RV-91
t.test('a filter may have blanks between its parts, options, attribute numbers, letters beyond ASCII', async t => {
  const filters = [
    '(& (objectClass=inetOrgPerson) (uid={{username}}) )',
    '(|(cn;lang-pt={{username}})(uid={{username}}))',
    '( 0.9.2342.19200300.100.1.1={{username}})',
    '(&(uid={{username}})(!(sn:caseIgnoreMatch:=Nobody))(sn=*)(mail=m*ia@*)(createTimestamp>=20000101000000Z))',
    '(&(uid={{username}})(cn=Jo\\c3\\a3o*))',
    '(&(uid={{username}})(cn=João*))'
  ]
  for (const searchFilter of filters) {
    const ours = createDirectory(ldap.settings({ searchBase: 'dc=corp,dc=example', searchFilter }))
    const login = searchFilter.includes('cn=Jo') ? 'João' : 'maria'
    t.equal((await ours.authenticate(login, ldap.password)).username, login.toLowerCase(), searchFilter)
  }
})

t.test('names full of DN and filter syntax belong to exactly their owner', async t => {
  for (const login of ['silva, rui', 'a+b', 'o"neil', '#hash <x>; y=z', 'star*(1)']) {
    t.equal((await directory.authenticate(login, ldap.password)).username, login)
  }
  for (const login of words`
    * maria* maria)(uid=* *)(uid=*))(|(uid=* maria,ou=people x,uid=maria a+uid=maria \2a
  `)
    t.match(await failureOf(directory.authenticate(login, ldap.password)), { reason: 'invalid-credentials' }, login)
})

t.test('an empty, blank or impossible password never reaches the directory', async t => {
  for (const password of ['', ' ', '\u0000', 'x\u0000y']) {
    const failure = await failureOf(directory.authenticate('maria', password))
    t.match(failure, { reason: 'bad-password', bind: 'unsent', countsAsBind: false }, JSON.stringify(password))
  }
})

t.test('exactly one entry must match, and it must be the one that was bound', async t => {
  t.match(await failureOf(directory.authenticate('twin', ldap.password)), {
    reason: 'ambiguous-entry',
    bind: 'accepted'
  })

  const admins = createDirectory(ldap.settings({ searchFilter: '(&(uid={{username}})(mail=carlos@*))' }))
  t.match(await admins.authenticate('carlos', ldap.password), { username: 'carlos' })
  t.match(await failureOf(admins.authenticate('maria', ldap.password)), { reason: 'no-entry', countsAsBind: true })

  const elsewhere = createDirectory(ldap.settings({ searchBase: `ou=contractors,${ldap.baseDn}` }))
  t.match(await failureOf(elsewhere.authenticate('twin', ldap.password)), { reason: 'foreign-entry' }, 'a namesake')

  const fixed = createDirectory(ldap.settings({ searchFilter: '(uid=carlos)' }))
  t.match(await failureOf(fixed.authenticate('maria', ldap.password)), { reason: 'foreign-entry' })

  const absent = createDirectory(ldap.settings({ searchBase: `ou=nowhere,${ldap.baseDn}` }))
  t.match(await failureOf(absent.authenticate('maria', ldap.password)), { reason: 'no-entry' }, 'base does not exist')
})

t.test('without a search base the login alone is the person', async t => {
  const unsearched = createDirectory(ldap.settings({ searchBase: undefined }))
  const person = { subject: 'maria', name: '', email: '', username: 'maria', issuer: 'ldap', guard: 'maria' }
  t.same(await unsearched.authenticate('Maria', ldap.password), person)
})

t.test('settings that can work for no one are refused at once', async t => {
  t.throws(() => createDirectory(ldap.settings({ searchFilter: '(&(uid={{username}})' })), 'a broken filter')
  t.throws(() => createDirectory(ldap.settings({ userDnTemplate: undefined })), 'neither template nor domain')
})

t.test('a name that is bound without escaping is limited to plain characters', async t => {
  const upn = createDirectory(ldap.settings({ userDnTemplate: undefined, domain: 'corp.example' }))
  for (const login of ['a b', 'joão', 'a,b', 'a*', 'a/b', 'a"b']) {
    t.match(await failureOf(upn.authenticate(login, 'x')), { reason: 'bad-login-name', bind: 'unsent' }, login)
    t.equal(upn.normaliseLogin(login), undefined)
  }
  const bare = createDirectory(ldap.settings({ userDnTemplate: '{{username}}' }))
  for (const login of ['EXTERNAL', 'plain', 'Digest-MD5', 'SCRAM-SHA-1']) {
    t.match(await failureOf(bare.authenticate(login, 'x')), { reason: 'bad-login-name', bind: 'unsent' }, login)
  }
})

t.test('a hundred people log in at once, and no connection is left open', async t => {
  const patient = createDirectory(ldap.settings({ timeoutMs: 60_000 }))
  const refused = Array.from({ length: 25 }, () => failureOf(patient.authenticate('maria', WRONG)))
  const accepted = Array.from({ length: 75 }, (_, n) => ['maria', 'carlos', 'ana'][n % 3] ?? '').map(async username =>
    t.match(await patient.authenticate(username, ldap.password), { username })
  )
  for (const failure of await Promise.all(refused)) t.match(failure, { bind: 'refused', countsAsBind: true })
  await Promise.all(accepted)
  await until(async () => (await ldap.connectionCount()) === 0, 'the server itself counts none')
})

t.test('a password is in no error, whatever happens', async t => {
  const failures = [
    await failureOf(directory.authenticate('maria', WRONG)),
    await failureOf(directory.authenticate('nobody', WRONG)),
    await failureOf(createDirectory(ldap.settings({ url: 'ldap://127.0.0.1:1' })).authenticate('maria', WRONG))
  ]
  for (const failure of failures) {
    t.notMatch(inspect(failure, { depth: 20, showHidden: true }), WRONG)
    t.notMatch(JSON.stringify(failure), WRONG)
  }
})

// LD-12
t.test('people who may read nothing but themselves log in all the same, and no reason says who is known', async t => {
  const strict = await startOpenLdap(t, { readable: 'self' })
  const people = createDirectory(strict.settings())
  for (const closed of [people, directory])
    for (const login of ['maria', 'nobody'])
      t.match(await failureOf(closed.authenticate(login, WRONG)), { reason: 'invalid-credentials', bind: 'refused' })
  t.match(await people.authenticate('maria', strict.password), { name: 'Maria da Silva' })
  t.match(await people.authenticate('twin', strict.password), { username: 'twin' }, 'the namesake is invisible')
})

t.test("the server's own lock-out closes an account after its threshold, until it is unlocked", async t => {
  const strict = await startOpenLdap(t, { lockoutThreshold: 3 })
  const people = createDirectory(strict.settings(), { failureFloorMs: 0 })
  for (const attempt of [1, 2, 3]) {
    await failureOf(people.authenticate('maria', WRONG))
    t.equal(await strict.failureCount('maria'), attempt)
  }
  t.match(await failureOf(people.authenticate('maria', strict.password)), { reason: 'account-locked', bind: 'refused' })
  await strict.unlock('maria')
  t.match(await people.authenticate('maria', strict.password), { username: 'maria' })
})

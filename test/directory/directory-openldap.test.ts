// People log in against a real OpenLDAP server, and every failure has its true reason in the log and none elsewhere.
// LD-01, LD-03, LD-04, LD-06, LD-07, LD-12, LD-13, LD-14, LD-19, LD-21, LD-23
import { inspect } from 'node:util'
import t from 'tap'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { until } from '../support/until.ts'

const ldap = await startOpenLdap(t)
const directory = createDirectory(ldap.settings())
const WRONG = 'Canario-nao-e-a-senha'

const failureOf = async (login: Promise<unknown>): Promise<DirectoryFailure> => {
  const error = await login.then(
    () => new Error('the login succeeded'),
    (reason: unknown) => reason
  )
  if (error instanceof DirectoryFailure) return error
  throw error
}

/** Resolves when the server itself counts no connection of ours. */
const noConnectionLeft = async () => {
  await until(async () => (await ldap.connectionCount()) === 0)
}

t.test('a person logs in and is known by the subject, name and e-mail of the entry', async t => {
  const maria = await directory.authenticate('maria', ldap.password)
  t.match(maria, { name: 'Maria da Silva', email: 'maria@corp.example', username: 'maria', issuer: 'ldap' })
  t.match(maria.subject, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'entryUUID')
  const carlos = await directory.authenticate('carlos', ldap.password)
  t.equal(carlos.name, 'Carlos Lima', 'cn where there is no displayName')
  const joao = await directory.authenticate('João', ldap.password)
  t.match(joao, { name: 'João Gonçalves 李', username: 'joão' })
})

// RV-91
t.test('a filter may have blanks between its parts, options, and numbers of attributes', async t => {
  const filters = [
    '(& (objectClass=inetOrgPerson) (uid={{username}}) )',
    '(|(cn;lang-pt={{username}})(uid={{username}}))',
    '( 0.9.2342.19200300.100.1.1={{username}})',
    '(&(uid={{username}})(!(sn:caseIgnoreMatch:=Nobody))(sn=*)(mail=m*ia@*)(createTimestamp>=20000101000000Z))',
    '(&(uid={{username}})(cn=Jo\\c3\\a3o*))'
  ]
  for (const [index, searchFilter] of filters.entries()) {
    const ours = createDirectory(ldap.settings({ searchBase: 'dc=corp,dc=example', searchFilter }))
    const login = index === filters.length - 1 ? 'João' : 'maria'
    t.equal((await ours.authenticate(login, ldap.password)).username, login.toLowerCase(), searchFilter)
  }
})

t.test('all spellings of a name are one person', async t => {
  const ours = createDirectory(ldap.settings({ domain: 'corp.example' }))
  const { subject } = await ours.authenticate('maria', ldap.password)
  for (const spelling of ['MARIA', ' maria ', 'CORP\\maria', 'Maria@Corp.Example']) {
    t.match(await ours.authenticate(spelling, ldap.password), { subject, username: 'maria' }, spelling)
    t.equal(ours.normaliseLogin(spelling), 'maria')
  }
  for (const spelling of ['OTHER\\maria', 'maria@other.example']) {
    const failure = await failureOf(ours.authenticate(spelling, ldap.password))
    t.match(failure, { reason: 'foreign-domain', bind: 'unsent', countsAsBind: false }, spelling)
    t.equal(ours.normaliseLogin(spelling), undefined)
  }
})

t.test('names full of DN and filter syntax belong to exactly their owner', async t => {
  for (const login of ['silva, rui', 'a+b', 'o"neil', '#hash <x>; y=z', 'star*(1)']) {
    const person = await directory.authenticate(login, ldap.password)
    t.equal(person.username, login)
  }
  const injections = [
    '*',
    'maria*',
    'maria)(uid=*',
    '*)(uid=*))(|(uid=*',
    'maria,ou=people',
    'x,uid=maria',
    'a+uid=maria',
    '\\2a'
  ]
  for (const login of injections) {
    t.match(await failureOf(directory.authenticate(login, ldap.password)), { reason: 'invalid-credentials' }, login)
  }
})

t.test('an empty, blank or impossible password never reaches the directory', async t => {
  for (const password of ['', ' ', '\u0000', 'x\u0000y', 'x'.repeat(1025)]) {
    const failure = await failureOf(directory.authenticate('maria', password))
    t.match(
      failure,
      { reason: 'bad-password', bind: 'unsent', countsAsBind: false },
      JSON.stringify(password.slice(0, 5))
    )
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

t.test('a filter may hold letters beyond ASCII, as they are or escaped', async t => {
  for (const name of ['João*', 'Jo\\c3\\a3o*']) {
    const people = createDirectory(ldap.settings({ searchFilter: `(&(uid={{username}})(cn=${name}))` }))
    t.match(await people.authenticate('joão', ldap.password), { username: 'joão' }, name)
  }
})

t.test('without a search base the login alone is the person', async t => {
  const unsearched = createDirectory(ldap.settings({ searchBase: undefined }))
  const person = { subject: 'maria', name: '', email: '', username: 'maria', issuer: 'ldap' }
  t.same(await unsearched.authenticate('Maria', ldap.password), person)
})

t.test('a login that was given to somebody else is somebody else', async t => {
  const dn = await ldap.addPerson({ uid: 'novo', password: 'Primeira-1', displayName: 'Primeira Pessoa' })
  const first = await directory.authenticate('novo', 'Primeira-1')
  await ldap.remove(dn)
  t.match(await failureOf(directory.authenticate('novo', 'Primeira-1')), { reason: 'invalid-credentials' })
  await ldap.addPerson({ uid: 'novo', password: 'Segunda-2', displayName: 'Segunda Pessoa' })
  const second = await directory.authenticate('novo', 'Segunda-2')
  t.equal(second.username, first.username)
  t.not(second.subject, first.subject)
})

t.test('a locked account is refused, and the log can tell', async t => {
  t.match(await failureOf(directory.authenticate('locked', ldap.password)), {
    reason: 'account-locked',
    bind: 'refused'
  })
  await ldap.unlock('locked')
  t.match(await directory.authenticate('locked', ldap.password), { username: 'locked' })
  await ldap.lock('locked')
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

t.test('an unknown user, a wrong password and a locked account take the same time', async t => {
  const attempts = { unknown: ['nobody', WRONG], wrong: ['maria', WRONG], locked: ['locked', ldap.password] } as const
  const measure = async (kind: keyof typeof attempts) => {
    const startedAt = performance.now()
    const [username, password] = attempts[kind]
    await failureOf(directory.authenticate(username, password))
    return performance.now() - startedAt
  }
  const times = await undisturbed(15, async () => {
    const taken = { unknown: [] as number[], wrong: [] as number[], locked: [] as number[] }
    for (let round = 0; round < 3; round++) {
      // Side by side, so that what else the machine does hits all of them alike; not so many that they wait for a core.
      const some = Array.from({ length: 5 }, () => [measure('unknown'), measure('wrong'), measure('locked')])
      for (const [unknown = 0, wrong = 0, locked = 0] of await Promise.all(some.map(each => Promise.all(each)))) {
        taken.unknown.push(unknown)
        taken.wrong.push(wrong)
        taken.locked.push(locked)
      }
    }
    return taken
  })
  const median = (values: number[]) => values.toSorted((a, b) => a - b)[7] ?? 0
  for (const known of [times.wrong, times.locked]) t.ok(Math.abs(median(known) - median(times.unknown)) < 25)
})

t.test('a hundred people log in at once, and no connection is left open', async t => {
  const patient = createDirectory(ldap.settings({ timeoutMs: 60_000 }))
  const logins = Array.from({ length: 100 }, (_, index) =>
    index % 4 === 3
      ? failureOf(patient.authenticate('maria', WRONG))
      : patient.authenticate(['maria', 'carlos', 'ana'][index % 4] ?? '', ldap.password)
  )
  const outcomes = await Promise.all(logins)
  outcomes.forEach((outcome, index) => {
    t.match(
      outcome,
      index % 4 === 3 ? { bind: 'refused', countsAsBind: true } : { username: ['maria', 'carlos', 'ana'][index % 4] }
    )
  })
  await noConnectionLeft()
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

t.test('people who may read nothing but themselves log in all the same', async t => {
  const strict = await startOpenLdap(t, { readable: 'self' })
  const people = createDirectory(strict.settings())
  t.match(await people.authenticate('maria', strict.password), { name: 'Maria da Silva' })
  t.match(await people.authenticate('twin', strict.password), { username: 'twin' }, 'the namesake is invisible')
})

t.test("the server's own lock-out closes an account after its threshold", async t => {
  const strict = await startOpenLdap(t, { lockoutThreshold: 3 })
  const people = createDirectory(strict.settings(), { failureFloorMs: 0 })
  for (const attempt of [1, 2, 3]) {
    await failureOf(people.authenticate('maria', WRONG))
    t.equal(await strict.failureCount('maria'), attempt)
  }
  t.match(await failureOf(people.authenticate('maria', strict.password)), { reason: 'account-locked' })
})

t.test('a directory that is stopped or frozen fails in time, and works again afterwards', async t => {
  const patience = createDirectory(ldap.settings({ timeoutMs: 300 }))
  ldap.freeze()
  const ownTimeMs = measureOwnTime()
  const frozen = await failureOf(patience.authenticate('maria', ldap.password))
  t.match(frozen, { reason: 'directory-timeout', bind: 'unanswered', countsAsBind: true })
  t.ok(ownTimeMs() < 1000, 'within LDAP_TIMEOUT_MS')
  ldap.thaw()
  await noConnectionLeft()

  await ldap.stop()
  const stopped = await failureOf(patience.authenticate('maria', ldap.password))
  t.match(stopped, { reason: 'directory-unreachable', bind: 'unsent', countsAsBind: false })

  await ldap.start()
  t.match(await directory.authenticate('maria', ldap.password), { username: 'maria' })
})

// LD-12
t.test('no reason says whether a person is known, whoever may read entries', async t => {
  for (const readable of ['all', 'self'] as const) {
    const closed = await startOpenLdap(t, { readable })
    const hidden = createDirectory(closed.settings())
    for (const login of ['maria', 'nobody']) {
      const failure = await failureOf(hidden.authenticate(login, WRONG))
      t.match(failure, { reason: 'invalid-credentials', bind: 'refused' }, `${login}, ${readable}`)
    }
  }
})

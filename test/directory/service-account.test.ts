// A service account finds the entry of whatever name was typed, then the person is bound by its DN. Which entry that is, with and
// without LDAP_DOMAIN, is generated in test/fuzz/people.test.ts.
// LD-03, LD-04, LD-06, LD-07, LD-08, LD-12, LD-17, LD-19, LD-20
import { isUtf8 } from 'node:buffer'
import t from 'tap'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import { type BerElement, readElements } from '../../gateway/directory/messages.ts'
import { guidBytes } from '../../gateway/directory/person.ts'
import { createServiceAccount } from '../../gateway/directory/service-account.ts'
import { disconnection, entry, failureOf, partOf, REQUEST, result, startLdapServer } from '../support/ldap-server.ts'
import { only } from '../support/only.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { dnOf } from '../support/openldap-people.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { until } from '../support/until.ts'

const ldap = await startOpenLdap(t, { readable: 'self', lockoutThreshold: 5 })
const directory = createDirectory(ldap.serviceSettings(), { failureFloorMs: 0 })
const WRONG = 'nao-e-a-senha'

t.test('every name that the filter takes leads to the one person', async t => {
  const { subject } = await directory.authenticate('maria', ldap.password)
  t.match(subject, /^[0-9a-f]{8}-/, 'entryUUID')
  for (const name of ['maria', 'MARIA', 'maria@corp.example', ' Maria@Corp.Example ']) {
    const person = await directory.authenticate(name, ldap.password)
    t.match(person, { subject, username: 'maria', name: 'Maria da Silva', groups: only() }, name)
  }
  t.same((await directory.authenticate('maria@corp.example', ldap.password)).names, ['maria', 'maria@corp.example'])
})

t.test('two entries, none, and a wrong password all cost a bind and are told apart in the log only', async t => {
  const outcomes = {
    twin: 'ambiguous-entry',
    nobody: 'unknown-user',
    maria: 'wrong-password',
    locked: 'account-locked'
  }
  for (const [name, reason] of Object.entries(outcomes))
    t.match(await failureOf(directory.authenticate(name, WRONG)), { reason, bind: 'refused', countsAsBind: true }, name)
})

t.test('an account that is disabled or expired may not log in, although its password is right', async t => {
  const own = createDirectory(ldap.settings({ startTls: false }), { failureFloorMs: 0 })
  for (const [attribute, value, reason] of [
    ['userAccountControl', '514', 'account-disabled'],
    ['accountExpires', '116444736000000000', 'account-expired']
  ] as const) {
    await ldap.replace(dnOf({ uid: 'carlos' }), attribute, [value])
    for (const logins of [directory, own])
      t.match(await failureOf(logins.authenticate('carlos', ldap.password)), { reason, bind: 'accepted' }, reason)
    t.match(await failureOf(directory.authenticate('carlos', WRONG)), { reason: 'wrong-password', bind: 'refused' })
    await ldap.replace(dnOf({ uid: 'carlos' }), attribute, [])
    t.match(await own.authenticate('carlos', ldap.password), { username: 'carlos' })
  }
})

t.test('groups come from memberOf, or from a search below LDAP_GROUP_BASE', async t => {
  const people = `ou=people,${ldap.baseDn}`
  const group = `cn=Finanças,ou=groups,${ldap.baseDn}`
  await ldap.add(`ou=groups,${ldap.baseDn}`, { objectClass: 'organizationalUnit', ou: 'groups' })
  const member = [`uid=maria,${people}`, `uid=ana,${people}`]
  await ldap.add(group, { objectClass: 'groupOfNames', cn: 'Finanças', member })
  t.same((await directory.authenticate('maria@corp.example', ldap.password)).groups, [group])
  const searched = createDirectory(ldap.serviceSettings({ groupBase: `ou=groups,${ldap.baseDn}` }))
  t.same((await searched.authenticate('ana', ldap.password)).groups, [group])
  t.same((await searched.authenticate('carlos', ldap.password)).groups, [])
  const named = createDirectory(
    ldap.serviceSettings({
      groupBase: ldap.baseDn,
      groupFilter: '(&(objectClass=groupOfNames)(member=uid={{username}},ou=people,*))'
    })
  )
  t.same((await named.authenticate('ana', ldap.password)).groups, [], 'a filter that matches nothing')
  const absent = createDirectory(ldap.serviceSettings({ groupBase: `ou=nowhere,${ldap.baseDn}` }))
  t.equal((await absent.authenticate('ana', ldap.password)).groups, undefined, 'not known, rather than none')
})

t.test('groups that list logins with their case, as memberUid does, have a person whose uid has capitals', async t => {
  await ldap.addPerson({ uid: 'JSilva', mail: 'j.silva@corp.example', password: ldap.password })
  const listing = async (login: string, n: number) => {
    const group = `cn=listing ${n},ou=groups,${ldap.baseDn}`
    const objectClass = ['groupOfNames', 'extensibleObject']
    await ldap.add(group, { objectClass, cn: `listing ${n}`, member: ldap.baseDn, labeledURI: login })
    return group
  }
  const [spelled, lower] = [await listing('JSilva', 1), await listing('jsilva', 2), await listing('JSILVA', 3)]
  const searched = createDirectory(
    ldap.serviceSettings({ groupBase: `ou=groups,${ldap.baseDn}`, groupFilter: '(labeledURI={{username}})' })
  )
  t.same((await searched.authenticate('jsilva', ldap.password)).groups, [spelled, lower])
})

t.test('a person is looked up again by the stable subject', async t => {
  const { subject, login = '' } = await directory.authenticate('carlos', ldap.password)
  const account = { subject, login }
  t.same(await directory.lookUp(account), { state: 'open', groups: [] })
  const elsewhere = createDirectory(ldap.serviceSettings({ searchFilter: '(&(uid={{username}})(mail=ana@*))' }))
  t.same(await elsewhere.lookUp(account), { state: 'gone' }, 'the filter matches no more')
  t.same(await directory.lookUp({ subject, login: 'renamed' }), { state: 'open', groups: [] }, 'found by its new name')
  t.same(await directory.lookUp({ subject: '00000000-0000-4000-8000-000000000000', login }), { state: 'gone' })
  const absent = createDirectory(ldap.serviceSettings({ searchBase: `ou=nowhere,${ldap.baseDn}` }))
  t.match(await failureOf(absent.lookUp(account)), { reason: 'no-entry' }, 'a missing base says nothing of the person')
})

/** Descriptions and values; bit 6 marks what consists of others (X.690 §8.1.2.5). */
const textsIn = ({ tag, content }: BerElement): Buffer[] =>
  (tag & 0x20) === 0 ? [content] : readElements(content).flatMap(textsIn)

t.test(
  'a person is looked up again by the bytes of an objectGUID, but not at servers that take none, such as lldap',
  async t => {
    const [subject, base] = ['f0e1d2c3-0000-4000-8000-000000000001', 'dc=corp']
    const bytes = guidBytes(subject) ?? Buffer.alloc(0)
    for (const [own, isTheirs] of [
      [{ entryUUID: [subject] }, (filter: Buffer) => filter.includes(subject)],
      [{ objectGUID: [bytes] }, (filter: Buffer) => filter.includes(bytes) || filter.equals(Buffer.from('objectGUID'))]
    ] as const) {
      const uids = new Set(['maria'])
      const server = await startLdapServer(t, ({ tag, id, body, socket, send }) => {
        if (tag === REQUEST.bind) send(result(id, 0x61))
        if (tag !== REQUEST.search) return
        const filter = partOf(readElements(body)[6])
        if ('entryUUID' in own && !textsIn(filter).every(isUtf8)) return void socket.destroy()
        const found = [...uids].filter(uid => filter.content.includes(uid) || isTheirs(filter.content))
        send(...found.map(uid => entry(id, `uid=maria,${base}`, { uid: [uid], ...own })), result(id, 0x65))
      })
      const { lookUp } = createDirectory(
        ldap.serviceSettings({ url: server.url, searchBase: base, searchFilter: '(uid={{username}})' })
      )
      const account = { subject, login: 'maria' }
      t.match(await lookUp(account), { state: 'open' })
      uids.clear()
      t.same(await lookUp(account), { state: 'gone' })
      uids.add('ana')
      t.match(await lookUp(account), { state: 'open' }, 'renamed')
    }
  }
)

t.test('a refused service account is not tried once per login', async t => {
  let now = 0
  const wrong = await startLdapServer(t, ({ tag, id, send }) => {
    if (tag === REQUEST.bind) send(result(id, 0x61, 49))
  })
  const service = { url: wrong.url, bindPassword: WRONG }
  const refused = createDirectory(ldap.serviceSettings(service), { failureFloorMs: 0, clock: () => now })
  const binds = () => wrong.requests.filter(tag => tag === REQUEST.bind).length
  const logIn = async (_: unknown, n: number) =>
    t.match(await failureOf(refused.authenticate(`pessoa${n}`, 'x')), {
      reason: 'service-account-refused',
      countsAsBind: false
    })
  await Promise.all(Array.from({ length: 10 }, logIn))
  t.equal(binds(), 1, 'of many at once')
  for (let n = 0; n < 10; n++) await logIn(undefined, n)
  t.equal(binds(), 1)
  for (const [afterMs, expected] of [
    [59_999, 1],
    [1, 2],
    [60_000, 2],
    [60_000, 3]
  ] as const) {
    now += afterMs
    t.match(await failureOf(refused.check()), { reason: 'service-account-refused' })
    t.equal(binds(), expected, 'ever more rarely')
  }
})

t.test('binds that wait for the first one of the service account do not wait for each other', async t => {
  const service = createServiceAccount({ dn: 'cn=svc', password: 'x' })
  const sent: PromiseWithResolvers<void>[] = []
  const bindOther = () => {
    const answer = Promise.withResolvers<void>()
    sent.push(answer)
    return answer.promise
  }
  const connection = { bindOther, within: <T>(work: Promise<T>) => work }
  const tooLate = new DirectoryFailure('directory-timeout', 'late')
  const late = service.bind(connection).catch(error => error)
  const impatient = service.bind({ bindOther, within: () => Promise.reject(tooLate) })
  await t.rejects(impatient, tooLate, 'nor longer than their own exchange may take')
  const waiting = Array.from({ length: 3 }, () => service.bind(connection))
  sent[0]?.reject(tooLate)
  t.equal(await late, tooLate)
  await until(() => sent.length === 2, 'without a verdict the next one is tried')
  sent[1]?.resolve()
  await until(() => sent.length === 4, 'all others at once')
  for (const { resolve } of sent) resolve()
  await Promise.all(waiting)
})

t.test('many refusals at once of a service account that was accepted before are one refusal', async t => {
  let [now, code] = [0, 0]
  const changed = await startLdapServer(t, ({ tag, id, send }) => {
    if (tag === REQUEST.bind) send(result(id, 0x61, code))
  })
  const service = createDirectory(ldap.serviceSettings({ url: changed.url }), { failureFloorMs: 0, clock: () => now })
  await service.check()
  code = 49
  await Promise.all(Array.from({ length: 5 }, () => failureOf(service.check())))
  code = 0
  now += 60_000
  await service.check()
})

t.test('a dead server is waited for once, and the next one is asked', async t => {
  const silent = await startLdapServer(t)
  const url = `${silent.url},ldap://127.0.0.1:1,${ldap.url}`
  for (const settings of [
    ldap.settings({ url, timeoutMs: 1500, startTls: false }),
    ldap.serviceSettings({ url, timeoutMs: 1500 })
  ]) {
    const several = createDirectory(settings, { failureFloorMs: 0 })
    await failureOf(several.authenticate('ana', ldap.password))
    const ownTimeMs = measureOwnTime()
    for (let n = 0; n < 5; n++) t.match(await several.authenticate('ana', ldap.password), { username: 'ana' })
    t.ok(ownTimeMs() < 1000, 'it is skipped')
  }
})

t.test('a wrong password is checked by one server only', async t => {
  const one = await startOpenLdap(t, { lockoutThreshold: 5 })
  const several = createDirectory(ldap.serviceSettings({ url: `${one.url},${ldap.url}` }), { failureFloorMs: 0 })
  const before = await ldap.failureCount('ana')
  await failureOf(several.authenticate('ana', WRONG))
  t.equal(await one.failureCount('ana'), 1)
  t.equal(await ldap.failureCount('ana'), before)
})

// DF-05
t.test('a server that answers busy or unavailable is left for the next one, at whichever step', async t => {
  for (const [at, tag, code] of [
    [REQUEST.bind, 0x61, 51],
    [REQUEST.search, 0x65, 52]
  ] as const) {
    const leaving = await startLdapServer(t, request => {
      request.send(request.tag === at ? result(request.id, tag, code) : result(request.id, 0x61))
    })
    const url = `${leaving.url},${ldap.url}`
    for (const settings of [ldap.settings({ url }), ldap.serviceSettings({ url })]) {
      const before = leaving.requests.length
      const several = createDirectory(settings, { failureFloorMs: 0 })
      t.match(await several.authenticate('ana', ldap.password), { username: 'ana', name: 'Ana Souza' })
      const asked = leaving.requests.length
      t.ok(asked > before)
      t.match(await several.authenticate('ana', ldap.password), { username: 'ana' })
      t.equal(leaving.requests.length, asked, 'it is skipped for a while')
    }
  }
})

t.test('a server that hangs up is left for the next one; a bind that it may have checked is not repeated', async t => {
  const ways: Record<string, Parameters<typeof startLdapServer>[1]> = {
    'directory-unreachable': ({ socket }) => socket.destroy(),
    'directory-unavailable': ({ send }) => send(disconnection(52))
  }
  for (const [reason, leaves] of Object.entries(ways)) {
    const leaving = await startLdapServer(t, leaves)
    const url = `${leaving.url},${ldap.url}`
    const searched = createDirectory(ldap.serviceSettings({ url }), { failureFloorMs: 0 })
    t.match(await searched.authenticate('ana', ldap.password), { username: 'ana' }, 'it did not have the password')
    const bound = createDirectory(ldap.settings({ url }), { failureFloorMs: 0 })
    t.match(await failureOf(bound.authenticate('ana', ldap.password)), { reason, bind: 'unanswered' })
  }
})

t.test('a server that is skipped is asked once all others have failed, within the same login', async t => {
  let [now, one, other] = [0, 52, 52]
  const serve = (codeOf: () => number) =>
    startLdapServer(t, ({ id, tag, send }) => {
      if (tag === REQUEST.bind) send(result(id, 0x61, codeOf()))
    })
  const servers = [await serve(() => one), await serve(() => other)]
  const serviceAt = (...urls: string[]) =>
    createDirectory(ldap.serviceSettings({ url: urls.join() }), { clock: () => now })
  const both = serviceAt(...servers.map(({ url }) => url))
  const withoutOther = serviceAt(servers[0]?.url ?? '', 'ldap://127.0.0.1:1')
  for (now of [0, 15_000]) await failureOf(withoutOther.check())
  now = 30_000
  one = 0
  await withoutOther.check()

  one = 52
  await failureOf(both.check())
  now += 15_000
  one = 0
  await both.check()
  ;[one, other] = [52, 0]
  await both.check()
})

t.test('with every server busy a login is refused, each having been asked once', async t => {
  const busy = () =>
    startLdapServer(t, ({ id, tag, send }) => {
      if (tag === REQUEST.bind) send(result(id, 0x61, 51))
    })
  const [one, other] = [await busy(), await busy()]
  const several = createDirectory(ldap.settings({ url: `${one.url},${other.url}` }), { failureFloorMs: 0 })
  const failure = await failureOf(several.authenticate('ana', ldap.password))
  t.match(failure, { reason: 'directory-busy', countsAsBind: false })
  const binds = [one.requests, other.requests].map(tags => tags.filter(tag => tag === REQUEST.bind).length)
  t.same(binds, [1, 1])
})

// Whatever a directory does, a login fails in time, with its reason, in bounded memory, and leaves no connection.
// LD-02, LD-08, LD-10, LD-11, LD-12, LD-13, LD-15, LD-16, LD-20, LD-21, LD-22
import t, { type Test } from 'tap'
import { createDirectory, createRefusalPace } from '../../gateway/directory/directory.ts'
import { DIRECTORY_REASONS, DirectoryFailure } from '../../gateway/directory/failure.ts'
import { bindThenRead, searchThenBind } from '../../gateway/directory/log-in.ts'
import { planOf } from '../../gateway/directory/plan.ts'
import type { LdapSettings } from '../../gateway/settings/settings.ts'
import {
  disconnection,
  endOfPage,
  entry,
  identity,
  type LdapRequest,
  REQUEST,
  reference,
  result,
  startLdapServer
} from '../support/ldap-server.ts'
import { only } from '../support/only.ts'
import { settingsFor } from '../support/openldap.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { undisturbed } from '../support/undisturbed.ts'

const MARIA = 'uid=maria,ou=people,dc=corp'
const uncaught: unknown[] = []
process.on('uncaughtExceptionMonitor', error => uncaught.push(error))

const CORP = {
  userDnTemplate: 'uid={{username}},ou=people,dc=corp',
  searchBase: 'dc=corp',
  searchFilter: '(uid={{username}})',
  timeoutMs: 20_000
}

/** For a directory that never answers. */
const HASTY = { timeoutMs: 400 }

/** One login as maria; its person, or the failure as `reason, bind`. Afterwards no connection is left. */
const login = async (t: Test, answer: (request: LdapRequest) => void, overrides: Partial<LdapSettings> = {}) => {
  const server = await startLdapServer(t, answer)
  const directory = createDirectory(settingsFor(server.url, { ...CORP, ...overrides }), { failureFloorMs: 0 })
  const ownTimeMs = measureOwnTime()
  const outcome = await directory.authenticate('maria', 'segredo').catch((error: unknown) => error)
  t.ok(ownTimeMs() < 1000, 'within LDAP_TIMEOUT_MS')
  await server.idle()
  if (!(outcome instanceof DirectoryFailure)) return outcome
  t.ok(DIRECTORY_REASONS.includes(outcome.reason))
  t.ok(outcome.message.length < 300)
  return `${outcome.reason}, ${outcome.bind}`
}

/** Binds anybody, then answers the search with what `found` gives. */
const bindThen =
  (found: (request: LdapRequest) => Buffer[], whoAmI = ''): ((request: LdapRequest) => void) =>
  request => {
    if (request.tag === REQUEST.bind) request.send(result(request.id, 0x61))
    if (request.tag === REQUEST.search) request.send(...found(request))
    if (request.tag === REQUEST.extended) request.send(identity(request.id, whoAmI))
  }

/** Answers the bind, or the search after it, with these very bytes. */
const raw = (...bytes: (number | Buffer)[]) =>
  Buffer.concat(bytes.map(byte => (typeof byte === 'number' ? Buffer.from([byte]) : byte)))

t.test('only the bind counts as time of the directory, not what the database takes before and after it', async t => {
  const running: boolean[] = []
  let isRunning = true
  const set = (is: boolean) => () => {
    isRunning = is
  }
  const note = async () => void running.push(isRunning)
  const exchange = {
    plan: planOf(settingsFor('ldap://127.0.0.1:1', { userDnTemplate: CORP.userDnTemplate, searchBase: undefined })),
    deadline: { pause: set(false), resume: set(true) },
    guard: {
      expect: () => note().then(() => Promise.reject(new Error('held back'))),
      bind: async <T>(_: unknown, bind: () => Promise<T>) => {
        await note()
        const result = await bind()
        await note()
        return result
      }
    },
    open: async () => ({ bindPerson: note })
  }
  const typed = { login: 'maria', full: 'maria', password: 'segredo' }
  await bindThenRead(exchange as never, typed)
  await note()
  t.same(running, [false, true, false, true])
  const searching = { ...exchange, plan: { ...exchange.plan, search: {} } }
  await t.rejects(searchThenBind(searching as never, {} as never, typed), { message: 'held back' })
  await note()
  t.same(running.slice(4), [false, true])
})

t.test('a directory that accepts and never answers is given up at the deadline', async t => {
  t.equal(await login(t, () => {}, HASTY), 'directory-timeout, unanswered')
  const otherAnswer = ({ send }: LdapRequest) => send(result(99, 0x61))
  t.equal(await login(t, otherAnswer, HASTY), 'directory-timeout, unanswered', 'to a question that was not asked')
  const silentThen = bindThen(() => [])
  // Not where the machine stands still in the middle of the bind.
  t.equal(await undisturbed(100, () => login(t, silentThen, HASTY)), 'directory-timeout, accepted')
  t.equal(await login(t, () => {}, { ...HASTY, startTls: true }), 'directory-timeout, unsent')
})

t.test('a directory that drips its answer is given up at the same deadline', async t => {
  const drip = ({ id, socket }: LdapRequest) => {
    const bytes = result(id, 0x61)
    let sent = 0
    const timer = setInterval(() => {
      socket.write(bytes.subarray(sent, sent + 1))
      sent += 1
    }, 100)
    socket.once('close', () => clearInterval(timer))
  }
  t.equal(await login(t, drip, HASTY), 'directory-timeout, unanswered')
})

t.test('an answer that comes in pieces is an answer', async t => {
  const inPieces = (request: LdapRequest) => {
    if (request.tag === REQUEST.unbind) return
    const answers =
      request.tag === REQUEST.bind
        ? [result(request.id, 0x61)]
        : [entry(request.id, MARIA, { cn: ['Maria'] }), result(request.id, 0x65)]
    for (const byte of Buffer.concat(answers)) request.socket.write(Buffer.from([byte]))
  }
  t.match(await login(t, inPieces), { name: 'Maria' })
})

t.test('an address where nothing listens, or a name without an address, fails before any bind', async t => {
  for (const url of ['ldap://127.0.0.1:1', 'ldaps://127.0.0.1:1', 'ldap://directory.invalid']) {
    const directory = createDirectory(settingsFor(url, { ...CORP, timeoutMs: 2000 }))
    const failure = await directory.authenticate('maria', 'x').catch((error: unknown) => error)
    t.match(failure, { reason: /^directory-(unreachable|timeout)$/, bind: 'unsent', countsAsBind: false }, url)
    if (url.endsWith(':1')) t.match(failure, { cause: { code: 'ECONNREFUSED' } }, 'the log names the cause')
  }
})

t.test('a connection that breaks off is a failure at every step', async t => {
  t.equal(await login(t, ({ socket }) => socket.destroy()), 'directory-unreachable, unanswered')
  t.equal(await login(t, ({ socket }) => socket.resetAndDestroy()), 'directory-unreachable, unanswered')
  const later = ({ id, tag, socket, send }: LdapRequest) =>
    tag === REQUEST.bind ? send(result(id, 0x61)) : socket.destroy()
  t.equal(await login(t, later), 'directory-unreachable, accepted')
  const other = ({ id }: LdapRequest) => [entry(id, 'uid=boss,dc=corp', { cn: ['Boss'] }), result(id, 0x65)]
  const whenAskedWho = (request: LdapRequest) =>
    request.tag === REQUEST.extended ? request.socket.destroy() : bindThen(other)(request)
  t.equal(await login(t, whenAskedWho), 'directory-unreachable, accepted')
  const half = ({ id, socket }: LdapRequest) => socket.end(result(id, 0x61).subarray(0, 5))
  t.equal(await login(t, half), 'directory-unreachable, unanswered')
})

t.test('bytes that are not LDAP are a fault, not a loop, a success or a crash', async t => {
  const garbage: Record<string, (id: number) => Buffer> = {
    'an HTTP answer': () => Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
    'a length of 2 GB': () => raw(0x30, 0x84, 0x7f, 0xff, 0xff, 0xff),
    'a length that reads as negative': () => raw(0x30, 0x84, 0xff, 0xff, 0xff, 0xf0, Buffer.alloc(64)),
    'an indefinite length': () => raw(0x30, 0x80, 0x02, 0x01, 0x02, 0x00, 0x00),
    'a length of five bytes': () => raw(0x30, 0x85, 0, 0, 0, 0, 1, 0),
    'an empty message': () => raw(0x30, 0x00),
    'no operation': id => raw(0x30, 0x03, 0x02, 0x01, id),
    'a response without a result code': id => raw(0x30, 0x05, 0x02, 0x01, id, 0x61, 0x00),
    'an empty result code': id => raw(0x30, 0x0b, 0x02, 0x01, id, 0x61, 0x06, 0x0a, 0x00, 0x04, 0x00, 0x04, 0x00),
    'a result code beyond the end': id => raw(0x30, 0x07, 0x02, 0x01, id, 0x61, 0x02, 0x0a, 0x01),
    'an unknown operation': id => raw(0x30, 0x05, 0x02, 0x01, id, 0x7a, 0x00),
    'a message id of nine bytes': () => raw(0x30, 0x0d, 0x02, 0x09, Buffer.alloc(9, 1), 0x61, 0x00),
    'a notice of disconnection because of an error of ours': () => disconnection(2),
    'a megabyte of nothing': () => raw(0x30, 0x83, 0x20, 0x00, 0x00, Buffer.alloc(1_200_000)),
    'sixty-five messages': () => Buffer.concat(Array.from({ length: 65 }, () => result(77, 0x78)))
  }
  for (const [what, bytes] of Object.entries(garbage)) {
    t.equal(await login(t, ({ id, send }) => send(bytes(id))), 'directory-protocol, unanswered', what)
  }
})

t.test('entries that are cut short or without end are a fault', async t => {
  const faults: Record<string, (id: number) => Buffer[]> = {
    'an attribute value beyond the end of its set': id => {
      const whole = entry(id, MARIA, { cn: ['Maria'] })
      whole[whole.length - 6] = 0x7f
      return [whole, result(id, 0x65)]
    },
    'more entries than asked for': id => Array.from({ length: 50 }, () => entry(id, MARIA, { cn: ['Maria'] })),
    'an attribute in place of the DN': id => [entry(id, MARIA, { dn: ['a', 'b'] }), result(id, 0x65)],
    'one entry of many megabytes': id => [entry(id, MARIA, { cn: [Buffer.alloc(2_000_000, 65)] })],
    'references without end': id => Array.from({ length: 100 }, () => reference(id, 'ldap://evil.example/dc=x'))
  }
  for (const [what, bytes] of Object.entries(faults)) {
    const answer = bindThen(({ id }) => bytes(id))
    t.equal(await login(t, answer), 'directory-protocol, accepted', what)
  }
})

t.test('an endless stream is cut off early and keeps no memory', async t => {
  let sent = 0
  const flood = ({ id, socket }: LdapRequest) => {
    const chunk = Buffer.concat(Array.from({ length: 500 }, () => result(id + 1, 0x65)))
    const more = () => {
      while (!socket.destroyed && socket.write(chunk)) sent += chunk.length
    }
    socket.on('drain', more)
    more()
  }
  const before = process.memoryUsage().rss
  t.equal(await login(t, flood), 'directory-protocol, unanswered')
  t.ok(sent < 64_000_000)
  t.ok(process.memoryUsage().rss - before < 64_000_000)
})

t.test('a good entry is read, whatever stands around it', async t => {
  const guid = Buffer.from('33221100554477668899aabbccddeeff', 'hex')
  const found = ({ id }: LdapRequest) => [
    reference(id, 'ldap://evil.example/dc=corp'),
    entry(id, 'UID=Maria, OU=People,DC=corp', {
      OBJECTGUID: [guid],
      DisplayName: [Buffer.from([0x4d, 0xff, 0x61, 0x0d, 0x0a, 0x3c, 0x62, 0x3e])],
      mail: ['', 'second@corp.example'],
      memberOf: Array.from({ length: 5000 }, (_, index) => `cn=g${index},dc=corp`),
      cn: []
    }),
    result(id, 0x65)
  ]
  t.match(await login(t, bindThen(found)), {
    subject: '00112233-4455-6677-8899-aabbccddeeff',
    name: 'M\ufffda <b>',
    email: '',
    username: 'maria'
  })
})

t.test('names are bounded and one line', async t => {
  const found = ({ id }: LdapRequest) => [
    entry(id, MARIA, {
      displayName: [`  ${'😀'.repeat(400)}`],
      mail: ['a\u202eb\u0000c@corp.example  '],
      memberOf: ['cn=a,dc=corp']
    }),
    result(id, 0x65)
  ]
  const person = await login(t, bindThen(found))
  const email = 'a b c@corp.example'
  t.match(person, { name: '😀'.repeat(256), email, subject: 'maria', groups: only('cn=a,dc=corp') })
})

t.test("a search that the server's own limit cut short does not prove that there is one entry", async t => {
  const found = ({ id }: LdapRequest) => [entry(id, MARIA, { cn: ['Maria'] }), result(id, 0x65, 4)]
  t.equal(await login(t, bindThen(found)), 'ambiguous-entry, accepted')
})

t.test('the entry of somebody else is refused, whoever the directory says we are', async t => {
  const found = ({ id }: LdapRequest) => [entry(id, 'uid=boss,ou=people,dc=corp', { cn: ['Boss'] }), result(id, 0x65)]
  for (const whoAmI of ['', `dn:${MARIA}`, 'dn:', 'u:', 'u:maria', 'uid=boss,ou=people,dc=corp']) {
    t.equal(await login(t, bindThen(found, whoAmI)), 'foreign-entry, accepted', whoAmI)
  }
  t.match(await login(t, bindThen(found, 'dn:uid=BOSS, ou=people,dc=corp')), { name: 'Boss' }, 'an alias that is bound')
})

t.test('Active Directory proves an entry by its principal name', async t => {
  const overrides = { userDnTemplate: undefined, domain: 'corp.example', searchFilter: '(sAMAccountName={{username}})' }
  const person =
    (attributes: Record<string, string[]>) =>
    ({ id }: LdapRequest) => [
      entry(id, 'CN=Maria Silva,DC=corp,DC=example', { cn: ['Maria'], ...attributes }),
      result(id, 0x65)
    ]
  const own = person({ sAMAccountName: ['Maria'], 'msDS-PrincipalName': ['EXAMPLE\\Maria'] })
  t.match(await login(t, bindThen(own, 'u:EXAMPLE\\maria'), overrides), { username: 'maria', name: 'Maria' })
  t.equal(await login(t, bindThen(own, 'u:EXAMPLE\\bob'), overrides), 'foreign-entry, accepted')
  t.equal(await login(t, bindThen(own, 'u:OTHER\\maria'), overrides), 'foreign-entry, accepted')

  const older = person({ sAMAccountName: ['Maria'] })
  t.match(await login(t, bindThen(older, 'u:CORP\\maria'), overrides), { username: 'maria' })
  t.equal(await login(t, bindThen(older, 'u:OTHER\\maria'), overrides), 'foreign-entry, accepted')
  t.equal(await login(t, bindThen(person({}), 'u:CORP\\'), overrides), 'foreign-entry, accepted')
})

t.test('a directory that fails when the entry of its person is looked up logs nobody in', async t => {
  const overrides = {
    userDnTemplate: undefined,
    searchBase: undefined,
    searchFilter: undefined,
    domain: 'corp.example'
  }
  const loginWith = (code: number) => {
    const answer = bindThen(({ id }) => [result(id, 0x65, code)])
    return login(t, answer, overrides)
  }
  t.equal(await loginWith(51), 'directory-busy, accepted')
  t.equal(await loginWith(1), 'directory-protocol, accepted')
  const unread = { subject: 'maria', guard: 'maria@corp.example' }
  t.match(await loginWith(50), unread, 'its permits count under what was bound, where unlock finds them')
})

t.test('a directory that knows true and false alone shows no number of failures', async t => {
  for (const [isTwoValued, count] of [
    [true, undefined],
    [false, { failures: 0 }]
  ] as const) {
    const server = await startLdapServer(t, ({ id, tag, body, send }) => {
      if (tag === REQUEST.bind) send(result(id, 0x61))
      if (tag !== REQUEST.search) return
      const isUnknown = body.includes('portariaNoSuchAttribute') && !isTwoValued
      const found = entry(id, MARIA, { uid: ['maria'], entryUUID: ['2f0c5d1e-0000-4000-8000-000000000001'] })
      send(...(isUnknown ? [] : [found]), result(id, 0x65))
    })
    const service = { userDnTemplate: undefined, bindDn: 'cn=reader,dc=corp', bindPassword: 'x' }
    const directory = createDirectory(settingsFor(server.url, { ...CORP, ...service }), { failureFloorMs: 0 })
    const counts: unknown[] = []
    await directory.authenticate('maria', 'segredo', {
      expect: async () => undefined,
      bind: (account, bind) => {
        counts.push(account.count)
        return bind()
      }
    })
    t.match(counts, [count], `${isTwoValued}`)
  }
})

t.test('of too many groups no more pages are asked for than show it, and the login goes on without them', async t => {
  let pages = 0
  const found = ({ id, body }: LdapRequest) => {
    // LDAP_MATCHING_RULE_IN_CHAIN
    if (body.includes('1.2.840.113556.1.4.1941')) {
      pages += 1
      return [...Array.from({ length: 500 }, (_, n) => entry(id, `CN=g${pages}-${n},DC=corp`, {})), endOfPage(id)]
    }
    const own = { sAMAccountName: ['maria'], objectGUID: [Buffer.alloc(16, 7)], defaultNamingContext: ['DC=corp'] }
    return [entry(id, MARIA, own), result(id, 0x65)]
  }
  const person = await login(t, bindThen(found))
  t.match(person, { username: 'maria', groups: undefined, groupsUnreadable: { reason: 'too-many-groups' } })
  t.equal(pages, 5)
})

t.test('groups of which the directory returns a part are too many, not none', async t => {
  const found = ({ id }: LdapRequest) => {
    const own = { objectGUID: [Buffer.alloc(16, 7)], memberOf: [], 'memberOf;range=0-1499': ['CN=g0,DC=corp'] }
    return [entry(id, MARIA, own), result(id, 0x65)]
  }
  const person = await login(t, bindThen(found))
  t.match(person, { username: 'maria', groups: undefined, groupsUnreadable: { reason: 'too-many-groups' } })
})

t.test('groups after a page without entries are not taken for absent', async t => {
  let pages = 0
  const found = ({ id, body }: LdapRequest) => {
    const own = { sAMAccountName: ['maria'], objectGUID: [Buffer.alloc(16, 7)], defaultNamingContext: ['DC=corp'] }
    if (!body.includes('1.2.840.113556.1.4.1941')) return [entry(id, MARIA, own), result(id, 0x65)]
    pages += 1
    return pages === 1 ? [entry(id, 'CN=g1,DC=corp', {}), endOfPage(id)] : [endOfPage(id)]
  }
  const person = await login(t, bindThen(found))
  t.match(person, { username: 'maria', groups: undefined, groupsUnreadable: { reason: 'directory-protocol' } })
})

t.test('each result of a bind has its reason, and checks the person or no one', async t => {
  // Result codes of RFC 4511, and in those of 49 the data codes of Active Directory.
  const outcomes: Record<string, string> = {
    '49 525': 'unknown-user, refused',
    '49 52e': 'wrong-password, refused',
    '49 530': 'logon-hours, refused',
    '49 531': 'logon-workstation, refused',
    '49 532': 'password-expired, right',
    '49 533': 'account-disabled, refused',
    '49 534': 'logon-type, refused',
    '49 701': 'account-expired, refused',
    '49 773': 'password-must-change, right',
    '49 775': 'account-locked, refused',
    '49 fff': 'invalid-credentials, refused',
    '1': 'directory-protocol, unchecked',
    '8': 'directory-tls, unchecked',
    '10': 'directory-referral, unchecked',
    '13': 'directory-tls, unchecked',
    '19': 'account-locked, refused',
    '32': 'unknown-user, refused',
    '48': 'invalid-credentials, refused',
    '51': 'directory-busy, unchecked',
    '52': 'directory-unavailable, unchecked',
    '53': 'directory-refused, refused',
    '80': 'directory-protocol, unchecked'
  }
  for (const [what, outcome] of Object.entries(outcomes)) {
    const [code, data] = what.split(' ')
    const comment = `80090308: LdapErr: DSID-0C09042F, comment: AcceptSecurityContext error, data ${data}, v2580\u0000`
    const diagnostic = data === undefined ? 'x'.repeat(5000) : comment
    t.equal(await login(t, ({ id, send }) => send(result(id, 0x61, Number(code), diagnostic))), outcome, what)
  }
})

t.test('without a service account, a directory is there if it answers at all, and only in LDAP', async t => {
  const codes: Record<string, string> = {
    '1': 'there',
    '13': 'directory-tls',
    '32': 'there',
    // 389 Directory Server, where anonymous access is off.
    '48': 'there',
    '50': 'there',
    '51': 'directory-busy',
    '52': 'directory-unavailable'
  }
  const checked = (url: string): Promise<string> =>
    createDirectory(settingsFor(url, CORP))
      .check()
      .then(
        () => 'there',
        ({ reason }: DirectoryFailure) => reason
      )
  for (const [code, outcome] of Object.entries(codes)) {
    const { url } = await startLdapServer(t, ({ id, send }) => send(result(id, 0x65, Number(code))))
    t.equal(await checked(url), outcome, code)
  }
  const web = await startLdapServer(t, ({ send }) => send(Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')))
  t.equal(await checked(web.url), 'directory-protocol')
})

t.test('the first refusal takes a quarter of a second at least, however quickly the directory refuses', async t => {
  const fast = await startLdapServer(t, ({ id, send }) => send(result(id, 0x61, 49)))
  const startedAt = performance.now()
  const login = createDirectory(settingsFor(fast.url, CORP)).authenticate('nobody', 'segredo')
  t.match(await login.catch((error: unknown) => error), { reason: 'invalid-credentials' })
  t.ok(performance.now() - startedAt >= 245)
})

// A name that does not exist is refused as late as a wrong password, however slowly the directory hashes.
// RV-69, LD-13
const HASHING_MS = 400

t.test('with a service account, an unknown name takes as long as the last wrong password', async t => {
  const slow = await startLdapServer(t, ({ tag, id, body, send }) => {
    if (tag === REQUEST.search && body.includes('maria')) send(entry(id, MARIA, { uid: ['maria'] }))
    if (tag === REQUEST.search) send(result(id, 0x65))
    if (tag !== REQUEST.bind) return
    if (body.includes('cn=service')) send(result(id, 0x61))
    else setTimeout(() => send(result(id, 0x61, 49)), body.includes('uid=maria') ? HASHING_MS : 0)
  })
  const directory = createDirectory(settingsFor(slow.url, { bindDn: 'cn=service', bindPassword: 'x' }))
  const refusalMs = async (name: string): Promise<number> => {
    const startedAt = performance.now()
    await t.rejects(directory.authenticate(name, 'errada'))
    return performance.now() - startedAt
  }
  t.ok((await refusalMs('maria')) >= HASHING_MS * 0.98)
  for (const name of ['ninguem', 'outro']) t.ok((await refusalMs(name)) >= HASHING_MS * 0.98, name)
})

t.test('only time lowers the estimate, and one stall counts for half', async t => {
  let now = 0
  const pace = createRefusalPace(() => now)
  t.equal(pace.refusalMs(), 0)
  pace.note(400)
  t.equal(pace.refusalMs(), 400)
  for (let n = 0; n < 100; n++) pace.note(1)
  t.equal(pace.refusalMs(), 400)
  pace.note(1200)
  t.equal(pace.refusalMs(), 800)
  now += 600_000
  t.equal(pace.refusalMs(), 400)
})

t.test('a referral is never followed', async t => {
  const evil = await startLdapServer(t)
  const refer = ({ id, send }: LdapRequest) =>
    send(
      result(id, 0x61, 10, '', writer => {
        writer.startSequence(0xa3)
        writer.writeString(`${evil.url}/dc=corp`)
        writer.endSequence()
      })
    )
  t.equal(await login(t, refer), 'directory-referral, unchecked')
  const found = ({ id }: LdapRequest) => [reference(id, `${evil.url}/dc=corp`), result(id, 0x65)]
  t.equal(await login(t, bindThen(found)), 'no-entry, accepted')
  t.same(evil.requests, [])
  t.equal(evil.connections(), 0)
})

t.test('nothing was thrown that was not caught', async t => {
  t.same(uncaught, [])
})

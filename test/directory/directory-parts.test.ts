// What parts of directory logins do on their own: connections, checks, names of groups and times, without a directory.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { connectDirectory } from '../../gateway/directory/connection.ts'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import { groupsNamed } from '../../gateway/directory/groups.ts'
import { createMessageReader, OPERATION, readResponse } from '../../gateway/directory/messages.ts'
import { generalizedTime } from '../../gateway/directory/person.ts'
import { findOne, showsNoFailure } from '../../gateway/directory/search-person.ts'
import { startDirectoryWatch } from '../../gateway/directory/watch.ts'
import { quiet } from '../support/quiet.ts'

const settings = (more: object) =>
  ({
    active: true,
    url: 'ldap://127.0.0.1:1',
    timeoutMs: 2000,
    userDnTemplate: 'uid={{username}},dc=a',
    ...more
  }) as never
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: DirectoryFailure) => `${error.reason} ${error.message}`
  )

/** A server whose answer to the first bytes is this; undefined: it closes. */
const startServer = async (t: Test, answer?: Buffer) => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.once('data', () => (answer === undefined ? socket.destroy() : socket.end(answer)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `ldap://127.0.0.1:${(server.address() as AddressInfo).port}`
}

// RFC 4511 §4.12: success
const STARTED = Buffer.from([0x30, 0x0c, 2, 1, 1, 0x78, 7, 10, 1, 0, 4, 0, 4, 0])

t.test(
  'nothing but a clean answer leads from the clear to TLS, and a login that is over connects to nothing',
  async t => {
    const start = async (answer: Buffer, signal = new AbortController().signal) =>
      failureOf(connectDirectory(new URL(await startServer(t, answer)), settings({ startTls: true }), signal))
    t.match(await start(STARTED), /^directory-tls TLS: /)
    t.match(await start(Buffer.concat([STARTED, Buffer.of(0)])), /^directory-tls STARTTLS: bytes in the clear/)
    t.match(await start(Buffer.from(STARTED).fill(2, 9, 10)), /^directory-tls STARTTLS: refused with code 2/)
    t.match(await start(STARTED, AbortSignal.abort()), /^directory-unreachable connect: /)
  }
)

t.test('the port is that of the address, or the usual one', async t => {
  const { signal } = new AbortController()
  const dial = (url: string) => failureOf(connectDirectory(new URL(url), settings({}), signal))
  t.match(await dial('ldap://127.127.127.127'), /127\.127\.127\.127:389$/)
  t.match(await dial('ldaps://127.127.127.127'), /127\.127\.127\.127:636$/)
  t.match(await dial('ldap://127.127.127.127:1'), /127\.127\.127\.127:1$/)
})

t.test('a directory that does not answer is away, and a foreign name is refused before it is asked', async t => {
  const url = await startServer(t)
  t.match(await failureOf(createDirectory(settings({ url })).check()), /^directory-un/)
  const login = (more: object) =>
    failureOf(createDirectory(settings(more), { failureFloorMs: 0 }).authenticate('maria@b.example', 'x'))
  t.match(await login({ domain: 'a.example' }), /^foreign-domain /)
  t.match(await login({ domain: 'a.example', bindDn: 'cn=a', searchBase: 'dc=a' }), /^directory-unreachable /)
  t.match(await login({}), /^directory-unreachable /)
  const unreachable = new DirectoryFailure('directory-unreachable', 'x')
  t.equal(unreachable.allowsAnotherServer, true)
  t.equal(unreachable.after('unanswered').allowsAnotherServer, false, 'it may have the password')
  t.equal(unreachable.because('directory-timeout').allowsAnotherServer, false)
})

t.test('entries are asked for as little as needed, and one without a name is none', async t => {
  const asked: unknown[][] = []
  const session = (...dns: string[]) =>
    ({
      search: async (base: string, options: { filter: { toString(): string } }) => {
        asked.push([base, { ...options, filter: String(options.filter) }])
        return { entries: dns.map(dn => ({ dn })), isCut: false }
      }
    }) as never
  t.equal(await findOne(session(' '), 'dc=a', 'x'), undefined)
  t.match(await findOne(session('uid=a'), 'dc=a', 'x'), { dn: 'uid=a' })
  asked.length = 0
  t.equal(await showsNoFailure(session('uid=a'), 'uid=a'), true)
  t.equal(await showsNoFailure(session(), 'uid=a'), false)
  t.match(asked[0], ['uid=a', { scope: 'base', attributes: ['1.1'], filter: '(!(pwdFailureTime=*))' }])
  asked.length = 0
  t.same(await groupsNamed({ groups: { base: 'ou=groups' } } as never, session('cn=x'), 'x'), ['cn=x'])
  t.match(asked[0], [
    'ou=groups',
    { filter: /^\(&\(cn=x\)\(\|\(objectClass=group\)\(objectClass=groupOfNames\).*\)\)$/ }
  ])
})

t.test('a time of a directory may have an offset, in hours or in minutes too', async t => {
  const at = Date.UTC(2026, 10, 22, 10)
  for (const text of [
    '20261122100000Z',
    '2026112210Z',
    '20261122110000+01',
    '20261122113000+0130',
    '202611220800-0200'
  ])
    t.equal(generalizedTime(text), at, text)
  t.equal(generalizedTime('20261122100000.5Z'), at + 500)
  for (const text of ['', '20261122100000', '20261122100000+013', 'x20261122100000Z'])
    t.equal(generalizedTime(text), undefined)
})

t.test('a directory is looked at again when a login shows that it may be away, until the watch ends', async t => {
  let looks = 0
  const watch = startDirectoryWatch({ check: async () => void looks++, missingBases: async () => [] }, quiet)
  const notice = async (reason: 'directory-unreachable' | 'invalid-credentials' | undefined) => {
    watch.notice(reason === undefined ? new Error('x') : new DirectoryFailure(reason, 'x'))
    await new Promise(setImmediate)
    return looks
  }
  await new Promise(setImmediate)
  t.equal(watch.state(), 'ok')
  t.equal(await notice('invalid-credentials'), 1)
  t.equal(await notice(undefined), 1)
  t.equal(await notice('directory-unreachable'), 2)
  await watch.close()
  t.equal(await notice('directory-unreachable'), 2)
})

t.test(
  'messages are split as soon as they are complete, and a response states one result of one to three bytes',
  async t => {
    const read = createMessageReader({ maxBytes: 100, maxMessages: 10 })
    t.same(
      [[0x30, 1, 0, 0x30, 0], [0x30], [1], [0]].map(bytes => read(Buffer.from(bytes)).map(({ length }) => length)),
      [[3, 2], [], [], [3]]
    )
    const respond = (...code: number[]) => {
      const bind = [OPERATION.bind, code.length + 4, ...code, 4, 0, 4, 0]
      return readResponse(Buffer.from([0x30, bind.length + 3, 2, 1, 1, ...bind])).resultCode
    }
    t.same([respond(10, 1, 49), respond(10, 3, 0, 0, 49)], [49, 49])
    for (const code of [
      [10, 0],
      [10, 4, 0, 0, 0, 49],
      [2, 1, 49]
    ])
      t.throws(() => respond(...code), { message: 'no result in a response' })
    for (const [bytes, message] of [
      [[0x30, 0x80, 2, 1, 1, 0, 0], 'a length that LDAP does not allow'],
      [[0x30, 9, 2, 5, 0, 0, 0, 0, 1, OPERATION.bind, 0], 'no message id'],
      [[0x30, 9, 2, 1, 1, 0x61, 0, 0xa0, 0, 4, 0], 'no protocol operation']
    ] as const)
      t.throws(() => readResponse(Buffer.from(bytes)), { message })
  }
)

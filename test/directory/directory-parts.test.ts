// What parts of directory logins do on their own: connections, checks, names of groups and times, without a directory.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { createServers } from '../../gateway/directory/dial.ts'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import { generalizedTime } from '../../gateway/directory/person.ts'
import { startDirectoryWatch } from '../../gateway/directory/watch.ts'
import { settingsFor } from '../support/openldap.ts'
import { quiet } from '../support/quiet.ts'

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: DirectoryFailure) => `${error.reason} ${error.message}`
  )

/** A server whose answer to the first bytes is this. */
const startServer = async (t: Test, answer: Buffer) => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end(answer))
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
      failureOf(createServers(settingsFor(await startServer(t, answer), { startTls: true })).dial(signal))
    t.match(await start(STARTED), /^directory-tls TLS: /)
    t.match(await start(Buffer.concat([STARTED, Buffer.of(0)])), /^directory-tls STARTTLS: bytes in the clear/)
    t.match(await start(Buffer.from(STARTED).fill(2, 9, 10)), /^directory-tls STARTTLS: refused with code 2/)
    t.match(await start(STARTED, AbortSignal.abort()), /^directory-unreachable connect: /)
  }
)

t.test('the port is that of the address, or the usual one', async t => {
  const { signal } = new AbortController()
  const dial = (url: string) => failureOf(createServers(settingsFor(url)).dial(signal))
  t.match(await dial('ldap://127.127.127.127'), /127\.127\.127\.127:389$/)
  t.match(await dial('ldaps://127.127.127.127'), /127\.127\.127\.127:636$/)
  t.match(await dial('ldap://127.127.127.127:1'), /127\.127\.127\.127:1$/)
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

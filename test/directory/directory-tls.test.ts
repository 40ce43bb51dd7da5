// A password goes to the directory only over a connection that was verified as the settings demand.
// LD-09
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createServer } from 'node:tls'
import t from 'tap'
import { createServers } from '../../gateway/directory/dial.ts'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import type { LdapSettings } from '../../gateway/settings/settings.ts'
import { createCertificateAuthority } from '../support/certificates.ts'
import { REQUEST, result, startLdapServer, TLS_HANDSHAKE } from '../support/ldap-server.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { listen } from '../support/ports.ts'
import { until } from '../support/until.ts'

const ldap = await startOpenLdap(t)

/** The log's reason, and whether a bind was sent. */
const outcomeOf = async (settings: LdapSettings, password = ldap.password): Promise<string> => {
  try {
    return (await createDirectory(settings).authenticate('maria', password)).username
  } catch (error) {
    if (error instanceof DirectoryFailure) return `${error.reason}, bind ${error.bind}`
    throw error
  }
}

/** Why no connection is made. */
const dial = (url: string, { startTls = false, signal = new AbortController().signal } = {}): Promise<unknown> =>
  createServers(ldap.settings({ url, startTls }))
    .dial(signal)
    .catch(error => `${error.reason} ${error.message}`)

t.test('ldaps:// and STARTTLS work with the right CA file, by address and by name, and not with another', async t => {
  const byName = ldap.ldapsUrl.replace('127.0.0.1', 'localhost')
  for (const settings of [{ url: ldap.ldapsUrl }, { url: byName }, { startTls: true }]) {
    t.equal(await outcomeOf(ldap.settings({ ...settings, ca: ldap.ca })), 'maria')
    t.equal(await outcomeOf(ldap.settings(settings)), 'directory-tls, bind unsent')
  }
})

t.test('certificates are verified whatever the environment says', async t => {
  const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED
  t.teardown(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
  })
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.equal(await outcomeOf(ldap.settings({ url: ldap.ldapsUrl })), 'directory-tls, bind unsent')
})

for (const certificate of ['expired', 'wrong-host', 'self-signed'] as const) {
  t.test(`a certificate that is ${certificate} is refused`, async t => {
    const bad = await startOpenLdap(t, { certificate })
    for (const settings of [{ url: bad.ldapsUrl }, { startTls: true }]) {
      t.equal(await outcomeOf(bad.settings({ ca: bad.ca, ...settings })), 'directory-tls, bind unsent')
    }
  })
}

t.test('a refused STARTTLS never falls back to plain text', async t => {
  const plain = await startOpenLdap(t, { withoutTls: true })
  t.equal(await outcomeOf(plain.settings({ startTls: true, ca: ldap.ca })), 'directory-tls, bind unsent')

  for (const code of [1, 2, 52, 80]) {
    const refusing = await startLdapServer(t, ({ id, send }) => send(result(id, 0x78, code)))
    t.equal(await outcomeOf(ldap.settings({ url: refusing.url, startTls: true })), 'directory-tls, bind unsent')
    t.same(refusing.requests, [REQUEST.extended], 'nothing but STARTTLS was asked')
    await refusing.idle()
  }
})

t.test('a middle box that answers STARTTLS and goes on in plain text gets no password', async t => {
  const stripping = await startLdapServer(t, ({ id, send }) => send(result(id, 0x78)))
  const settings = ldap.settings({ url: stripping.url, startTls: true, timeoutMs: 6000 })
  // Its reader finds TLS where it expects LDAP.
  t.match(await outcomeOf(settings), /^directory-(tls|timeout), bind unsent$/)
  t.same(stripping.requests, [REQUEST.extended, TLS_HANDSHAKE])

  const injecting = await startLdapServer(t, ({ id, send }) => send(result(id, 0x78), result(2, 0x61)))
  t.equal(await outcomeOf(ldap.settings({ url: injecting.url, startTls: true })), 'directory-tls, bind unsent')
  t.same(injecting.requests, [REQUEST.extended])
  await injecting.idle()
  const beginning = await startLdapServer(t, ({ id, send }) => send(result(id, 0x78), Buffer.of(0)))
  t.match(await dial(beginning.url, { startTls: true }), /^directory-tls STARTTLS: bytes in the clear/)
})

t.test('TLS below 1.2 is refused', async t => {
  const authority = createCertificateAuthority(t.testdir({}))
  const { keyFile, certFile } = authority.issue('old')
  const pem = { key: readFileSync(keyFile), cert: readFileSync(certFile) }
  const old = createServer({ ...pem, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' })
  old.on('tlsClientError', () => {})
  const port = await listen(t, old)
  const lax = connect({ port, ca: authority.ca, minVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' })
  await once(lax, 'secureConnect')
  t.equal(lax.getProtocol(), 'TLSv1.1', 'a client that wants it gets it')
  lax.destroy()
  const url = `ldaps://127.0.0.1:${port}`
  t.equal(await outcomeOf(ldap.settings({ url, ca: authority.ca })), 'directory-tls, bind unsent')
})

t.test('a TLS handshake that never ends fails in time', async t => {
  const silent = await startLdapServer(t)
  const settings = ldap.settings({ url: silent.url.replace('ldap:', 'ldaps:'), timeoutMs: 300 })
  t.equal(await outcomeOf(settings), 'directory-timeout, bind unsent')
  t.same(silent.requests, [TLS_HANDSHAKE])
  await silent.idle()
})

t.test('the port is that of the address, or the usual one; a login that is over connects to nothing', async t => {
  t.match(await dial('ldap://127.127.127.127'), /127\.127\.127\.127:389$/)
  t.match(await dial('ldaps://127.127.127.127'), /127\.127\.127\.127:636$/)
  t.match(await dial('ldap://127.127.127.127:1'), /127\.127\.127\.127:1$/)
  t.match(await dial(ldap.url, { signal: AbortSignal.abort() }), /^directory-unreachable connect: /)
  await until(async () => (await ldap.connectionCount()) === 0)
})

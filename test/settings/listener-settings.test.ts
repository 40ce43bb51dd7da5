// CF-13, CF-14
import { join } from 'node:path'
import t from 'tap'
import { readSettings, SettingsError } from '../../gateway/settings/read-settings.ts'
import { createCertificateAuthority } from '../support/certificates.ts'

const JWT_SECRET = 'a secret for these settings, long enough: 3f81c2'

const read = (environment: Record<string, string>) => readSettings({ JWT_SECRET, ...environment }, [])

const mistakes = (environment: Record<string, string>): string[] => {
  try {
    read(environment)
    return []
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return error.mistakes.map(({ variable, message }) => `${variable} ${message}`)
  }
}

t.test('certificate and key go together, and are checked at the start', async t => {
  const folder = t.testdir({ nonsense: 'x' })
  const authority = createCertificateAuthority(folder)
  const [one, two] = [authority.issue('one'), authority.issue('two')]
  const both = { TLS_CERT_FILE: one.certFile, TLS_KEY_FILE: one.keyFile }
  t.match(read(both), { publicUrl: 'https://localhost:3000', tls: one, port: 3000 })
  t.equal(read({}).tls, undefined)
  t.strictSame(mistakes({ TLS_CERT_FILE: one.certFile }), ['TLS_KEY_FILE is required with TLS_CERT_FILE'])
  t.strictSame(mistakes({ TLS_KEY_FILE: one.keyFile }), ['TLS_CERT_FILE is required with TLS_KEY_FILE'])
  t.strictSame(mistakes({ ...both, TLS_CERT_FILE: join(folder, 'absent') }), ['TLS_CERT_FILE cannot be read'])
  t.strictSame(mistakes({ ...both, TLS_KEY_FILE: join(folder, 'nonsense') }), [
    'TLS_KEY_FILE must contain a private key in PEM format'
  ])
  t.strictSame(mistakes({ ...both, TLS_KEY_FILE: two.keyFile }), [
    'TLS_KEY_FILE is not the key of the first certificate in TLS_CERT_FILE'
  ])
})

t.test('an address that browsers see over plain HTTP is worth a warning beside TLS', async t => {
  const { certFile, keyFile } = createCertificateAuthority(t.testdir({})).issue('one')
  const warningsOf = (environment: Record<string, string>) => read(environment).warnings.join('\n')
  const both = { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }
  t.match(warningsOf({ ...both, PUBLIC_URL: 'http://localhost:3000' }), /^TLS_CERT_FILE is set but PUBLIC_URL is http/m)
  t.match(warningsOf({ REDIRECT_PORT: '8080' }), /^REDIRECT_PORT is set but PUBLIC_URL is http/m)
  t.notMatch(warningsOf({ ...both, REDIRECT_PORT: '8080' }), /PUBLIC_URL is http/)
})

t.test('ports differ, and PROXY headers need to be trusted', async t => {
  const clash = 'REDIRECT_PORT must be neither PORT nor OPS_PORT'
  t.strictSame(mistakes({ PORT: '3000', REDIRECT_PORT: '3000' }), [clash])
  t.strictSame(mistakes({ OPS_PORT: '9000', REDIRECT_PORT: '9000' }), [clash])
  t.equal(read({ REDIRECT_PORT: '0', PORT: '0' }).redirectPort, 0)
  t.match(mistakes({ PROXY_PROTOCOL: 'true' }), [/^TRUST_PROXY is required with PROXY_PROTOCOL/])
  t.equal(read({ PROXY_PROTOCOL: 'true', TRUST_PROXY: '10.0.0.0/8' }).proxyProtocol, true)
})

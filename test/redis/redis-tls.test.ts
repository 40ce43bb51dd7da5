// Redis over TLS: certificates are verified both ways, and what is wrong with one is named.
import t, { type Test } from 'tap'
import { type CertificateFiles, createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { openStore, startLimiter } from '../support/limiters.ts'
import { freePort } from '../support/ports.ts'
import { startRedis } from '../support/redis.ts'
import { makeFolder } from '../support/server-process.ts'

const folder = makeFolder(t, 'redis-tls')
const authority = createCertificateAuthority(folder)
const good = authority.issue('redis')

const startTls = async (t: Test, { certFile, keyFile }: CertificateFiles, clients: 'yes' | 'no' = 'no') => {
  const port = await freePort()
  const files = ['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-ca-cert-file', authority.caFile]
  await startRedis(t, ['--tls-port', `${port}`, ...files, '--tls-auth-clients', clients])
  return `rediss://127.0.0.1:${port}`
}

t.test('a Redis whose certificate is verified is used, also one that asks for a certificate', async t => {
  const certificates = { ca: authority.ca, ...pemOf(authority.issue('gateway')) }
  for (const clients of ['no', 'yes'] as const) {
    const store = await openStore(t, await startTls(t, good, clients), undefined, { certificates })
    await store.set('a', '1', 60_000)
    t.equal(await store.get('a'), '1')
  }
})

// RV-48
t.test('a failure of TLS is named, once', async t => {
  const trusting = { ca: authority.ca }
  const worlds = [
    [good, 'no', {}, 'tls-unknown-ca', 'SELF_SIGNED_CERT_IN_CHAIN'],
    [authority.selfSigned('other'), 'no', trusting, 'tls-unknown-ca', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    [authority.issue('old', { expired: true }), 'no', trusting, 'tls-expired', 'CERT_HAS_EXPIRED'],
    [
      authority.issue('elsewhere', { names: ['DNS:elsewhere'] }),
      'no',
      trusting,
      'tls-wrong-name',
      'ERR_TLS_CERT_ALTNAME_INVALID'
    ],
    [good, 'yes', trusting, 'tls-client-refused', 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'],
    [
      good,
      'yes',
      { ...trusting, ...pemOf(authority.selfSigned('stranger')) },
      'tls-client-refused',
      'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA'
    ]
  ] as const
  for (const [server, clients, certificates, reason, code] of worlds) {
    const lines: object[] = []
    const log = { info: () => {}, warn: (fields: object) => void lines.push(fields) }
    const limiter = await startLimiter(t, await startTls(t, server, clients), { log }, 1000, { certificates })
    t.match(await limiter.take('global', 'x', 1, 60_000), { allowed: true })
    t.same(lines, [{ reason, code }])
    t.match(limiter.status(), { mode: 'degraded', reason })
    await limiter.close()
  }
})

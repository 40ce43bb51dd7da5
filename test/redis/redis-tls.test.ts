// Redis over TLS: certificates are verified both ways, and what is wrong with one is named.
import t, { type Test } from 'tap'
import { type CertificateFiles, createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { openStore, startLimiter } from '../support/limiters.ts'
import { freePort } from '../support/ports.ts'
import { startRedis } from '../support/redis.ts'
import { makeFolder } from '../support/server-process.ts'
import { until } from '../support/until.ts'

const folder = makeFolder(t, 'redis-tls')
const authority = createCertificateAuthority(folder)
const good = authority.issue('redis')

type Clients = 'yes' | 'no'

const start = async (t: Test, { certFile, keyFile }: CertificateFiles, clients: Clients, more: readonly string[]) => {
  const port = await freePort()
  const files = ['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-ca-cert-file', authority.caFile]
  const { command } = await startRedis(t, ['--tls-port', `${port}`, ...files, '--tls-auth-clients', clients, ...more])
  return { port, command }
}

const startTls = async (t: Test, files: CertificateFiles, clients: Clients = 'no') =>
  `rediss://127.0.0.1:${(await start(t, files, clients, [])).port}`

/** One node, which is known by its name. */
const startTlsCluster = async (t: Test, files: CertificateFiles) => {
  const words = ['--tls-cluster', 'yes', '--cluster-enabled', 'yes', '--cluster-announce-ip', 'localhost']
  const { port, command } = await start(t, files, 'no', words)
  await command('cluster', 'addslotsrange', '0', '16383')
  await until(async () => (await command('cluster', 'info')).includes('cluster_state:ok'))
  return `rediss-cluster://localhost:${port}`
}

t.test('a Redis whose certificate is verified is used, also one that asks for a certificate', async t => {
  const certificates = { ca: authority.ca, ...pemOf(authority.issue('gateway')) }
  for (const clients of ['no', 'yes'] as const) {
    const store = await openStore(t, await startTls(t, good, clients), undefined, { certificates })
    await store.set('a', '1', 60_000)
    t.equal(await store.get('a'), '1')
  }
})

t.test('a Cluster is reached by the name in its certificate, and an unknown CA is named', async t => {
  const url = await startTlsCluster(t, authority.issue('named', { names: ['DNS:localhost'] }))
  const store = await openStore(t, url, undefined, { certificates: { ca: authority.ca } })
  await store.set('a', '1', 60_000)
  t.equal(await store.get('a'), '1')

  const distrusting = await openStore(t, url, 1000)
  const fault = { reason: 'tls-unknown-ca', code: 'SELF_SIGNED_CERT_IN_CHAIN' }
  t.same(distrusting.failure(new Error('Connection is closed.')), fault)
})

// RV-48
t.test('what is wrong with the certificate of a Sentinel is named', async t => {
  const { port } = await start(t, good, 'no', [])
  const store = await openStore(t, `rediss-sentinel://127.0.0.1:${port}/main`, 1000)
  const fault = { reason: 'tls-unknown-ca', code: 'SELF_SIGNED_CERT_IN_CHAIN' }
  t.same(store.failure(new Error('Connection is closed.')), fault)
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

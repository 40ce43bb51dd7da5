// CF-13, CF-14
import { join } from 'node:path'
import t from 'tap'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { createCertificateAuthority } from '../support/certificates.ts'
import { type Environment, settingsMistakes } from '../support/settings-findings.ts'

const JWT_SECRET = 'a secret for these settings, long enough: 3f81c2'

const read = (environment: Environment) => readSettings({ JWT_SECRET, ...environment }, [])

const mistakes = (environment: Environment) => settingsMistakes({ JWT_SECRET, ...environment })

t.test('certificate and key go together, and are checked at the start', async t => {
  const folder = t.testdir({ nonsense: 'x' })
  const authority = createCertificateAuthority(folder)
  const [one, two] = [authority.issue('one'), authority.issue('two')]
  const both = { TLS_CERT_FILE: one.certFile, TLS_KEY_FILE: one.keyFile }
  t.match(read(both), { publicUrl: 'https://localhost:3000', tls: [one], port: 3000 })
  t.equal(read({}).tls, undefined)
  const nonsense = join(folder, 'nonsense')
  const absent = join(folder, 'absent')
  const isAbsent = 'cannot be read: the file does not exist'
  for (const [environment, ...expected] of [
    [{ TLS_CERT_FILE: one.certFile }, 'TLS_KEY_FILE is required with TLS_CERT_FILE'],
    [{ TLS_KEY_FILE: one.keyFile }, 'TLS_CERT_FILE is required with TLS_KEY_FILE'],
    [{ ...both, TLS_CERT_FILE: absent }, `TLS_CERT_FILE ${isAbsent}`],
    [{ ...both, TLS_KEY_FILE: nonsense }, 'TLS_KEY_FILE must contain a private key in PEM format'],
    [{ ...both, TLS_KEY_FILE: two.keyFile }, 'TLS_KEY_FILE is not the key of the first certificate in TLS_CERT_FILE'],
    [
      { TLS_CERT_FILE: nonsense, TLS_KEY_FILE: absent },
      'TLS_CERT_FILE must contain certificates in PEM format',
      `TLS_KEY_FILE ${isAbsent}`
    ],
    [
      { TLS_CERT_FILE: `${one.certFile},${nonsense}` },
      'TLS_CERT_FILE (file 2) must contain certificates in PEM format',
      'TLS_KEY_FILE is required with TLS_CERT_FILE'
    ],
    [
      { REDIS_URL: 'rediss://localhost', REDIS_KEY_FILE: absent },
      'REDIS_CERT_FILE is required with REDIS_KEY_FILE',
      `REDIS_KEY_FILE ${isAbsent}`
    ]
  ] as const)
    t.strictSame(mistakes(environment), expected)
})

t.test('several certificates are given pair by pair, each with the names that it is chosen by', async t => {
  const folder = t.testdir({ nonsense: 'x' })
  const authority = createCertificateAuthority(folder)
  const one = authority.issue('one', { names: ['DNS:One.Example', 'IP:::1', 'URI:https://forged.example'] })
  const [two, nameless] = [
    authority.issue('two', { names: ['DNS:*.two.example'] }),
    authority.selfSigned('nameless', [])
  ]
  const several = (...all: { certFile: string; keyFile: string }[]) => ({
    TLS_CERT_FILE: all.map(({ certFile }) => certFile).join(','),
    TLS_KEY_FILE: all.map(({ keyFile }) => keyFile).join(', ')
  })
  const { tls, warnings } = read({ ...several(one, two), PUBLIC_URL: 'https://one.example' })
  t.match(tls, [one, two])
  const names = tls?.map(({ pair }) => pair.names)
  t.strictSame(names, [['one.example', '::1'], ['*.two.example']])
  t.notMatch(warnings.join('\n'), /PUBLIC_URL/)
  const uncovered = read({ ...several(one, two), PUBLIC_URL: 'https://a.b.two.example' })
  t.match(uncovered.warnings.join('\n'), /host of PUBLIC_URL: .* 421$/m)

  const uneven = { ...several(one, two), TLS_KEY_FILE: one.keyFile }
  t.strictSame(mistakes(uneven), ['TLS_KEY_FILE must name as many files as TLS_CERT_FILE, in the same order'])
  const swapped = { ...several(one, two), TLS_KEY_FILE: `${one.keyFile},${one.keyFile}` }
  t.strictSame(mistakes(swapped), ['TLS_KEY_FILE (file 2) is not the key of the first certificate in TLS_CERT_FILE'])
  t.match(mistakes(several(nameless, two)), [/^TLS_CERT_FILE \(file 1\) has no subjectAltName/])
  t.strictSame(mistakes(several(nameless)), [], 'one alone is served whatever name is asked for')
})

t.test('an address that browsers see over plain HTTP is worth a warning beside TLS', async t => {
  const { certFile, keyFile } = createCertificateAuthority(t.testdir({})).issue('one')
  const warningsOf = (environment: Environment) => read(environment).warnings.join('\n')
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

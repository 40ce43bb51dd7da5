// Settings are read once, checked whole, and a gateway with a mistake in them does not start.
// JW-19, CF-13, CF-14, HD-09, SM-29
import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { groupSources, unassignedMayPass } from '../../gateway/settings/cloud.ts'
import { readSettings, SettingsError } from '../../gateway/settings/read-settings.ts'
import { VARIABLES } from '../../gateway/settings/table.ts'
import { usableCpus } from '../../gateway/settings/usable-cpus.ts'
import { settingsTable } from '../docs/tables.ts'
import { createCertificateAuthority } from '../support/certificates.ts'
import { only } from '../support/only.ts'
import { type Environment, settingsMistakes } from '../support/settings-findings.ts'
import { words } from '../support/words.ts'
import { fc } from '../support/worlds.ts'

const JWT_SECRET = randomBytes(32).toString('hex')

const read = (environment: Environment = {}) => readSettings({ JWT_SECRET, ...environment }, [])

const mistakesIn = (environment: Environment, execArgv: string[] = []) =>
  settingsMistakes({ JWT_SECRET, ...environment }, execArgv)

/** An environment, and of each mistake in it the variable and, where that matters, words of the message; none: it is accepted. */
type Row = readonly [environment: Environment, ...mistakes: string[]]

const check = (t: Test, rows: readonly Row[], execArgv: string[] = []): void => {
  for (const [environment, ...expected] of rows) {
    const said = mistakesIn(environment, execArgv)
    const isSaid =
      said.length === expected.length &&
      expected.every((one, index) => {
        const [, variable, advice = ''] = /^(.+?)(?:: (.*))?$/s.exec(one) ?? []
        return said[index]?.startsWith(`${variable} `) && said[index].includes(advice)
      })
    t.ok(isSaid, `${JSON.stringify(environment)}: ${expected.join(' and ')}`, { said })
  }
}

const unexpanded = (name: string): string => `$\{${name}}`

const LDAP = { LDAP_ENABLED: 'true', LDAP_URL: 'ldaps://dc.corp.example:636', LDAP_DOMAIN: 'corp.example' }
const SEARCH = { LDAP_SEARCH_BASE: 'dc=corp', LDAP_SEARCH_FILTER: '(uid={{username}})' }
const SERVICE = { LDAP_BIND_DN: 'cn=svc,dc=corp', LDAP_BIND_PASSWORD: 'senha' }
const CLOUD = { CLOUDIDP_ENABLED: 'true', CLOUDIDP_CLIENT_ID: 'portaria', CLOUDIDP_CLIENT_SECRET: 'a client secret' }

t.test('a secret is all it takes; every default is the documented one, follows from the rest, or is off', async t => {
  const settings = read()
  t.match(settings, {
    port: 3000,
    host: '0.0.0.0',
    dataDir: './data',
    upstreamConfig: 'upstream-config',
    rateLimit: { max: 300, windowMs: 60_000 },
    logLevel: 'info',
    workers: 1,
    connectionsPerIp: 1000,
    drainTimeoutMs: 10_000,
    loginFailures: { perIp: 20, windowMs: 300_000 },
    browserSession: false,
    revealReason: false,
    contact: undefined,
    brandName: 'Portaria',
    publicUrl: 'http://localhost:3000',
    frontendUrl: 'http://localhost:3000',
    frontendUrlGiven: false,
    databaseUrl: undefined,
    redis: undefined,
    trustProxy: only(),
    jwt: { secret: JWT_SECRET, previousSecrets: only(), expiresInMs: 8 * 3_600_000, sessionMaxMs: 8 * 3_600_000 },
    bootstrapAdmins: only(),
    ldap: {
      active: false,
      timeoutMs: 5000,
      startTls: false,
      insecure: false,
      lockoutThreshold: 5,
      lockoutWindowMs: 1_800_000
    },
    ops: { port: undefined, host: '127.0.0.1' },
    revocationMaxStalenessMs: undefined,
    otel: false
  })
  t.match(settings.cloudidp, {
    active: false,
    tenantId: 'common',
    stateMaxAgeMs: 600_000,
    tokenUrl: 'https://login.microsoftonline.com/common/oauth2/v2.0/token',
    profileUrl: 'https://graph.microsoft.com/v1.0/me',
    redirectUri: 'http://localhost:3000/auth/oauth/cloudidp/callback',
    successRedirectUrl: 'http://localhost:3000/auth/login',
    authorizationUrl: 'https://login.microsoftonline.com/common/oauth2/v2.0/authorize',
    scope: 'openid profile email User.Read'
  })
  t.ok(settings.warnings.some(warning => warning.includes('No login provider')))
})

t.test('settings are frozen to the bottom', async t => {
  const settings = read({ BOOTSTRAP_ADMINS: 'ldap:maria', REDIS_URL: 'redis-cluster://a,b' })
  const thawed = (value: unknown): boolean =>
    typeof value === 'object' && value !== null && (!Object.isFrozen(value) || Object.values(value).some(thawed))
  t.notOk(thawed(settings))
})

t.test('all mistakes are reported together, sorted by name, and none repeats a value', async t => {
  const secret = 'hunter2'
  const environment: Record<string, string> = { PATH: '/bin' }
  for (const { name } of VARIABLES) environment[name] = `${secret} \u0000 {{x}} ,,`
  try {
    readSettings(environment, [])
    t.fail('started')
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    const names = error.mistakes.map(({ variable }) => variable)
    t.same(names, names.toSorted())
    for (const name of words`PORT JWT_SECRET LDAP_URL LDAP_ENABLED REDIS_URL TRUST_PROXY WORKERS LOG_LEVEL`) {
      t.ok(names.includes(name), name)
    }
    t.notMatch(error.stack, secret)
    t.match(error.message, /^PORT must be a whole number from 0 to 65535$/m)
  }
})

t.test('whatever the environment holds, the answer is settings or a list of mistakes', async t => {
  const names = fc.constantFrom(...VARIABLES.map(({ name }) => name))
  const usual = words`true 0 1 8h http://a ldap://a * a,b 10.0.0.0/8 redis:// {{username}}`
  const values = fc.oneof(fc.string(), fc.constantFrom(...usual, unexpanded('A')))
  const property = fc.property(fc.dictionary(names, values, { maxKeys: 12 }), environment => {
    mistakesIn(environment)
    return true
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: 2000 }))
})

t.test('an empty variable counts as unset, blanks around a value do not count', async t => {
  t.match(read({ PORT: '', LDAP_ENABLED: ' ', RATE_LIMIT_MAX: ' 7 ', LDAP_DOMAIN: 'corp.example\r' }), {
    port: 3000,
    rateLimit: { max: 7 },
    ldap: { active: false, domain: 'corp.example' }
  })
})

const NO_URL = words`
  gate.example ftp://a https://u:p@a https://a?x=1 https://a#f javascript:alert(1) https:// https://*.a https:a
`
const NO_TIME = words`0 25d minute`
/** What is none of a variable's values, under the words with which it is refused. */
const WRONG: Readonly<Record<string, readonly string[]>> = {
  'JWT_EXPIRES_IN: a duration with its unit: 500ms, 30s, 10m, 8h, 1d': words`
    8 8hours -8h 1.5h 8H h 0h 999ms 366d 1e3s Infinity
  `,
  'DRAIN_TIMEOUT: a duration with its unit': ['10'],
  'LDAP_TIMEOUT_MS: milliseconds, or 500ms, 30s': NO_TIME,
  'RATE_LIMIT_TTL_MS: milliseconds, or 500ms, 30s': NO_TIME,
  'CLOUDIDP_STATE_MAX_AGE_MS: milliseconds, or 500ms, 30s': NO_TIME,
  'LDAP_ENABLED: must be true or false': words`1 0 yes on t truee`,
  'PORT: must be a whole number from 0 to 65535': words`-1 65536 80.5 0x50 1e3 http 0.0.0.0:3000`,
  'RATE_LIMIT_MAX: a whole number from 1 to': words`0 -5 many 1e3`,
  'LDAP_LOCKOUT_THRESHOLD: from 2 to': words`0 1`,
  'LOGIN_FAILURES_PER_IP: from 1 to': ['0'],
  'WORKERS: a whole number from 1 to 256': words`0 257`,
  'OPS_PORT: a whole number from 0': words`70000`,
  'OPS_PORT: must not be the same as PORT': words`3000`,
  'MAX_BODY: must be a size such as 512KB or 10MB': words`0 -1 10mb 1.5MB none`,
  'STREAMS_PER_USER: such as 10%': words`10 0% 101%`,
  'TRUST_PROXY: such as 10.0.0.1,192.168.0.0/16: no host names, no true and no hop count': words`true 1 loopback proxy.internal 10.0.0.0/33 10.0.0.1;10.0.0.2`,
  'TRUST_PROXY: must not trust every address': words`0.0.0.0/0 ::/0`,
  PUBLIC_URL: NO_URL,
  FRONTEND_URL: NO_URL,
  'PUBLIC_URL: such as https://gateway.example.org': ['gateway.example'],
  'PUBLIC_URL: an origin without a path, such as https://HOST[:PORT]': ['https://a/path'],
  'PUBLIC_URL: the value includes its quotes: remove them': ['"https://g.example"'],
  'CORS_ORIGINS: must list each origin': ['*'],
  'CORS_ORIGINS: such as https://': words`
    null https://*.example app.example app://a/x app://* htps://a.example wss://a.example file://a
    javascript://x data://x blob://x about://x
  `,
  'ALLOWED_HOSTS: without http://': words`https://a.example *.example.org`,
  'AUTH_PROVIDERS: must contain only ldap and cloudidp': words`google ldap;cloudidp LDAP ldap,azure`,
  'AUTH_PROVIDERS: contains an empty entry': ['ldap,'],
  'BOOTSTRAP_ADMINS: must contain ldap:<login> or cloudidp:<subject>': words`
    maria google:1 cloudidp:maria@corp.example ldap:CORP\maria ldap: LDAP:maria
  `,
  'CLOUDIDP_TENANT_ID: must be a tenant id': ['../evil'],
  'CLOUDIDP_ALLOWED_TENANTS: either * alone': ['*,a'],
  'CLOUDIDP_REDIRECT_URI: begins with https://': ['/callback'],
  'DATABASE_URL: must be postgres://user:password@host:5432/name': words`
    mysql://db db:5432 postgres://u:p#x@db postgres://a:1,b:x/x localhost:5432/x
    postgres://db/x% postgres://db/x%ff postgres://u:%ff@db/x postgres://u:1?x@db/x postgres://u:%zz%80@db/x
  `,
  DATABASE_LISTEN_URL: ['http://a'],
  DATABASE_POOL_SIZE: ['3'],
  'REDIS_URL: must be redis://host:6379/0': words`cache:6379 http://cache redis:// redis://a#b unix:relative`,
  REDIS_URL: words`
    redis://a,b redis://a/x redis://a/0/1 redis://a:0 redis://a:70000 redis://u:p%zz@a redis://a?db=1
    redis-sentinel://a redis-sentinel://a/m/x redis-sentinel://a/m?y=1 redis-cluster://a/1 redis-cluster://a,,b
    unix:/a?db=x unix:/a?y=1
  `,
  'LOG_LEVEL: must be one of trace, debug': ['verbose'],
  HOST: ['http://0.0.0.0'],
  'HOST: must be an IP address or a host name, without a port': words`0.0.0.0:3000 localhost:3000 :3000 localhost: localhost:http`,
  'OPS_HOST: without a port': ['a b', '127.0.0.1:9100'],
  CONTACT: ['a\nb'],
  BRAND_NAME: ['a\nb'],
  'JWT_SECRETS: did you mean JWT_SECRET?': ['x'],
  'jwt_expires_in: did you mean JWT_EXPIRES_IN?': ['x'],
  'RATE_LIMIT_MAXIMUM: did you mean RATE_LIMIT_MAX?': ['x'],
  'LDAP_ULR: did you mean LDAP_URL?': ['x'],
  'LDAP_START_TLS: did you mean LDAP_STARTTLS?': ['x'],
  'JWT_SECRET_FIL: did you mean JWT_SECRET_FILE?': ['/run/secrets/jwt'],
  'LDAP_BIND_PASSWORD_FLIE: did you mean LDAP_BIND_PASSWORD_FILE?': ['/run/secrets/ldap'],
  'CLOUDIDP_CLIENTID: did you mean CLOUDIDP_CLIENT_ID?': ['x'],
  'CLOUDIDP_TENANT: did you mean CLOUDIDP_TENANT_ID?': ['x']
}

t.test('each variable refuses what is none of its values, under its own name and with the form to write', async t => {
  for (const [mistake, values] of Object.entries(WRONG)) {
    const [name = ''] = mistake.split(':')
    check(
      t,
      values.map(value => [{ [name]: value }, mistake] as const)
    )
  }
  check(t, [[{ NODE_ENV: 'production', REDIS_PORT: '1', LDAPTLS_CACERT: '/x', OTEL_SERVICE_NAME: 'x' }]])
})

t.test('values are read as they are meant', async t => {
  t.match(
    read({
      BROWSER_SESSION: 'TRUE',
      REVEAL_REASON: 'False',
      OPS_PORT: '9100',
      MAX_BODY: '10MB',
      TRUST_PROXY: '10.0.0.0/8, 192.168.1.1,fd00::/8',
      CORS_ORIGINS: 'capacitor://localhost, https://a.example/,app://.',
      CONTACT: 'TI, ramal 42',
      BRAND_NAME: 'Acme & Filhos',
      BOOTSTRAP_ADMINS: 'ldap:maria, cloudidp:00000000-1',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318'
    }),
    {
      browserSession: true,
      revealReason: false,
      ops: { port: 9100 },
      maxBodyBytes: 10 * 1024 * 1024,
      trustProxy: only('10.0.0.0/8', '192.168.1.1', 'fd00::/8'),
      corsOrigins: only('capacitor://localhost', 'https://a.example', 'app://.'),
      contact: 'TI, ramal 42',
      brandName: 'Acme & Filhos',
      bootstrapAdmins: only({ provider: 'ldap', subject: 'maria' }, { provider: 'cloudidp', subject: '00000000-1' }),
      otel: true
    }
  )
  t.equal(read({ MAX_BODY: '1000' }).maxBodyBytes, 1000)
  for (const port of [0, 65_535]) t.equal(read({ PORT: `${port}` }).port, port)
  for (const host of words`:: ::1 fe80::1%eth0 ::ffff:127.0.0.1 127.0.0.1 gate_1.corp.example`)
    t.equal(read({ HOST: host }).host, host)
  for (const off of [{ OTEL_SDK_DISABLED: 'true' }, { OTEL_TRACES_EXPORTER: 'None' }])
    t.equal(read({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', ...off }).otel, false)
})

t.test('the sampler is read as OpenTelemetry defines it, where an empty variable is unset too', async t => {
  const sampler = (OTEL_TRACES_SAMPLER: string, OTEL_TRACES_SAMPLER_ARG: string) =>
    read({ OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG }).otelSampler
  for (const [name, argument, parentBased, ratio] of [
    ['', '', true, 1],
    ['unknown', '0.5', true, 1],
    ['always_off', '', false, 0],
    ['parentbased_always_on', '0', true, 1],
    ['traceidratio', '0.25', false, 0.25],
    ['parentbased_traceidratio', '0', true, 0],
    ['parentbased_traceidratio', '', true, 1],
    ['ALWAYS_OFF', '', false, 0],
    ['traceidratio', '2', false, 1],
    ['traceidratio', 'half', false, 1]
  ] as const)
    t.same(sampler(name, argument), { parentBased, ratio }, `${name} ${argument}`)
})

t.test('what tracing cannot do as it was asked is worth a warning', async t => {
  const warned = (environment: Environment) => read(environment).warnings.filter(warning => warning.startsWith('OTEL_'))
  const general = 'OTEL_EXPORTER_OTLP_ENDPOINT'
  const traces = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'
  for (const address of ['collector:4318', 'collector', 'grpc://collector:4317']) {
    t.match(warned({ [general]: address }), [/^OTEL_EXPORTER_OTLP_ENDPOINT must begin with http/], address)
    t.match(warned({ [general]: 'http://a', [traces]: address }), [/^OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must/], address)
    t.same(warned({ [general]: address, [traces]: 'https://collector.example/v1/traces' }), [], 'it is not used')
    t.same(warned({ [general]: address, OTEL_SDK_DISABLED: 'true' }), [])
  }
  t.same(warned({ [general]: 'http://collector:4318', [traces]: '' }), [])
  const sampled = (OTEL_TRACES_SAMPLER: string, OTEL_TRACES_SAMPLER_ARG: string) =>
    warned({ [general]: 'http://collector:4318', OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG })
  t.match(sampled('parentbased_traceidration', '0.1'), [/^OTEL_TRACES_SAMPLER is unknown/])
  t.match(sampled('traceidratio', '10%'), [/^OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1/])
  for (const [name = '', argument = ''] of [[], ['parentbased_traceidratio', '0.1'], ['ALWAYS_ON', '10%']])
    t.same(sampled(name, argument), [], name)
})

t.test('durations take units, and plain milliseconds only where the name ends in _MS', async t => {
  t.equal(read({ RATE_LIMIT_TTL_MS: '1500' }).rateLimit.windowMs, 1500)
  t.equal(read({ RATE_LIMIT_TTL_MS: '2m' }).rateLimit.windowMs, 120_000)
  t.equal(read({ DRAIN_TIMEOUT: '500ms' }).drainTimeoutMs, 500)
  t.equal(read({ DRAIN_TIMEOUT: '0s' }).drainTimeoutMs, 0)
  t.equal(read({ REVOCATION_MAX_STALENESS: '30s' }).revocationMaxStalenessMs, 30_000)
  t.match(read({ JWT_EXPIRES_IN: '30d' }).jwt, { expiresInMs: 30 * 86_400_000 })
  t.match(read({ JWT_EXPIRES_IN: '30m' }).jwt, { expiresInMs: 1_800_000, sessionMaxMs: 1_800_000 })
  t.match(read({ JWT_EXPIRES_IN: '30m', SESSION_MAX: '12h' }).jwt, { sessionMaxMs: 43_200_000 })
  check(t, [[{ JWT_EXPIRES_IN: '8h', SESSION_MAX: '7h' }, 'SESSION_MAX']])
})

t.test('a signing secret is long, no sample and no placeholder', async t => {
  const refused: Readonly<Record<string, readonly string[]>> = {
    'must be at least 32 bytes, e.g. from `openssl rand -hex 32`': ['a', 'secret', 'x'.repeat(31), 'é'.repeat(15)],
    'must not be a sample value': [
      'a-string-secret-at-least-256-bits-long',
      'your-super-secret-jwt-token-with-at-least-32-characters-long',
      'change-me-change-me-change-me-change-me',
      'changeme'.repeat(8),
      'SecretSecretSecretSecretSecretSecret',
      'a'.repeat(40),
      'ab'.repeat(16),
      '0123456789'.repeat(4)
    ],
    placeholder: [
      unexpanded('JWT_SECRET_OF_THE_PRODUCTION_ENVIRONMENT'),
      '$JWT_SECRET_OF_THE_PRODUCTION_ENVIRONMENT',
      '<a long random secret that is unique here>'
    ]
  }
  for (const [why, secrets] of Object.entries(refused))
    for (const secret of secrets)
      check(t, [
        [{ JWT_SECRET: secret }, `JWT_SECRET: ${why}`],
        [{ JWT_PREVIOUS_SECRETS: `${JWT_SECRET},${secret}` }, `JWT_PREVIOUS_SECRETS: ${why}`]
      ])
  check(t, [
    [{ JWT_SECRET: '' }, 'JWT_SECRET: is required: at least 32 random bytes, e.g. from `openssl rand -hex 32`'],
    [{ LDAP_URL: unexpanded('LDAP_URL'), CLOUDIDP_CLIENT_ID: '$(CLIENT_ID)' }, 'CLOUDIDP_CLIENT_ID', 'LDAP_URL']
  ])
  t.equal(read({ JWT_SECRET: 'éãõçàâêíôúÉÃÕÇÀÂ' }).jwt.secret.length, 16, 'bytes count, not characters')
  t.equal(read({ JWT_SECRET: ` ${JWT_SECRET}\r\n` }).jwt.secret, ` ${JWT_SECRET}`, 'without the line break at its end')
  const [one, two] = [randomBytes(32).toString('base64'), randomBytes(32).toString('hex')]
  t.same(read({ JWT_PREVIOUS_SECRETS: `${one}, ${two},${one},${JWT_SECRET}` }).jwt.previousSecrets, [one, two])
})

t.test('a secret that somebody typed is worth a warning', async t => {
  const typed = [
    'Portaria-Prod-1!'.repeat(3),
    '0123456789abcdef0123456789abcdef',
    'this-is-a-very-long-secret-key-for-jwt-signing',
    'MyCompany-Production-Password-2026!'
  ]
  const warns = (secret: string) =>
    read({ JWT_SECRET: secret }).warnings.some(warning => warning.startsWith('JWT_SECRET does not look random'))
  for (const secret of typed) t.ok(warns(secret), secret)
  const warnings = (previous: string) => read({ JWT_PREVIOUS_SECRETS: previous }).warnings.join('\n')
  t.match(warnings('0123456789abcdef'.repeat(3)), 'JWT_PREVIOUS_SECRETS contains a secret that does not look random')
  t.notMatch(warnings(randomBytes(32).toString('hex')), 'JWT_PREVIOUS_SECRETS')
  for (let n = 0; n < 200; n++) {
    const random = randomBytes(32)
    for (const encoding of ['hex', 'base64', 'base64url'] as const) t.notOk(warns(random.toString(encoding)))
  }
  t.notOk(warns('correct horse battery staple and then some'))
})

t.test('a password in Latin-1, or behind a byte order mark, is worth a warning', async t => {
  const folder = t.testdir({ latin: Buffer.from('señora', 'latin1'), marked: '\uFEFFseñora', plain: 'señora' })
  const warned = (name: string) => {
    const file = { LDAP_BIND_PASSWORD_FILE: join(folder, name) }
    return read({ ...LDAP, ...SEARCH, LDAP_BIND_DN: 'cn=svc,dc=corp', ...file }).warnings.filter(warning =>
      warning.startsWith('LDAP_BIND_PASSWORD ')
    )
  }
  t.match(warned('latin'), [/^LDAP_BIND_PASSWORD is not UTF-8/])
  t.match(warned('marked'), [/^LDAP_BIND_PASSWORD begins with a byte order mark/])
  t.same(warned('plain'), [])
})

t.test('a secret that could not be a previous one is worth a warning, from a file too', async t => {
  const warns = (environment: Record<string, string>) =>
    read(environment).warnings.some(warning => warning.startsWith('JWT_SECRET contains a comma, or a blank'))
  const [one, two] = JWT_SECRET.match(/.{20}/g) ?? []
  const folder = t.testdir({ comma: `${one},${two}\n`, blank: `${JWT_SECRET} \r\n`, plain: `${JWT_SECRET}\n` })
  const fromFile = (name: string) => warns({ JWT_SECRET: '', JWT_SECRET_FILE: join(folder, name) })
  for (const secret of [`${one},${two}`, ` ${JWT_SECRET}`, `${JWT_SECRET}\t`])
    t.ok(warns({ JWT_SECRET: secret }), secret)
  t.ok(fromFile('comma'))
  t.ok(fromFile('blank'))
  t.notOk(warns({ JWT_SECRET: `${one} ${two}` }), 'a blank between is kept')
  t.notOk(fromFile('plain'))
})

t.test('a cloud login ends at an address with letters beyond ASCII, which a Location field cannot contain', async t => {
  const endsAt = (url: string) => read({ CLOUDIDP_SUCCESS_REDIRECT_URL: url }).cloudidp.successRedirectUrl
  t.equal(endsAt('https://münchen.example/início?a=é'), 'https://xn--mnchen-3ya.example/in%C3%ADcio?a=%C3%A9')
  t.equal(endsAt('https://App.example'), 'https://App.example', 'anything else stays as written')
})

t.test('public addresses are plain http or https', async t => {
  const settings = read({ PUBLIC_URL: 'https://Gate.example:443/', FRONTEND_URL: 'https://app.example/base/' })
  t.match(settings, {
    publicUrl: 'https://gate.example',
    frontendUrl: 'https://app.example/base',
    frontendUrlGiven: true
  })
  t.match(settings.cloudidp, {
    redirectUri: 'https://gate.example/auth/oauth/cloudidp/callback',
    successRedirectUrl: 'https://app.example/base/login'
  })
  t.equal(read({ PORT: '8080' }).publicUrl, 'http://localhost:8080')
  t.ok(read({ PUBLIC_URL: 'http://gate.example' }).warnings.some(warning => warning.startsWith('PUBLIC_URL')))
  check(t, [[{ PUBLIC_URL: 'http://gate.example', BROWSER_SESSION: 'true' }, 'BROWSER_SESSION']])
})

const PLAIN_LDAP = { ...LDAP, LDAP_URL: 'ldap://dc.corp.example' }
const TWO_SERVERS = { ...LDAP, ...SEARCH, ...SERVICE, LDAP_URL: 'ldaps://a.example,ldaps://b.example:1636' }
const GROUPS = { ...TWO_SERVERS, LDAP_GROUP_BASE: 'ou=groups,dc=corp' }
const FEW_FAILURES = { ...LDAP, LDAP_LOCKOUT_THRESHOLD: '2' }

t.test('an active directory is complete, and passwords never travel to it in clear text unnoticed', async t => {
  check(t, [
    [
      { LDAP_ENABLED: 'true' },
      'LDAP_DOMAIN: or LDAP_USER_DN_TEMPLATE or LDAP_BIND_DN is required',
      'LDAP_URL: is required when LDAP_ENABLED is true, for example ldaps://dc1.corp.example:636'
    ],
    [PLAIN_LDAP, 'LDAP_URL: use ldaps:// or LDAP_STARTTLS=true'],
    [{ ...PLAIN_LDAP, LDAP_STARTTLS: 'true' }],
    [{ ...LDAP, LDAP_STARTTLS: 'true' }, 'LDAP_STARTTLS'],
    ...['localhost:389', '127.0.0.1', '[::1]:3890'].map((host): Row => [{ ...LDAP, LDAP_URL: `ldap://${host}` }]),
    [{ ...LDAP, LDAP_URL: 'dc.corp.example' }, 'LDAP_URL: such as ldaps://dc1.corp.example:636'],
    ...words`
      http://dc ldaps://u:p@dc ldaps://dc/dc=corp ldaps:// ldaps://a, ldaps://a,http://b ldap://a,ldaps://b
    `.map((url): Row => [{ ...LDAP, LDAP_URL: url }, 'LDAP_URL']),
    // The name with which a person binds.
    [{ LDAP_USER_DN_TEMPLATE: 'uid=maria' }, 'LDAP_USER_DN_TEMPLATE: must contain {{username}}'],
    [{ LDAP_USER_DN_TEMPLATE: 'uid={username},dc=x' }, 'LDAP_USER_DN_TEMPLATE: must contain {{username}}'],
    [{ LDAP_USER_DN_TEMPLATE: 'uid={{username}},o={{org}}' }, 'LDAP_USER_DN_TEMPLATE'],
    [{ LDAP_USER_DN_TEMPLATE: 'uid={{username}},ou=x,' }, 'LDAP_USER_DN_TEMPLATE: begins like a DN but is none'],
    // A search has both its base and its filter.
    [{ ...LDAP, ...SEARCH, LDAP_SEARCH_FILTER: '(&(objectClass=person)(uid={{username}}))' }],
    [{ LDAP_SEARCH_BASE: 'dc=corp' }, 'LDAP_SEARCH_FILTER'],
    [{ LDAP_SEARCH_FILTER: '(uid={{username}})' }, 'LDAP_SEARCH_BASE'],
    [{ ...SEARCH, LDAP_SEARCH_FILTER: '(uid=maria)' }, 'LDAP_SEARCH_FILTER: must contain {{username}}'],
    [
      { ...SEARCH, LDAP_SEARCH_FILTER: 'uid={{username}}' },
      'LDAP_SEARCH_FILTER: in parentheses (RFC 4515), e.g. (uid={{username}})'
    ],
    // A service account is complete.
    [{ ...TWO_SERVERS, LDAP_BIND_PASSWORD: '' }, 'LDAP_BIND_PASSWORD: is required with LDAP_BIND_DN'],
    [{ ...TWO_SERVERS, LDAP_BIND_DN: 'external' }, 'LDAP_BIND_DN'], // LD-02
    [{ ...TWO_SERVERS, LDAP_BIND_DN: '' }, 'LDAP_BIND_DN'],
    [
      { ...TWO_SERVERS, LDAP_SEARCH_BASE: '', LDAP_SEARCH_FILTER: '' },
      'LDAP_SEARCH_BASE: is required with LDAP_BIND_DN',
      'LDAP_SEARCH_FILTER: is required with LDAP_BIND_DN'
    ],
    [{ ...TWO_SERVERS, LDAP_SEARCH_FILTER: '' }, 'LDAP_SEARCH_FILTER: is required with LDAP_BIND_DN'],
    [{ ...TWO_SERVERS, LDAP_GROUP_FILTER: '(member={{dn}})' }, 'LDAP_GROUP_BASE'],
    ...words`(member=x) (member={{group}}) (member={{dn}}`.map(
      (filter): Row => [{ ...GROUPS, LDAP_GROUP_FILTER: filter }, 'LDAP_GROUP_FILTER']
    ),
    // Where an account may have two names, its lock-out must leave a failure for each.
    [FEW_FAILURES, 'LDAP_LOCKOUT_THRESHOLD'],
    [{ ...FEW_FAILURES, LDAP_LOCKOUT_THRESHOLD: '3' }],
    [{ ...FEW_FAILURES, LDAP_USER_DN_TEMPLATE: 'uid={{username}},dc=corp' }],
    [{ ...FEW_FAILURES, LDAP_USER_DN_TEMPLATE: 'CORP\\{{username}}' }],
    // Only active providers must be complete.
    [{ ...LDAP, AUTH_PROVIDERS: 'cloudidp', CLOUDIDP_ENABLED: 'false', LDAP_URL: '' }]
  ])
  const template = 'uid={{username}},ou=people,dc=corp,dc=example'
  t.match(read({ ...LDAP, LDAP_USER_DN_TEMPLATE: template }).ldap, {
    active: true,
    url: 'ldaps://dc.corp.example:636',
    domain: 'corp.example',
    userDnTemplate: template
  })
  const groupFilter = '(member={{dn}})'
  t.match(read({ ...GROUPS, LDAP_GROUP_FILTER: groupFilter }).ldap, {
    bindDn: 'cn=svc,dc=corp',
    bindPassword: 'senha',
    searchBase: 'dc=corp',
    recheckMs: 900_000,
    groupBase: 'ou=groups,dc=corp',
    groupFilter
  })
  t.equal(read({ ...TWO_SERVERS, LDAP_RECHECK: '0' }).ldap.recheckMs, 0)
  const warns = (environment: Environment, said: RegExp) => t.match(read(environment).warnings.join('\n'), said)
  warns({ ...PLAIN_LDAP, LDAP_INSECURE: 'true' }, /clear text/)
  warns({ ...TWO_SERVERS, LDAP_USER_DN_TEMPLATE: template }, /LDAP_USER_DN_TEMPLATE is ignored/)
})

t.test('LDAP_CA_FILE is read once and must hold certificates', async t => {
  const folder = t.testdir({
    'empty.pem': '',
    'nonsense.pem': '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
  })
  const authority = createCertificateAuthority(folder)
  const { keyFile } = authority.issue('key')
  t.equal(read({ ...LDAP, LDAP_CA_FILE: authority.caFile }).ldap.ca, authority.ca)
  for (const file of ['empty.pem', 'nonsense.pem', basename(keyFile), 'missing.pem', '.'])
    check(t, [[{ ...LDAP, LDAP_CA_FILE: join(folder, file) }, 'LDAP_CA_FILE']])
})

t.test('AUTH_PROVIDERS narrows what is enabled', async t => {
  const active = (environment: Environment) => {
    const { ldap, cloudidp } = read(environment)
    return [ldap.active, cloudidp.active]
  }
  t.same(active({ ...LDAP, ...CLOUD }), [true, true])
  t.same(active({ ...LDAP, ...CLOUD, AUTH_PROVIDERS: ' ldap ' }), [true, false])
  t.same(active({ AUTH_PROVIDERS: 'ldap,cloudidp' }), [false, false])
})

t.test('an active cloud provider is complete and spoken to over https', async t => {
  const ISSUER = { ...CLOUD, CLOUDIDP_ISSUER: 'https://idp.example' }
  check(t, [
    [
      { CLOUDIDP_ENABLED: 'true' },
      'CLOUDIDP_CLIENT_ID: is required when CLOUDIDP_ENABLED is true',
      'CLOUDIDP_CLIENT_SECRET'
    ],
    ...['CLOUDIDP_ISSUER', 'CLOUDIDP_PROFILE_URL'].flatMap((name): Row[] => [
      [{ ...CLOUD, [name]: 'http://idp.example' }, `${name}: must be https:// except for loopback`],
      [{ ...CLOUD, [name]: 'http://127.0.0.1:4000' }],
      [{ ...CLOUD, [name]: 'http://idp.example', CLOUDIDP_INSECURE: 'true' }],
      [{ ...CLOUD, [name]: 'https://idp.example/{{realm}}' }, name]
    ]),
    [{ ...CLOUD, CLOUDIDP_TOKEN_URL: 'https://idp.example/token' }, 'CLOUDIDP_AUTHORIZATION_URL'],
    [{ ...ISSUER, CLOUDIDP_SCOPE: 'profile' }, 'CLOUDIDP_SCOPE'],
    [{ ...CLOUD, CLOUDIDP_SUCCESS_REDIRECT_URL: 'https://app.example/#/login' }, 'CLOUDIDP_SUCCESS_REDIRECT_URL']
  ])
  const tenant = { CLOUDIDP_TENANT_ID: 'corp.example', CLOUDIDP_ISSUER: 'https://idp.example/{{tenant}}/v2.0' }
  t.match(read({ ...CLOUD, ...tenant }).cloudidp, {
    issuer: 'https://idp.example/corp.example/v2.0',
    tokenUrl: 'https://login.microsoftonline.com/corp.example/oauth2/v2.0/token',
    scope: 'openid profile email'
  })
  const registered = 'https://Gate.example/cb'
  t.equal(read({ CLOUDIDP_REDIRECT_URI: registered }).cloudidp.redirectUri, registered, 'kept as registered')
})

t.test('tenants are listed, or * stands alone', async t => {
  const tenants = (listed: string) => read({ CLOUDIDP_ALLOWED_TENANTS: listed }).cloudidp.allowedTenants
  t.same(['a-1, b-2', '*', ''].map(tenants), [['a-1', 'b-2'], ['*'], undefined])
  t.ok(read(CLOUD).warnings.some(warning => warning.includes('Anyone can have an account')))
  t.notOk(read({ ...CLOUD, CLOUDIDP_ALLOWED_TENANTS: 'a' }).warnings.some(warning => warning.includes('Anyone')))
})

// RW-51
t.test('a tenant of everybody is one in any case, and in an address that names another tenant', async t => {
  const everybody = read({
    ...CLOUD,
    CLOUDIDP_TENANT_ID: 'Common',
    CLOUDIDP_ISSUER: 'https://idp.example/{{tenant}}'
  })
  t.notOk(unassignedMayPass(everybody.cloudidp.tenantId, undefined))
  t.equal(groupSources(everybody).claims, 'by-tenant')
  const listed = (allowedTenants: string[]) =>
    groupSources({ ...everybody, cloudidp: { ...everybody.cloudidp, tenantId: 'corp.example', allowedTenants } }).claims
  t.same([listed(['a']), listed(['a', 'b']), listed(['*'])], ['any', 'by-tenant', 'by-tenant'])
  t.ok(everybody.warnings.some(warning => warning.includes('Anyone can have an account')))

  const microsoft = (path: string) => `https://login.microsoftonline.com/${path}`
  const [id, CLOUDIDP_ISSUER] = ['72f988bf-86f1-41af-91ab-2d7cd011db47', microsoft('Organizations/v2.0')]
  const endpoints = {
    ...CLOUD,
    CLOUDIDP_AUTHORIZATION_URL: microsoft('common/oauth2/v2.0/authorize'),
    CLOUDIDP_TOKEN_URL: microsoft('common/oauth2/v2.0/token')
  }
  const named = { ...CLOUD, CLOUDIDP_TENANT_ID: 'corp.example', CLOUDIDP_ISSUER }
  check(t, [
    [named, 'CLOUDIDP_ISSUER'],
    // Compared with the ID token; everybody is meant; those on the list; another provider; no tenant named.
    [{ ...named, CLOUDIDP_TENANT_ID: id }],
    [{ ...named, CLOUDIDP_TENANT_ID: 'common' }],
    [{ ...named, CLOUDIDP_ALLOWED_TENANTS: id }],
    [{ ...named, CLOUDIDP_ISSUER: 'https://idp.example/realms/common' }],
    [endpoints],
    [{ ...endpoints, CLOUDIDP_TENANT_ID: id }, 'CLOUDIDP_AUTHORIZATION_URL']
  ])
})

t.test('a setting that has no effect without another is worth a warning', async t => {
  for (const [name, value, needed] of [
    ['DATABASE_LISTEN_URL', 'postgres://u:p@db/x', 'DATABASE_URL'],
    ['LDAP_RECHECK', '5m', 'LDAP_BIND_DN'],
    ['CLOUDIDP_GROUPS_CLAIM', 'roles', 'CLOUDIDP_ISSUER'],
    ['AUDIT_ARCHIVE', '/archive', 'AUDIT_RETENTION']
  ] as const)
    t.match(read({ [name]: value }).warnings, [`${name} has no effect without ${needed}`])
  t.notMatch(read({ ...TWO_SERVERS, LDAP_RECHECK: '5m' }).warnings.join(), 'no effect')
})

t.test('several workers need stores that they can share', async t => {
  const stores = { DATABASE_URL: 'postgres://u:p@db/portaria', REDIS_URL: 'redis://cache' }
  check(t, [
    [{ WORKERS: '2' }, 'DATABASE_URL', 'REDIS_URL: is required when WORKERS is auto or more than 1'],
    // RV-128
    [{ WORKERS: 'auto' }, 'DATABASE_URL', 'REDIS_URL'],
    [{ DATABASE_URL: 'postgres://u:p@a:5432,b:5432/portaria?sslmode=verify-full' }],
    [{ DATABASE_URL: 'postgresql:///portaria?host=/run/postgresql' }]
  ])
  t.equal(read({ WORKERS: '2', ...stores }).workers, 2)
  t.equal(read({ WORKERS: 'auto', ...stores }).workers, usableCpus())
  const quotaOf = (quota: string) => t.testdir({ 'cpu.cfs_quota_us': quota, 'cpu.cfs_period_us': '100000\n' })
  t.equal(usableCpus(quotaOf('50000\n')), 1, 'half a CPU')
  t.equal(usableCpus(quotaOf('-1\n')), availableParallelism(), 'no quota')
  const warns = (url: string) => read({ DATABASE_URL: url }).warnings.some(text => text.includes('without TLS'))
  const plain = ['postgres://u:p@db/x', 'postgres://u:p@127.0.0.1:1,db:2/x?sslmode=disable', 'postgres:///x?host=db']
  for (const url of plain) t.ok(warns(url), url)
  t.ok(warns('postgres://u:p@db/x?ssl'), 'which pg takes for none')
  const listening = read({
    ...stores,
    DATABASE_URL: 'postgres://u:p@localhost/x',
    DATABASE_LISTEN_URL: 'postgres://u:p@db/x'
  })
  t.ok(listening.warnings.some(text => text.startsWith('DATABASE_LISTEN_URL names another host without TLS')))
  t.doesNotThrow(() => read({ DATABASE_URL: 'postgres://u:50%off@db/x?application_name=50%' }), 'as pg reads it')
  const sockets = ['postgres://u:p@%2Frun%2Fpostgresql/x', 'postgres://u:p@db/x?host=/run/postgresql']
  for (const url of ['postgres://u:p@a,b/x?sslmode=verify-full', 'postgres://u:p@localhost/x', ...sockets])
    t.notOk(warns(url), url)
})

t.test('REDIS_URL has a single, a Sentinel and a Cluster form', async t => {
  const server = (host: string, port: number) => ({ host, port })
  for (const [url, expected] of [
    ['redis://cache', { kind: 'single', host: 'cache', port: 6379, db: 0, tls: false }],
    [
      'rediss://user:p%40ss@[::1]:6380/2',
      { host: '::1', port: 6380, db: 2, tls: true, username: 'user', password: 'p@ss' }
    ],
    ['redis-sentinel://:pw@s1,s2:26380/mymaster/3?sentinelPassword=x', { kind: 'sentinel', name: 'mymaster', db: 3 }],
    ['redis-sentinel://s1,s2:26380/m', { sentinels: [server('s1', 26_379), server('s2', 26_380)] }],
    ['redis-sentinel://s1/m?sentinelPassword=x+y', { sentinelPassword: 'x+y' }],
    ['unix:/r.sock?password=a+b%20c%2Bd', { kind: 'unix', path: '/r.sock', password: 'a+b c+d' }],
    ['redis-sentinel://:pw@s1/m?sentinelPassword=x', { username: undefined, password: 'pw', sentinelPassword: 'x' }],
    ['rediss-cluster://n1:7000,n2', { nodes: [server('n1', 7000), server('n2', 6379)], tls: true }]
  ] as const)
    t.match(read({ REDIS_URL: url }).redis, expected, url)
})

t.test('a debugger that Node opens is worth a warning', async t => {
  const warned = (NODE_OPTIONS: string) =>
    read({ NODE_OPTIONS }).warnings.filter(warning => warning.includes('--inspect'))
  t.match(warned('--inspect=0.0.0.0:9229'), [/^NODE_OPTIONS contains --inspect/])
  for (const options of ['--inspect-port=0 --inspect-publish-uid=http', '--max-old-space-size=512'])
    t.same(warned(options), [])
})

t.test('switches of Node that make it lax keep the gateway from starting', async t => {
  for (const [option, value = ''] of [
    ['--insecure-http-parser'],
    ['--insecure_http_parser'],
    ['--max-http-header-size=1073741824'],
    ['--max-http-header-size', '999999'],
    ['--max-http-header-size=1g']
  ] as const) {
    check(t, [[{ NODE_OPTIONS: `--enable-source-maps "${option}" ${value}` }, 'NODE_OPTIONS']])
    check(t, [[{}, 'command line of node']], [option, value])
  }
  check(t, [
    [{ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, 'NODE_TLS_REJECT_UNAUTHORIZED'],
    [{ NODE_OPTIONS: '--max-old-space-size=512 --max-http-header-size=32768' }]
  ])
})

t.test('every variable that the code reads is a row of the table, and every row is read', async t => {
  const asked = new Set<string>()
  const environment = new Proxy<Record<string, string>>(
    { JWT_SECRET },
    {
      get: (target, name) => {
        asked.add(String(name))
        return Reflect.get(target, name)
      }
    }
  )
  readSettings(environment, [])
  const rows: readonly string[] = VARIABLES.map(({ name }) => name)
  const files = VARIABLES.filter(({ secret }) => secret === true).map(({ name }) => `${name}_FILE`)
  const foreign = [...asked].filter(
    name => !rows.includes(name) && !files.includes(name) && !/^(?:OTEL|NODE|LISTEN)_/.test(name)
  )
  t.same(foreign, [])
  const unread = rows.filter(name => !asked.has(name))
  t.same(unread, [])
  t.equal(new Set(rows).size, rows.length)
  for (const name of rows) t.match(settingsTable(), `| ${name} |`)
})

t.test('a secret may be read from a file', async t => {
  const folder = t.testdir({ secret: `${JWT_SECRET}\n`, two: 'senha \n\n', empty: '\n' })
  const file = (name: string) => join(folder, name)
  const service = { ...LDAP, ...SEARCH, LDAP_BIND_DN: 'cn=svc,dc=corp' }
  t.equal(read({ JWT_SECRET: '', JWT_SECRET_FILE: file('secret') }).jwt.secret, JWT_SECRET)
  t.equal(read({ ...service, LDAP_BIND_PASSWORD_FILE: file('two') }).ldap.bindPassword, 'senha \n')
  check(t, [
    ...['empty', 'absent'].map(
      (name): Row => [
        { ...service, LDAP_BIND_PASSWORD_FILE: file(name) },
        'LDAP_BIND_PASSWORD',
        'LDAP_BIND_PASSWORD_FILE'
      ]
    ),
    [{ JWT_SECRET: '', JWT_SECRET_FILE: '/none' }, 'JWT_SECRET_FILE: cannot be read: the file does not exist'],
    [{ JWT_SECRET: '', JWT_SECRET_FILE: '/' }, 'JWT_SECRET_FILE: cannot be read: it is a directory'],
    [{ JWT_SECRET: '', JWT_SECRET_FILE: '/dev/zero' }, 'JWT_SECRET_FILE: cannot be read: it is larger than 4 MB'],
    [{ JWT_SECRET_FILE: file('secret') }, 'JWT_SECRET_FILE: must not be set together with JWT_SECRET'],
    [{ LDAP_DOMAIN_FILE: file('secret') }, 'LDAP_DOMAIN_FILE']
  ])
})

t.test('a variable that is a typing mistake away from one of ours is a warning that names it', async t => {
  const near: [string, string][] = [
    ['DATABSE_URL', 'DATABASE_URL'],
    ['TRUSTPROXY', 'TRUST_PROXY'],
    ['WORKER', 'WORKERS'],
    ['PUBLIC_ULR', 'PUBLIC_URL'],
    ['REDIS_URL_FIL', 'REDIS_URL_FILE'],
    ['database_url', 'DATABASE_URL']
  ]
  for (const [name, meant] of near) {
    const warnings = read({ [name]: 'hunter2' }).warnings.filter(warning => warning.startsWith(name))
    t.match(warnings, [new RegExp(`did you mean ${meant}\\?`)], name)
    t.notMatch(warnings.join(), 'hunter2')
  }
  const others = words`
    HOME=/root PATH=/bin PWD=/ USER=x SHELL=/bin/sh TERM=xterm HOSTNAME=pod LANG=C NODE_ENV=production
    OTEL_SERVICE_NAME=x REDIS_SERVICE_HOST=10.0.0.1 REDIS_PORT=tcp://10.0.0.1:6379
    REDIS_PORT_6379_TCP_ADDR=10.0.0.1 LDAP_PORT=tcp://10.0.0.2:389 LDAP_SERVICE_PORT=389
    LDAP_SERVICE_PORT_LDAPS=636 LDAP_PORT_389_UDP=udp://10.0.0.2:389 LDAP_PORT_389_UDP_ADDR=10.0.0.2
    LDAP_PORT_636_SCTP_PROTO=sctp OPS_SERVICE_HOST=10.0.0.3 KUBERNETES_PORT_443_TCP=tcp://10.0.0.4:443 DATA=1
  `.map(one => one.split('='))
  const questions = read(Object.fromEntries(others)).warnings.filter(warning => warning.includes('did you mean'))
  t.same(questions, [])
  const links = { OPS_SERVICE_HOST: '10.0.0.3', REDIRECT_SERVICE_HOST: '10.0.0.5' }
  const linked = read({ ...links, OPS_PORT: 'tcp://10.0.0.3:9090', REDIRECT_PORT: 'udp://10.0.0.5:80' })
  t.match(linked, { ops: { port: undefined }, redirectPort: undefined }, 'Services named ops and redirect')
  t.match(read({ ...links, OPS_PORT: '9100' }), { ops: { port: 9100 } })
  check(t, [
    [{ OPS_PORT: 'tcp://10.0.0.3:9090' }, 'OPS_PORT'],
    [{ REDIS_URL: 'tcp://redis:6379' }, 'REDIS_URL'],
    [{ DATABASE_URL: 'tcp://db:5432' }, 'DATABASE_URL'],
    [{ PUBLIC_URL: 'tcp://gw:80', PORT: 'tcp://gw:80' }, 'PORT', 'PUBLIC_URL']
  ])
})

// Settings are read once, checked whole, and a gateway with a mistake in them does not start.
// JW-19, CF-13, CF-14, HD-09, SM-29
import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { basename, join } from 'node:path'
import t from 'tap'
import { groupSources, unassignedMayPass } from '../../gateway/settings/cloud.ts'
import { formatMistakes, readSettings, SettingsError } from '../../gateway/settings/read-settings.ts'
import { meantBy } from '../../gateway/settings/surroundings.ts'
import { VARIABLES } from '../../gateway/settings/table.ts'
import { usableCpus } from '../../gateway/settings/usable-cpus.ts'
import { parseDuration } from '../../gateway/values/quantities.ts'
import { settingsTable } from '../docs/tables.ts'
import { createCertificateAuthority } from '../support/certificates.ts'
import { only } from '../support/only.ts'
import { words } from '../support/words.ts'
import { fc } from '../support/worlds.ts'

const JWT_SECRET = randomBytes(32).toString('hex')

const read = (environment: Record<string, string> = {}, execArgv: string[] = []) =>
  readSettings({ JWT_SECRET, ...environment }, execArgv)

/** Names of the variables that are complained about. */
const mistaken = (environment: Record<string, string>, execArgv: string[] = []): string[] => {
  try {
    readSettings({ JWT_SECRET, ...environment }, execArgv)
    return []
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return error.mistakes.map(({ variable }) => variable)
  }
}

const unexpanded = (name: string): string => `$\{${name}}`

const LDAP = { LDAP_ENABLED: 'true', LDAP_URL: 'ldaps://dc.corp.example:636', LDAP_DOMAIN: 'corp.example' }
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
    t.notMatch(formatMistakes(error.mistakes), secret)
    t.notMatch(error.stack, secret)
    t.match(formatMistakes(error.mistakes), /^PORT must be a whole number from 0 to 65535$/m)
  }
})

t.test('whatever the environment holds, the answer is settings or a list of mistakes', async t => {
  const names = fc.constantFrom(...VARIABLES.map(({ name }) => name))
  const values = fc.oneof(
    fc.string(),
    fc.constantFrom(
      'true',
      '1',
      '8h',
      'http://a',
      'ldap://a',
      '*',
      'a,b',
      '10.0.0.0/8',
      'redis://',
      '{{username}}',
      unexpanded('A'),
      '0'
    )
  )
  const property = fc.property(fc.dictionary(names, values, { maxKeys: 12 }), environment => {
    mistaken(environment)
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

const PLAIN_URL = words`
  gate.example ftp://a https://u:p@a https://a?x=1 https://a#f javascript:alert(1) https:// https://*.a https:a
`
const TOO_SHORT_OR_LONG = words`0 25d`
/** Values that are mistakes by themselves. */
const WRONG: Readonly<Record<string, readonly string[]>> = {
  JWT_EXPIRES_IN: ['8', '8 h', '-8h', '1.5h', '8H', 'h', '0h', '999ms', '366d', '1e3s', 'Infinity'],
  LDAP_TIMEOUT_MS: TOO_SHORT_OR_LONG,
  RATE_LIMIT_TTL_MS: TOO_SHORT_OR_LONG,
  CLOUDIDP_STATE_MAX_AGE_MS: TOO_SHORT_OR_LONG,
  LDAP_ENABLED: words`1 0 yes on t truee`,
  PORT: words`-1 65536 80.5 0x50 1e3 http`,
  RATE_LIMIT_MAX: words`0 -5 many`,
  WORKERS: words`0 257`,
  LDAP_LOCKOUT_THRESHOLD: words`0 1`,
  LOGIN_FAILURES_PER_IP: ['0'],
  OPS_PORT: words`70000 3000`,
  MAX_BODY: words`0 -1 10mb 1.5MB none`,
  TRUST_PROXY: words`true 1 loopback proxy.internal 10.0.0.0/33 0.0.0.0/0 ::/0 10.0.0.1;10.0.0.2`,
  PUBLIC_URL: [...PLAIN_URL, 'https://a/path'],
  FRONTEND_URL: PLAIN_URL,
  AUTH_PROVIDERS: words`google ldap;cloudidp LDAP ldap,`,
  BOOTSTRAP_ADMINS: ['maria', 'google:1', 'cloudidp:maria@corp.example', 'ldap:CORP\\maria', 'ldap:', 'LDAP:maria'],
  CLOUDIDP_TENANT_ID: ['../evil'],
  CLOUDIDP_ALLOWED_TENANTS: ['*,a'],
  DATABASE_URL: words`mysql://db db:5432 postgres://u:p#x@db postgres://a:1,b:x/x`,
  REDIS_URL: words`
    cache:6379 http://cache redis:// redis://a,b redis://a/x redis://a/0/1 redis://a:0 redis://a:70000 redis://u:p%zz@a
    redis://a?db=1 redis-sentinel://a redis-sentinel://a/m/x redis-sentinel://a/m?y=1 redis-cluster://a/1
    redis-cluster://a,,b redis://a#b unix:relative unix:/a?db=x unix:/a?y=1
  `,
  LOG_LEVEL: ['verbose'],
  HOST: ['http://0.0.0.0'],
  OPS_HOST: ['a b'],
  CONTACT: ['a\nb'],
  BRAND_NAME: ['a\nb']
}

t.test('each variable refuses what is none of its values, under its own name', async t => {
  for (const [name, values] of Object.entries(WRONG))
    for (const value of values) t.same(mistaken({ [name]: value }), [name], `${name}=${value}`)
})

t.test('values are read as they are meant', async t => {
  t.match(
    read({
      BROWSER_SESSION: 'TRUE',
      REVEAL_REASON: 'False',
      OPS_PORT: '9100',
      MAX_BODY: '10MB',
      TRUST_PROXY: '10.0.0.0/8, 192.168.1.1,fd00::/8',
      CONTACT: 'TI, ramal 42',
      BRAND_NAME: 'Acme & Filhos',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318'
    }),
    {
      browserSession: true,
      revealReason: false,
      ops: { port: 9100 },
      maxBodyBytes: 10 * 1024 * 1024,
      trustProxy: only('10.0.0.0/8', '192.168.1.1', 'fd00::/8'),
      contact: 'TI, ramal 42',
      brandName: 'Acme & Filhos',
      otel: true
    }
  )
  t.equal(read({ MAX_BODY: '1000' }).maxBodyBytes, 1000)
  for (const port of [0, 65_535]) t.equal(read({ PORT: `${port}` }).port, port)
  t.equal(read({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', OTEL_SDK_DISABLED: 'true' }).otel, false)
})

t.test('durations take units, and plain milliseconds only where the name ends in _MS', async t => {
  const cases: [string, number][] = [
    ['500ms', 500],
    ['30s', 30_000],
    ['10m', 600_000],
    ['8h', 28_800_000],
    ['1d', 86_400_000]
  ]
  for (const [text, expected] of cases) t.equal(parseDuration(text), expected, text)
  t.equal(read({ RATE_LIMIT_TTL_MS: '1500' }).rateLimit.windowMs, 1500)
  t.equal(read({ RATE_LIMIT_TTL_MS: '2m' }).rateLimit.windowMs, 120_000)
  t.equal(read({ JWT_EXPIRES_IN: '30d' }).jwt.expiresInMs, 30 * 86_400_000)
  t.equal(read({ JWT_EXPIRES_IN: '30m' }).jwt.sessionMaxMs, 1_800_000)
  t.equal(read({ JWT_EXPIRES_IN: '30m', SESSION_MAX: '12h' }).jwt.sessionMaxMs, 43_200_000)
  t.same(mistaken({ JWT_EXPIRES_IN: '8h', SESSION_MAX: '7h' }), ['SESSION_MAX'])
  t.equal(read({ DRAIN_TIMEOUT: '0s' }).drainTimeoutMs, 0)
  t.equal(read({ REVOCATION_MAX_STALENESS: '30s' }).revocationMaxStalenessMs, 30_000)
})

t.test('a misspelt variable with one of our prefixes is an error that names the nearest one', async t => {
  const cases: [string, string][] = [
    ['LDAP_ULR', 'LDAP_URL'],
    ['LDAP_START_TLS', 'LDAP_STARTTLS'],
    ['CLOUDIDP_CLIENTID', 'CLOUDIDP_CLIENT_ID'],
    ['CLOUDIDP_TENANT', 'CLOUDIDP_TENANT_ID'],
    ['RATE_LIMIT_MAXIMUM', 'RATE_LIMIT_MAX'],
    ['JWT_SECRETS', 'JWT_SECRET'],
    ['jwt_expires_in', 'JWT_EXPIRES_IN']
  ]
  for (const [name, nearest] of cases) {
    t.same(mistaken({ [name]: 'x' }), [name])
    t.equal(meantBy(name), nearest)
  }
  t.same(
    mistaken({ NODE_ENV: 'production', REDIS_PORT: '1', LDAPTLS_CACERT: '/x', OTEL_SERVICE_NAME: 'x' }),
    [],
    'others are none of our business'
  )
})

t.test('a signing secret is long, no sample and no placeholder', async t => {
  const refused = [
    'a',
    'secret',
    'x'.repeat(31),
    'é'.repeat(15),
    'a-string-secret-at-least-256-bits-long',
    'your-super-secret-jwt-token-with-at-least-32-characters-long',
    'change-me-change-me-change-me-change-me',
    'SecretSecretSecretSecretSecretSecret',
    'a'.repeat(40),
    'ab'.repeat(16),
    '0123456789'.repeat(4),
    unexpanded('JWT_SECRET_OF_THE_PRODUCTION_ENVIRONMENT'),
    '$JWT_SECRET_OF_THE_PRODUCTION_ENVIRONMENT',
    '<a long random secret that is unique here>'
  ]
  for (const secret of refused) {
    t.same(mistaken({ JWT_SECRET: secret }), ['JWT_SECRET'], secret)
    t.same(
      mistaken({ JWT_PREVIOUS_SECRETS: `${JWT_SECRET},${secret}` }),
      ['JWT_PREVIOUS_SECRETS'],
      `previous ${secret}`
    )
  }
  t.same(mistaken({ JWT_SECRET: '' }), ['JWT_SECRET'], 'it is required')
  t.equal(read({ JWT_SECRET: 'éãõçàâêíôúÉÃÕÇÀÂ' }).jwt.secret.length, 16, 'bytes count, not characters')
  t.equal(
    read({ JWT_SECRET: ` ${JWT_SECRET}\r\n` }).jwt.secret,
    ` ${JWT_SECRET}`,
    'a line break at the end is left out'
  )
  const [one, two] = [randomBytes(32).toString('base64'), randomBytes(32).toString('hex')]
  t.same(read({ JWT_PREVIOUS_SECRETS: `${one}, ${two},${one},${JWT_SECRET}` }).jwt.previousSecrets, [one, two])
  t.same(mistaken({ LDAP_URL: unexpanded('LDAP_URL'), CLOUDIDP_CLIENT_ID: '$(CLIENT_ID)' }), [
    'CLOUDIDP_CLIENT_ID',
    'LDAP_URL'
  ])
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
  t.same(mistaken({ PUBLIC_URL: 'http://gate.example', BROWSER_SESSION: 'true' }), ['BROWSER_SESSION'])
})

t.test('an active directory is complete, and passwords never travel to it in clear text unnoticed', async t => {
  t.match(read(LDAP).ldap, { active: true, url: 'ldaps://dc.corp.example:636', domain: 'corp.example' })
  t.same(mistaken({ LDAP_ENABLED: 'true' }), ['LDAP_DOMAIN', 'LDAP_URL'])
  const plain = { ...LDAP, LDAP_URL: 'ldap://dc.corp.example' }
  t.same(mistaken(plain), ['LDAP_URL'])
  t.same(mistaken({ ...plain, LDAP_STARTTLS: 'true' }), [])
  for (const host of ['localhost:389', '127.0.0.1', '[::1]:3890'])
    t.same(mistaken({ ...LDAP, LDAP_URL: `ldap://${host}` }), [], host)
  t.ok(read({ ...plain, LDAP_INSECURE: 'true' }).warnings.some(warning => warning.includes('clear text')))
  t.same(mistaken({ ...LDAP, LDAP_STARTTLS: 'true' }), ['LDAP_STARTTLS'], 'ldaps:// needs no StartTLS')
  for (const url of ['dc.corp.example', 'http://dc', 'ldaps://u:p@dc', 'ldaps://dc/dc=corp', 'ldaps://']) {
    t.same(mistaken({ ...LDAP, LDAP_URL: url }), ['LDAP_URL'], url)
  }
})

t.test('templates contain the user name, and a search has both its base and its filter', async t => {
  const template = 'uid={{username}},ou=people,dc=corp,dc=example'
  const search = {
    LDAP_SEARCH_BASE: 'dc=corp,dc=example',
    LDAP_SEARCH_FILTER: '(&(objectClass=person)(uid={{username}}))'
  }
  t.match(read({ ...LDAP, ...search, LDAP_USER_DN_TEMPLATE: template }).ldap, {
    userDnTemplate: template,
    searchBase: search.LDAP_SEARCH_BASE
  })
  t.same(mistaken({ LDAP_USER_DN_TEMPLATE: 'uid=maria' }), ['LDAP_USER_DN_TEMPLATE'])
  t.same(mistaken({ LDAP_USER_DN_TEMPLATE: 'uid={{username}},o={{org}}' }), ['LDAP_USER_DN_TEMPLATE'])
  t.same(mistaken({ LDAP_SEARCH_BASE: search.LDAP_SEARCH_BASE }), ['LDAP_SEARCH_FILTER'])
  t.same(mistaken({ LDAP_SEARCH_FILTER: search.LDAP_SEARCH_FILTER }), ['LDAP_SEARCH_BASE'])
  for (const filter of words`
    (uid=maria) uid={{username}} ((uid={{username}}) (uid={{username}})) (uid={{username}})(x=y)
  `) {
    t.same(mistaken({ ...search, LDAP_SEARCH_FILTER: filter }).at(0), 'LDAP_SEARCH_FILTER', filter)
  }
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
    t.same(mistaken({ ...LDAP, LDAP_CA_FILE: join(folder, file) }), ['LDAP_CA_FILE'], file)
})

t.test('AUTH_PROVIDERS narrows what is enabled, and only active providers must be complete', async t => {
  t.match(read({ ...LDAP, ...CLOUD }), { ldap: { active: true }, cloudidp: { active: true } })
  t.match(read({ ...LDAP, ...CLOUD, AUTH_PROVIDERS: ' ldap ' }), {
    ldap: { active: true },
    cloudidp: { active: false }
  })
  t.match(read({ AUTH_PROVIDERS: 'ldap,cloudidp' }), { ldap: { active: false }, cloudidp: { active: false } })
  t.same(mistaken({ ...LDAP, AUTH_PROVIDERS: 'cloudidp', CLOUDIDP_ENABLED: 'false', LDAP_URL: '' }), [])
})

t.test('an active cloud provider is complete and spoken to over https', async t => {
  t.same(mistaken({ CLOUDIDP_ENABLED: 'true' }), ['CLOUDIDP_CLIENT_ID', 'CLOUDIDP_CLIENT_SECRET'])
  t.match(
    read({ ...CLOUD, CLOUDIDP_TENANT_ID: 'corp.example', CLOUDIDP_ISSUER: 'https://idp.example/{{tenant}}/v2.0' })
      .cloudidp,
    {
      issuer: 'https://idp.example/corp.example/v2.0',
      tokenUrl: 'https://login.microsoftonline.com/corp.example/oauth2/v2.0/token',
      scope: 'openid profile email'
    }
  )
  for (const name of ['CLOUDIDP_ISSUER', 'CLOUDIDP_PROFILE_URL']) {
    t.same(mistaken({ ...CLOUD, [name]: 'http://idp.example' }), [name])
    t.same(mistaken({ ...CLOUD, [name]: 'http://127.0.0.1:4000' }), [])
    t.same(mistaken({ ...CLOUD, [name]: 'http://idp.example', CLOUDIDP_INSECURE: 'true' }), [])
    t.same(mistaken({ ...CLOUD, [name]: 'https://idp.example/{{realm}}' }), [name])
  }
  t.same(mistaken({ ...CLOUD, CLOUDIDP_TOKEN_URL: 'https://idp.example/token' }), ['CLOUDIDP_AUTHORIZATION_URL'])
  t.same(mistaken({ ...CLOUD, CLOUDIDP_ISSUER: 'https://idp.example', CLOUDIDP_SCOPE: 'profile' }), ['CLOUDIDP_SCOPE'])
  t.same(mistaken({ ...CLOUD, CLOUDIDP_SUCCESS_REDIRECT_URL: 'https://app.example/#/login' }), [
    'CLOUDIDP_SUCCESS_REDIRECT_URL'
  ])
  t.equal(
    read({ CLOUDIDP_REDIRECT_URI: 'https://Gate.example/cb' }).cloudidp.redirectUri,
    'https://Gate.example/cb',
    'kept as registered'
  )
})

t.test('tenants are listed, or * stands alone', async t => {
  t.same(read({ CLOUDIDP_ALLOWED_TENANTS: 'a-1, b-2' }).cloudidp.allowedTenants, ['a-1', 'b-2'])
  t.same(read({ CLOUDIDP_ALLOWED_TENANTS: '*' }).cloudidp.allowedTenants, ['*'])
  t.equal(read().cloudidp.allowedTenants, undefined)
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
  t.ok(everybody.warnings.some(warning => warning.includes('Anyone can have an account')))

  const [issuer, id] = ['https://login.microsoftonline.com/Organizations/v2.0', '72f988bf-86f1-41af-91ab-2d7cd011db47']
  const mistakes = (more: Record<string, string>) => mistaken({ ...CLOUD, ...more })
  t.same(mistakes({ CLOUDIDP_TENANT_ID: 'corp.example', CLOUDIDP_ISSUER: issuer }), ['CLOUDIDP_ISSUER'])
  t.same(mistakes({ CLOUDIDP_TENANT_ID: id, CLOUDIDP_ISSUER: issuer }), [], 'compared with the ID token')
  t.same(mistakes({ CLOUDIDP_TENANT_ID: 'common', CLOUDIDP_ISSUER: issuer }), [], 'everybody is meant')
  const listed = { CLOUDIDP_ALLOWED_TENANTS: id }
  t.same(
    mistakes({ CLOUDIDP_TENANT_ID: 'corp.example', CLOUDIDP_ISSUER: issuer, ...listed }),
    [],
    'or those on the list'
  )
  const endpoints = {
    CLOUDIDP_AUTHORIZATION_URL: 'https://login.microsoftonline.com/common/oauth2/v2.0/authorize',
    CLOUDIDP_TOKEN_URL: 'https://login.microsoftonline.com/common/oauth2/v2.0/token'
  }
  t.same(mistakes({ CLOUDIDP_TENANT_ID: id, ...endpoints }), ['CLOUDIDP_AUTHORIZATION_URL'])
  t.same(mistakes(endpoints), [])
  t.same(mistakes({ CLOUDIDP_TENANT_ID: 'corp.example', CLOUDIDP_ISSUER: 'https://idp.example/realms/common' }), [])
})

t.test('first Admins are named by provider and subject, never by e-mail', async t => {
  t.same(read({ BOOTSTRAP_ADMINS: 'ldap:maria, cloudidp:00000000-1' }).bootstrapAdmins, [
    { provider: 'ldap', subject: 'maria' },
    { provider: 'cloudidp', subject: '00000000-1' }
  ])
})

t.test('several workers need stores that they can share', async t => {
  t.same(mistaken({ WORKERS: '2' }), ['DATABASE_URL', 'REDIS_URL'])
  const stores = { DATABASE_URL: 'postgres://u:p@db/portaria', REDIS_URL: 'redis://cache' }
  t.equal(read({ WORKERS: '2', ...stores }).workers, 2)
  // RV-128
  t.same(mistaken({ WORKERS: 'auto' }), ['DATABASE_URL', 'REDIS_URL'])
  t.equal(read({ WORKERS: 'auto', ...stores }).workers, usableCpus())
  const quotaOf = (quota: string) => t.testdir({ 'cpu.cfs_quota_us': quota, 'cpu.cfs_period_us': '100000\n' })
  t.equal(usableCpus(quotaOf('50000\n')), 1, 'half a CPU')
  t.equal(usableCpus(quotaOf('-1\n')), availableParallelism(), 'no quota')
  t.same(mistaken({ DATABASE_URL: 'postgres://u:p@a:5432,b:5432/portaria?sslmode=verify-full' }), [])
  t.same(mistaken({ DATABASE_LISTEN_URL: 'http://a', DATABASE_POOL_SIZE: '3' }), [
    'DATABASE_LISTEN_URL',
    'DATABASE_POOL_SIZE'
  ])
  const warns = (url: string) => read({ DATABASE_URL: url }).warnings.some(text => text.includes('without TLS'))
  t.ok(warns('postgres://u:p@db/x'))
  t.ok(warns('postgres://u:p@127.0.0.1:1,db:2/x?sslmode=disable'))
  t.notOk(warns('postgres://u:p@a,b/x?sslmode=verify-full'))
  t.notOk(warns('postgres://u:p@localhost/x'))
  t.same(mistaken({ DATABASE_URL: 'postgresql:///portaria?host=/run/postgresql' }), [])
})

t.test('REDIS_URL has a single, a Sentinel and a Cluster form', async t => {
  for (const [url, expected] of [
    ['redis://cache', { kind: 'single', host: 'cache', port: 6379, db: 0, tls: false }],
    [
      'rediss://user:p%40ss@[::1]:6380/2',
      { host: '::1', port: 6380, db: 2, tls: true, username: 'user', password: 'p@ss' }
    ],
    ['redis-sentinel://:pw@s1,s2:26380/mymaster/3?sentinelPassword=x', { kind: 'sentinel', name: 'mymaster', db: 3 }],
    [
      'redis-sentinel://s1,s2:26380/m',
      {
        sentinels: [
          { host: 's1', port: 26_379 },
          { host: 's2', port: 26_380 }
        ]
      }
    ],
    ['redis-sentinel://:pw@s1/m?sentinelPassword=x', { username: undefined, password: 'pw', sentinelPassword: 'x' }],
    [
      'rediss-cluster://n1:7000,n2',
      {
        nodes: [
          { host: 'n1', port: 7000 },
          { host: 'n2', port: 6379 }
        ],
        tls: true
      }
    ]
  ] as const)
    t.match(read({ REDIS_URL: url }).redis, expected, url)
})

t.test('switches of Node that make it lax keep the gateway from starting', async t => {
  t.same(mistaken({ NODE_TLS_REJECT_UNAUTHORIZED: '0' }), ['NODE_TLS_REJECT_UNAUTHORIZED'])
  for (const option of [
    '--insecure-http-parser',
    '--insecure_http_parser',
    '--max-http-header-size=1073741824',
    '--max-http-header-size 999999',
    '--max-http-header-size=1g'
  ]) {
    t.same(
      mistaken({ NODE_OPTIONS: `--enable-source-maps "${option.split(' ')[0]}" ${option.split(' ')[1] ?? ''}` }),
      ['NODE_OPTIONS'],
      option
    )
    t.same(mistaken({}, option.split(' ')), ['command line of node'], option)
  }
  t.same(mistaken({ NODE_OPTIONS: '--max-old-space-size=512 --max-http-header-size=32768' }), [])
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
  const files = VARIABLES.filter(({ file }) => file === true).map(({ name }) => `${name}_FILE`)
  const foreign = [...asked].filter(
    name => !rows.includes(name) && !files.includes(name) && !/^(?:OTEL|NODE|LISTEN)_/.test(name)
  )
  t.same(foreign, [])
  t.same(
    rows.filter(name => !asked.has(name)),
    []
  )
  t.equal(new Set(rows).size, rows.length)
  for (const name of rows) t.match(settingsTable(), `| ${name} |`)
})

t.test('a secret may be read from a file', async t => {
  const folder = t.testdir({ secret: `${JWT_SECRET}\n`, two: 'senha \n\n', empty: '\n' })
  const service = {
    ...LDAP,
    LDAP_BIND_DN: 'cn=svc,dc=corp',
    LDAP_SEARCH_BASE: 'dc=corp',
    LDAP_SEARCH_FILTER: '(uid={{username}})'
  }
  t.equal(read({ JWT_SECRET: '', JWT_SECRET_FILE: join(folder, 'secret') }).jwt.secret, JWT_SECRET)
  t.equal(read({ ...service, LDAP_BIND_PASSWORD_FILE: join(folder, 'two') }).ldap.bindPassword, 'senha \n')
  for (const file of ['empty', 'absent']) {
    t.same(mistaken({ ...service, LDAP_BIND_PASSWORD_FILE: join(folder, file) }), [
      'LDAP_BIND_PASSWORD',
      'LDAP_BIND_PASSWORD_FILE'
    ])
  }
  t.same(mistaken({ JWT_SECRET_FILE: join(folder, 'secret') }), ['JWT_SECRET_FILE'], 'both are set')
  t.same(mistaken({ LDAP_DOMAIN_FILE: join(folder, 'secret') }), ['LDAP_DOMAIN_FILE'], 'no secret')
})

t.test('a service account of the directory is complete and replaces the template', async t => {
  const search = { LDAP_SEARCH_BASE: 'dc=corp', LDAP_SEARCH_FILTER: '(uid={{username}})' }
  const account = { LDAP_BIND_DN: 'cn=svc,dc=corp', LDAP_BIND_PASSWORD: 'senha' }
  const whole = { LDAP_ENABLED: 'true', LDAP_URL: 'ldaps://a.example,ldaps://b.example:1636', ...search, ...account }
  t.match(read(whole).ldap, { bindDn: 'cn=svc,dc=corp', bindPassword: 'senha', recheckMs: 900_000 })
  t.same(mistaken({ ...whole, LDAP_BIND_PASSWORD: '' }), ['LDAP_BIND_PASSWORD'])
  t.same(mistaken({ ...whole, LDAP_BIND_DN: 'external' }), ['LDAP_BIND_DN']) // LD-02
  t.same(mistaken({ ...whole, LDAP_BIND_DN: '' }), ['LDAP_BIND_DN', 'LDAP_DOMAIN'])
  t.same(mistaken({ ...whole, LDAP_SEARCH_BASE: '', LDAP_SEARCH_FILTER: '' }), ['LDAP_SEARCH_BASE'])
  t.ok(read({ ...whole, LDAP_USER_DN_TEMPLATE: 'uid={{username}},dc=corp' }).warnings.some(w => /TEMPLATE/.test(w)))
  t.equal(read({ ...whole, LDAP_RECHECK: '0' }).ldap.recheckMs, 0)
  t.match(read({ ...whole, LDAP_GROUP_BASE: 'ou=groups,dc=corp', LDAP_GROUP_FILTER: '(member={{dn}})' }).ldap, {
    groupBase: 'ou=groups,dc=corp',
    groupFilter: '(member={{dn}})'
  })
  t.same(mistaken({ ...whole, LDAP_GROUP_FILTER: '(member={{dn}})' }), ['LDAP_GROUP_BASE'])
  const groups = { ...whole, LDAP_GROUP_BASE: 'ou=groups,dc=corp' }
  for (const filter of ['(member=x)', '(member={{group}})', '(member={{dn}}'])
    t.same(mistaken({ ...groups, LDAP_GROUP_FILTER: filter }), ['LDAP_GROUP_FILTER'], filter)
  for (const url of ['ldaps://a.example,', 'ldaps://a.example,http://b.example', 'ldap://a.example,ldaps://b.example'])
    t.same(mistaken({ ...whole, LDAP_URL: url }), ['LDAP_URL'], url)
})

t.test('where an account may have two names, its lock-out must leave a failure for each', async t => {
  const low = { ...LDAP, LDAP_LOCKOUT_THRESHOLD: '2' }
  t.same(mistaken(low), ['LDAP_LOCKOUT_THRESHOLD'])
  t.same(mistaken({ ...low, LDAP_LOCKOUT_THRESHOLD: '3' }), [])
  t.same(mistaken({ ...low, LDAP_USER_DN_TEMPLATE: 'uid={{username}},dc=corp' }), [])
  t.same(mistaken({ ...low, LDAP_USER_DN_TEMPLATE: 'CORP\\{{username}}' }), [])
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
    LDAP_SERVICE_PORT_LDAPS=636 OPS_SERVICE_HOST=10.0.0.3 KUBERNETES_PORT_443_TCP=tcp://10.0.0.4:443 DATA=1
  `.map(one => one.split('='))
  t.same(
    read(Object.fromEntries(others)).warnings.filter(warning => warning.includes('did you mean')),
    []
  )
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

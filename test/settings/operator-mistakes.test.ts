// What an operator probably meant: each plausible mistake in a setting is reported with the form to write, never with the value.
import t from 'tap'
import { readSettings, SettingsError } from '../../gateway/settings/read-settings.ts'

const JWT_SECRET = 'Zx8#kQ2!vR7$mW4%tY9&pL3*nB6^cF1@'
const LDAP = {
  LDAP_ENABLED: 'true',
  LDAP_URL: 'ldaps://ldap.example',
  LDAP_USER_DN_TEMPLATE: 'uid={{username}},dc=x'
}
const CLOUD = { CLOUDIDP_ENABLED: 'true', CLOUDIDP_CLIENT_ID: 'x', CLOUDIDP_CLIENT_SECRET: 'y' }

const saidOf = (environment: Record<string, string>): string => {
  try {
    return readSettings({ JWT_SECRET, ...environment }).warnings.join('\n')
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return error.message
  }
}

const MISTAKES: readonly (readonly [environment: Record<string, string>, advice: string])[] = [
  [{ JWT_SECRET: '' }, 'JWT_SECRET is required: at least 32 random bytes, e.g. from `openssl rand -hex 32`'],
  [{ JWT_SECRET: 'short' }, 'JWT_SECRET must be at least 32 bytes, e.g. from `openssl rand -hex 32`'],
  [{ JWT_SECRET: 'changeme'.repeat(8) }, 'must not be a sample value'],
  [{ JWT_PREVIOUS_SECRETS: 'short' }, 'JWT_PREVIOUS_SECRETS contains a secret that must be at least 32 bytes'],
  [{ JWT_SECRET: '', JWT_SECRET_FILE: '/none' }, 'JWT_SECRET_FILE cannot be read: the file does not exist'],
  [{ JWT_SECRET: '', JWT_SECRET_FILE: '/' }, 'JWT_SECRET_FILE cannot be read: it is a directory'],
  [{ JWT_SECRET_FILE: '/none' }, 'must not be set together with JWT_SECRET'],
  [{ JWT_SECERT: 'x' }, 'did you mean JWT_SECRET?'],
  [{ JWT_TTL: '8h' }, 'did you mean JWT_EXPIRES_IN?'],
  [{ JWT_EXPIRES_IN: '8 hours' }, 'a duration with its unit: 500ms, 30s, 10m, 8h, 1d'],
  [{ DRAIN_TIMEOUT: '10' }, 'a duration with its unit'],
  [{ RATE_LIMIT_TTL_MS: 'minute' }, 'milliseconds, or 500ms, 30s'],
  [{ RATE_LIMIT_WINDOW: '1m' }, 'did you mean RATE_LIMIT_TTL_MS?'],
  [{ RATE_LIMIT_MAX: '1e3' }, 'a whole number from 1 to'],
  [{ PORT: '0.0.0.0:3000' }, 'PORT must be a whole number from 0 to 65535'],
  [{ PUBLIC_URL: 'gateway.example' }, 'such as https://gateway.example.org'],
  [{ PUBLIC_URL: 'https://g.example/app' }, 'an origin without a path, such as https://HOST[:PORT]'],
  [{ PUBLIC_URL: '"https://g.example"' }, 'the value includes its quotes: remove them'],
  [{ DATABASE_URL: 'localhost:5432/x' }, 'must be postgres://user:password@host:5432/name'],
  [{ DATABSE_URL: 'x' }, 'did you mean DATABASE_URL?'],
  [{ REDIS_URL: 'localhost:6379' }, 'must be redis://host:6379/0'],
  [{ WORKERS: '4' }, 'REDIS_URL is required when WORKERS is auto or more than 1'],
  [{ TRUST_PROXY: 'true' }, 'such as 10.0.0.1,192.168.0.0/16: no host names, no true and no hop count'],
  [{ TRUST_PROXY: '10.0.0.0/33' }, 'such as 10.0.0.1,192.168.0.0/16'],
  [{ BROWSER_SESSION: 'yes' }, 'must be true or false'],
  [{ LOG_LEVEL: 'verbose' }, 'must be one of trace, debug'],
  [{ CORS_ORIGINS: '*' }, 'must list each origin'],
  [{ CORS_ORIGINS: 'null' }, 'such as https://'],
  [{ CORS_ORIGINS: 'https://*.example' }, 'such as https://'],
  [{ CORS_ORIGINS: 'app.example' }, 'such as https://'],
  [{ ALLOWED_HOSTS: 'https://a.example' }, 'without http://'],
  [{ ALLOWED_HOSTS: '*.example.org' }, 'without http://'],
  [{ STREAMS_PER_USER: '10' }, 'such as 10%'],
  [{ OPS_PORT: '3000' }, 'must not be the same as PORT'],
  [{ TLS_CERT_FILE: '/none' }, 'TLS_KEY_FILE is required with TLS_CERT_FILE'],
  [
    { LDAP_ENABLED: 'true' },
    'LDAP_URL is required when LDAP_ENABLED is true, for example ldaps://dc1.corp.example:636'
  ],
  [{ ...LDAP, LDAP_URL: 'ldap.example' }, 'such as ldaps://dc1.corp.example:636'],
  [{ ...LDAP, LDAP_URL: 'ldap://ldap.example' }, 'use ldaps:// or LDAP_STARTTLS=true'],
  [{ ...LDAP, LDAP_BASE_DN: 'dc=x' }, 'did you mean LDAP_SEARCH_BASE?'],
  [{ ...LDAP, LDAP_USER_DN_TEMPLATE: 'uid={username},dc=x' }, 'must contain {{username}}'],
  [
    { ...LDAP, LDAP_SEARCH_BASE: 'dc=x', LDAP_SEARCH_FILTER: 'uid={{username}}' },
    'in parentheses (RFC 4515), e.g. (uid={{username}})'
  ],
  [{ ...LDAP, LDAP_USER_DN_TEMPLATE: 'uid={{username}},ou=people,' }, 'begins like a DN but is none'],
  [{ ...LDAP, LDAP_BIND_DN: 'cn=svc,dc=x' }, 'LDAP_BIND_PASSWORD is required with LDAP_BIND_DN'],
  [{ ...LDAP, BOOTSTRAP_ADMINS: 'maria' }, 'must contain ldap:<login> or cloudidp:<subject>'],
  [{ ...LDAP, AUTH_PROVIDERS: 'ldap,azure' }, 'must contain only ldap and cloudidp'],
  [{ CLOUDIDP_ENABLED: 'true' }, 'CLOUDIDP_CLIENT_ID is required when CLOUDIDP_ENABLED is true'],
  [{ ...CLOUD, CLOUDIDP_ISSUER: 'http://login.example' }, 'must be https:// except for loopback'],
  [{ ...CLOUD, CLOUDIDP_REDIRECT_URI: '/callback' }, 'begins with https://']
]

t.test('a mistake in a setting is reported with the form to write', async t => {
  for (const [environment, advice] of MISTAKES) {
    const said = saidOf(environment)
    t.ok(said.includes(advice), advice, { said, environment })
  }
})

t.test('a file that cannot be read is one mistake, not two', async t => {
  t.notMatch(saidOf({ JWT_SECRET: '', JWT_SECRET_FILE: '/none' }), /JWT_SECRET is required/)
})

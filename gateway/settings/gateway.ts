// Reads the gateway's own settings, together with those of the providers.
import { isLoopbackHost, parseNetwork } from '../values/addresses.ts'
import { MAX_TIMER_MS } from '../values/quantities.ts'
import { isAppOrigin, postgresUrls } from '../values/urls.ts'
import { type CloudIdpSettings, readCloudIdp } from './cloud.ts'
import { readLdap } from './directory.ts'
import { listenerWarnings, readListeners } from './listeners.ts'
import { baseUrl, checkUrl, type Environment, isPlainBeyondLoopback, type Reader } from './reader.ts'
import { readRedis } from './redis.ts'
import { readSecrets } from './secrets.ts'
import type { VariableName } from './table.ts'
import { isTracing, readSampler, tracingWarnings } from './tracing.ts'
import { usableCpus } from './usable-cpus.ts'

/** All settings. Mistakes are recorded with the reader, anything less in `warnings`. */
export const readGateway = (reader: Reader, environment: Environment, warnings: string[]) => {
  const listener = readListeners(reader, environment)
  const origins = readOrigins(reader, listener, warnings)
  const isListed = readProviders(reader)
  const ldap = readLdap(reader, isListed('ldap'), warnings)
  const cloudidp = readCloudIdp(reader, isListed('cloudidp'), origins, warnings)
  warnings.push(...tracingWarnings(environment))
  for (const [name, needed] of NEEDS)
    if (reader.given(name) && !reader.given(needed)) warnings.push(`${name} has no effect without ${needed}`)
  if (!ldap.active && !cloudidp.active)
    warnings.push('No login provider is active: people cannot log in, only service accounts can get tokens')
  return {
    ...listener,
    ...origins,
    ...readStores(reader, warnings),
    upstreamConfig: reader.text('UPSTREAM_CONFIG') ?? '',
    trustProxy: readTrustProxy(reader),
    jwt: { ...readSecrets(reader, warnings), ...readLifetimes(reader) },
    accessTokenConfirmMs: readAccessTokenConfirm(reader),
    assertionKeyRotationMs: reader.duration('ASSERTION_KEY_ROTATION', { min: 3_600_000, max: 3660 * DAY_MS }),
    bootstrapAdmins: readBootstrapAdmins(reader),
    /** Undefined: entries of the audit log stay. */
    auditRetention: readAuditRetention(reader),
    ...readLimits(reader),
    ldap,
    cloudidp,
    /** Settings with an http:// address to which session tokens go, beside an https:// PUBLIC_URL. */
    plainAddresses: readPlainAddresses(reader, origins, cloudidp, warnings),
    logLevel: reader.matching('LOG_LEVEL', LOG_LEVEL, `must be one of ${LOG_LEVELS.join(', ')}`) ?? '',
    /** Time after SIGTERM in which readiness already fails. */
    drainDelayMs: reader.duration('DRAIN_DELAY', { min: 0, max: MAX_TIMER_MS }),
    drainTimeoutMs: reader.duration('DRAIN_TIMEOUT', { min: 0, max: MAX_TIMER_MS }),
    revocationMaxStalenessMs: reader.optionalDuration('REVOCATION_MAX_STALENESS'),
    browserSession: readBrowserSession(reader, origins.publicUrl),
    revealReason: reader.boolean('REVEAL_REASON'),
    ...readWords(reader),
    /** Whether any OTEL_* variable requests trace export. */
    otel: isTracing(environment),
    otelSampler: readSampler(environment),
    /** Shown at startup, e.g. that no login provider is active. */
    warnings
  }
}

const NEEDS: readonly (readonly [VariableName, VariableName])[] = [
  ['DATABASE_LISTEN_URL', 'DATABASE_URL'],
  ['LDAP_RECHECK', 'LDAP_BIND_DN'],
  ['CLOUDIDP_GROUPS_CLAIM', 'CLOUDIDP_ISSUER'],
  ['AUDIT_ARCHIVE', 'AUDIT_RETENTION']
]

const DAY_MS = 86_400_000
const COUNT = { min: 1, max: 1_000_000_000 }

const readLifetimes = (reader: Reader): { expiresInMs: number; sessionMaxMs: number } => {
  const range = { min: 1000, max: 365 * DAY_MS }
  const expiresInMs = reader.duration('JWT_EXPIRES_IN', range)
  const sessionMaxMs = reader.optionalDuration('SESSION_MAX', range) ?? expiresInMs
  if (sessionMaxMs < expiresInMs) reader.mistake('SESSION_MAX', 'must not be shorter than JWT_EXPIRES_IN')
  return { expiresInMs, sessionMaxMs }
}

export const readAccessTokenConfirm = (reader: Reader): number =>
  reader.duration('ACCESS_TOKEN_CONFIRM', { min: 60_000, max: 3660 * DAY_MS })

const readLimits = (reader: Reader) => ({
  rateLimit: { max: reader.integer('RATE_LIMIT_MAX', COUNT), windowMs: reader.duration('RATE_LIMIT_TTL_MS') },
  connectionsPerIp: reader.integer('CONNECTIONS_PER_IP', COUNT),
  maxBodyBytes: reader.optionalSize('MAX_BODY'),
  /** Above 0 and at most 1. */
  streamShares: { perUser: reader.share('STREAMS_PER_USER'), perIp: reader.share('STREAMS_PER_IP') },
  loginFailures: readLoginFailures(reader)
})

export const readLoginFailures = (reader: Reader) => ({
  perIp: reader.integer('LOGIN_FAILURES_PER_IP', COUNT),
  windowMs: reader.duration('LOGIN_FAILURES_WINDOW', { min: 1, max: DAY_MS })
})

const readWords = (reader: Reader) => ({
  contact: reader.matching('CONTACT', /^[^\p{Cc}]{1,200}$/u, 'must be one line of at most 200 characters'),
  brandName: reader.matching('BRAND_NAME', /^[^\p{Cc}]{1,64}$/u, 'must be one line of at most 64 characters') ?? ''
})

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']
const LOG_LEVEL = new RegExp(`^(?:${LOG_LEVELS.join('|')})$`)

const HOST_AND_PORT = /^(?:[a-z0-9](?:[a-z0-9._-]{0,252})|\[[0-9a-f:.]+\])(?::\d{1,5})?$/

export const readAllowedHosts = (reader: Reader): string[] => {
  if (!reader.given('ALLOWED_HOSTS')) return reader.given('PUBLIC_URL') ? [] : ['*']
  const hosts = reader.list('ALLOWED_HOSTS').map(host => host.toLowerCase())
  if (hosts.some(host => host !== '*' && !HOST_AND_PORT.test(host))) {
    reader.mistake(
      'ALLOWED_HOSTS',
      'must contain hosts such as app.example.org or app.example.org:8443, without http://, or *'
    )
  }
  return hosts
}

// `*` would let any page use a token pasted into it; `null` is the origin of every sandboxed page.
const readCorsOrigins = (reader: Reader): string[] =>
  reader.list('CORS_ORIGINS').flatMap(text => {
    if (isAppOrigin(text)) return text
    if (text !== '*') return checkUrl(reader, 'CORS_ORIGINS', text, { path: false })?.origin ?? []
    reader.mistake('CORS_ORIGINS', 'must list each origin; * would let every page call the gateway')
    return []
  })

const readOrigins = (reader: Reader, listener: ReturnType<typeof readListeners>, warnings: string[]) => {
  const own = `${listener.tls === undefined ? 'http' : 'https'}://localhost:${listener.port}`
  const publicUrl = baseUrl(reader, 'PUBLIC_URL', reader.text('PUBLIC_URL') ?? own, false)
  const given = reader.text('FRONTEND_URL')
  if (publicUrl.startsWith('http:') && !isLoopbackHost(new URL(publicUrl).hostname)) {
    warnings.push('PUBLIC_URL is http://: passwords and tokens are sent in clear text')
  }
  warnings.push(...listenerWarnings(listener, publicUrl))
  const frontendUrl = given === undefined ? publicUrl : baseUrl(reader, 'FRONTEND_URL', given, true)
  return {
    /** Origin that browsers see, without a trailing slash. */
    publicUrl,
    publicUrlGiven: reader.given('PUBLIC_URL'),
    /** Hosts in addition to publicUrl's that backends may receive, in lower case; `*`: any. */
    allowedHosts: readAllowedHosts(reader),
    /** Origins in addition to frontendUrl's whose pages may call the gateway. */
    corsOrigins: readCorsOrigins(reader),
    /** Origin and optional path of the frontend, without a trailing slash; equals publicUrl if unset. */
    frontendUrl,
    frontendUrlGiven: given !== undefined
  }
}

const readPlainAddresses = (
  reader: Reader,
  { publicUrl, frontendUrl, corsOrigins }: ReturnType<typeof readOrigins>,
  { active, successRedirectUrl }: CloudIdpSettings,
  warnings: string[]
): VariableName[] => {
  if (!publicUrl.startsWith('https:')) return []
  const hasSuccess = active && reader.given('CLOUDIDP_SUCCESS_REDIRECT_URL')
  const addresses: [VariableName, readonly string[]][] = [
    ['FRONTEND_URL', [frontendUrl]],
    ['CORS_ORIGINS', corsOrigins],
    ['CLOUDIDP_SUCCESS_REDIRECT_URL', hasSuccess ? [successRedirectUrl] : []]
  ]
  const isPlain = (address: string) => URL.canParse(address) && isPlainBeyondLoopback(new URL(address))
  const names = addresses.filter(([, texts]) => texts.some(isPlain)).map(([name]) => name)
  for (const name of names)
    warnings.push(`${name} is http:// although PUBLIC_URL is https://: session tokens are sent there in clear text`)
  return names
}

const readProviders = (reader: Reader) => {
  const listed = reader.list('AUTH_PROVIDERS')
  if (listed.some(provider => provider !== 'ldap' && provider !== 'cloudidp')) {
    reader.mistake('AUTH_PROVIDERS', 'must contain only ldap and cloudidp, separated by a comma')
  }
  return (provider: 'ldap' | 'cloudidp') => listed.length === 0 || listed.includes(provider)
}

const readStores = (reader: Reader, warnings: string[]) => {
  // `auto` counts what a container's CPU quota leaves. It needs the stores on every machine, so that `check` judges alike.
  const isAuto = reader.text('WORKERS') === 'auto'
  const workers = isAuto ? usableCpus() : reader.integer('WORKERS', { min: 1, max: 256 })
  for (const name of ['DATABASE_URL', 'REDIS_URL'] as const) {
    if ((isAuto || workers > 1) && !reader.given(name))
      reader.mistake(name, 'is required when WORKERS is auto or more than 1')
  }
  const addressOf = (name: DatabaseVariable) => {
    const url = readDatabaseUrl(reader, name)
    if (url !== undefined && isPlainDatabase(url))
      warnings.push(`${name} names another host without TLS: add sslmode=verify-full, or use a network that you trust`)
    return url
  }
  return {
    databaseUrl: addressOf('DATABASE_URL'),
    databaseListenUrl: addressOf('DATABASE_LISTEN_URL'),
    databasePoolSize: reader.integer('DATABASE_POOL_SIZE', { min: 4, max: 1000 }),
    dataDir: reader.text('DATA_DIR') ?? '',
    redis: readRedis(reader),
    workers
  }
}

type DatabaseVariable = 'DATABASE_URL' | 'DATABASE_LISTEN_URL'

export const readDatabaseUrl = (reader: Reader, name: DatabaseVariable = 'DATABASE_URL') => {
  const url = reader.text(name)
  if (url !== undefined && postgresUrls(url) === undefined) {
    reader.mistake(name, 'must be postgres://user:password@host:5432/name, each of its parts percent-encoded')
  }
  return url
}

/** A connection without TLS, except within this machine. */
const isPlainDatabase = (url: string): boolean => {
  const hosts = postgresUrls(url)?.map(each => new URL(each)) ?? []
  return hosts.some(({ hostname, searchParams }) => {
    const host = searchParams.get('host') ?? hostname
    // A path, percent-encoded in a URL, is that of a Unix socket.
    if (host === '' || /^(?:\/|%2f)/i.test(host) || isLoopbackHost(host)) return false
    const mode = searchParams.get('sslmode') ?? searchParams.get('ssl')
    return mode === null || ['', 'disable', 'false', '0'].includes(mode)
  })
}

// IPs and CIDRs only: a hop count or "all" would let clients choose their own address; so would a block that contains every address.
const readTrustProxy = (reader: Reader): string[] => {
  const entries = reader.list('TRUST_PROXY')
  const networks = entries.map(parseNetwork)
  if (networks.includes(undefined))
    reader.mistake(
      'TRUST_PROXY',
      'must contain only IP addresses and CIDR blocks, such as 10.0.0.1,192.168.0.0/16: no host names, no true and no hop count'
    )
  if (networks.some(network => network?.prefix === (network?.ipv4 ? 96 : 0))) {
    reader.mistake('TRUST_PROXY', 'must not trust every address')
  }
  return entries
}

const readAuditRetention = (reader: Reader): { retentionMs: number; folder: string } | undefined => {
  const retentionMs = reader.optionalDuration('AUDIT_RETENTION', { min: DAY_MS, max: 36_600 * DAY_MS })
  const folder = reader.text('AUDIT_ARCHIVE')
  if (retentionMs !== undefined && folder === undefined)
    reader.mistake('AUDIT_ARCHIVE', 'is required with AUDIT_RETENTION: entries are removed only once they are archived')
  return retentionMs === undefined || folder === undefined ? undefined : { retentionMs, folder }
}

/** `ldap:<login>` or `cloudidp:<stable subject>`. */
export interface BootstrapAdmin {
  readonly provider: 'ldap' | 'cloudidp'
  readonly subject: string
}

const readBootstrapAdmins = (reader: Reader): BootstrapAdmin[] => {
  const admins = reader.list('BOOTSTRAP_ADMINS').map((entry): BootstrapAdmin | undefined => {
    const [, provider, subject = ''] = /^(ldap|cloudidp):([^\s@\\]{1,256})$/.exec(entry) ?? []
    return provider === 'ldap' || provider === 'cloudidp' ? { provider, subject } : undefined
  })
  if (admins.includes(undefined)) {
    reader.mistake(
      'BOOTSTRAP_ADMINS',
      'must contain ldap:<login> or cloudidp:<subject>; a subject is never an e-mail address, and a login has no domain'
    )
  }
  return admins.filter(admin => admin !== undefined)
}

// The cookie is Secure (`__Host-`, RFC 6265bis §4.1.3.2); over plain HTTP, browsers accept it for loopback only.
const readBrowserSession = (reader: Reader, publicUrl: string): boolean => {
  const browserSession = reader.boolean('BROWSER_SESSION')
  if (browserSession && publicUrl.startsWith('http:') && !isLoopbackHost(new URL(publicUrl).hostname)) {
    reader.mistake('BROWSER_SESSION', 'requires an https:// PUBLIC_URL')
  }
  return browserSession
}

// Describes the settings of the gateway.
import type { CertificatePair } from './certificate-pair.ts'
import type { RedisSettings } from './redis-url.ts'
import type { SamplerSettings } from './tracing.ts'

export interface Settings {
  readonly port: number
  readonly host: string
  /** undefined: the listener uses plain HTTP. */
  readonly tls: TlsSettings | undefined
  /** Port of the plain listener that redirects to publicUrl; undefined if there is none. */
  readonly redirectPort: number | undefined
  /** Whether peers in `trustProxy` begin connections with a PROXY header. */
  readonly proxyProtocol: boolean
  /** Origin that browsers see, without a trailing slash. */
  readonly publicUrl: string
  /** Whether PUBLIC_URL is set. */
  readonly publicUrlGiven: boolean
  /** Hosts in addition to publicUrl's that backends may receive, in lower case; `*`: any. */
  readonly allowedHosts: readonly string[]
  /** Origins in addition to frontendUrl's whose pages may call the gateway. */
  readonly corsOrigins: readonly string[]
  /** Origin and optional path of the frontend, without a trailing slash; equals publicUrl if unset. */
  readonly frontendUrl: string
  /** Whether FRONTEND_URL is set. */
  readonly frontendUrlGiven: boolean
  readonly databaseUrl: string | undefined
  readonly dataDir: string
  /** REDIS_URL, parsed. */
  readonly redis: RedisSettings | undefined
  readonly upstreamConfig: string
  /** IPs and CIDRs. */
  readonly trustProxy: readonly string[]
  readonly jwt: {
    readonly secret: string
    readonly previousSecrets: readonly string[]
    readonly expiresInMs: number
  }
  readonly accessTokenConfirmMs: number
  readonly assertionKeyRotationMs: number
  readonly bootstrapAdmins: readonly BootstrapAdmin[]
  readonly rateLimit: RateLimit
  /** Above 0 and at most 1. */
  readonly streamShares: { readonly perUser: number; readonly perIp: number }
  readonly ldap: LdapSettings
  readonly cloudidp: CloudIdpSettings
  readonly ops: { readonly port: number | undefined; readonly host: string }
  readonly logLevel: string
  readonly workers: number
  readonly connectionsPerIp: number
  /** Time after SIGTERM in which readiness already fails. */
  readonly drainDelayMs: number
  readonly drainTimeoutMs: number
  readonly loginFailures: { readonly perIp: number; readonly windowMs: number }
  readonly revocationMaxStalenessMs: number | undefined
  readonly browserSession: boolean
  readonly revealReason: boolean
  readonly contact: string | undefined
  /** BRAND_NAME. */
  readonly brandName: string
  /** Whether any OTEL_* variable requests trace export. */
  readonly otel: boolean
  readonly otelSampler: SamplerSettings
  /** Warnings at startup, e.g. that no login provider is active. */
  readonly warnings: readonly string[]
}

export interface RateLimit {
  readonly max: number
  readonly windowMs: number
}

export interface TlsSettings {
  readonly certFile: string
  readonly keyFile: string
  /** Contents of the files at startup. */
  readonly pair: CertificatePair
}

/** `ldap:<login>` or `cloudidp:<stable subject>`. */
export interface BootstrapAdmin {
  readonly provider: 'ldap' | 'cloudidp'
  readonly subject: string
}

export interface LdapSettings {
  /** LDAP_ENABLED is true and AUTH_PROVIDERS, if set, lists `ldap`. */
  readonly active: boolean
  /** One address, or several separated by commas, in the order in which they are tried. */
  readonly url: string
  readonly domain: string | undefined
  readonly userDnTemplate: string | undefined
  /** The service account that searches for people; undefined: people bind first. */
  readonly bindDn: string | undefined
  readonly bindPassword: string | undefined
  readonly searchBase: string | undefined
  readonly searchFilter: string | undefined
  readonly groupBase: string | undefined
  readonly groupFilter: string | undefined
  /** Interval at which people with a live session are looked up again; 0: never. */
  readonly recheckMs: number
  readonly timeoutMs: number
  /** PEM text. */
  readonly ca: string | undefined
  readonly startTls: boolean
  readonly insecure: boolean
  readonly lockoutThreshold: number
  readonly lockoutWindowMs: number
}

export interface CloudIdpSettings {
  readonly active: boolean
  readonly tenantId: string
  readonly clientId: string
  readonly clientSecret: string
  readonly redirectUri: string
  readonly successRedirectUrl: string
  readonly stateMaxAgeMs: number
  readonly issuer: string | undefined
  /** Tenant ids, `['*']` for all, or undefined. */
  readonly allowedTenants: readonly string[] | undefined
  readonly insecure: boolean
  readonly authorizationUrl: string
  readonly tokenUrl: string
  readonly profileUrl: string
  readonly scope: string
  /** Claim that lists groups or roles. */
  readonly groupsClaim: string
  /** Name of the provider, for the login button. */
  readonly name: string | undefined
}

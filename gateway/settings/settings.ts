// The environment, read once and checked whole: a frozen Settings, or every mistake by name.

import { readGateway } from './gateway.ts'
import { createReader, type Environment, type Mistake } from './reader.ts'
import type { RedisSettings } from './redis-url.ts'
import { judgeNames, judgeNode } from './surroundings.ts'
import type { SamplerSettings } from './tracing.ts'

export type { Mistake, RedisSettings }

export interface Settings {
  readonly port: number
  readonly host: string
  /** Origin that browsers see, without a trailing slash. */
  readonly publicUrl: string
  /** Origin and perhaps path of the frontend, without a trailing slash; equals publicUrl when unset. */
  readonly frontendUrl: string
  /** Whether FRONTEND_URL was given. */
  readonly frontendUrlGiven: boolean
  readonly databaseUrl: string | undefined
  readonly dataDir: string
  readonly redisUrl: string | undefined
  /** REDIS_URL taken apart. */
  readonly redis: RedisSettings | undefined
  readonly upstreamConfig: string
  /** IPs and CIDRs. */
  readonly trustProxy: readonly string[]
  readonly jwt: {
    readonly secret: string
    readonly previousSecrets: readonly string[]
    readonly expiresInMs: number
  }
  readonly bootstrapAdmins: readonly BootstrapAdmin[]
  readonly rateLimit: { readonly max: number; readonly windowMs: number }
  readonly ldap: LdapSettings
  readonly cloudidp: CloudIdpSettings
  readonly ops: { readonly port: number | undefined; readonly host: string }
  readonly logLevel: string
  readonly workers: number
  readonly drainTimeoutMs: number
  readonly loginFailures: { readonly perIp: number; readonly windowMs: number }
  readonly revocationMaxStalenessMs: number | undefined
  readonly browserSession: boolean
  readonly revealReason: boolean
  readonly contact: string | undefined
  /** Whether any OTEL_* variable asks for trace export. */
  readonly otel: boolean
  readonly otelSampler: SamplerSettings
  /** Things to say at start that are no errors, e.g. no active login provider. */
  readonly warnings: readonly string[]
}

/** `ldap:<login>` or `cloudidp:<stable subject>`. */
export interface BootstrapAdmin {
  readonly provider: 'ldap' | 'cloudidp'
  readonly subject: string
}

export interface LdapSettings {
  /** LDAP_ENABLED is true and AUTH_PROVIDERS, where set, lists `ldap`. */
  readonly active: boolean
  readonly url: string
  readonly domain: string | undefined
  readonly userDnTemplate: string | undefined
  readonly searchBase: string | undefined
  readonly searchFilter: string | undefined
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
}

/** Every mistake in the environment, sorted by variable. No mistake repeats a value. */
export class SettingsError extends Error {
  readonly mistakes: readonly Mistake[]

  constructor(mistakes: readonly Mistake[]) {
    super(formatMistakes(mistakes))
    this.name = 'SettingsError'
    this.mistakes = mistakes
  }
}

/** One line for each mistake: `VARIABLE message`. */
export const formatMistakes = (mistakes: readonly Mistake[]): string =>
  mistakes.map(({ variable, message }) => `${variable} ${message}`).join('\n')

/**
 * Reads all settings, frozen to the bottom.
 *
 * @param environment variables; an empty one counts as unset.
 * @param execArgv options of the Node process, judged like NODE_OPTIONS.
 * @throws SettingsError with all mistakes together.
 */
export const readSettings = (
  environment: Environment = process.env,
  execArgv: readonly string[] = process.execArgv
): Settings => {
  const reader = createReader(environment)
  const warnings: string[] = []
  judgeNames(reader, environment)
  judgeNode(reader, environment, execArgv)
  const settings = readGateway(reader, environment, warnings)
  if (reader.mistakes.length === 0) return freeze(settings)
  throw new SettingsError(
    reader.mistakes.toSorted((one, other) =>
      one.variable < other.variable ? -1 : one.variable > other.variable ? 1 : 0
    )
  )
}

const freeze = <T>(value: T): T => {
  if (typeof value !== 'object' || value === null) return value
  for (const inner of Object.values(value)) freeze(inner)
  return Object.freeze(value)
}

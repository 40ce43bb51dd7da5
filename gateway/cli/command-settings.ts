// Reads only the settings that a command needs, validated as the gateway validates them.

import { createRequestHost, type RequestHost } from '../http/client-address.ts'
import { unassignedMayPass } from '../settings/cloud.ts'
import { readLockout } from '../settings/directory.ts'
import { readAccessTokenConfirm, readAllowedHosts, readDatabaseUrl, readLoginFailures } from '../settings/gateway.ts'
import { formatMistakes, readSettings, SettingsError } from '../settings/read-settings.ts'
import { baseUrl, createReader, type Environment, type Mistake, type Reader } from '../settings/reader.ts'
import { EXEMPT } from '../settings/surroundings.ts'
import { VARIABLES, type VariableName } from '../settings/table.ts'
import { CannotRun } from './command.ts'

/** Throws {@link CannotRun} if `read` finds a mistake in one of `names`; mistakes in other variables are ignored. */
const readSome = <T>(environment: Environment, names: readonly VariableName[], read: (reader: Reader) => T): T => {
  const reader = createReader(
    Object.fromEntries(names.flatMap(name => [name, `${name}_FILE`].map(key => [key, environment[key]])))
  )
  const value = read(reader)
  if (reader.mistakes.length > 0) throw settingsRefusal(reader.mistakes)
  return value
}

const settingsRefusal = (mistakes: readonly Mistake[]): CannotRun =>
  new CannotRun('These settings have errors:', formatMistakes(mistakes).split('\n'))

/** All settings. Throws {@link CannotRun} if there is a mistake in any. */
export const allSettings = (environment: Environment) => {
  try {
    return readSettings(environment)
  } catch (error) {
    throw error instanceof SettingsError ? settingsRefusal(error.mistakes) : error
  }
}

/** The directory of route files: the one given, else UPSTREAM_CONFIG, else its default. */
export const routeFolder = (environment: Environment, given: string | undefined): string =>
  given ?? readSome(environment, ['UPSTREAM_CONFIG'], reader => reader.text('UPSTREAM_CONFIG') ?? '')

export const storeSettings = (environment: Environment) =>
  readSome(environment, ['DATABASE_URL', 'DATA_DIR'], reader => ({
    databaseUrl: readDatabaseUrl(reader),
    dataDir: reader.text('DATA_DIR') ?? ''
  }))

/** If anyone can have a cloud account, unassigned accounts pass nothing unless their tenant is listed. */
export const decideOptions = (environment: Environment) =>
  readSome(environment, ['CLOUDIDP_TENANT_ID', 'CLOUDIDP_ALLOWED_TENANTS'], reader => {
    const tenant = reader.text('CLOUDIDP_TENANT_ID') ?? ''
    const allowed = reader.given('CLOUDIDP_ALLOWED_TENANTS') ? [] : undefined
    return { cloudUnassignedMayPass: unassignedMayPass(tenant, allowed) }
  })

const LOGIN_LIMITS = [
  'LDAP_TIMEOUT_MS',
  'LDAP_LOCKOUT_THRESHOLD',
  'LDAP_LOCKOUT_WINDOW',
  'LOGIN_FAILURES_PER_IP',
  'LOGIN_FAILURES_WINDOW'
] as const

/** The limits on failed logins. */
export const loginLimits = (environment: Environment) =>
  readSome(environment, LOGIN_LIMITS, reader => ({
    ldap: readLockout(reader),
    loginFailures: readLoginFailures(reader)
  }))

export const accessTokenConfirmMs = (environment: Environment): number =>
  readSome(environment, ['ACCESS_TOKEN_CONFIRM'], readAccessTokenConfirm)

/** The secrets that verify tokens, the current one first; empty if JWT_SECRET is unset. */
export const verifyingSecrets = (environment: Environment): readonly string[] =>
  readSome(environment, ['JWT_SECRET', 'JWT_PREVIOUS_SECRETS'], reader => {
    const secret = reader.text('JWT_SECRET')
    return secret === undefined ? [] : [secret, ...reader.list('JWT_PREVIOUS_SECRETS')]
  })

/** What these make of themselves to seal keys. */
export const sealingSecrets = async (environment: Environment) => {
  const { sealingSecret } = await import('../tokens/sealed-keys.ts')
  return verifyingSecrets(environment).map(sealingSecret)
}

/** The same. Throws {@link CannotRun} without JWT_SECRET, which is needed `because`. */
export const requiredSecrets = async (environment: Environment, because: string) => {
  const secrets = await sealingSecrets(environment)
  if (secrets.length === 0) throw new CannotRun(`JWT_SECRET is required, because ${because}`)
  return secrets
}

/** The address of the gateway that this environment configures. */
export const publicUrl = (environment: Environment): string =>
  readSome(environment, ['PUBLIC_URL', 'PORT', 'TLS_CERT_FILE'], reader => {
    const scheme = reader.given('TLS_CERT_FILE') ? 'https' : 'http'
    const own = `${scheme}://localhost:${reader.text('PORT')}`
    return baseUrl(reader, 'PUBLIC_URL', reader.text('PUBLIC_URL') ?? own, false)
  })

/** Which host decides about requests for another one, as far as this environment says. */
export const requestHost = (environment: Environment): RequestHost =>
  createRequestHost({
    publicUrl: publicUrl(environment),
    allowedHosts: readSome(environment, ['PUBLIC_URL', 'ALLOWED_HOSTS'], readAllowedHosts)
  })

// Variables that any environment may contain for other reasons (that of the image has OPS_PORT), or that other commands need too.
const SAYS_NOTHING: ReadonlySet<string> = new Set(
  'PORT HOST OPS_PORT OPS_HOST LOG_LEVEL WORKERS CONTACT DATABASE_URL REDIS_URL DATA_DIR UPSTREAM_CONFIG'.split(' ')
)

/** Whether this environment configures a gateway, so that its settings are worth checking: also if JWT_SECRET is yet to be filled in. */
export const hasGatewaySettings = (environment: Environment): boolean =>
  Object.keys(environment).some(name => /^(?:JWT_|LDAP_|CLOUDIDP_|RATE_LIMIT_)/.test(name) && !EXEMPT.test(name)) ||
  VARIABLES.some(({ name }) => !SAYS_NOTHING.has(name) && (environment[name] ?? '').trim() !== '')

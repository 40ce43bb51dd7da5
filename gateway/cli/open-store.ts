// Opens the gateway's database for a command, even while a gateway uses it, and finds the people and profiles that arguments name.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { GatewayError } from '../errors.ts'
import type { Environment } from '../settings/reader.ts'
import type { Database } from '../store/database.ts'
import { databaseFault } from '../store/database-errors.ts'
import type { Users } from '../store/users.ts'
import { nearestHint } from '../values/spelling.ts'
import { CannotRun } from './command.ts'
import { sealingSecrets, storeSettings } from './command-settings.ts'

/** Who a command is in the audit log. */
export const ACTOR = { id: null, username: 'cli' }

const START_TIMEOUT_MS = 5_000

const SILENT = { info() {}, warn() {}, error() {} }

interface StoreOptions {
  /** Whether to create an embedded database that does not exist yet. */
  readonly create?: boolean
  /** False: the schema is used as it is. */
  readonly migrates?: boolean
  /** Those of the environment, if they have been read: JWT_SECRET_FILE may be a pipe. */
  readonly secrets?: Secrets
}

type Secrets = Awaited<ReturnType<typeof sealingSecrets>>

/** Opens the database that the environment names, and migrates it. Throws {@link CannotRun} if it is unavailable. */
export const withDatabase = async <T>(
  environment: Environment,
  work: (database: Database) => Promise<T>,
  { create = false, migrates = true, secrets }: StoreOptions = {}
): Promise<T> => {
  const { databaseUrl, dataDir } = storeSettings(environment)
  if (!create && databaseUrl === undefined && !existsSync(join(dataDir, 'postgres'))) {
    throw new CannotRun(
      `There is no database in ${resolve(dataDir)}: set DATABASE_URL or DATA_DIR to the same value as for the gateway`
    )
  }
  const database = await openOrFail({ databaseUrl, dataDir, role: 'command', migrates }, 'The database cannot be used')
  try {
    if (migrates) await openAuditKeys(secrets ?? (await sealingSecrets(environment)), database)
    return await work(database)
  } catch (error) {
    throw error instanceof GatewayError && error.reason === 'database-unavailable'
      ? unusable('The database no longer responds', { databaseUrl, dataDir }, error)
      : error
  } finally {
    await database.close()
  }
}

export const withUsers = <T>(environment: Environment, work: (users: Users, database: Database) => Promise<T>) =>
  withDatabase(environment, async database => work((await import('../store/users.ts')).createUsers(database), database))

/** So that what a command changes is written to the audit log, and the log can be verified. */
export const openAuditKeys = async (secrets: Secrets, database: Database): Promise<void> => {
  if (secrets.length === 0) return
  const { keyAuditLog } = await import('../store/audit-entry.ts')
  await keyAuditLog(database, { secrets, creates: false })
}

interface Opening {
  readonly databaseUrl?: string | undefined
  readonly dataDir: string
  /** `gateway` refuses an embedded database that a running gateway uses; `command` shares it. */
  readonly role: 'gateway' | 'command'
  readonly migrates?: boolean
}

/** Opens a database and migrates it. Throws {@link CannotRun}, with a message that begins with `failure`, if it is unavailable. */
export const openOrFail = async (opening: Opening, failure: string): Promise<Database> => {
  const { openDatabase } = await import('../store/database.ts')
  try {
    return await openDatabase({ ...opening, log: SILENT, startTimeoutMs: START_TIMEOUT_MS })
  } catch (error) {
    throw unusable(failure, opening, error)
  }
}

type Where = Pick<Opening, 'databaseUrl' | 'dataDir'>

const unusable = (failure: string, { databaseUrl, dataDir }: Where, error: unknown): CannotRun => {
  const { cause, advice } = databaseFault(error)
  const where = databaseUrl === undefined ? `DATA_DIR, ${resolve(dataDir)}` : `DATABASE_URL, ${placeOf(databaseUrl)}`
  return new CannotRun(`${failure} (${where}): ${cause}`, advice === undefined ? [] : [advice])
}

// Without user name and password, which the query may contain as well.
const placeOf = (databaseUrl: string): string => databaseUrl.replace(/\?.*$/, '').replace(/^[^@]*@|^[a-z]+:\/\//, '')

/** Finds exactly one person. A bare number may be an id or a username, but must not be both. */
export const personNamed = async (users: Pick<Users, 'loadPerson' | 'findByUsername'>, name: string) => {
  const [, provider, rest = ''] = /^(?:(ldap|cloudidp|id):)?(.+)$/s.exec(name) ?? []
  const isId = /^[1-9]\d{0,9}$/.test(rest)
  const withId =
    isId && (provider === undefined || provider === 'id') ? await users.loadPerson(Number(rest)) : undefined
  const byId = withId?.user.provider === 'client' ? undefined : withId
  const named = provider === 'id' ? [] : await users.findByUsername(rest)
  const byName = named.filter(({ user }) => provider === undefined || user.provider === provider)
  const found = [...new Map([byId, ...byName].flatMap(one => (one === undefined ? [] : [[one.user.id, one]]))).values()]
  const [person, ...others] = found
  if (person === undefined) {
    throw new CannotRun(
      `No such person: "${name}". People are known once they have logged in (for the first Admin, see BOOTSTRAP_ADMINS)`
    )
  }
  if (others.length > 0) {
    const all = found.map(({ user }) => `id:${user.id}  ${user.provider}:${user.username}  ${user.name}`)
    throw new CannotRun(`"${name}" is not one person but several; specify which one:`, all)
  }
  return person
}

/** Throws {@link CannotRun}: profiles are defined in route files, so a misspelt one must not create another. */
export const refuseUnknownProfiles = async (users: Users, names: readonly string[]): Promise<void> => {
  const known = (await users.listProfiles()).map(({ name }) => name)
  const unknown = names.find(name => !known.includes(name))
  if (unknown === undefined) return
  const hint = nearestHint(unknown, known) || `: must be one of ${known.join(', ')}`
  throw new CannotRun(`Unknown profile "${unknown}"${hint}`)
}

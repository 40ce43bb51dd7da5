// A command works on the database of the gateway, also while a gateway runs on it, and leaves it closed.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment } from '../settings/reader.ts'
import type { Database } from '../store/database.ts'
import { CannotRun } from './command.ts'
import { storeSettings } from './command-settings.ts'

export type { Database }

const START_TIMEOUT_MS = 5_000

const SILENT = { info() {}, warn() {}, error() {} }

interface StoreOptions {
  /** Whether an embedded database that is not there yet is made. */
  readonly create?: boolean
}

/** Opens the database that the environment names, migrated. Throws {@link CannotRun} when it is not to be had. */
export const withDatabase = async <T>(
  environment: Environment,
  work: (database: Database) => Promise<T>,
  { create = false }: StoreOptions = {}
): Promise<T> => {
  const { databaseUrl, dataDir } = storeSettings(environment)
  if (databaseUrl === undefined && !create && !existsSync(join(dataDir, 'postgres'))) {
    throw new CannotRun(`There is no database in ${dataDir}: set DATABASE_URL or DATA_DIR as for the gateway`)
  }
  const database = await openOrFail({ databaseUrl, dataDir, role: 'command' }, 'The database cannot be used')
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

interface Opening {
  readonly databaseUrl?: string | undefined
  readonly dataDir: string
  /** `gateway` refuses an embedded database that a gateway runs on; `command` joins it. */
  readonly role: 'gateway' | 'command'
}

/** Opens a database, migrated. Throws {@link CannotRun}, beginning with `failure`, when it is not to be had. */
export const openOrFail = async (opening: Opening, failure: string): Promise<Database> => {
  const { openDatabase } = await import('../store/database.ts')
  try {
    return await openDatabase({ ...opening, log: SILENT, startTimeoutMs: START_TIMEOUT_MS })
  } catch (error) {
    throw new CannotRun(`${failure}: ${causeOf(error)}`)
  }
}

// The deepest cause says what happened; addresses and names it may hold are those of whoever runs this command.
const causeOf = (error: unknown): string => {
  let cause = error
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause
  if (!(cause instanceof Error)) return 'no reason given'
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
  return [cause.message.split('\n', 1)[0], code].filter(text => text !== '' && text !== undefined).join(' ')
}

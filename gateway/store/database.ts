// Opens Postgres with its schema up to date, and ends every use of it within a deadline.
import type pg from 'pg'
import { DataSource, type DataSourceOptions, type EntityManager, MigrationExecutor, type QueryRunner } from 'typeorm'
import { migrations } from '../../migrations/index.ts'
import type { Log } from '../values/log.ts'
import { DatabaseUnavailable, isMisconfigured, isRetryable, isUnavailable } from './database-errors.ts'
import type { NotificationSource } from './embedded-notifications.ts'
import type { EmbeddedOptions, EmbeddedPostgres } from './embedded-postgres.ts'
import { entities } from './entities.ts'
import { refuseNewerSchema } from './schema-release.ts'

const POOL_SIZE = 10
/** The embedded Postgres is never unavailable, only busy. */
const EMBEDDED_ACQUIRE_TIMEOUT_MS = 5_000
const PING_TIMEOUT_MS = 2_000
const MIGRATION_TIMEOUT_MS = 60_000
const IDLE_TRANSACTION_MS = 10_000
/** Other statements queue behind a migration that waits for a table; after this time it gives up, and the start tries again. */
const MIGRATION_LOCK_TIMEOUT_MS = 1_000
/** An arbitrary constant; the same for all versions of the gateway. */
const MIGRATION_LOCK = 7_263_544_001
const ATTEMPTS = 3

/** How a plain `pg` client can connect to the same database. */
type PgConnection = { connectionString: string } | { host: string; port: number; user: string; database: string }

export interface Database {
  /** Statements outside a transaction. Throws {@link DatabaseUnavailable} within seconds if Postgres is unavailable. */
  read<T>(work: (manager: EntityManager) => Promise<T>): Promise<T>
  /** One transaction (READ COMMITTED), repeated if it conflicts with another: `work` may run up to three times. */
  write<T>(work: (manager: EntityManager) => Promise<T>): Promise<T>
  /** Whether Postgres responds within 2 s and is writable. Never throws. */
  ping(): Promise<boolean>
  /** For the dedicated LISTEN client. */
  readonly connection: PgConnection
  /** Set if this process runs the embedded Postgres; all notifications of the database arrive here. */
  readonly notifications: NotificationSource | undefined
  readonly embedded: boolean
  close(): Promise<void>
}

/** All in milliseconds. */
export interface DatabaseDeadlines {
  /** Until work has a connection of the pool. */
  readonly acquireMs: number
  readonly statementMs: number
  /** A server that no longer responds never applies its own statement_timeout; this then ends the connection. */
  readonly workMs: number
}

export const DATABASE_DEADLINES: DatabaseDeadlines = { acquireMs: 2_000, statementMs: 5_000, workMs: 6_000 }

interface DatabaseOptions {
  databaseUrl?: string | undefined
  /** Directory of the embedded Postgres, which is used without databaseUrl. */
  dataDir: string
  log: Log
  /** `gateway` owns the embedded Postgres; `command` connects to one that a gateway already runs. */
  role?: 'gateway' | 'command'
  /** How long to wait at startup for a Postgres that is not available yet. */
  startTimeoutMs?: number
  poolSize?: number
  deadlines?: DatabaseDeadlines
  /** False: the schema is used as it is. */
  migrates?: boolean
}

/**
 * Opens Postgres (or the embedded one), waits for it with back-off up to `startTimeoutMs`, and migrates the schema.
 * Throws {@link DatabaseUnavailable} if it does not come up, at once if credentials or database name are wrong.
 */
export const openDatabase = async (options: DatabaseOptions): Promise<Database> => {
  const {
    databaseUrl,
    dataDir,
    log,
    role = 'gateway',
    startTimeoutMs = 30_000,
    poolSize = POOL_SIZE,
    deadlines = DATABASE_DEADLINES,
    migrates = true
  } = options
  const embedded = databaseUrl === undefined ? await openEmbedded({ dataDir, log, role }) : undefined
  const connection = embedded?.connection ?? { connectionString: databaseUrl ?? '' }
  try {
    const pool = dataSourceOptions(connection, poolSize, deadlines, log)
    const dataSource = await connect(pool, log, startTimeoutMs, migrates)
    return describe(dataSource, deadlines.workMs, connection, embedded)
  } catch (error) {
    await embedded?.close()
    throw isUnavailable(error) ? new DatabaseUnavailable(error) : error
  }
}

const describe = (
  dataSource: DataSource,
  workMs: number,
  connection: PgConnection,
  embedded: EmbeddedPostgres | undefined
): Database => {
  let pinging: Promise<boolean> | undefined
  let closing: Promise<void> | undefined
  const ping = () =>
    use(dataSource, PING_TIMEOUT_MS, async manager => {
      const [row] = await manager.query(READ_ONLY)
      // Any write would fail too, so this connection is replaced, and the next may lead to the new primary.
      if (row?.read_only !== 'off') throw Object.assign(new Error('the database is read-only'), { code: '25006' })
      return true
    })
  return {
    read: work => use(dataSource, workMs, work),
    write: work => writeAgain(dataSource, workMs, work),
    ping() {
      pinging ??= ping()
        .catch(() => false)
        .finally(() => {
          pinging = undefined
        })
      return pinging
    },
    connection,
    notifications: embedded?.notifications,
    embedded: embedded !== undefined,
    close() {
      closing ??= dataSource.destroy().finally(() => embedded?.close())
      return closing
    }
  }
}

/** Loaded only if used, because a Postgres compiled to WebAssembly needs a lot of memory. */
const openEmbedded = async (options: EmbeddedOptions) =>
  (await import('./embedded-postgres.ts')).openEmbeddedPostgres(options)

const READ_ONLY = "SELECT current_setting('transaction_read_only') AS read_only"

const dataSourceOptions = (
  connection: PgConnection,
  poolSize: number,
  { acquireMs, statementMs }: DatabaseDeadlines,
  log: Log
): DataSourceOptions => ({
  type: 'postgres',
  ...('connectionString' in connection
    ? { url: connection.connectionString }
    : { host: connection.host, port: connection.port, username: connection.user, database: connection.database }),
  entities,
  migrations,
  migrationsTableName: 'schema_migrations',
  installExtensions: false,
  logging: false,
  poolSize,
  connectTimeoutMS: 'host' in connection ? EMBEDDED_ACQUIRE_TIMEOUT_MS : acquireMs,
  applicationName: 'portaria',
  poolErrorHandler: (error: unknown) => log.warn({ err: error }, 'an idle database connection was lost'),
  extra: {
    statement_timeout: statementMs,
    keepAlive: true,
    idleTimeoutMillis: 30_000,
    // JIT compilation takes Postgres half a second if its statistics are outdated, and our statements are all short. A
    // transaction whose gateway has vanished from the network must not keep its locks until TCP notices.
    onConnect: (client: pg.Client) =>
      client.query(`SET jit = off; SET idle_in_transaction_session_timeout = ${IDLE_TRANSACTION_MS}`)
  }
})

const connect = async (
  options: DataSourceOptions,
  log: Log,
  startTimeoutMs: number,
  migrates: boolean
): Promise<DataSource> => {
  const deadline = performance.now() + startTimeoutMs
  for (let pauseMs = 100; ; pauseMs = Math.min(pauseMs * 2, 2_000)) {
    const dataSource = new DataSource(options)
    try {
      await dataSource.initialize()
      if (migrates) await migrate(dataSource)
      else await refuseNewerSchema(dataSource.manager)
      return dataSource
    } catch (error) {
      if (dataSource.isInitialized) await dataSource.destroy().catch(() => undefined)
      if (!isUnavailable(error) || isMisconfigured(error) || performance.now() > deadline) throw error
      log.warn({ err: error }, 'the database is not available yet; trying again')
    }
    // Jitter, so that instances that start together do not connect together.
    await new Promise(resolve => setTimeout(resolve, pauseMs * (0.5 + Math.random())))
  }
}

/** Runs all pending migrations, each in a transaction of its own, so that none holds the locks of those before it. */
const migrate = async (dataSource: DataSource) => {
  const runner = dataSource.createQueryRunner()
  try {
    while (await migrateOnce(dataSource, runner));
  } finally {
    await runner.release()
  }
}

/** False: none is pending. The lock ends with the transaction, even if this process is killed. */
const migrateOnce = async (dataSource: DataSource, runner: QueryRunner): Promise<boolean> => {
  await runner.startTransaction()
  try {
    await runner.query(`SET LOCAL statement_timeout = ${MIGRATION_TIMEOUT_MS}`)
    await runner.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK])
    await runner.query(`SET LOCAL lock_timeout = ${MIGRATION_LOCK_TIMEOUT_MS}`)
    await refuseNewerSchema(runner.manager)
    const executor = new MigrationExecutor(dataSource, runner)
    const [next] = await executor.getPendingMigrations()
    if (next !== undefined) await executor.executeMigration(next)
    await runner.commitTransaction()
    return next !== undefined
  } catch (error) {
    await runner.rollbackTransaction().catch(() => undefined)
    throw error
  }
}

const writeAgain = async <T>(
  dataSource: DataSource,
  workMs: number,
  work: (manager: EntityManager) => Promise<T>
): Promise<T> => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await use(dataSource, workMs, manager => manager.transaction(work))
    } catch (error) {
      const cause = error instanceof DatabaseUnavailable ? error.cause : error
      if (!isRetryable(cause) || attempt >= ATTEMPTS) throw error
    }
  }
}

const use = async <T>(
  dataSource: DataSource,
  timeoutMs: number,
  work: (manager: EntityManager) => Promise<T>
): Promise<T> => {
  const runner = dataSource.createQueryRunner()
  // Releasing with an error makes pg destroy the connection, so that a statement in progress fails at once.
  const recycle = (error: Error) => releaseWith(runner, error)
  const timer = setTimeout(() => recycle(new Error('the database took too long')), timeoutMs)
  try {
    await runner.connect()
    return await work(runner.manager)
  } catch (error) {
    if (!isUnavailable(error)) throw error
    if (!isRetryable(error)) recycle(error instanceof Error ? error : new Error('the database is unavailable'))
    throw new DatabaseUnavailable(error)
  } finally {
    clearTimeout(timer)
    await runner.release()
  }
}

/** TypeORM keeps this private; its public release() would return a broken connection to the pool. */
const releaseWith = (runner: object, error: Error) => {
  const release: unknown = Reflect.get(runner, 'releasePostgresConnection')
  if (typeof release === 'function') Reflect.apply(release, runner, [error])
}

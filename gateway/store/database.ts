// Opens Postgres with its schema up to date, ends every use within a deadline, shares its connections out, and binds stores to it.
import type pg from 'pg'
import { DataSource, type EntityManager, MigrationExecutor } from 'typeorm'
import { migrations } from '../../migrations/index.ts'
import type { Log } from '../values/log.ts'
import { createTurns } from '../values/turns.ts'
import { postgresUrls } from '../values/urls.ts'
import {
  type Connect,
  type ConnectionPool,
  createConnectionPool,
  createConnector,
  type DatabaseConnection,
  tooLate
} from './connection-pool.ts'
import { DatabaseUnavailable, isMisconfigured, isRetryable, isUnavailable } from './database-errors.ts'
import type { EmbeddedOptions, EmbeddedPostgres } from './embedded-postgres.ts'
import { clockOf, lockAccess, MIGRATION_LOCK, query } from './query.ts'
import { hasPending } from './schema-release.ts'

/** DATABASE_POOL_SIZE */
const POOL_SIZE = 10
/** The embedded Postgres is never unavailable, only busy. */
const EMBEDDED_ACQUIRE_TIMEOUT_MS = 5_000
const PING_TIMEOUT_MS = 2_000
/** Of each of its statements, also of the one that waits for its turn. */
const MIGRATION_TIMEOUT_MS = 60_000
/** Of all of them. */
const MIGRATION_MS = 300_000
const IDLE_TRANSACTION_MS = 10_000
/** Other statements queue behind a migration that waits for a table; after this time it gives up, and the start tries again. */
const MIGRATION_LOCK_TIMEOUT_MS = 1_000
const ATTEMPTS = 3

export type Database = ReturnType<typeof describe>

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
  /** Where LISTEN works, if `databaseUrl` is a pooler in transaction mode. */
  listenUrl?: string | undefined
  /** Directory of the embedded Postgres, which is used without databaseUrl. */
  dataDir: string
  log: Log
  /** `gateway` owns the embedded Postgres; `command` connects to one that a gateway already runs. */
  role?: 'gateway' | 'command'
  /** How long to wait at startup for a Postgres that is not available yet. */
  startTimeoutMs?: number
  poolSize?: number | undefined
  deadlines?: DatabaseDeadlines
  /** False: the schema is used as it is. */
  migrates?: boolean
}

/**
 * Opens Postgres (or the embedded one), waits for it with back-off up to `startTimeoutMs`, and migrates the schema.
 * Throws {@link DatabaseUnavailable} if it does not come up, at once if credentials or database name are wrong.
 */
export const openDatabase = async (options: DatabaseOptions): Promise<Database> => {
  const { databaseUrl, dataDir, log, role = 'gateway', deadlines = DATABASE_DEADLINES } = options
  const embedded = databaseUrl === undefined ? await openEmbedded({ dataDir, log, role }) : undefined
  const addresses = embedded === undefined ? addressesOf(databaseUrl ?? '') : [embedded.connection]
  try {
    const opened = await connect(options, {
      connect: createConnector(addresses, 'portaria', limits(deadlines, 'SET')),
      acquireMs: embedded === undefined ? deadlines.acquireMs : EMBEDDED_ACQUIRE_TIMEOUT_MS
    })
    const listenAddresses = options.listenUrl === undefined ? addresses : addressesOf(options.listenUrl)
    return describe(opened, deadlines, embedded, {
      /** Opens a connection beside the pool. */
      connect: createConnector(addresses, 'portaria'),
      /** Opens the connection for LISTEN. */
      connectListener: createConnector(listenAddresses, 'portaria-listen')
    })
  } catch (error) {
    await embedded?.close()
    throw isUnavailable(error) ? new DatabaseUnavailable(error) : error
  }
}

/** Loaded only if used, because a Postgres compiled to WebAssembly needs a lot of memory. */
const openEmbedded = async (options: EmbeddedOptions) =>
  (await import('./embedded-postgres.ts')).openEmbeddedPostgres(options)

const addressesOf = (url: string) => (postgresUrls(url) ?? [url]).map(connectionString => ({ connectionString }))

/**
 * By statement, because poolers refuse most startup parameters. JIT compilation takes Postgres half a second if its statistics
 * are outdated, and our statements are all short. A transaction whose gateway has vanished from the network must not keep its
 * locks until TCP notices.
 */
const limits = ({ statementMs }: DatabaseDeadlines, set: 'SET' | 'SET LOCAL') =>
  `${set} jit = off; ${set} idle_in_transaction_session_timeout = ${IDLE_TRANSACTION_MS}; ${set} statement_timeout = ${statementMs}`

const describe = (
  opened: Opened,
  deadlines: DatabaseDeadlines,
  embedded: EmbeddedPostgres | undefined,
  connectors: { readonly connect: Connect; readonly connectListener: Connect }
) => {
  let pinging: Promise<boolean> | undefined
  let closing: Promise<void> | undefined
  const { workMs } = deadlines
  const inTransaction =
    <T>(work: Work<T>, patienceMs?: number): PooledWork<T> =>
    (manager, isPooled) =>
      manager.transaction(async inner => {
        const statementMs = patienceMs ?? deadlines.statementMs
        if (isPooled || patienceMs !== undefined) await inner.query(limits({ ...deadlines, statementMs }, 'SET LOCAL'))
        return work(inner)
      })
  // On a server that is read-only this fails, so the connection is replaced, and the next may lead to the new primary.
  const ping = () => use(opened, PING_TIMEOUT_MS, manager => manager.query(WRITE).then(() => true))
  return {
    /** Statements outside a transaction. Throws {@link DatabaseUnavailable} within seconds if Postgres is unavailable. */
    read: <T>(work: Work<T>): Promise<T> =>
      use(opened, workMs, (manager, isPooled) =>
        // The next statement may reach another connection of the pooler, with another limit.
        isPooled ? inTransaction(work)(manager, isPooled) : work(manager)
      ),
    /**
     * One transaction (READ COMMITTED), repeated if it conflicts with another: `work` may run up to three times.
     * @param patienceMs for what takes long on a large database, instead of the usual deadlines
     */
    write: <T>(work: Work<T>, patienceMs?: number): Promise<T> =>
      again(() => use(opened, patienceMs ?? workMs, inTransaction(work, patienceMs))),
    /** Whether Postgres responds within 2 s and is writable. Never throws. */
    ping() {
      pinging ??= ping()
        .catch(() => false)
        .finally(() => {
          pinging = undefined
        })
      return pinging
    },
    /** The clock of the database, in milliseconds since the epoch. */
    clock: () => use(opened, workMs, clockOf),
    ...connectors,
    /** Set if this process runs the embedded Postgres; all notifications of the database arrive here. */
    notifications: embedded?.notifications,
    embedded: embedded !== undefined,
    close() {
      closing ??= opened.dataSource.destroy().finally(() => embedded?.close())
      return closing
    }
  }
}

// One message, hence one transaction, whose locks no vanished gateway can keep. Fails where Postgres cannot write: the rows are
// more than work_mem, so about a megabyte goes to a temporary file; the lock is a change that is committed, flushed and
// replicated as any other. Neither leaves anything behind, in a table or for VACUUM.
const WRITE = `
  SET LOCAL work_mem = '64kB'; SELECT count(*) FROM generate_series(1, 40000);
  SELECT FROM profiles LIMIT 1 FOR KEY SHARE`

type Opened = ReturnType<typeof open>

/** TypeORM takes its connections from our pool, which is what limits the time until one arrives. */
const open = ({ poolSize = POOL_SIZE, log }: DatabaseOptions, timing: { connect: Connect; acquireMs: number }) => {
  const onIdleLoss = (err: Error) => log.warn({ err }, 'an idle database connection was lost')
  const pool = createConnectionPool({ ...timing, size: poolSize, onIdleLoss })
  const dataSource = new DataSource({
    type: 'postgres',
    driver: { Pool: poolFor(pool) },
    migrations,
    migrationsTableName: 'schema_migrations',
    installExtensions: false,
    logging: false
  })
  return { dataSource, pool }
}

type Callback = (error: unknown, client?: pg.Client, release?: (error?: Error) => void) => void

/** What TypeORM uses of pg's own pool. */
const poolFor = (pool: ConnectionPool) =>
  class {
    on() {
      return this
    }
    connect(callback: Callback) {
      pool.acquire().then(client => callback(undefined, client, error => pool.release(client, error)), callback)
    }
    end(callback: () => void) {
      pool.close()
      callback()
    }
  }

const connect = async (options: DatabaseOptions, timing: { connect: Connect; acquireMs: number }): Promise<Opened> => {
  const { log, startTimeoutMs = 30_000, migrates = true, deadlines: { workMs } = DATABASE_DEADLINES } = options
  const deadline = performance.now() + startTimeoutMs
  for (let pauseMs = 100; ; pauseMs = Math.min(pauseMs * 2, 2_000)) {
    const opened = open(options, timing)
    const { dataSource, pool } = opened
    const timer = setTimeout(() => pool.close(tooLate()), workMs)
    try {
      await dataSource.initialize()
      clearTimeout(timer)
      if (migrates) await migrate(opened, workMs)
      else await use(opened, workMs, hasPending)
      return opened
    } catch (error) {
      clearTimeout(timer)
      if (dataSource.isInitialized) await dataSource.destroy().catch(() => undefined)
      pool.close()
      const cause = causeOf(error)
      if (!isUnavailable(cause) || isMisconfigured(cause) || performance.now() > deadline) throw cause
      log.warn({ err: cause }, 'the database is not available yet; trying again')
    }
    // Jitter, so that instances that start together do not connect together.
    await new Promise(resolve => setTimeout(resolve, pauseMs * (0.5 + Math.random())))
  }
}

/** Runs all pending migrations, each in a transaction of its own, so that none holds the locks of those before it. */
const migrate = async (opened: Opened, workMs: number) => {
  const { dataSource } = opened
  const next = (manager: EntityManager) => manager.transaction(inner => migrateOnce(dataSource, inner))
  while ((await use(opened, workMs, hasPending)) && (await use(opened, MIGRATION_MS, next)));
}

/** False: none is pending any more. The lock ends with the transaction, even if this process is killed. */
const migrateOnce = async (dataSource: DataSource, manager: EntityManager): Promise<boolean> => {
  await manager.query(`SET LOCAL statement_timeout = ${MIGRATION_TIMEOUT_MS}`)
  await manager.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK])
  await manager.query(`SET LOCAL lock_timeout = ${MIGRATION_LOCK_TIMEOUT_MS}`)
  await hasPending(manager)
  const executor = new MigrationExecutor(dataSource, manager.queryRunner)
  const [next] = await executor.getPendingMigrations()
  if (next !== undefined) await executor.executeMigration(next)
  return next !== undefined
}

const causeOf = (error: unknown): unknown => (error instanceof DatabaseUnavailable ? error.cause : error)

const again = async <T>(write: () => Promise<T>): Promise<T> => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await write()
    } catch (error) {
      if (!isRetryable(causeOf(error)) || attempt >= ATTEMPTS) throw error
    }
  }
}

type Work<T> = (manager: EntityManager) => Promise<T>
type PooledWork<T> = (manager: EntityManager, isPooled: boolean) => Promise<T>

/** Runs `work` with a connection of the pool, which returns there whatever happens; after the deadline it is ended first. */
const use = async <T>({ dataSource, pool }: Opened, timeoutMs: number, work: PooledWork<T>): Promise<T> => {
  const runner = dataSource.createQueryRunner()
  let connection: DatabaseConnection | undefined
  let isLate = false
  const end = (error: unknown) => connection?.destroy(error instanceof Error ? error : tooLate())
  const timer = setTimeout(() => {
    isLate = true
    end(tooLate())
  }, timeoutMs)
  try {
    connection = pool.connectionOf(await runner.connect().catch(unavailable))
    if (isLate) throw tooLate()
    return await work(runner.manager, connection?.isPooled === true)
  } catch (error) {
    if (!isUnavailable(error)) throw error
    if (!isRetryable(error)) end(error)
    throw new DatabaseUnavailable(error)
  } finally {
    clearTimeout(timer)
    await runner.release()
  }
}

/** Whatever keeps a connection from being opened, such as an expired certificate: no statement is at fault. */
const unavailable = (error: unknown): never => {
  throw new DatabaseUnavailable(error)
}

type Operation = (database: Database, ...rest: never[]) => unknown
type Bound<O> = O extends (database: Database, ...rest: infer Rest) => infer Result ? (...rest: Rest) => Result : never

/** The same operations, all of them on this database. */
export const bind = <Operations extends Readonly<Record<string, Operation>>>(
  database: Database,
  operations: Operations
): { [Name in keyof Operations]: Bound<Operations[Name]> } => {
  const bound = Object.entries(operations).map(([name, operation]) => [name, operation.bind(undefined, database)])
  return Object.fromEntries(bound)
}

/** One transaction, during which no other change of access, area or state runs, on any instance. */
export const writeAccess = <T>(database: Database, work: Work<T>, patienceMs?: number): Promise<T> =>
  database.write(async manager => {
    await lockAccess(manager)
    return work(manager)
  }, patienceMs)

/** Runs one statement outside a transaction. */
export const readRows = <Row>(database: Database, statement: string, values?: readonly unknown[]): Promise<Row[]> =>
  database.read(manager => query<Row>(manager, statement, values))

/** Shared, because a flood needs many. */
const TOO_MANY = new DatabaseUnavailable(new Error('too much work for this share of the database connections'))

interface Share {
  /** Concurrent pieces of work. */
  readonly connections: number
  /** Pieces of work that may wait; further ones fail at once, which costs less than waiting in vain. */
  readonly mostWaiting: number
  /** How long one waits; by default as long as for a connection of the pool. */
  readonly waitMs?: number
}

export const shareOf = (database: Database, { connections, mostWaiting, waitMs = 2_000 }: Share): Database => {
  const inTurn = createTurns(connections, mostWaiting, () => TOO_MANY, waitMs)
  return {
    ...database,
    read: work => inTurn('', () => database.read(work)),
    write: (work, patienceMs) => inTurn('', () => database.write(work, patienceMs))
  }
}

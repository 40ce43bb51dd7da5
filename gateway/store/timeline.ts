// Names the history that a database has, so that what was read from another one is not trusted.
import type { Database } from './database.ts'
import { databaseCode } from './database-errors.ts'
import { query } from './query.ts'

/**
 * Another server, or a standby that was promoted, has another name; numbers of transactions and of audit entries may have been
 * used again there. An expression of SQL.
 */
const TIMELINE = `CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE
    (SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) END`

/** No such function, none that may be called, none that is supported, or no such syntax (PostgreSQL documentation, appendix A). */
const NO_TIMELINE: ReadonlySet<string> = new Set(['42883', '42501', '0A000', '42601'])

/** Databases that have no timelines to ask for, as services that only resemble Postgres. */
const withoutTimeline = new WeakSet<Database>()

/** Runs work with {@link TIMELINE}, or with an empty name where the database has none. */
export const onTimeline = async <T>(database: Database, work: (timeline: string) => Promise<T>): Promise<T> => {
  if (withoutTimeline.has(database)) return work("''")
  try {
    return await work(TIMELINE)
  } catch (error) {
    if (!NO_TIMELINE.has(databaseCode(error))) throw error
    withoutTimeline.add(database)
    return work("''")
  }
}

/** Empty if the database has none. */
export const readTimeline = (database: Database): Promise<string> =>
  onTimeline(database, async timeline => {
    const [row] = await database.read(manager => query<{ timeline: string }>(manager, `SELECT ${timeline} AS timeline`))
    return row?.timeline ?? ''
  })

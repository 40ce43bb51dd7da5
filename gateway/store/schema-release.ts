// Refuses a database that a much newer release has migrated.
import type { QueryRunner } from 'typeorm'
import { SCHEMA_RELEASE } from '../../migrations/index.ts'
import { query } from './query.ts'

/** Waiting does not help: another release of the gateway is needed. */
class SchemaTooNew extends Error {
  constructor(found: number) {
    super(
      `the database has the schema of release ${found} (this gateway: ${SCHEMA_RELEASE}), which only that release and the one before it can use; start a newer version of the gateway, or restore a backup`
    )
    this.name = 'SchemaTooNew'
  }
}

/** Migrations only add, so that the release before still works beside them; two releases ahead that is not promised. */
export const refuseNewerSchema = async (runner: QueryRunner): Promise<void> => {
  const [known] = await query<{ exists: boolean }>(
    runner.manager,
    "SELECT to_regclass('schema_migrations') IS NOT NULL AS exists"
  )
  if (known?.exists !== true) return
  const rows = await query<{ name: string }>(runner.manager, 'SELECT name FROM schema_migrations')
  const newest = Math.max(1, ...rows.map(({ name }) => releaseOf(name)))
  if (newest > SCHEMA_RELEASE + 1) throw new SchemaTooNew(newest)
}

/** `R2Something…` belongs to the second release that changed the schema; without a number to the first. */
const releaseOf = (name: string): number => Number(/^R([1-9][0-9]*)[A-Z]/.exec(name)?.[1] ?? 1)

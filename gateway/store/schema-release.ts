// Refuses a database that a much newer release has migrated.
import type { EntityManager } from 'typeorm'
import { SCHEMA_RELEASE } from '../../migrations/index.ts'
import { query } from './query.ts'

/** Waiting does not help, because a different release of the gateway is needed. */
class SchemaTooNew extends Error {
  constructor(found: number) {
    super(
      `the database has the schema of release ${found} (this gateway: ${SCHEMA_RELEASE}), which only that release and the one before it can use; start a newer version of the gateway, or restore a backup`
    )
    this.name = 'SchemaTooNew'
  }
}

/** Migrations are additive, so the previous release also works on the schema; that is not promised for two releases. */
export const refuseNewerSchema = async (manager: EntityManager): Promise<void> => {
  const [known] = await query<{ exists: boolean }>(
    manager,
    "SELECT to_regclass('schema_migrations') IS NOT NULL AS exists"
  )
  if (known?.exists !== true) return
  const rows = await query<{ name: string }>(manager, 'SELECT name FROM schema_migrations')
  const newest = Math.max(1, ...rows.map(({ name }) => releaseOf(name)))
  if (newest > SCHEMA_RELEASE + 1) throw new SchemaTooNew(newest)
}

/** `R2Something…` belongs to the second release that changed the schema; names without a number belong to the first. */
const releaseOf = (name: string): number => Number(/^R([1-9][0-9]*)[A-Z]/.exec(name)?.[1] ?? 1)

// Finds whether a database has to be migrated, and refuses one that a much newer release has migrated.
import type { EntityManager } from 'typeorm'
import { migrations, SCHEMA_RELEASE } from '../../migrations/index.ts'
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

/**
 * Whether a migration is pending. Migrations are additive, so the previous release also works on the schema; that is not promised
 * for two releases. Throws SchemaTooNew.
 */
export const hasPending = async (manager: EntityManager): Promise<boolean> => {
  const [known] = await query<{ exists: boolean }>(
    manager,
    "SELECT to_regclass('schema_migrations') IS NOT NULL AS exists"
  )
  if (known?.exists !== true) return true
  const rows = await query<{ name: string }>(manager, 'SELECT name FROM schema_migrations')
  const names = rows.map(({ name }) => name)
  const newest = Math.max(1, ...names.map(releaseOf))
  if (newest > SCHEMA_RELEASE + 1) throw new SchemaTooNew(newest)
  return migrations.some(Migration => !names.includes(new Migration().name))
}

/** `R2Something…` belongs to the second release that changed the schema; names without a number belong to the first. */
const releaseOf = (name: string): number => Number(/^R([1-9][0-9]*)[A-Z]/.exec(name)?.[1] ?? 1)

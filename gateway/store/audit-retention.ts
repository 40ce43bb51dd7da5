// Archives and removes entries of the audit log that are older than AUDIT_RETENTION, one file at a time.
import { join } from 'node:path'
import type { SealingSecret } from '../tokens/sealed-keys.ts'
import type { Log } from '../values/log.ts'
import { archiveAudit } from './audit-archive.ts'
import type { Database } from './database.ts'
import { query } from './query.ts'

interface RetentionSettings {
  readonly retentionMs: number
  /** The folder that receives the files. */
  readonly folder: string
}

interface RetentionParts extends RetentionSettings {
  readonly database: Database
  readonly secrets: readonly SealingSecret[]
  readonly log: Log
}

const ACTOR = { id: null, username: 'gateway' }
const DAY_MS = 24 * 60 * 60 * 1000
/** Some tens of megabytes; the next round goes on. */
const MOST = 50_000

/** Archives what is due, at most a file a day once the backlog is gone. */
export const retainAudit = async ({ database, retentionMs, folder, secrets, log }: RetentionParts): Promise<void> => {
  try {
    const [due] = await database.read(manager => query<{ isDue: boolean }>(manager, DUE, [retentionMs + DAY_MS]))
    if (due?.isDue !== true) return
    const before = new Date(Date.now() - retentionMs)
    const fileOf = (first: number, last: number) => join(folder, `audit-${first}-${last}.jsonl`)
    const archived = await archiveAudit(database, { actor: ACTOR, secrets, before, fileOf, most: MOST })
    if (archived !== undefined) log.info(archived, 'archived entries of the audit log')
  } catch (error) {
    log.error(
      { err: error, reason: 'audit-unarchived' },
      'the audit log could not be archived: entries older than AUDIT_RETENTION stay in the database until it can'
    )
  }
}

const DUE = `
  SELECT at < now() - $1 * interval '1 millisecond' AS "isDue" FROM audit_events
  WHERE id > (SELECT archived FROM audit_head) ORDER BY id LIMIT 1`

// Reads rows of the audit log as they are stored.
import type { EntityManager } from 'typeorm'
import { query } from './query.ts'
import type { Json } from './storable.ts'

/** What someone recorded, before the database numbered and linked it. */
export interface AuditContent {
  at: Date
  actorId: number | null
  actorUsername: string
  action: string
  target: string
  before: Json
  after: Json
  requestId: string
  ip: string
  details: Json
}

/** A row of the audit log. */
export interface AuditRow extends AuditContent {
  id: number
  contentHash: string
  previousHash: string
  hash: string
  /** The key that links it; null: written without one, by the release before this one. */
  keyId: string | null
  /** Set once the name has been erased. */
  actorDigest: string | null
  /** Set once the address has been erased. */
  ipDigest: string | null
}

/** The end of the chain, and the last entry that was archived and removed. */
export interface AuditHead {
  entries: number
  lastHash: string
  archived: number
  archivedHash: string
  archivedKey: string | null
  archivedMac: string | null
}

/** @param rest the end of a statement over `audit_events e` */
export const selectRows = (manager: EntityManager, rest: string, values: readonly unknown[]): Promise<AuditRow[]> =>
  query<AuditRow>(manager, `${COLUMNS} ${rest}`, values)

/** Entries after this number, in their order. */
export const nextRows = (manager: EntityManager, after: number, most: number): Promise<AuditRow[]> =>
  selectRows(manager, 'WHERE e.id > $1 ORDER BY e.id LIMIT $2', [after, most])

/** @param isLocked no entry is written until the transaction ends */
export const readAuditHead = async (manager: EntityManager, isLocked = false): Promise<AuditHead> => {
  const [head] = await query<AuditHead>(manager, isLocked ? `${HEAD} FOR UPDATE` : HEAD)
  if (head === undefined) throw new Error('the table audit_head has no row: restore a backup of the database')
  return head
}

/** Whether there are entries that the head does not count: only something outside the gateway writes these. */
export const isBeyondHead = async (manager: EntityManager, entries: number): Promise<boolean> =>
  (await query(manager, BEYOND, [entries])).length > 0

const BEYOND = 'SELECT FROM audit_events WHERE id > $1 AND id > (SELECT entries FROM audit_head) LIMIT 1'

// Numbers as float8, which pg reads as numbers: exact beyond any log.
const COLUMNS = `
  SELECT e.id::float8 AS id, e.at, e.actor_id AS "actorId", e.actor_username AS "actorUsername", e.action, e.target,
    e.before, e.after, e.request_id AS "requestId", e.ip, e.details, e.content_hash AS "contentHash",
    e.previous_hash AS "previousHash", e.hash, e.key_id AS "keyId", e.actor_digest AS "actorDigest", e.ip_digest AS "ipDigest"
  FROM audit_events e`

const HEAD = `
  SELECT entries::float8 AS entries, last_hash AS "lastHash", archived::float8 AS archived,
    archived_hash AS "archivedHash", archived_key AS "archivedKey", archived_mac AS "archivedMac"
  FROM audit_head`

// Writes an event as one hashed row of the audit log; the database links it to the previous row.
import type { EntityManager } from 'typeorm'
import { canonicalJson, type Json, sha256, storableJson, storableText } from './storable.ts'

/** Who acts, and through which request; `id` is null for the gateway itself or its command line. */
export interface Actor {
  id: number | null
  username: string
  requestId?: string | undefined
  ip?: string | undefined
}

export interface AuditEntry {
  actor: Actor
  /** Stable word, e.g. `login`, `access.set`, `person.disable`, `area.rename`. */
  action: string
  /** `user:<id>`, `area:<id>`, `token:<jti>`, or `''`. */
  target?: string
  before?: unknown
  after?: unknown
  details?: unknown
  /** Now, unless given. */
  at?: Date
}

/** What the hash of an entry covers. */
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

/** SHA-256 over the canonical JSON of an entry. */
export const contentHash = (content: AuditContent): string =>
  sha256(canonicalJson({ ...content, at: content.at.toISOString() }))

/** SHA-256 over the previous link and an entry's content, as the trigger `audit_link` computes it (migration 0001). */
export const linkHash = (previousHash: string, content: string): string => sha256(previousHash + content)

export const GENESIS_HASH = '0'.repeat(64)

/**
 * Appends an entry with one INSERT. Entries of all instances queue until their transactions end, so within a
 * longer transaction this comes last.
 */
export const appendAudit = (manager: EntityManager, entry: AuditEntry): Promise<void> => appendAudits(manager, [entry])

/** The same for several, linked in this order. */
export const appendAudits = async (manager: EntityManager, entries: readonly AuditEntry[]): Promise<void> => {
  if (entries.length === 0) return
  const rows = entries.map(contentOf).map(content => ({ ...content, contentHash: contentHash(content) }))
  await manager.query(INSERT, [JSON.stringify(rows)])
}

const contentOf = (entry: AuditEntry): AuditContent => ({
  at: entry.at ?? new Date(),
  actorId: entry.actor.id,
  actorUsername: storableText(entry.actor.username),
  action: storableText(entry.action, 64),
  target: storableText(entry.target ?? ''),
  before: storableJson(entry.before),
  after: storableJson(entry.after),
  requestId: storableText(entry.actor.requestId ?? '', 128),
  ip: storableText(entry.actor.ip ?? '', 64),
  details: storableJson(entry.details)
})

const INSERT = `
  INSERT INTO audit_events
    (at, actor_id, actor_username, action, target, before, after, request_id, ip, details, content_hash)
  SELECT at, "actorId", "actorUsername", action, target, before, after, "requestId", ip, details, "contentHash"
  FROM ROWS FROM (jsonb_to_recordset($1::jsonb) AS (
    at timestamptz, "actorId" int, "actorUsername" text, action text, target text, before jsonb, after jsonb,
    "requestId" text, ip text, details jsonb, "contentHash" text
  )) WITH ORDINALITY AS entry
  ORDER BY ordinality`

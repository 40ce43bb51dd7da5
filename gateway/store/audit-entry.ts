// Writes events as rows of the audit log, each linked to the one before it.
import type { EntityManager } from 'typeorm'
import { type AuditKey, contentHash, linkHash } from './audit-chain.ts'
import { linkingKey } from './audit-keys.ts'
import { type AuditContent, readAuditHead } from './audit-rows.ts'
import { query } from './query.ts'
import { storableJson, storableText } from './storable.ts'

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

/**
 * Appends an entry within a transaction. Entries of all instances queue until their transactions end, so in a longer one
 * this comes last.
 */
export const appendAudit = (manager: EntityManager, entry: AuditEntry): Promise<void> => appendAudits(manager, [entry])

/** The same for several, linked in this order. Throws AuditKeyMissing. */
export const appendAudits = async (manager: EntityManager, entries: readonly AuditEntry[]): Promise<void> => {
  if (entries.length === 0) return
  const contents = entries.map(contentOf)
  const key = await linkingKey(manager)
  const rows =
    key === undefined
      ? contents.map(content => ({ ...content, contentHash: contentHash(content) }))
      : linked(contents, key, (await readAuditHead(manager, true)).lastHash)
  await query(manager, INSERT, [JSON.stringify(rows)])
}

/** The database checks that the first of them follows the last entry there is. */
const linked = (contents: readonly AuditContent[], key: AuditKey, lastHash: string) => {
  let previousHash = lastHash
  return contents.map(content => {
    const row = { ...content, keyId: key.id, contentHash: contentHash(content, key), previousHash }
    previousHash = linkHash(previousHash, row.contentHash, key)
    return { ...row, hash: previousHash }
  })
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
  INSERT INTO audit_events (at, actor_id, actor_username, action, target, before, after, request_id, ip, details,
    content_hash, key_id, previous_hash, hash)
  SELECT at, "actorId", "actorUsername", action, target, before, after, "requestId", ip, details,
    "contentHash", "keyId", "previousHash", hash
  FROM ROWS FROM (jsonb_to_recordset($1::jsonb) AS (
    at timestamptz, "actorId" int, "actorUsername" text, action text, target text, before jsonb, after jsonb,
    "requestId" text, ip text, details jsonb, "contentHash" text, "keyId" text, "previousHash" text, hash text
  )) WITH ORDINALITY AS entry
  ORDER BY ordinality`

// Checks the audit log bit by bit, for all instances, from a stored checkpoint that only somebody with the key can write.
import type { EntityManager } from 'typeorm'
import {
  type AuditHead,
  type AuditKeys,
  type ChainWalk,
  isBeginning,
  macOf,
  nextRows,
  readAuditHead,
  walkFrom,
  walkPages
} from './audit-chain.ts'
import { AuditKeyMissing, keysOf } from './audit-entry.ts'
import type { Database } from './database.ts'
import { AUDIT_CHECK_LOCK, clockOf, query } from './query.ts'
import { readTimeline } from './token-state.ts'

/** How far the log has been checked; stored with a MAC. */
interface AuditCheckpoint {
  /** Every entry up to this number followed from the one before it when it was checked. */
  readonly verified: number
  readonly hash: string
  /** Number of the last entry that the pass over the whole log has read; each round reads a part of it. */
  readonly swept: number
  readonly sweptHash: string
  readonly firstBroken: number | null
  /** Ids of the keys that the numbers of unknown ones hold for. */
  readonly keys: string
  /** Entries up to `verified` with a key that is none of these; null until a whole pass has counted them. */
  readonly unknown: number | null
  /** Those of them that the pass has read. */
  readonly sweptUnknown: number
  /** When the last such pass ended, and when the last round did; ISO 8601, UTC. */
  readonly fullAt: string | null
  readonly checkedAt: string | null
}

/** Entries of one step: a transaction of some tens of milliseconds. */
const MOST = 2_000

/**
 * Checks the next entries and stores how far it came. Undefined: another process is at it, or has done it.
 * @param sweep how many entries of the pass over everything to read, after what is new
 * @param leastAgeMs nothing is done if the last round ended since then
 */
export const checkSome = (database: Database, sweep: number, leastAgeMs = 0) =>
  database.write(async manager => {
    const [lock] = await query<{ isOurs: boolean }>(manager, 'SELECT pg_try_advisory_xact_lock($1) AS "isOurs"', [
      AUDIT_CHECK_LOCK
    ])
    if (lock?.isOurs !== true) return undefined
    const head = await readAuditHead(manager)
    const before = lastChecked(await readCheckpoint(manager), head, keysOf(manager))
    if ((await ageOf(manager, before)) < leastAgeMs) return undefined
    const step = await stepFrom(manager, aheadOf(before, head), head, sweep)
    await writeCheckpoint(manager, step.checkpoint)
    return step
  })

/** What was archived meanwhile was checked for it. */
const aheadOf = (checkpoint: AuditCheckpoint, { archived, archivedHash }: AuditHead): AuditCheckpoint => ({
  ...checkpoint,
  ...(checkpoint.verified < archived ? { verified: archived, hash: archivedHash } : {}),
  ...(checkpoint.swept < archived ? { swept: archived, sweptHash: archivedHash } : {})
})

/**
 * Where the check goes on: after what is stored, or at the beginning. With other keys than those it was stored with, as after
 * an upgrade or a rotation of secrets, the pass over everything begins anew, and counts the entries with unknown ones.
 */
export const lastChecked = (
  stored: AuditCheckpoint | undefined,
  { archived, archivedHash }: AuditHead,
  known: AuditKeys
): AuditCheckpoint => {
  const keys = known.map(({ id }) => id).join(' ')
  if (stored?.keys === keys) return stored
  const pass = { keys, swept: archived, sweptHash: archivedHash, sweptUnknown: 0 }
  if (stored !== undefined) return { ...stored, ...pass, unknown: null }
  const nothing = { firstBroken: null, fullAt: null, checkedAt: null, unknown: 0 }
  return { ...nothing, ...pass, verified: archived, hash: archivedHash }
}

const stepFrom = async (manager: EntityManager, before: AuditCheckpoint, head: AuditHead, sweep: number) => {
  const tail = walkFrom(before.verified, before.hash)
  const walkTo = (walk: ChainWalk, goal: number) =>
    walkPages(walk, Math.min(goal, walk.number + MOST), keysOf(manager), (after, most) =>
      nextRows(manager, after, most)
    )
  let broken = (await lostBefore(manager, before, head)) ?? (await walkTo(tail, head.entries))
  const isTailDone = tail.number === head.entries
  if (isTailDone) broken ??= await brokenEnd(manager, tail, head)
  const unknown = before.unknown === null ? null : before.unknown + tail.unknown
  const again = walkFrom(before.swept, before.sweptHash, before.sweptUnknown, unknown ?? undefined)
  // The first pass over what is new is one over everything.
  const isFirst = before.fullAt === null
  const goal = Math.min(again.number + sweep, tail.number)
  if (isTailDone && !isFirst) {
    broken ??= await walkTo(again, goal)
    if (again.number === tail.number && again.hash !== tail.hash) broken ??= tail.number
  }
  const isDone = broken !== undefined || (isTailDone && (isFirst || again.number >= goal))
  const isFull = broken === undefined && isTailDone && (isFirst || again.number === tail.number)
  const now = new Date(await clockOf(manager)).toISOString()
  const next = isFull ? walkFrom(head.archived, head.archivedHash) : again
  const checkpoint: AuditCheckpoint = {
    verified: tail.number,
    hash: tail.hash,
    swept: next.number,
    sweptHash: next.hash,
    firstBroken: broken ?? (isDone ? null : before.firstBroken),
    keys: before.keys,
    unknown: isFull && !isFirst ? again.unknown : unknown,
    sweptUnknown: next.unknown,
    fullAt: isFull ? now : before.fullAt,
    checkedAt: isDone ? now : before.checkedAt
  }
  return {
    checkpoint,
    /** Whether everything new has been checked, and as much again as was asked for. */
    isDone,
    /** Entries of the pass over everything that were read in this step. */
    swept: again.number - before.swept,
    /** New entries without a key, although one has taken over. */
    unkeyed: tail.unkeyed
  }
}

/** Entries that were checked before and are gone, or are others now; undefined: none. */
export const lostBefore = async (
  manager: EntityManager,
  { verified, hash }: Pick<AuditCheckpoint, 'verified' | 'hash'>,
  head: AuditHead
): Promise<number | undefined> => {
  if (!isBeginning(head, keysOf(manager))) return head.archived
  if (head.entries < verified) return head.entries + 1
  if (verified <= head.archived) return verified < head.archived || hash === head.archivedHash ? undefined : verified
  const [row] = await query<{ hash: string }>(manager, 'SELECT hash FROM audit_events WHERE id = $1', [verified])
  return row?.hash === hash ? undefined : verified
}

export const brokenEnd = async (
  manager: EntityManager,
  tail: ChainWalk,
  head: AuditHead
): Promise<number | undefined> => {
  if (tail.hash !== head.lastHash) return tail.number
  // Only something outside the gateway writes entries that the head does not count.
  const beyond = 'SELECT FROM audit_events WHERE id > $1 AND id > (SELECT entries FROM audit_head) LIMIT 1'
  return (await query(manager, beyond, [head.entries])).length > 0 ? head.entries + 1 : undefined
}

/**
 * What has been checked, by whichever process, and whether what this process remembers still holds. `checkpoint` is undefined
 * if nothing has been checked, or none of our keys vouches for what is stored; `lost` is the number of the first entry that
 * this process has seen checked, and that is gone or is another one now.
 */
export const readChecked = async (database: Database, remembered?: Pick<AuditCheckpoint, 'verified' | 'hash'>) => {
  const timeline = await readTimeline(database)
  return database.write(async manager => {
    // All as of one moment: what is archived in between is not lost.
    await query(manager, 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
    const [head, checkpoint] = [await readAuditHead(manager), await readCheckpoint(manager)]
    const lost = remembered && (await lostBefore(manager, remembered, head))
    return { checkpoint, lost, timeline, entries: head.entries, ageMs: await ageOf(manager, checkpoint) }
  })
}

const ageOf = async (manager: EntityManager, { checkedAt = null }: Partial<AuditCheckpoint> = {}): Promise<number> => {
  const ageMs = checkedAt === null ? -1 : (await clockOf(manager)) - Date.parse(checkedAt)
  // Below 0, the clock has been set back since.
  return ageMs < 0 ? Number.POSITIVE_INFINITY : ageMs
}

/** Undefined if there is none, or none that one of our keys vouches for. */
export const readCheckpoint = async (manager: EntityManager): Promise<AuditCheckpoint | undefined> => {
  const [row] = await query<{ body: string; id: string; mac: string }>(
    manager,
    'SELECT body, key_id AS id, mac FROM audit_check'
  )
  const key = keysOf(manager).find(({ id }) => id === row?.id)
  if (row === undefined || key === undefined || macOf(key, `checkpoint ${row.body}`) !== row.mac) return undefined
  return JSON.parse(row.body) as AuditCheckpoint
}

const writeCheckpoint = async (manager: EntityManager, checkpoint: AuditCheckpoint): Promise<void> => {
  const key = keysOf(manager).at(-1)
  if (key === undefined) throw new AuditKeyMissing()
  const body = JSON.stringify(checkpoint)
  await query(manager, WRITE, [body, key.id, macOf(key, `checkpoint ${body}`)])
}

const WRITE = `
  INSERT INTO audit_check (body, key_id, mac) VALUES ($1, $2, $3)
  ON CONFLICT (one) DO UPDATE SET body = excluded.body, key_id = excluded.key_id, mac = excluded.mac`

// Moves the oldest entries of the audit log into a file that can be verified without the database; the chain goes on from there.
import { randomUUID } from 'node:crypto'
import { open, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { EntityManager } from 'typeorm'
import type { SealingSecret } from '../tokens/sealed-keys.ts'
import type { Log } from '../values/log.ts'
import { type ArchiveFacts, archiveHeader } from './audit-archive-file.ts'
import { archivedMac, isBeginning, nextRows, readAuditHead, selectRows, walkFrom, walkPages } from './audit-chain.ts'
import { lastChecked, readCheckpoint } from './audit-check.ts'
import {
  type Actor,
  AuditKeyMissing,
  appendAudit,
  isOvertaken,
  keysOf,
  linkingKey,
  sealedAuditKey
} from './audit-entry.ts'
import { type Database, readRows } from './database.ts'
import { AUDIT_CHECK_LOCK, clockOf, query } from './query.ts'

interface Archiving {
  readonly actor: Actor
  /** JWT_SECRET first, then the previous ones: any of them opens the archive. */
  readonly secrets: readonly SealingSecret[]
  /** Entries from this time on stay. */
  readonly before: Date
  readonly fileOf: (first: number, last: number) => string
  /** A file of that name has the same entries, and is replaced. */
  readonly replaces?: boolean
  readonly most?: number
}

/** An entry does not follow from the one before it: nothing was archived. */
export class AuditBroken extends Error {
  readonly firstBroken: number

  constructor(firstBroken: number) {
    super(`entry ${firstBroken} of the audit log is missing or has been altered; nothing was archived`)
    this.name = 'AuditBroken'
    this.firstBroken = firstBroken
  }
}

/** Another process has archived entries since this run began, which wrote nothing. */
export class ArchivedMeanwhile extends Error {
  constructor() {
    super('entries were archived by another process meanwhile; nothing was archived here')
    this.name = 'ArchivedMeanwhile'
  }
}

const DELETED_AT_ONCE = 2_000

/**
 * Writes the entries before a time to a file, then removes them. Undefined: there are none. Whenever it stops, the entries
 * are in the file, or in the database, or in both. Throws AuditBroken, ArchivedMeanwhile, AuditKeyMissing, and what the file
 * system refuses, such as EEXIST.
 */
export const archiveAudit = async (database: Database, archiving: Archiving) => {
  await removeArchived(database)
  const planned = await database.read(manager => plan(manager, archiving))
  if (planned === undefined) return undefined
  const { facts, key, keys, walk } = planned
  const { first, last } = facts
  const file = archiving.fileOf(first, last)
  const headerWith = (unknown: number) => JSON.stringify(archiveHeader(key, { ...facts, unknown }))
  await writeFile(file, archiving.replaces === true, headerWith(last).length, async lines => {
    const broken = await walkPages(walk, last, keys, async (after, most) => {
      const rows = await database.read(manager => nextRows(manager, after, most))
      await lines(rows)
      return rows
    })
    if (broken !== undefined) throw await database.read(manager => whyMissing(manager, first, broken))
    if (walk.hash !== facts.lastHash) throw new AuditBroken(walk.number)
    return headerWith(walk.unknown)
  })
  await database
    .write(manager => settle(manager, facts, archiving.actor, file))
    .catch(async (error: unknown) => {
      // After any other error, the entries may have left the database; and others may have replaced the file.
      if (error instanceof ArchivedMeanwhile && archiving.replaces !== true) await rm(file, { force: true })
      throw error
    })
  await removeArchived(database)
  return { file, first, last }
}

const plan = async (manager: EntityManager, { before, secrets, most }: Archiving) => {
  const key = await linkingKey(manager)
  if (key === undefined || (await isOvertaken(manager))) throw new AuditKeyMissing()
  // Before the head, as for `audit verify`.
  const checkpoint = await readCheckpoint(manager)
  const [head, keys] = [await readAuditHead(manager), keysOf(manager)]
  if (!isBeginning(head, keys)) throw new AuditBroken(head.archived)
  const [kept] = await query<{ id: number }>(manager, FIRST_KEPT, [before])
  const last = Math.min(kept === undefined ? head.entries : kept.id - 1, head.archived + (most ?? head.entries))
  if (last <= head.archived) return undefined
  const [end] = await selectRows(manager, 'WHERE e.id = $1', [last])
  if (end === undefined) throw await whyMissing(manager, head.archived + 1, last)
  const nowS = (await clockOf(manager)) / 1000
  const facts: ArchiveFacts = {
    first: head.archived + 1,
    last,
    previousHash: head.archivedHash,
    lastHash: end.hash,
    writtenAt: new Date(nowS * 1000).toISOString(),
    keys: keys.map(one => ({ id: one.id, sealed: sealedAuditKey(one, secrets, nowS) }))
  }
  const { verified, unknown } = lastChecked(checkpoint, head, keys)
  const mostUnknown = last <= verified ? (unknown ?? undefined) : undefined
  return { facts, key, keys, walk: walkFrom(head.archived, head.archivedHash, 0, mostUnknown) }
}

/** @param first where the log began when it was planned */
const whyMissing = async (manager: EntityManager, first: number, broken: number): Promise<Error> =>
  (await readAuditHead(manager)).archived === first - 1 ? new AuditBroken(broken) : new ArchivedMeanwhile()

// What a clock far ahead has dated after that time is as old as the entries around it: it comes before the latest of those that
// are older by an hour, which is more than the order of numbers and that of times differ by otherwise.
const FIRST_KEPT = `
  SELECT e.id::float8 AS id FROM audit_events e WHERE e.at >= $1 AND e.id > coalesce((
    SELECT id FROM audit_events WHERE at < $1::timestamptz - interval '1 hour' ORDER BY at DESC, id DESC LIMIT 1), 0)
  ORDER BY e.id LIMIT 1`

type Lines = (lines: readonly object[]) => Promise<void>

/** Resolves to the first line. */
type Write = (lines: Lines) => Promise<string>

/**
 * The file has its name only once all of it is on the disk; of several runs that write it at once, only one gives it that
 * name. Only its owner may read it: it contains personal data.
 * @param room the most characters of the first line, which says what the others are; the rest of them are spaces
 */
const writeFile = async (file: string, replaces: boolean, room: number, write: Write): Promise<void> => {
  const unfinished = `${file}.unfinished-${randomUUID()}`
  const handle = await open(unfinished, 'wx', 0o600)
  try {
    await handle.appendFile(`${' '.repeat(room)}\n`)
    const first = await write(
      async lines => void (await handle.appendFile(`${lines.map(line => JSON.stringify(line)).join('\n')}\n`))
    )
    await handle.write(first, 0)
    await handle.sync()
    if (!replaces) await (await open(file, 'wx', 0o600)).close()
    await rename(unfinished, file)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  } finally {
    await handle.close()
  }
  const folder = await open(dirname(file))
  await folder.sync().finally(() => folder.close())
}

/** From here on the log begins after these entries, which may be removed. No process checks them meanwhile. */
const settle = async (manager: EntityManager, facts: ArchiveFacts, actor: Actor, file: string): Promise<void> => {
  await query(manager, 'SELECT pg_advisory_xact_lock($1)', [AUDIT_CHECK_LOCK])
  const key = await linkingKey(manager)
  if (key === undefined) throw new AuditKeyMissing()
  const head = await readAuditHead(manager, true)
  const { first, last, lastHash } = facts
  if (head.archived !== first - 1) throw new ArchivedMeanwhile()
  await query(manager, BEGIN_AFTER, [last, lastHash, key.id, archivedMac(key, last, lastHash)])
  const details = { first, last, hash: lastHash, file: basename(file) }
  await appendAudit(manager, { actor, action: 'audit.archive', details })
}

const BEGIN_AFTER = 'UPDATE audit_head SET archived = $1, archived_hash = $2, archived_key = $3, archived_mac = $4'

/** In short transactions; also what an earlier attempt left. */
const removeArchived = async (database: Database): Promise<void> => {
  for (;;) {
    const gone = await database.write(manager => query(manager, REMOVE, [DELETED_AT_ONCE]))
    if (gone.length < DELETED_AT_ONCE) return
  }
}

const REMOVE = `
  DELETE FROM audit_events WHERE id IN (
    SELECT id FROM audit_events WHERE id <= (SELECT archived FROM audit_head) ORDER BY id LIMIT $1)
  RETURNING id`

interface RetentionParts {
  readonly retentionMs: number
  readonly folder: string
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
    // The next round tries again.
    await removeUnfinished(folder).catch(() => undefined)
    const [due] = await readRows<{ isDue: boolean }>(database, DUE, [retentionMs + DAY_MS])
    if (due?.isDue !== true) return
    const before = new Date((await database.clock()) - retentionMs)
    const fileOf = (first: number, last: number) => join(folder, `audit-${first}-${last}.jsonl`)
    const archived = await archiveAudit(database, { actor: ACTOR, secrets, before, fileOf, replaces: true, most: MOST })
    if (archived !== undefined) log.info(archived, 'archived entries of the audit log')
  } catch (error) {
    log.error(
      { err: error, reason: 'audit-unarchived' },
      'the audit log could not be archived: entries older than AUDIT_RETENTION stay in the database until it can'
    )
  }
}

const UNFINISHED = /^audit-\d+-\d+\.jsonl\.unfinished-[0-9a-f-]{36}$/

/** What a process left that was ended while it archived: a file that another is writing has changed within the day. */
const removeUnfinished = async (folder: string): Promise<void> => {
  for (const name of await readdir(folder)) {
    if (!UNFINISHED.test(name)) continue
    const file = join(folder, name)
    const { mtimeMs } = await stat(file)
    if (mtimeMs < Date.now() - DAY_MS) await rm(file, { force: true })
  }
}

// What a clock that was ahead has dated beyond today is as old as the entries around it.
const DUE = `
  SELECT at < now() - $1 * interval '1 millisecond' AS "isDue" FROM audit_events
  WHERE id > (SELECT archived FROM audit_head) AND at <= now() ORDER BY id LIMIT 1`

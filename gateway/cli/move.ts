// Moves an installation from the embedded database to Postgres, complete and in one transaction.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type pg from 'pg'
import type { Database } from '../store/database.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { sealingSecrets, storeSettings } from './command-settings.ts'
import { ACTOR, openAuditKeys, openOrFail } from './open-store.ts'
import { table } from './terminal.ts'

export const addMove: Add = (program, define) =>
  define(program, 'move', move, 'copy the embedded database in DATA_DIR into the empty Postgres at DATABASE_URL', [
    'move',
    'move --json'
  ])

const move = async ({ environment }: Cli): Promise<Report> => {
  const { databaseUrl, dataDir } = storeSettings(environment)
  if (databaseUrl === undefined) throw new CannotRun('Set DATABASE_URL to the Postgres that receives the data')
  if (!existsSync(join(dataDir, 'postgres')))
    throw new CannotRun(
      `There is no embedded database in ${dataDir}: set DATA_DIR to the same value as for the gateway`
    )
  const secrets = await sealingSecrets(environment)
  const { linkingKey } = await import('../store/audit-entry.ts')
  const { createAuditLog } = await import('../store/audit-log.ts')
  // Opened as a gateway would open it, exclusively: nothing may be written during the copy.
  const from = await openOrFail({ dataDir, role: 'gateway' }, 'The embedded database cannot be used')
  try {
    const to = await openOrFail({ databaseUrl, dataDir, role: 'command' }, 'The database cannot be used')
    try {
      await openAuditKeys(secrets, from)
      // The move itself is an entry of the audit log.
      await from.read(linkingKey)
      const copied = await copyDatabase(from, to)
      await openAuditKeys(secrets, to)
      await createAuditLog(to).append({ actor: ACTOR, action: 'database.move' })
      return reportOf(copied, dataDir)
    } finally {
      await to.close()
    }
  } finally {
    await from.close()
  }
}

const reportOf = (copied: readonly CopiedTable[], dataDir: string): Report => ({
  json: { ok: true, tables: copied },
  text: terminal =>
    [
      terminal.green('Everything was copied. Start the gateway with DATABASE_URL from now on.'),
      `${dataDir} has not been changed; remove it once the gateway runs on Postgres.`,
      '',
      table(
        ['table', 'rows'],
        copied.map(({ table: name, rows }) => [name, String(rows)]),
        terminal
      )
    ].join('\n')
})

/** The target is not empty, or what arrived differs from what was sent. */
const refused = (message: string): CannotRun => new CannotRun(message, ['Nothing was changed.'])

type CopiedTable = Awaited<ReturnType<typeof copyTable>>

interface Table {
  readonly name: string
  readonly columns: string
  readonly key: string
}

const BATCH = 500
const CONNECT_TIMEOUT_MS = 10_000
const STATEMENT_TIMEOUT = 'SET LOCAL statement_timeout = 60000'
/** Filled by migrations, by triggers while copying, or by each gateway that starts. */
const NOT_COPIED: ReadonlySet<string> = new Set(['schema_migrations', 'audit_head', 'grants_in_force', 'grant_rules'])
/** A database in which these are empty has not been used. */
const PROOFS = ['users', 'areas', 'audit_events'] as const

/**
 * Both have been migrated by the same version of the gateway. Ids, versions and the audit chain are unchanged, so that
 * tokens issued earlier remain valid.
 */
const copyDatabase = async (from: Database, to: Database) => {
  const [source, target] = await Promise.all([connect(from), connect(to)])
  try {
    await source.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    await target.query('BEGIN')
    for (const client of [source, target]) await client.query(STATEMENT_TIMEOUT)
    // A gateway that starts on it in the meantime has to wait with its first login.
    await target.query('LOCK TABLE users, areas, audit_events, profiles IN EXCLUSIVE MODE')
    await refuseUsed(target)
    // Seeded by the migrations, possibly with other ids than those of the source.
    await target.query('DELETE FROM profiles')
    await copyBeginning(source, target)
    const copied: CopiedTable[] = []
    for (const table of await tablesOf(target)) copied.push(await copyTable(table, source, target))
    await copySequences(source, target)
    await compareChains(source, target)
    await target.query('COMMIT')
    return copied
  } finally {
    // Without COMMIT, closing the connection undoes everything.
    await Promise.allSettled([source.end(), target.end()])
  }
}

const connect = async (database: Database): Promise<pg.Client> => (await database.connect(CONNECT_TIMEOUT_MS)).client

const refuseUsed = async (target: pg.Client): Promise<void> => {
  for (const table of PROOFS) {
    const { rows } = await target.query<{ count: string }>(`SELECT count(*) FROM ${table}`)
    const count = rows[0]?.count
    if (count !== '0') throw refused(`The table ${table} of the target already has ${count} rows`)
  }
}

/** Tables in an order in which the targets of all references come first. */
const tablesOf = async (target: pg.Client): Promise<Table[]> => {
  const { rows } = await target.query<Table & { needs: string[] }>(TABLES)
  const waiting = rows.filter(({ name }) => !NOT_COPIED.has(name))
  const ordered: Table[] = []
  while (waiting.length > 0) {
    const next = waiting.findIndex(({ needs }) => !waiting.some(({ name }) => needs.includes(name)))
    const [table] = waiting.splice(next, 1)
    if (next < 0 || table === undefined) throw new Error('the tables refer to each other in a circle')
    ordered.push(table)
  }
  return ordered
}

// Transaction ids (xid8) are meaningless on another server, so their columns take their defaults. Entries of the audit log are
// numbered again as they arrive: those without a key are linked one by one, and need the ones before them in the head.
const TABLES = `
  SELECT t.relname AS name,
    (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
      WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND atttypid <> 'xid8'::regtype
        AND (t.relname, attname) <> ('audit_events', 'id')) AS columns,
    (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY k.position) FROM pg_index i
      CROSS JOIN unnest(i.indkey::int[]) WITH ORDINALITY AS k (attnum, position)
      JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum
      WHERE i.indrelid = t.oid AND i.indisprimary) AS key,
    ARRAY(SELECT f.relname::text FROM pg_constraint c JOIN pg_class f ON f.oid = c.confrelid
      WHERE c.conrelid = t.oid AND c.contype = 'f' AND c.confrelid <> t.oid) AS needs
  FROM pg_class t WHERE t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace ORDER BY t.relname`

/** As text throughout, so that no value passes through a JavaScript number. */
const copyTable = async ({ name, columns, key }: Table, source: pg.Client, target: pg.Client) => {
  const table = target.escapeIdentifier(name)
  await source.query(`DECLARE copied CURSOR FOR SELECT to_jsonb(t)::text AS row FROM ${table} t ORDER BY ${key}`)
  let rows = 0
  for (;;) {
    const batch = await source.query<{ row: string }>(`FETCH ${BATCH} FROM copied`)
    if (batch.rows.length === 0) break
    const inserted = await target.query(
      `INSERT INTO ${table} (${columns}) SELECT ${columns} FROM (
        SELECT r.*, given.position FROM unnest($1::text[]) WITH ORDINALITY AS given (row, position),
          jsonb_populate_record(NULL::${table}, given.row::jsonb) AS r) AS rows ORDER BY position`,
      [batch.rows.map(({ row }) => row)]
    )
    if (inserted.rowCount !== batch.rows.length) throw refused(`Not all rows of the table ${name} were copied`)
    rows += batch.rows.length
  }
  await source.query('CLOSE copied')
  return { table: name, rows }
}

/** No id is assigned twice, not even that of a removed row. */
const copySequences = async (source: pg.Client, target: pg.Client): Promise<void> => {
  const { rows } = await source.query<{ name: string }>(
    "SELECT relname AS name FROM pg_class WHERE relkind = 'S' AND relnamespace = current_schema()::regnamespace"
  )
  for (const { name } of rows.filter(one => !one.name.startsWith('schema_migrations'))) {
    const sequence = target.escapeIdentifier(name)
    const { rows: state } = await source.query<{ last: string; called: boolean }>(
      `SELECT last_value::text AS last, is_called AS called FROM ${sequence}`
    )
    await target.query('SELECT setval($1::regclass, $2::bigint, $3)', [sequence, state[0]?.last, state[0]?.called])
  }
}

/** Where the audit log begins: after the last entry that was archived and removed. */
const copyBeginning = async (source: pg.Client, target: pg.Client): Promise<void> => {
  const { rows } = await source.query<Record<string, unknown>>(BEGINNING)
  await target.query('ALTER TABLE audit_head DISABLE TRIGGER audit_head_moved_by_entries')
  await target.query(BEGIN_THERE, Object.values(rows[0] ?? {}))
  await target.query('ALTER TABLE audit_head ENABLE TRIGGER audit_head_moved_by_entries')
}

const BEGINNING = 'SELECT archived, archived_hash, archived_key, archived_mac FROM audit_head'
const BEGIN_THERE = `
  UPDATE audit_head SET entries = $1, last_hash = $2, archived = $1, archived_hash = $2, archived_key = $3, archived_mac = $4`

/** The database links entries as they arrive, or checks that they follow: the same head means the same entries in the same order. */
const compareChains = async (source: pg.Client, target: pg.Client): Promise<void> => {
  const headOf = async (client: pg.Client) => {
    const { rows } = await client.query<{ head: string }>("SELECT entries || ' ' || last_hash AS head FROM audit_head")
    return rows[0]?.head
  }
  if ((await headOf(source)) !== (await headOf(target)))
    throw refused('The audit log of the source is broken; `audit verify` names the entry')
}

// What a long audit log and many people cost: the check of two million entries, their pages, lists of people.
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { contentHash, linkHash } from '../../../gateway/store/audit-chain.ts'
import { keyAuditLog } from '../../../gateway/store/audit-entry.ts'
import { createAuditLog } from '../../../gateway/store/audit-log.ts'
import { type Database, openDatabase } from '../../../gateway/store/database.ts'
import { createUsers } from '../../../gateway/store/users.ts'
import { sealingSecret } from '../../../gateway/tokens/sealed-keys.ts'
import { quiet } from '../../../test/support/quiet.ts'
import { inTurns, type Row } from '../measure.ts'
import { cpuMicros } from '../process-cost.ts'
import { median } from '../statistics.ts'
import type { World } from '../world.ts'

const ENTRIES = { whole: 2_000_000, quick: 30_000 }
const PEOPLE = { whole: 200_000, quick: 25_000 }
const AT_ONCE = 5_000
/** Rounds of ten minutes in a day. */
const ROUNDS_A_DAY = 144

const WRITE = `
  INSERT INTO audit_events (id, at, actor_id, actor_username, action, target, request_id, ip, details, content_hash, previous_hash, hash)
  SELECT r.id, r.at, r.actor, 'user' || r.actor, r.action, 'user:' || r.actor, r.request, r.ip, r.details, r.content, r.previous, r.hash
  FROM jsonb_to_recordset($1::jsonb) AS r (id bigint, at timestamptz, actor int, action text, request text, ip text,
    details jsonb, content text, previous text, hash text)`

/** Entries without a key: logins of many people over a year, and something else now and then. */
const fillLog = async (client: pg.Client, entries: number): Promise<void> => {
  await client.query('SET session_replication_role = replica')
  const start = Date.now() - 365 * 86_400_000
  let previous = '0'.repeat(64)
  for (let from = 0; from < entries; from += AT_ONCE) {
    const rows = Array.from({ length: Math.min(AT_ONCE, entries - from) }, (_, n) => {
      const id = from + n + 1
      const actor = 1 + ((id * 7919) % 50_000)
      const at = new Date(start + Math.floor((id / entries) * 364 * 86_400_000))
      const action = id % 1_000 === 0 ? 'access.set' : 'login'
      const [request, ip] = [`request-${id}`, `192.0.2.${id % 250}`]
      const details = { provider: 'ldap', reason: 'ok' }
      const who = { actorId: actor, actorUsername: `user${actor}`, target: `user:${actor}` }
      const content = contentHash({ at, ...who, action, before: null, after: null, requestId: request, ip, details })
      const hash = linkHash(previous, content)
      const row = { id, at, actor, action, request, ip, details, content, previous, hash }
      previous = hash
      return row
    })
    await client.query(WRITE, [JSON.stringify(rows)])
  }
  await client.query('UPDATE audit_head SET entries = $1, last_hash = $2', [entries, previous])
  await client.query('SET session_replication_role = DEFAULT')
}

const FILL_PEOPLE = `
  INSERT INTO areas (name) SELECT 'Area ' || n FROM generate_series(1, 50) n;
  INSERT INTO users (name, email, username, provider, last_login_at)
  SELECT (ARRAY['Maria', 'João', 'Ana', 'Rui', 'Conceição', 'Beatriz', 'Tomás'])[1 + n % 7] || ' ' || md5(n::text),
    'p' || n || '@corp.example', 'user' || n, 'ldap', now() FROM generate_series(1, :people) n;
  INSERT INTO user_profiles SELECT id, (SELECT min(id) FROM profiles) FROM users WHERE id % 10 <> 0;
  INSERT INTO user_areas SELECT id, 1 + id % 50 FROM users WHERE id % 10 <> 0`

const checkAll = async (database: Database, sweep: number) => {
  const audit = createAuditLog(database)
  let left = sweep
  for (;;) {
    const step = await audit.check(left)
    if (step === undefined) continue
    left -= step.swept
    if (step.isDone) return step.checkpoint
  }
}

/** CPU of this process and of the whole Postgres server, in milliseconds. */
const cost = async (server: number, work: () => Promise<unknown>): Promise<number> => {
  const total = () => (cpuMicros(server) + process.cpuUsage().user + process.cpuUsage().system) / 1_000
  const before = total()
  await work()
  return total() - before
}

/** The parent of the process that serves this connection. */
const serverOf = async (client: pg.Client): Promise<number> => {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  return Number(/\) \S+ (\d+)/.exec(readFileSync(`/proc/${rows[0]?.pid}/stat`, 'utf8'))?.[1])
}

const measureLists = (world: World, database: Database, people: number): Promise<Row[]> => {
  const audit = createAuditLog(database)
  const users = createUsers(database)
  const day = (n: number) => new Date(Date.now() - n * 86_400_000)
  const calls: Readonly<Record<string, () => Promise<unknown>>> = {
    'audit, first page': () => audit.list(),
    'audit, page 20,000': () => audit.list({ page: 20_000 }),
    'audit, a name without entries': () => audit.list({ user: 'ninguem' }),
    'audit, a name': () => audit.list({ user: 'user77' }),
    'audit, a common action': () => audit.list({ action: 'login', page: 100 }),
    'audit, since half a year': () => audit.list({ since: day(180) }),
    'audit, until half a year ago': () => audit.list({ until: day(180) }),
    'audit, a day long ago': () => audit.list({ since: day(300), until: day(299), action: 'access.set' }),
    'people, first page': () => users.listPeople(),
    'people, the page in the middle': () => users.listPeople({ page: people / 100 }),
    'people, the last page': () => users.listPeople({ page: people / 50 }),
    'people, those who wait': () => users.listPeople({ accessStatus: 'unassigned', disabled: false }),
    'people, a frequent word': () => users.listPeople({ search: 'conceicao' }),
    'people, two words': () => users.listPeople({ search: 'joao 1234' }),
    'people, a word of nobody': () => users.listPeople({ search: 'zzqx' })
  }
  const items = Object.entries(calls).map(([name, call]) => ({ name, call }))
  return inTurns(world, items, async ({ call }) => {
    const startedAt = performance.now()
    await call()
    return { ms: performance.now() - startedAt }
  })
}

const worst = (rows: readonly Row[], kind: string): number =>
  Math.max(...rows.filter(({ name }) => name.startsWith(kind)).map(({ figures }) => median(figures.ms ?? [])))

const fill = async (client: pg.Client, entries: number, people: number) => {
  await client.query(FILL_PEOPLE.replace(':people', String(people)))
  await fillLog(client, entries)
  await client.query('VACUUM ANALYZE')
}

export const measureAudit = async (world: World): Promise<void> => {
  const [entries, people] = world.options.quick ? [ENTRIES.quick, PEOPLE.quick] : [ENTRIES.whole, PEOPLE.whole]
  const url = await (await world.postgres()).emptyDatabase()
  const database = await openDatabase({ databaseUrl: url, dataDir: '/nonexistent', log: quiet })
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await fill(client, entries, people)
  await keyAuditLog(database, { secrets: [sealingSecret('bench')], creates: true })
  const pid = await serverOf(client)
  const first = await cost(pid, () => checkAll(database, 0))
  const rounds: number[] = []
  for (let n = 0; n < 5; n++) rounds.push(await cost(pid, () => checkAll(database, Math.ceil(entries / ROUNDS_A_DAY))))
  const audit = createAuditLog(database)
  const looks = await cost(pid, async () => {
    for (let n = 0; n < 200; n++) await audit.checked()
  })
  const rows = await measureLists(world, database, people)
  const { rows: sizes } = await client.query<{ bytes: number }>(
    "SELECT pg_total_relation_size('audit_events')::float8 AS bytes"
  )
  await database.close()
  await client.end()
  world.find('audit-check', ...rounds.map(ms => (ms + looks) / 1_000))
  world.find('audit-pages', worst(rows, 'audit'))
  world.find('people-pages', worst(rows, 'people'))
  world.notes.push(
    `${entries} entries (${Math.round((sizes[0]?.bytes ?? 0) / entries)} bytes each, indexes included), ${people} people`,
    `the first check of everything took ${(first / 1_000).toFixed(1)} s of CPU, gateway and Postgres; a round includes what 20 processes ask in ten minutes`
  )
}

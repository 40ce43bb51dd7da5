// An upgrade can be taken back: migrations only add, the release before starts on what they left, an older one refuses. What takes
// long on a large database is done while gateways use it.
import t from 'tap'
import { DataSource } from 'typeorm'
import { openDatabase } from '../../gateway/store/database.ts'
import { startOnlineSteps } from '../../gateway/store/online-steps.ts'
import { migrations, SCHEMA_RELEASE } from '../../migrations/index.ts'
import { portariaHere } from '../support/cli-here.ts'
import { startPostgres } from '../support/postgres.ts'
import { keepingLog, quiet } from '../support/quiet.ts'
import { routeFolder } from '../support/route-files.ts'
import { openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

interface Column {
  readonly table_name: string
  readonly column_name: string
  readonly data_type: string
  readonly is_nullable: 'YES' | 'NO'
  readonly column_default: string | null
}

const COLUMNS = `
  SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
  WHERE table_schema = 'public' AND table_name <> 'schema_migrations'`

t.test('no migration removes, renames or tightens what the release before it reads and writes', async t => {
  const url = await postgres.emptyDatabase()
  const source = await new DataSource({ type: 'postgres', url, installExtensions: false }).initialize()
  t.teardown(() => source.destroy())
  const runner = source.createQueryRunner()
  let before: Column[] = []
  for (const Migration of migrations) {
    await new Migration().up(runner)
    const after = (await postgres.query(COLUMNS, [], url)) as unknown as Column[]
    const find = ({ table_name, column_name }: Column, all: readonly Column[]) =>
      all.find(one => one.table_name === table_name && one.column_name === column_name)
    for (const column of before) {
      const now = find(column, after)
      const where = `${Migration.name}: ${column.table_name}.${column.column_name}`
      t.match(now, { data_type: column.data_type }, `${where} keeps its name and type`)
      t.notOk(column.is_nullable === 'YES' && now?.is_nullable === 'NO', `${where} may still be left out`)
    }
    const tables = new Set(before.map(({ table_name }) => table_name))
    for (const column of after.filter(one => tables.has(one.table_name) && find(one, before) === undefined)) {
      const isOptional = column.is_nullable === 'YES' || column.column_default !== null
      t.ok(isOptional, `${Migration.name}: rows can be written without ${column.table_name}.${column.column_name}`)
    }
    before = after
  }
  await runner.release()
})

t.test('the name of a migration says which release it belongs to', async t => {
  const releases = migrations.map(Migration => Number(/^R(\d+)/.exec(new Migration().name)?.[1] ?? 1))
  t.same(
    releases,
    [...releases].sort((a, b) => a - b)
  )
  t.equal(releases.at(-1), SCHEMA_RELEASE)
})

/** What a later release would leave behind: its migrations, and their names. */
const migratedBy = async (url: string, release: number) => {
  const changes = 'ALTER TABLE users ADD COLUMN IF NOT EXISTS nickname text; CREATE TABLE IF NOT EXISTS pets (id int)'
  await postgres.query(changes, [], url)
  const name = `R${release}Pets17700000000${String(release).padStart(2, '0')}`
  await postgres.query('INSERT INTO schema_migrations (timestamp, name) VALUES (1770000000000, $1)', [name], url)
}

t.test('the release before starts on the schema of the next one, and works', async t => {
  const { url } = await openStore(t, postgres)
  await migratedBy(url, SCHEMA_RELEASE + 1)
  const { users } = await openStore(t, postgres, url)
  const { user } = await users.syncPerson(person('maria'))
  t.match(await users.loadPerson(user.id), { user: { username: 'maria' } })
})

t.test('a release two before refuses, at once and without touching anything', async t => {
  const { url } = await openStore(t, postgres)
  await migratedBy(url, SCHEMA_RELEASE + 2)
  const ofRelease = `has the schema of release ${SCHEMA_RELEASE + 2}`
  const names = () => postgres.query('SELECT name FROM schema_migrations', [], url)
  const before = await names()
  const opening = openDatabase({ databaseUrl: url, dataDir: '/nonexistent', log: quiet })
  await t.rejects(opening, { name: 'SchemaTooNew', message: new RegExp(`${ofRelease} .* restore a backup`) })
  t.same(await names(), before)
  const env = { DATABASE_URL: url }
  const tooNew = new RegExp(`\\(DATABASE_URL, .*\\): the database ${ofRelease}`)
  for (const args of [['migrate'], ['grant', 'ana', '--profile', 'Admin', '--area', 'Geral'], ['audit', 'verify']]) {
    const { code, stderr } = await portariaHere(args, { env })
    t.equal(code, 2, args.join(' '))
    t.match(stderr.replaceAll('\n', ' '), tooNew, args.join(' '))
  }
  const group = 'CN=Suporte,DC=corp,DC=example'
  const folder = await routeFolder(t, {
    'a.yaml': `routes: []\ngrants: [{ group: "${group}", profiles: [Agente], areas: [Sul] }]\n`
  })
  const { code, stdout, stderr } = await portariaHere(['grants', '--config', folder], { env })
  t.equal(code, 0, stderr)
  t.match(stdout.replaceAll('\n', ' '), /People are not counted/)
  t.match(stdout.replaceAll('\n', ' '), tooNew, 'nor does the one command that never migrates use it')
})

// As after a migration of many people: no index, nobody's access worked out; and an index that a crash has left unfinished.
const LARGE = `
  DROP INDEX audit_events_at, users_counted, users_listed;
  CREATE INDEX users_listed ON users (id);
  UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'users_listed'::regclass;
  SET session_replication_role = replica;
  INSERT INTO areas (id, name) VALUES (1000, 'Norte');
  INSERT INTO users (name, username, provider) SELECT 'Person ' || n, 'user' || n, 'ldap' FROM generate_series(1, 20001) n;
  INSERT INTO user_profiles SELECT id, 1 FROM users WHERE id % 2 = 0;
  INSERT INTO user_areas SELECT id, 1000 FROM users WHERE id % 2 = 0`
const VALID = `
  SELECT indexrelid::regclass::text AS name FROM pg_index WHERE indisvalid
    AND indexrelid::regclass::text IN ('audit_events_at', 'users_counted', 'users_listed', 'users_searched')
  ORDER BY name`

t.test('an index that cannot be built keeps no other one, and no list of people, from what it needs', async t => {
  const { url, database, users } = await openStore(t, postgres)
  // As where the role may not create it, or no space is left for it.
  await postgres.query(`${LARGE}; CREATE TABLE audit_events_at ()`, [], url)
  const warned = Promise.withResolvers<unknown>()
  t.teardown(startOnlineSteps(database, { ...quiet, warn: warned.resolve }).close)
  t.match(await warned.promise, { reason: 'steps-unfinished', err: { message: /"audit_events_at" is not an index/ } })
  t.match(await users.listPeople({ accessStatus: 'assigned' }), { total: 10_000 })
  t.equal((await postgres.query(VALID, [], url)).length, 3)
})

t.test('indexes of large tables are built beside gateways that write, by one of them', async t => {
  const { url, database, users } = await openStore(t, postgres)
  await postgres.query(LARGE, [], url)
  const { log, said } = keepingLog()
  const starts = Array.from({ length: 3 }, () => startOnlineSteps(database, log))
  for (const start of starts) t.teardown(start.close)
  let written = 0
  await until(async () => {
    await users.createArea({ id: null, username: 'test' }, `Area ${written++}`)
    return (await postgres.query(VALID, [], url)).length === 4
  })
  t.ok(written > 1, 'meanwhile others write')
  t.same(said, [])
  const definition = "SELECT pg_get_indexdef('users_listed'::regclass) AS is"
  t.match(String((await postgres.query(definition, [], url))[0]?.is), /assigned, lower\(name\), id/)
  const wrong = 'SELECT count(*)::int AS n FROM users WHERE assigned <> (id % 2 = 0)'
  t.same(await postgres.query(wrong, [], url), [{ n: 0 }])
  t.match(await users.listPeople({ search: 'person 777' }), { total: 38 })
})

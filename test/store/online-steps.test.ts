// What takes long on a large database is done while gateways use it.
import t from 'tap'
import { startOnlineSteps } from '../../gateway/store/online-steps.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { openStore } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

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
  const warnings: unknown[] = []
  const log = { ...quiet, warn: (fields: unknown) => void warnings.push(fields) }
  const starts = Array.from({ length: 3 }, () => startOnlineSteps(database, log))
  for (const start of starts) t.teardown(start.close)
  let written = 0
  await until(async () => {
    await users.createArea({ id: null, username: 'test' }, `Area ${written++}`)
    return (await postgres.query(VALID, [], url)).length === 4
  })
  t.ok(written > 1, 'meanwhile others write')
  t.same(warnings, [])
  const definition = "SELECT pg_get_indexdef('users_listed'::regclass) AS is"
  t.match(String((await postgres.query(definition, [], url))[0]?.is), /assigned, lower\(name\), id/)
  const wrong = 'SELECT count(*)::int AS n FROM users WHERE assigned <> (id % 2 = 0)'
  t.same(await postgres.query(wrong, [], url), [{ n: 0 }])
  t.match(await users.listPeople({ search: 'person 777' }), { total: 38 })
})

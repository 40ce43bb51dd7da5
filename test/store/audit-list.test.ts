// Pages of the audit log are found by index, however long the log is.
import t, { type Test } from 'tap'
import type { AuditLog } from '../../gateway/store/audit-log.ts'
import { startPostgres } from '../support/postgres.ts'
import { grownBy, openStore, person } from '../support/store.ts'

const postgres = await startPostgres(t)
const ENTRIES = 60_000
const START = Date.parse('2024-01-01T00:00:00Z')

// An entry a minute, each hundredth by ana; their hashes are of no interest here.
const FILL = `
  SET session_replication_role = replica;
  INSERT INTO audit_events (id, at, actor_id, actor_username, action, target, request_id, ip, content_hash, previous_hash, hash)
  SELECT n, timestamptz '2024-01-01T00:00:00Z' + n * interval '1 minute', CASE WHEN n % 100 = 0 THEN 2 ELSE 1 END,
    CASE WHEN n % 100 = 0 THEN 'Ana' ELSE 'maria' END, CASE WHEN n = 17 THEN 'rare' ELSE 'login' END, 'user:1', '', '', '', '',
    n::text
  FROM generate_series(1, ${ENTRIES}) n;
  UPDATE audit_head SET entries = ${ENTRIES};
  ANALYZE audit_events`

const startLong = async (t: Test) => {
  const { url, users, database } = await openStore(t, postgres)
  await users.syncPerson(person('maria'))
  await database.close()
  await postgres.query(FILL, [], url)
  return url
}

const READ = `
  SELECT seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'audit_events') AS rows
  FROM pg_stat_user_tables WHERE relname = 'audit_events'`

const minute = (n: number) => new Date(START + n * 60_000)

// RV-82
t.test('no page of the audit log reads more than a small part of it, whatever is looked for', async t => {
  const url = await startLong(t)
  const cases: [string, Parameters<AuditLog['list']>[0], number, number][] = [
    ['a name without entries', { user: 'ninguem' }, 0, 0],
    ['a name with few', { user: 'ANA' }, 600, 50],
    ['a name with most of them', { user: 'maria' }, 10_000, 50],
    ['an id', { user: 2 }, 600, 50],
    ['from late on', { since: minute(59_991) }, 10, 10],
    ['until early', { until: minute(11) }, 10, 10],
    ['a short period long ago', { since: minute(1_000), until: minute(1_020) }, 20, 20],
    ['half of the time', { since: minute(30_000) }, 10_000, 50],
    ['a rare action', { action: 'rare' }, 1, 1],
    ['a common action, early', { action: 'login', until: minute(101) }, 99, 50],
    ['everything', {}, ENTRIES, 50],
    ['the last page', { page: 1_200 }, ENTRIES, 50]
  ]
  for (const [title, filter, total, items] of cases) {
    const { result, grown } = await grownBy(postgres, url, READ, ({ audit }) => audit.list(filter))
    t.match({ total: result.total, items: result.items.length }, { total, items }, title)
    t.ok((grown.rows ?? ENTRIES) < 25_000, `${title}: ${grown.rows} of ${ENTRIES} entries`)
  }
})

t.test('entries are newest first through all pages, and the total grows while there is more', async t => {
  const url = await startLong(t)
  const { audit } = await openStore(t, postgres, url)
  const ats = async (filter: Parameters<typeof audit.list>[0]) => (await audit.list(filter)).items.map(({ at }) => at)
  const iso = (n: number) => minute(n).toISOString()
  t.same(await ats({ pageSize: 2 }), [iso(ENTRIES), iso(ENTRIES - 1)])
  t.same(await ats({ pageSize: 2, page: 30_000 }), [iso(2), iso(1)])
  t.same(await ats({ pageSize: 2, page: 30_001 }), [])
  t.same(await ats({ user: 'ana', pageSize: 2, page: 300 }), [iso(200), iso(100)])
  t.match(await audit.list({ user: 'ana', pageSize: 2, page: 301 }), { items: [], total: 600 })
  t.match(await audit.list({ action: 'login', page: 250, pageSize: 200 }), { total: 50_001 })
  t.match(await audit.list({ action: 'login', page: 300, pageSize: 200 }), { total: 59_999 })
  t.equal((await audit.collect({ user: 'ana', since: minute(30_000) }, 301))?.length, 301)
  t.equal(await audit.collect({ user: 'ana', since: minute(30_000) }, 300), undefined, 'more than was asked for')
})

t.test('a clock that was wrong by hours or days hides nothing that others wrote', async t => {
  const url = await startLong(t)
  const set = 'SET session_replication_role = replica; UPDATE audit_events SET at ='
  // An entry that was written two days ahead, and one that was written two hours behind.
  for (const [id, dated] of [
    [1_000, 3_870],
    [50_049, 49_929]
  ] as const)
    await postgres.query(`${set} '${minute(dated).toISOString()}' WHERE id = ${id}`, [], url)
  const { audit } = await openStore(t, postgres, url)
  t.equal((await audit.list({ until: minute(3_810) })).total, 3_808, 'all but the one that was dated later')
  const within = (await audit.list({ since: minute(49_990), until: minute(50_100) })).total
  t.equal(within, 109, 'all but the one dated earlier')

  const { audit: recent } = await openStore(t, postgres)
  const actor = { id: null, username: 'cli' }
  const HOUR_MS = 3_600_000
  for (const hours of [48, -3, 0])
    await recent.append({ actor, action: 'x', at: new Date(Date.now() + hours * HOUR_MS) })
  t.equal((await recent.list({ until: new Date(Date.now() + 12 * HOUR_MS) })).total, 2, 'until the end of today')
})

t.test('a person whose username is a number is found by it', async t => {
  const { users, audit } = await openStore(t, postgres)
  const { user } = await users.syncPerson(person('10234567'))
  await audit.append({ actor: { id: null, username: 'cli' }, action: 'person.unlock', target: `user:${user.id}` })
  t.match(await audit.list({ user: '10234567' }), { items: [{ action: 'person.unlock' }] })
  t.equal((await audit.list({ user: 10_234_567 })).total, 0, 'an id is no username')
})

// Pages of people and of the audit log are read from indexes, however many there are, and who has access is stored with people.
import t, { type Test } from 'tap'
import type { AuditLog } from '../../gateway/store/audit-log.ts'
import type { PeopleQuery } from '../../gateway/store/users.ts'
import { startPostgres } from '../support/postgres.ts'
import { actor, grownBy, openStore, person } from '../support/store.ts'
import { fc } from '../support/worlds.ts'

const postgres = await startPostgres(t)
const PEOPLE = 15_000

const FILL = `
  INSERT INTO areas (name) SELECT 'Area ' || n FROM generate_series(1, 20) n;
  INSERT INTO users (name, username, provider, disabled)
  SELECT 'Person ' || lpad(n::text, 6, '0'), 'user' || n, 'ldap', n % 50 = 0 FROM generate_series(1, ${PEOPLE}) n;
  INSERT INTO user_profiles SELECT id, (SELECT min(id) FROM profiles) FROM users WHERE id % 10 <> 0;
  INSERT INTO user_areas SELECT id, 1 + id % 20 FROM users WHERE id % 10 <> 0`

const startMany = async (t: Test) => {
  const { url, database } = await openStore(t, postgres)
  await database.close()
  await postgres.query(FILL, [], url)
  await postgres.query('VACUUM ANALYZE', [], url)
  return url
}

const READ = `
  SELECT sum(seq_tup_read)::int AS scanned, (SELECT sum(idx_tup_read)::int FROM pg_stat_user_indexes) AS found
  FROM pg_stat_user_tables WHERE relname IN ('users', 'user_profiles', 'user_areas', 'granted_profiles', 'granted_areas')`

// RV-104
t.test('no page of people reads the table, and a page far back is reached from the end', async t => {
  const url = await startMany(t)
  const cases: [string, PeopleQuery, number, number[], number][] = [
    ['the first page', { pageSize: 3 }, PEOPLE, [10, 20, 30], 17_000],
    ['one in the middle', { pageSize: 3, page: 2_000 }, PEOPLE, [4_997, 4_998, 4_999], 24_000],
    ['the last page', { pageSize: 3, page: 5_000 }, PEOPLE, [14_997, 14_998, 14_999], 17_000],
    ['beyond the last page', { pageSize: 3, page: 5_001 }, PEOPLE, [], 17_000],
    ['those who wait', { pageSize: 2, accessStatus: 'unassigned', page: 750 }, 1_500, [14_990, 15_000], 4_000],
    ['those with access', { pageSize: 2, accessStatus: 'assigned' }, 13_500, [1, 2], 16_000],
    ['those who are disabled', { pageSize: 2, disabled: true }, 300, [50, 100], 17_000]
  ]
  for (const [title, filter, total, names, most] of cases) {
    const { result, grown } = await grownBy(postgres, url, READ, ({ users }) => users.listPeople(filter))
    t.equal(result.total, total, title)
    const found = result.items.map(({ name }) => Number(name.slice(7)))
    t.same(found, names, title)
    t.equal(grown.scanned, 0, `${title}: no table is scanned`)
    t.ok((grown.found ?? most) < most, `${title}: ${grown.found} entries of indexes`)
  }
})

t.test('page after page, everyone is listed once, in order', async t => {
  const url = await startMany(t)
  const { users } = await openStore(t, postgres, url)
  for (const filter of [{}, { search: 'person 01' }, { accessStatus: 'assigned' as const }]) {
    const seen: number[] = []
    for (let page = 1; ; page++) {
      const { items, total } = await users.listPeople({ ...filter, page, pageSize: 200 })
      seen.push(...items.map(({ id }) => id))
      if (items.length < 200) {
        t.equal(total, seen.length)
        break
      }
    }
    t.equal(new Set(seen).size, seen.length)
  }
  const much = await users.listPeople({ search: 'user' })
  t.equal(much.total, 10_000, 'a search that finds more counts no further')
  t.equal((await users.listPeople({ search: 'user', page: 60, pageSize: 200 })).total, 12_001, 'but leads on')
})

const GROUPS = `
  INSERT INTO users (username, provider) SELECT 'user' || n, 'ldap' FROM generate_series(1, 500) n;
  INSERT INTO grant_rules (position, provider, group_key, tenant, group_name, profiles, areas, place)
    SELECT n, 'ldap', 'g' || n, '', 'G' || n, '{Agente}', '{}', '' FROM generate_series(0, 99) n;
  INSERT INTO person_groups (user_id, provider, tenant, groups, cut_off)
    SELECT id, 'ldap', '', ARRAY(SELECT 'g' || n FROM generate_series(0, 99) n), false FROM users;
  ANALYZE`

t.test('of the groups that grants name, those on the page alone are counted', async t => {
  const { url, database } = await openStore(t, postgres)
  await database.close()
  await postgres.query(GROUPS, [], url)
  const read = `SELECT seq_tup_read + idx_tup_fetch AS people FROM pg_stat_user_tables WHERE relname = 'person_groups'`
  const { result, grown } = await grownBy(postgres, url, read, ({ users }) =>
    users.listGrants({ page: 3, pageSize: 2 })
  )
  t.match(result, { items: [{ group: 'G4', people: 500 }, { group: 'G5' }], page: 3, pageSize: 2, total: 100 })
  t.ok((grown.people ?? 0) < 5_000, `${grown.people} people were looked at`)
})

type Step = readonly ['assign' | 'strip' | 'group' | 'ungroup' | 'removeArea', number]

t.test('whatever gives or takes access, what is stored says who has it', async t => {
  const { database, users, url } = await openStore(t, postgres)
  const ids: number[] = []
  for (const name of ['ana', 'rui', 'maria']) ids.push((await users.syncPerson(person(name))).user.id)
  const grant = (id: number, gives: boolean) =>
    database.write(async manager => {
      for (const [table, column, of] of [
        ['granted_profiles', 'profile_id', 'profiles'],
        ['granted_areas', 'area_id', 'areas']
      ]) {
        await manager.query(
          gives
            ? `INSERT INTO ${table} (user_id, ${column}) SELECT $1, min(id) FROM ${of} HAVING min(id) IS NOT NULL ON CONFLICT DO NOTHING`
            : `DELETE FROM ${table} WHERE user_id = $1`,
          [id]
        )
      }
    })
  const run = async ([what, who]: Step) => {
    const id = ids[who] ?? 0
    const areas = await users.areasFor(actor, ['Norte'])
    if (what === 'assign') await users.setAccess(actor, id, { profiles: ['Agente'], areas, areaPrincipal: 'Norte' })
    if (what === 'strip') await users.setAccess(actor, id, { profiles: ['Agente'], areas: [], areaPrincipal: null })
    if (what === 'group') await grant(id, true)
    if (what === 'ungroup') await grant(id, false)
    if (what === 'removeArea')
      for (const area of (await users.listAreas()).items) await users.deleteArea(actor, area.id)
  }
  const step = fc.tuple(
    fc.constantFrom('assign' as const, 'strip' as const, 'group' as const, 'ungroup' as const, 'removeArea' as const),
    fc.nat(2)
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async steps => {
      for (const one of steps) await run(one)
      const stored = await postgres.query('SELECT id, assigned FROM users ORDER BY id', [], url)
      for (const { id, assigned } of stored) {
        const { user } = (await users.loadPerson(Number(id))) ?? {}
        t.equal(assigned, user?.accessStatus === 'assigned', JSON.stringify(steps))
      }
    }),
    { numRuns: 12 }
  )
})

t.test('where only ASCII letters have a case, areas and people are found as they are spelled', async t => {
  const name = `c_locale_${process.pid}`
  await postgres.query(`CREATE DATABASE ${name} TEMPLATE template0 LOCALE 'C'`)
  t.teardown(() => postgres.query(`DROP DATABASE ${name} (FORCE)`))
  const url = new URL(postgres.url)
  url.pathname = name
  const { users } = await openStore(t, postgres, url.href)
  const areasFor = (...names: string[]) => users.areasFor(actor, names)
  for (const area of ['órgão', 'Órgão', 'Sul']) await users.createArea(actor, area)
  t.same(await areasFor('Órgão', 'órgão'), ['Órgão', 'órgão'])
  t.same(await areasFor('órgão', 'SUL', 'Novo', 'novo'), ['órgão', 'Sul', 'Novo'])
  await users.syncPerson(person('ivan', { name: 'Иван' }))
  t.match(await users.listPeople({ search: 'Иван IVAN' }), { total: 1 })
})

const ENTRIES = 60_000
const START = Date.parse('2024-01-01T00:00:00Z')

// An entry a minute, each hundredth by ana; their hashes are of no interest here.
const FILL_LOG = `
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
  await postgres.query(FILL_LOG, [], url)
  return url
}

const READ_OF_LOG = `
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
    const { result, grown } = await grownBy(postgres, url, READ_OF_LOG, ({ audit }) => audit.list(filter))
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

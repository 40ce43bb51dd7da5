// Gateways on one database grant what the newest route files say, listen without waiting for it, and change people once.

import { statSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { groupKey } from '../../gateway/routes/grants.ts'
import { openDatabase } from '../../gateway/store/database.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { type LogLine, startGateway, type World, type WorldOptions } from '../support/gateway.ts'
import { within } from '../support/own-time.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { actor, openBare, openClient, UNASKED_DIRECTORY } from '../support/store.ts'
import { until } from '../support/until.ts'

/** Transactions that stay open would hold up what other tests wait for. */
const postgres = await startOwnPostgres(t)

const PEOPLE_GRANTED = 1000
/** What waits for people to be granted something waits for longer. */
const LISTENS_MS = 60_000

const dnOf = (group: string) => `CN=${group},DC=corp,DC=example`
const grant = (group: string, profiles: string[], areas: string[]) => ({ group: dnOf(group), profiles, areas })
const SUPORTE = grant('Suporte', ['Agente'], ['Suporte'])
const VENDAS = grant('Vendas', ['Supervisor'], ['Vendas'])

const PEOPLE = `
  WITH person AS (INSERT INTO users (name, username, provider)
    SELECT 'Known ' || n, 'known-' || n, 'ldap' FROM generate_series(1, $1::int) n RETURNING id, username)
  INSERT INTO person_groups (user_id, provider, groups)
  SELECT id, 'ldap', ARRAY[($2::text[])[1 + substr(username, 7)::int % cardinality($2::text[])]] FROM person`

/** A database in which people are spread over these groups, one group each. */
const openInstallation = async (people: number, groups: readonly string[]) => {
  const url = await postgres.emptyDatabase()
  await (await openDatabase({ databaseUrl: url, dataDir: '/nonexistent', log: quiet })).close()
  await postgres.query(PEOPLE, [people, groups.map(group => groupKey('ldap', dnOf(group)))], url)
  const ask = (statement: string, values: unknown[] = []) => postgres.query(statement, values, url)
  const count = async (statement: string, values: unknown[] = []) => Number((await ask(statement, values))[0]?.n)
  const start = (t: Test, config: NonNullable<WorldOptions['config']>) =>
    startGateway(t, { config, env: UNASKED_DIRECTORY, postgres: { url } })
  return { url, ask, count, start }
}

const grantsOf = async (world: World) => (await world.health()).checks.grants
const untilDone = (world: World) => until(async () => (await grantsOf(world)) === 'ok', 'everyone has been granted')

const ENTRIES = "SELECT count(*)::int AS n FROM audit_events WHERE action = 'access.granted'"
const ENTRIES_OF = `
  SELECT count(*)::int AS n, count(DISTINCT target)::int AS people FROM audit_events e
  JOIN person_groups s ON e.target = 'user:' || s.user_id WHERE action = 'access.granted' AND s.groups = ARRAY[$1]`
const RULES = 'SELECT group_name AS "group", profiles, areas FROM grant_rules ORDER BY position'

// RV-64
t.test('two gateways with different files, started together, listen and change nobody twice', async t => {
  const installation = await openInstallation(500, ['Suporte', 'Suporte', 'Suporte', 'Suporte', 'Vendas'])
  const first = await installation.start(t, { grants: [SUPORTE] })
  await untilDone(first)
  await first.gateway.close()
  t.equal(await installation.count(ENTRIES), 400, 'one entry for each member of the group')

  const starting = [
    installation.start(t, { grants: [SUPORTE, VENDAS] }),
    installation.start(t, { grants: [SUPORTE, { ...VENDAS, profiles: ['Agente'] }] })
  ]
  t.ok(await within(Promise.all(starting), LISTENS_MS), 'both listen')
  const worlds = await Promise.all(starting)
  const saidSo = ({ reason }: LogLine) => reason === 'grants-older'
  const older = await Promise.race(worlds.map(world => world.logged(saidSo).then(() => world)))
  const newer = worlds.find(world => world !== older) ?? older
  t.match(older.log.filter(saidSo), [{ level: 40, msg: /^another instance has newer route files/ }], 'once')
  t.equal(await grantsOf(older), 'older')
  await untilDone(newer)
  // Files of the same moment are ordered by their contents.
  const ageOf = ({ folder }: World) => Math.floor(statSync(join(folder, 'routes.yaml')).mtimeMs)
  t.ok(ageOf(newer) >= ageOf(older))
  const [, vendas] = (await installation.ask(RULES)) as { profiles: string[] }[]
  t.same(vendas?.profiles, newer === worlds[0] ? ['Supervisor'] : ['Agente'], 'the newer files are in force')
  t.match(await installation.ask(ENTRIES_OF, [groupKey('ldap', dnOf('Suporte'))]), [{ n: 400, people: 400 }])
  const [{ n = 0, people = 0 } = {}] = await installation.ask(ENTRIES_OF, [groupKey('ldap', dnOf('Vendas'))])
  t.equal(people, 100)
  t.ok(Number(n) <= 200, 'at most one entry per person and load')
  const versions = 'SELECT max(access_version)::int AS n FROM users WHERE username = $1'
  t.equal(await installation.count(versions, ['known-1']), 1, 'whose access stays the same keeps their tokens')

  older.writeRoutes({ grants: [SUPORTE] })
  await older.gateway.reload()
  await untilDone(older)
  await newer.logged(saidSo)
  t.same((await installation.ask(RULES)).length, 1, 'files that were changed later are in force')
})

// RV-102
t.test('a gateway listens at once however many people the changed grants concern', async t => {
  const groups = Array.from({ length: 100 }, (_, n) => `Grupo ${n}`)
  const installation = await openInstallation(PEOPLE_GRANTED, groups)
  const client = await openClient(t, installation.url)
  await client.query('BEGIN')
  await client.query('SELECT FROM users ORDER BY id LIMIT 1 FOR UPDATE')
  const grants = groups.flatMap((group, n) => [
    grant(group, ['Agente'], [`Area ${n % 50}`]),
    grant(group, ['Supervisor'], [`Area ${(n + 7) % 50}`])
  ])
  const starting = installation.start(t, { grants })
  t.ok(await within(starting, LISTENS_MS), 'it listens although nobody can be granted anything yet')
  const world = await starting
  t.equal(await grantsOf(world), 'regranting')
  t.equal(await installation.count(ENTRIES), 0)
  await client.query('COMMIT')
  await untilDone(world)
  t.equal(await installation.count(ENTRIES), PEOPLE_GRANTED)
  t.equal(await installation.count('SELECT count(*)::int AS n FROM users WHERE access_version = 1'), PEOPLE_GRANTED)
  const [person] = await installation.ask("SELECT id FROM users WHERE username = 'known-3'")
  const token = await world.tokenFor({ profiles: ['Admin'] })
  t.match(await world.json(`/auth/admin/users/${person?.id}`, { token }), {
    profiles: ['Supervisor', 'Agente'],
    areas: ['Area 10', 'Area 3'],
    areaPrincipal: 'Area 3',
    granted: [{ group: dnOf('Grupo 3'), areas: ['Area 3'] }, { areas: ['Area 10'] }]
  })
})

t.test('a change of many people says whom it reached when the database gives up midway', async t => {
  const { url } = await openInstallation(120, ['Suporte'])
  const deadlines = { acquireMs: 60_000, statementMs: 3000, workMs: 60_000 }
  const database = await openBare(t, url, { deadlines })
  const ids = (await postgres.query('SELECT id FROM users ORDER BY id', [], url)).map(({ id }) => Number(id))
  const client = await openClient(t, url)
  await client.query('BEGIN')
  await client.query('SELECT FROM users WHERE id = $1 FOR UPDATE', [ids[60]])
  const outcome = await createUsers(database).setAccessOfMany(actor, { ids, profiles: { add: ['Agente'] } })
  t.same(outcome, { changed: 50, failed: ids.slice(50).map(id => ({ id, code: 'GW_UNAVAILABLE' })) })
})

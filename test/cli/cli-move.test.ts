import { join } from 'node:path'
import t from 'tap'
import { NO_GRANTS } from '../../gateway/routes/grants.ts'
import { archiveAudit } from '../../gateway/store/audit-archive.ts'
import { contentHash } from '../../gateway/store/audit-chain.ts'
import { keyAuditLog } from '../../gateway/store/audit-entry.ts'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import { type Database, openDatabase } from '../../gateway/store/database.ts'
import { loadGrants } from '../../gateway/store/grants-in-force.ts'
import { query } from '../../gateway/store/query.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { sealingSecret } from '../../gateway/tokens/sealed-keys.ts'
import { portaria } from '../support/cli.ts'
import { portariaHere } from '../support/cli-here.ts'
import { fillDataDir } from '../support/embedded-template.ts'
import { startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { makeFolder } from '../support/server-process.ts'
import { actor, openStore, person } from '../support/store.ts'
import { TEST_SECRET } from '../support/test-secret.ts'

const DATA_DIR = makeFolder(t, 'move')
const postgres = await startPostgres(t)
const DATABASE_URL = await postgres.emptyDatabase()
const env = { DATA_DIR, DATABASE_URL, JWT_SECRET: TEST_SECRET }

const NOTHING_GRANTED = { grants: NO_GRANTS, profiles: [], changedAt: new Date(0) }
const ACCESS = { profiles: ['Admin', 'Agente'], areas: ['Norte', 'Sul'], areaPrincipal: 'Norte' }
const ODD = { name: 'João "Ü" \\ O\'Hara', email: '100%@corp.example' }

/** A person with access, one whose sessions were ended, and one without anything; ids with a gap. */
const fill = async (database: Database) => {
  const users = createUsers(database)
  for (const name of ACCESS.areas) await users.createArea(actor, name)
  const maria = (await users.syncPerson(person('maria', ODD))).user
  await users.setAccess(actor, maria.id, ACCESS)
  const ana = (await users.syncPerson(person('ana'))).user
  await users.revokePerson(actor, ana.id)
  await writeUnkeyed(database)
  await createAuditLog(database).append({
    actor,
    action: 'test',
    before: { big: 2 ** 53 - 1, none: null, text: '\u2028' }
  })
  return { maria, ana }
}

/** An entry that the release before writes during an upgrade, between keyed ones. */
const writeUnkeyed = (database: Database) => {
  const at = new Date()
  const text = { actorUsername: 'ana', action: 'old', target: '', requestId: '', ip: '' }
  const hash = contentHash({ ...text, at, actorId: null, before: null, after: null, details: null })
  const values = [at, ...Object.values(text), hash]
  return database.write(manager =>
    query(
      manager,
      `INSERT INTO audit_events (at, actor_username, action, target, request_id, ip, content_hash) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
      values
    )
  )
}

t.test('move copies everything, and a token from before is valid on Postgres', async t => {
  await fillDataDir(DATA_DIR)
  const embedded = await openDatabase({ dataDir: DATA_DIR, log: quiet })
  const secrets = [sealingSecret(TEST_SECRET)]
  await keyAuditLog(embedded, { secrets, creates: true })
  const { maria, ana } = await fill(embedded).catch(async error => {
    await embedded.close()
    throw error
  })

  const running = await portaria(['move'], { env })
  t.equal(running.code, 2, 'not while a gateway writes to it')
  t.match(running.stderr, /another gateway already runs on the data directory/)
  const before = {
    people: await Promise.all([maria, ana].map(({ id }) => createUsers(embedded).loadPerson(id))),
    audit: await createAuditLog(embedded).list()
  }
  await loadGrants(embedded, NOTHING_GRANTED)
  const fileOf = () => join(DATA_DIR, 'audit.jsonl')
  await archiveAudit(embedded, { actor, secrets, before: new Date(Date.now() + 1000), fileOf, most: 2 })
  await embedded.close()
  // A gateway has been started on the target, but nobody has logged in.
  const target = await openDatabase({ databaseUrl: DATABASE_URL, dataDir: DATA_DIR, log: quiet })
  await loadGrants(target, NOTHING_GRANTED)
  await target.close()

  const moved = await portaria(['move', '--json'], { env })
  t.equal(moved.code, 0, moved.stderr)
  const tables = new Map(
    moved.json<{ tables: { table: string; rows: number }[] }>().tables.map(one => [one.table, one.rows])
  )
  t.match(Object.fromEntries(tables), { users: 2, areas: 2, user_areas: 2, provider_links: 2, profiles: 3 })

  const { users, audit } = await openStore(t, postgres, DATABASE_URL)
  t.same(await Promise.all([maria, ana].map(({ id }) => users.loadPerson(id))), before.people)
  const { items } = await audit.list()
  t.match(items[0], { action: 'database.move', actor: { username: 'cli' } })
  t.same(items.slice(2), before.audit.items.slice(0, -2), 'with hashes, in their order')
  t.match(await audit.verify(), { ok: true, archived: 2 })

  const world = await startGateway(t, { postgres: { url: DATABASE_URL } })
  const me = async (id: number, ver: number) => {
    const token = await world.tokenFor({ id, profiles: ACCESS.profiles, areas: ACCESS.areas }, { ver })
    return (await world.fetch('/auth/me', { token })).status
  }
  t.equal(await me(maria.id, 1), 200)
  t.equal(await me(ana.id, 0), 401, 'an end remains an end')
  t.equal((await users.syncPerson(person('joao'))).user.id, ana.id + 1, 'no id is given twice')
})

t.test('a database that has been used is not written to, and what is missing is named', async t => {
  const again = await portariaHere(['move'], { env })
  t.match(again, { code: 2, stderr: /The table users of the target already has 3 rows\nNothing was changed/ })
  t.match(await portariaHere(['move'], { env: { DATA_DIR } }), { code: 2, stderr: /Set DATABASE_URL/ })
  const nothing = await portariaHere(['move'], { env: { DATABASE_URL, DATA_DIR: '/nonexistent' } })
  t.match(nothing, { code: 2, stderr: /There is no embedded database in \/nonexistent/ })
})

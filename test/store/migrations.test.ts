// Every schema from the first on is stepped up with its data, and still takes what gateways of the first one send.
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { DataSource } from 'typeorm'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import { openDatabase } from '../../gateway/store/database.ts'
import { openEmbeddedPostgres } from '../../gateway/store/embedded-postgres.ts'
import { createTokenState } from '../../gateway/store/token-state.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { migrations } from '../../migrations/index.ts'
import { fillDataDir } from '../support/embedded-template.ts'
import { only } from '../support/only.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { makeFolder } from '../support/server-process.ts'
import { actor, openClient, person } from '../support/store.ts'

type Ask = (statement: string, values?: unknown[]) => Promise<Record<string, unknown>[]>

interface FirstPerson {
  readonly subject: string
  readonly profiles: readonly string[]
  readonly areas: readonly string[]
}

// What a gateway of the first schema (migrations 0001 and 0002) sends, word for word: newer schemas must still take it.
const UPDATE = `
  UPDATE users u SET
    provider = CASE WHEN u.disabled THEN u.provider ELSE l.provider END,
    name = CASE WHEN u.disabled THEN u.name ELSE $4 END,
    email = CASE WHEN u.disabled THEN u.email ELSE $5 END,
    username = CASE WHEN u.disabled THEN u.username ELSE $6 END,
    last_login_at = CASE WHEN u.disabled THEN u.last_login_at ELSE now() END
  FROM provider_links l
  WHERE l.provider = $1 AND l.issuer = $2 AND l.subject = $3 AND u.id = l.user_id
  RETURNING u.id`
const CREATE = `
  WITH person AS (
    INSERT INTO users (provider, name, email, username, last_login_at) VALUES ($1, $4, $5, $6, now()) RETURNING id
  )
  INSERT INTO provider_links (provider, issuer, subject, user_id) SELECT $1, $2, $3, id FROM person
  RETURNING user_id AS id`
const PEOPLE_OF_FIRST = `
  SELECT u.id, u.name, u.email, u.username, u.provider, u.access_version, u.lowest_accepted_version, u.disabled,
    ARRAY(SELECT p.name FROM user_profiles up JOIN profiles p ON p.id = up.profile_id
      WHERE up.user_id = u.id ORDER BY p.id) AS profiles,
    ARRAY(SELECT a.name FROM user_areas ua JOIN areas a ON a.id = ua.area_id
      WHERE ua.user_id = u.id ORDER BY lower(a.name)) AS areas,
    (SELECT a.name FROM areas a WHERE a.id = u.main_area_id) AS main_area
  FROM users u WHERE u.id = ANY($1::int[]) ORDER BY u.id`
const RAISE = `
  UPDATE users SET
    access_version = access_version + 1,
    lowest_accepted_version = CASE WHEN $2 THEN access_version + 1 ELSE lowest_accepted_version END,
    version_changed_in = pg_current_xact_id()
  WHERE id = ANY($1::int[])
  RETURNING id AS "userId", access_version AS version, lowest_accepted_version AS "lowestAccepted"`
const REVOKE = `
  INSERT INTO revocations (jti, expires_at) VALUES ($1, to_timestamp($2::float8))
  ON CONFLICT (jti) DO UPDATE SET
    expires_at = greatest(revocations.expires_at, excluded.expires_at), revoked_in = excluded.revoked_in
  RETURNING jti`
const VERSIONS = `
  SELECT id AS "userId", access_version AS version, lowest_accepted_version AS "lowestAccepted" FROM users
  WHERE access_version > 0 AND version_changed_in >= $1::text::xid8`
const PERMITS = `
  INSERT INTO login_permits (key, permits, expires_at) VALUES ($1, $2, now() + interval '30 minutes')
  ON CONFLICT DO NOTHING RETURNING key`
const ADDRESS = `
  INSERT INTO login_addresses (login, address, user_id, last_success_at) VALUES ($1, $2, $3, now())
  ON CONFLICT (login, address) DO UPDATE SET user_id = excluded.user_id, last_success_at = excluded.last_success_at`
const STATE = `
  INSERT INTO used_oauth_states (nonce, expires_at) VALUES ($1, now()) ON CONFLICT DO NOTHING RETURNING nonce`
const NEXT_MAIN_AREA = `
  UPDATE users u SET main_area_id = (
    SELECT a.id FROM user_areas ua JOIN areas a ON a.id = ua.area_id
    WHERE ua.user_id = u.id ORDER BY lower(a.name) LIMIT 1
  ) WHERE u.main_area_id = $1`

const LINK = (subject: string) => ['ldap', 'ldap', subject]
const NAMES = (subject: string) => [subject.toUpperCase(), `${subject}@corp.example`, subject]

const firstStatements = (ask: Ask) => {
  const idOf = async (table: 'areas' | 'profiles', name: string): Promise<unknown> => {
    const [found] = await ask(`SELECT id FROM ${table} WHERE name = $1`, [name])
    if (found !== undefined) return found.id
    return (await ask(`INSERT INTO ${table} (name) VALUES ($1) RETURNING id`, [name]))[0]?.id
  }
  const assign = async (id: number, { profiles, areas }: FirstPerson): Promise<void> => {
    await ask('DELETE FROM user_profiles WHERE user_id = $1', [id])
    await ask('DELETE FROM user_areas WHERE user_id = $1', [id])
    for (const name of profiles)
      await ask('INSERT INTO user_profiles (user_id, profile_id) VALUES ($1, $2)', [id, await idOf('profiles', name)])
    for (const name of areas)
      await ask('INSERT INTO user_areas (user_id, area_id) VALUES ($1, $2)', [id, await idOf('areas', name)])
    const main = areas[0] === undefined ? null : await idOf('areas', areas[0])
    await ask('UPDATE users SET main_area_id = $2 WHERE id = $1', [id, main])
  }

  return {
    /** A first login and an assignment; a token of theirs is revoked, and the login is on record. */
    add: async (person: FirstPerson): Promise<number> => {
      const { subject } = person
      const [created] = await ask(CREATE, [...LINK(subject), ...NAMES(subject)])
      const id = Number(created?.id)
      await assign(id, person)
      await ask(RAISE, [[id], false])
      await ask(REVOKE, [`jti of ${subject}`, Date.now() / 1000 + 3600])
      await ask(PERMITS, [`key of ${subject}`, `f${Date.now()}.abcdefghijkl`])
      await ask(ADDRESS, [subject, '192.0.2.1', id])
      await ask(STATE, [randomUUID()])
      return id
    },
    /** A later login. */
    logIn: async (subject: string): Promise<number> => {
      const [known] = await ask(UPDATE, [...LINK(subject), ...NAMES(subject)])
      return Number(known?.id)
    },
    end: (id: number) => ask(RAISE, [[id], true]),
    people: (ids: readonly number[]) => ask(PEOPLE_OF_FIRST, [ids]),
    versions: () => ask(VERSIONS, ['0']),
    removeArea: async (name: string): Promise<void> => {
      const id = await idOf('areas', name)
      await ask('DELETE FROM user_areas WHERE area_id = $1', [id])
      await ask(NEXT_MAIN_AREA, [id])
      await ask('DELETE FROM areas WHERE id = $1', [id])
    }
  }
}

type Connection = { url: string } | { host: string; port: number; username: string; database: string }

interface Target {
  readonly connection: Connection
  readonly options: Parameters<typeof openDatabase>[0]
}

const postgres = await startPostgres(t)

/** Migrations 0001 and 0002. */
const FIRST = 2

const PEOPLE: readonly FirstPerson[] = [
  { subject: 'maria', profiles: ['Admin'], areas: ['Geral'] },
  { subject: 'rui', profiles: ['Supervisor', 'Agente'], areas: ['Norte', 'Geral', 'Sul'] },
  { subject: 'ana', profiles: [], areas: [] }
]

const migrated = async (connection: Connection, steps: number): Promise<DataSource> => {
  const options = { migrations: migrations.slice(0, steps), migrationsTableName: 'schema_migrations' }
  const source = new DataSource({ type: 'postgres', installExtensions: false, ...connection, ...options })
  await source.initialize()
  await source.runMigrations({ transaction: 'all' })
  return source
}

const stepUp = async (t: Test, { connection, options }: Target): Promise<void> => {
  let source = await migrated(connection, FIRST)
  const first = firstStatements((statement, values = []) =>
    source.query(statement, values).then((rows: unknown) => {
      const [inner, count] = Array.isArray(rows) ? rows : []
      return Array.isArray(inner) && typeof count === 'number' ? inner : (rows as Record<string, unknown>[])
    })
  )
  const ids: number[] = []
  for (const one of PEOPLE) ids.push(await first.add(one))
  await source.query('UPDATE users SET disabled = true WHERE id = $1', [ids[2]])
  const before = await first.people(ids)
  t.match(before[1], {
    profiles: only('Supervisor', 'Agente'),
    areas: only('Geral', 'Norte', 'Sul'),
    main_area: 'Norte'
  })

  for (let steps = FIRST + 1; steps <= migrations.length; steps++) {
    await source.destroy()
    source = await migrated(connection, steps)
    const name = migrations[steps - 1]?.name ?? ''
    t.same(await first.people(ids), before, `${name}: everybody has what they had`)
    const subject = `new${steps}`
    const id = await first.add({ subject, profiles: ['Agente'], areas: [`Area ${steps}`] })
    t.equal(await first.logIn(subject), id, `${name}: the first schema's statements still work`)
    t.match(await first.people([id]), [{ profiles: only('Agente'), areas: only(`Area ${steps}`), access_version: 1 }])
    t.match(await first.end(id), [{ userId: id, version: 2, lowestAccepted: 2 }])
    t.ok((await first.versions()).some(({ userId }) => userId === id))
    await first.removeArea(`Area ${steps}`)
    t.match(await first.people([id]), [{ areas: only(), main_area: null }])
  }
  await source.destroy()
  await useNow(t, options, ids)
}

const useNow = async (t: Test, options: Target['options'], ids: readonly number[]): Promise<void> => {
  const database = await openDatabase(options)
  t.teardown(() => database.close())
  const users = createUsers(database)
  const [maria = 0, rui = 0, ana = 0] = ids
  const access = { profiles: only('Supervisor', 'Agente'), areas: only('Geral', 'Norte', 'Sul') }
  t.match(await users.loadPerson(rui), {
    version: 1,
    user: { ...access, areaPrincipal: 'Norte', accessStatus: 'assigned' },
    assigned: { ...access, areaPrincipal: 'Norte' }
  })
  t.match(await users.syncPerson(person('maria', { issuer: 'ldap' })), {
    firstLogin: false,
    version: 1,
    user: { id: maria, profiles: only('Admin'), areas: only('Geral') }
  })
  t.match(await users.syncPerson(person('ana', { issuer: 'ldap' })), { user: { id: ana }, disabled: true })
  await t.rejects(users.disablePerson(actor, maria), { code: 'GW_LAST_ADMIN' })
  const { tokens, versions } = await createTokenState(database).changesSince('0')
  t.ok(tokens.some(({ jti }) => jti === 'jti of rui'))
  const kept = versions.find(({ userId }) => userId === rui)
  t.match(kept, { version: 1, lowestAccepted: 0 }, 'a token from before is as good as it was')
  t.match(await createAuditLog(database).verify(), { ok: true })
}

t.test('people keep their access through every migration, in PostgreSQL', async t => {
  const url = await postgres.emptyDatabase()
  await stepUp(t, {
    connection: { url },
    options: { databaseUrl: url, dataDir: '/nonexistent', log: quiet }
  })
})

t.test('a migration that waits for a table lets the others go on, and is tried again', async t => {
  const url = await postgres.emptyDatabase()
  const steps = migrations.findIndex(({ name }) => name === 'SearchedPeople')
  await (await migrated({ url }, steps)).destroy()
  const reader = await openClient(t, url)
  await reader.query('BEGIN')
  await reader.query('SELECT FROM users')
  let opened: ReturnType<typeof openDatabase> | undefined
  await new Promise<void>(resolve => {
    const log = { ...quiet, warn: () => resolve() }
    opened = openDatabase({ databaseUrl: url, dataDir: '/nonexistent', log })
  })
  await reader.query('COMMIT')
  const database = await opened
  t.teardown(() => database?.close())
  t.equal(await database?.ping(), true)
})

t.test('people keep their access through every migration, in the embedded database', async t => {
  const home = makeFolder(t, 'migrations')
  await fillDataDir(home)
  const embedded = await openEmbeddedPostgres({ dataDir: home, log: quiet, role: 'gateway' })
  t.teardown(() => embedded.close())
  const { user: username, ...connection } = embedded.connection
  await stepUp(t, {
    connection: { ...connection, username },
    options: { dataDir: home, log: quiet, role: 'command' }
  })
})

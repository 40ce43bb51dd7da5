import t, { type Test } from 'tap'
import { DataSource } from 'typeorm'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import { openDatabase } from '../../gateway/store/database.ts'
import { openEmbeddedPostgres } from '../../gateway/store/embedded-postgres.ts'
import { createTokenState } from '../../gateway/store/token-state.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { migrations } from '../../migrations/index.ts'
import { fillDataDir } from '../support/embedded-template.ts'
import { type FirstPerson, firstStatements } from '../support/first-statements.ts'
import { only } from '../support/only.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { makeFolder } from '../support/server-process.ts'
import { actor, openClient, person } from '../support/store.ts'

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

// What is changed by somebody else between two steps of a change leaves nothing half done.
import t from 'tap'
import { NotFound } from '../../gateway/errors.ts'
import { createClients } from '../../gateway/store/clients.ts'
import { createLiveLogins } from '../../gateway/store/live-logins.ts'
import { lockAccess } from '../../gateway/store/query.ts'
import { startPostgres } from '../support/postgres.ts'
import { actor, begunLogin, openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

t.test('a service account that is removed while its secret is rotated gets no new secret', async t => {
  const { database, url, audit } = await openStore(t, postgres)
  const clients = createClients(database)
  const { id } = await clients.create(actor, { name: 'ci', profiles: [], areas: [], areaPrincipal: null })
  const waiting =
    'SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = $1'
  let rotating: Promise<unknown> = Promise.resolve()
  await database.write(async manager => {
    await lockAccess(manager)
    await manager.query('DELETE FROM clients WHERE user_id = $1', [id])
    rotating = clients.rotate(actor, id).catch((error: unknown) => error)
    await until(async () => (await postgres.query(waiting, ['Lock'], url))[0]?.n === 1)
  })
  t.type(await rotating, NotFound)
  t.same((await audit.list({ action: 'client.rotate' })).items, [])
})

t.test('a person who is disabled between the login and its session has no session', async t => {
  const { database, users } = await openStore(t, postgres)
  const liveLogins = createLiveLogins(database)
  const { user, version } = await users.syncPerson(person('maria'))
  await users.disablePerson(actor, user.id)
  const login = { tokenId: 'a', userId: user.id, version, createdAt: 1, expiresAt: Date.now() }
  await liveLogins.begin(begunLogin(login))
  t.same((await liveLogins.list(user.id, {})).items, [])
  await users.enablePerson(actor, user.id)
  const again = await users.syncPerson(person('maria'))
  await liveLogins.begin(begunLogin({ ...login, version: again.version }))
  t.equal((await liveLogins.list(user.id, {})).items.length, 1)
})

// What each part of the store does beyond what its own endpoints show: records, bounds, shares, and changes meanwhile.

import t from 'tap'
import type { EntityManager } from 'typeorm'
import { NotFound } from '../../gateway/errors.ts'
import { PROFILES } from '../../gateway/identity.ts'
import { listHeldBack } from '../../gateway/login/unlock.ts'
import { NO_GRANTS } from '../../gateway/routes/grants.ts'
import { createClients } from '../../gateway/store/clients.ts'
import { createDirectoryAccounts } from '../../gateway/store/directory-accounts.ts'
import { createLiveLogins } from '../../gateway/store/live-logins.ts'
import { endAtProvider, endOtherTenants } from '../../gateway/store/provider-sessions.ts'
import { GRANTS_LOCK, lockAccess, query } from '../../gateway/store/query.ts'
import { createRegranting } from '../../gateway/store/regranting.ts'
import { updateSigningKeys } from '../../gateway/store/signing-keys.ts'
import { onTimeline, readTimeline } from '../../gateway/store/token-state.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { startGateway } from '../support/gateway.ts'
import { only } from '../support/only.ts'
import { within } from '../support/own-time.ts'
import { countLockWaits, startOwnPostgres, startPostgres } from '../support/postgres.ts'
import { keepingLog, quiet } from '../support/quiet.ts'
import { actor, begunLogin, openBare, openClient, openStore, PATIENT, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const store = await openStore(t, postgres)
const { database, users, audit } = store
const nowS = () => Math.floor(Date.now() / 1000)
const newPerson = async (subject: string) => (await users.syncPerson(person(subject))).user
/** Takes the place of tens of thousands of people. */
const TAKE_LONG = `
  CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$;
  CREATE TRIGGER take_long AFTER UPDATE ON users FOR EACH STATEMENT EXECUTE FUNCTION take_long()`

t.test('a key that is set aside, and one that is made, are on record', async t => {
  const key = { kid: 'kid-1', publicJwk: {}, sealed: {}, signsFrom: nowS() }
  const nothing = { add: [], reseal: [], setAside: [], remove: [] }
  const plan = (change: object) => () => ({ ...nothing, ...change }) as never
  await updateSigningKeys(database, actor, plan({ add: [key] }))
  const { rows } = await updateSigningKeys(database, actor, plan({ setAside: ['kid-1'] }))
  t.ok((rows[0]?.setAsideAt ?? 0) > 0)
  t.match((await audit.list({})).items.slice(0, 2), [
    { action: 'key.set-aside', target: 'key:kid-1' },
    { action: 'key.create', target: 'key:kid-1' }
  ])
})

t.test('whoever looks people up while the clock is set back is not waited for longer than otherwise', async t => {
  const { lead } = createDirectoryAccounts(database)
  // As by a clock that was a day ahead.
  await lead('gone', 86_400_000)
  t.same([await lead('next', 10_000), await lead('third', 10_000), await lead('next', 10_000)], [true, false, true])
})

t.test('whoever was looked up while the clock was ahead is looked up when it has been set back', async t => {
  const { user } = await users.syncPerson(person('ahead', { login: 'ahead' }))
  await createLiveLogins(database).begin(begunLogin('jti-ahead', user.id))
  const { due } = createDirectoryAccounts(database)
  const isDue = async () => (await due(3_600_000, 100)).some(({ userId }) => userId === user.id)
  t.notOk(await isDue())
  const ahead = "UPDATE directory_accounts SET checked_at = now() + interval '1 day' WHERE user_id = $1"
  await postgres.query(ahead, [user.id], store.url)
  t.ok(await isDue())
})

t.test('what people of a tenant hold that is not admitted any more ends, once', async t => {
  const liveLogins = createLiveLogins(database)
  const logIn = async (subject: string, tenant: string | undefined) => {
    const cloud = { provider: 'cloudidp' as const, issuer: 'https://idp.example', tenant, groups: [] }
    const { user } = await users.syncPerson(person(subject, cloud))
    await liveLogins.begin(begunLogin(`jti-${subject}`, user.id))
    return user.id
  }
  const ids = [await logIn('of-one', 'T-1'), await logIn('of-two', 'T-2'), await logIn('of-none', undefined)]
  t.equal(await endOtherTenants(database, ['t-1']), 1)
  const left = await Promise.all(ids.map(async id => (await liveLogins.list(id, {})).items.length))
  t.same(left, [1, 0, 1])
  t.equal(await endOtherTenants(database, ['t-1']), 0)
  t.match((await audit.list({ action: 'person.ended-by-tenant' })).items, [{ target: `user:${ids[1]}` }])
})

t.test('tens of thousands of people of a tenant are ended too, once by all processes that start together', async t => {
  const { url, database, users, audit } = await openStore(t, postgres, undefined, false)
  const cloud = { provider: 'cloudidp' as const, issuer: 'https://idp.example', tenant: 'T-2', groups: [] }
  const { user } = await users.syncPerson(person('many', cloud))
  await createLiveLogins(database).begin(begunLogin('jti-many', user.id))
  await postgres.query(TAKE_LONG, undefined, url)
  const hurried = await openBare(t, url, { deadlines: { ...PATIENT, statementMs: 300 } })
  const ended = await Promise.all([1, 2].map(() => endOtherTenants(hurried, ['t-1'])))
  t.same(ended.sort(), [0, 1])
  t.match(await audit.list({ action: 'person.ended-by-tenant' }), { total: 1 })
})

t.test('keys that change wait for no login, nor logins for them', async t => {
  const key = { kid: 'kid-2', publicJwk: {}, sealed: {}, signsFrom: nowS() }
  const add = () => ({ add: [key], reseal: [], setAside: [], remove: [] }) as never
  // As a login does while it works out what a person is granted.
  await database.write(async manager => {
    await manager.query('SELECT pg_advisory_xact_lock_shared($1)', [GRANTS_LOCK])
    t.ok(await within(updateSigningKeys(database, actor, add), 5000))
  })
})

// RW-64
t.test('conditions of a service account that change while its secret is proved end what comes of it', async t => {
  const clients = createClients(database)
  const access = { profiles: [], areas: [], areaPrincipal: null }
  const { id, clientId, clientSecret } = await clients.create(actor, { ...access, name: 'narrowed' })
  let isRead = false
  const narrowMeanwhile: EntityManager['query'] = async (...statement) => {
    const rows = await database.read(manager => manager.query(...statement))
    if (!isRead) await clients.update(actor, id, { addresses: ['192.0.2.1'] })
    isRead = true
    return rows
  }
  const slow = createClients({
    ...database,
    read: work =>
      database.read(manager => {
        t.intercept(manager, 'query', { value: narrowMeanwhile })
        return work(manager)
      })
  })
  const proven = await slow.prove(clientId, clientSecret)
  const current = await users.loadPerson(id)
  t.equal(current?.lowestAcceptedVersion, 1)
  if (typeof proven === 'string') return t.fail(proven)
  t.same(proven.addresses, [])
  t.equal(proven.person.version, 0)
})

t.test('grants that cannot be applied now are tried again, and nothing fails', async t => {
  const { log, said } = keepingLog()
  const failing = { read: () => Promise.reject(new Error('away')), write: () => Promise.reject(new Error('away')) }
  const regranting = createRegranting({
    database: failing as never,
    table: () => ({ grants: NO_GRANTS, profiles: [], changedAt: new Date(0) }),
    log
  })
  await regranting.load()
  t.match(said, [{ pauseMs: 500 }])
  t.equal(regranting.state(), 'degraded')
  await regranting.close()
})

t.test('a profile of changed route files is made although the database was away when they were loaded', async t => {
  let tick = () => {}
  const value = (work: () => void) => {
    tick = work
    return { unref: () => undefined }
  }
  const restore = t.intercept(globalThis, 'setInterval', { value }).restore
  let isAway = false
  let profiles: string[] = [...PROFILES]
  const regranting = createRegranting({
    database: {
      ...database,
      write: work => (isAway ? Promise.reject(new Error('away')) : database.write(work))
    },
    table: () => ({ grants: NO_GRANTS, profiles, changedAt: new Date(0) }),
    log: quiet
  })
  restore()
  t.teardown(regranting.close)
  await regranting.load()
  profiles = [...PROFILES, 'Financeiro']
  isAway = true
  await regranting.load()
  t.equal(regranting.state(), 'degraded')
  isAway = false
  // As every ten seconds, here before the next attempt.
  tick()
  const made = () => postgres.query("SELECT name FROM profiles WHERE name = 'Financeiro'", [], store.url)
  await until(async () => (await made()).length === 1, 'the profile is made')
})

// RV-68
t.test('a logout at the provider and a login of the same session never miss each other', async t => {
  const liveLogins = createLiveLogins(database)
  const { id: userId } = await newPerson('interleaved')
  const issuer = 'https://id.example'
  const begin = (sid: string) => {
    const atProvider = { issuer, subject: 'sub', sid, issuedAt: nowS(), loginEndsAt: nowS() + 600 }
    return liveLogins.begin({ ...begunLogin(`jti-${sid}`, userId), atProvider })
  }
  const logoutOf = (sid: string) => {
    const token = { issuer, subject: undefined, sid, jti: `logout-${sid}`, issuedAt: nowS(), expiresAt: nowS() + 60 }
    return endAtProvider(database, token, { requestId: 'r', ip: '::1' })
  }
  const locks = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'provider_sessions'::regclass"
  const waiting = () => until(async () => (await postgres.query(locks, [], store.url)).length > 0, 'one of them waits')
  const client = await openClient(t, store.url)

  await client.query('BEGIN')
  await client.query(
    `INSERT INTO provider_sessions VALUES ('jti-first', $1, $2, 'sub', 'first', now() + interval '1 hour')`,
    [userId, issuer]
  )
  const late = logoutOf('first')
  await waiting()
  await client.query('COMMIT')
  t.equal(await late, 1, 'a login that is being stored is ended')

  await client.query('BEGIN')
  await client.query('LOCK TABLE provider_sessions IN SHARE MODE')
  const begun = begin('second')
  await waiting()
  await client.query(
    `INSERT INTO used_logout_tokens (key, issuer, sid, expires_at) VALUES ('x', $1, 'second', now() + interval '1 hour')`,
    [issuer]
  )
  await client.query('COMMIT')
  t.equal(await begun, 'ended-at-provider', 'a login that was waiting for the logout does not begin')
  t.equal(await begin('first'), 'ended-at-provider')
  t.equal(await begin('third'), undefined)
  t.equal(await logoutOf('third'), 1)
})

t.test('a session whose renewal a fail-over has lost is listed again once its token is used', async t => {
  const liveLogins = createLiveLogins(database)
  const { id: userId } = await newPerson('renewed')
  const begun = begunLogin('jti-renewed', userId, 0, { createdAt: nowS() - 60, expiresAt: nowS() - 1 })
  await liveLogins.begin(begun)
  const listed = async () => (await liveLogins.list(userId, { page: 1, pageSize: 50 })).total
  t.equal(await listed(), 0)
  await liveLogins.recordUse([{ ...begun.login, expiresAt: nowS() + 600, usedAt: Date.now() }])
  t.equal(await listed(), 1)
})

t.test('an area is renamed and removed however long its people take', async t => {
  const { url, users } = await openStore(t, postgres, undefined, false)
  const north = await users.createArea(actor, 'Norte')
  const { id } = (await users.syncPerson(person('northern'))).user
  await users.setAccess(actor, id, { profiles: ['Agente'], areas: ['Norte'], areaPrincipal: 'Norte' })
  await postgres.query(TAKE_LONG, undefined, url)
  const deadlines = { ...PATIENT, statementMs: 300 }
  const hurried = createUsers(await openBare(t, url, { deadlines }))
  await t.rejects(hurried.disablePerson(actor, id), { code: 'GW_UNAVAILABLE' })
  t.match(await hurried.renameArea(actor, north.id, 'Nordeste'), { name: 'Nordeste' })
  await hurried.deleteArea(actor, north.id)
  t.match(await users.loadPerson(id), { version: 3, user: { areas: only() } })
  await t.rejects(hurried.disablePerson(actor, id), { code: 'GW_UNAVAILABLE' }, 'the next one has the usual time again')
})

t.test('what is held back is listed however long the names of all people take', async t => {
  const { url } = await openStore(t, postgres)
  const hurried = await openBare(t, url, { deadlines: { ...PATIENT, statementMs: 300 } })
  const holder = await openClient(t, url)
  // Takes the place of hundreds of thousands of names.
  await holder.query('BEGIN; LOCK TABLE login_attempts')
  const ldap = { timeoutMs: 5000, lockoutThreshold: 5, lockoutWindowMs: 60_000 }
  const listing = listHeldBack(hurried, { ldap, loginFailures: { perIp: 20, windowMs: 60_000 } })
  listing.catch(() => undefined)
  await until(async () => (await countLockWaits(postgres, url)) === 1)
  await t.rejects(
    hurried.read(manager => query(manager, 'SELECT FROM login_attempts')),
    { code: 'GW_UNAVAILABLE' }
  )
  await holder.query('COMMIT')
  t.same(await listing, { accounts: [], addresses: [] })
})

t.test('areas have unique names, and renaming or removing one refreshes the tokens of its people', async t => {
  const { users, audit } = await openStore(t, postgres)
  const north = await users.createArea(actor, 'Norte')
  await users.createArea(actor, 'Sul')
  await t.rejects(users.createArea(actor, 'NORTE'), { code: 'GW_CONFLICT' })
  await t.rejects(users.renameArea(actor, north.id, 'sul'), { code: 'GW_CONFLICT' })
  for (const name of ['', '  ', 'x'.repeat(65), 'a\nb', 'a\0b', '\ud800', 7 as unknown as string]) {
    await t.rejects(users.createArea(actor, name), { code: 'GW_BAD_REQUEST' })
  }
  const both = (await users.syncPerson(person('both'))).user.id
  const northern = (await users.syncPerson(person('only'))).user.id
  const none = (await users.syncPerson(person('none'))).user.id
  await users.setAccess(actor, both, { profiles: ['Agente'], areas: ['Norte', 'Sul'], areaPrincipal: 'Norte' })
  await users.setAccess(actor, northern, { profiles: ['Agente'], areas: ['Norte'], areaPrincipal: 'Norte' })

  t.same(await users.renameArea(actor, north.id, 'Nordeste'), { id: north.id, name: 'Nordeste' })
  t.match(await users.loadPerson(both), { version: 2, lowestAcceptedVersion: 0, user: { areaPrincipal: 'Nordeste' } })
  await users.deleteArea(actor, north.id)
  t.match(await users.loadPerson(both), { version: 3, user: { areas: only('Sul'), areaPrincipal: 'Sul' } })
  t.match(await users.loadPerson(northern), {
    version: 3,
    user: { areas: only(), areaPrincipal: '', accessStatus: 'unassigned' }
  })
  t.match(await users.loadPerson(none), { version: 0 })
  await t.rejects(users.deleteArea(actor, north.id), { code: 'GW_NOT_FOUND' })
  t.match(await users.listAreas(), { items: [{ name: 'Sul' }], page: 1, pageSize: 50, total: 1 })
  t.match(await audit.list({ action: 'area.rename' }), {
    items: [{ target: `area:${north.id}`, before: { name: 'Norte' }, after: { name: 'Nordeste' } }]
  })
  t.match(await audit.list({ action: 'area.delete' }), {
    items: [{ target: `area:${north.id}`, before: { name: 'Nordeste' } }]
  })
  const profiles = (await users.listProfiles()).map(profile => profile.name)
  t.same(profiles, ['Admin', 'Supervisor', 'Agente'])
})

t.test('a service account that is removed while its secret is rotated gets no new secret', async t => {
  const { database, url, audit } = await openStore(t, postgres)
  const clients = createClients(database)
  const { id } = await clients.create(actor, { name: 'ci', profiles: [], areas: [], areaPrincipal: null })
  let rotating: Promise<unknown> = Promise.resolve()
  await database.write(async manager => {
    await lockAccess(manager)
    await manager.query('DELETE FROM clients WHERE user_id = $1', [id])
    rotating = clients.rotate(actor, id).catch((error: unknown) => error)
    await until(async () => (await countLockWaits(postgres, url)) === 1)
  })
  t.type(await rotating, NotFound)
  t.same((await audit.list({ action: 'client.rotate' })).items, [])
})

t.test('a person who is disabled between the login and its session is not logged in', async t => {
  const { database, users, audit } = await openStore(t, postgres)
  const liveLogins = createLiveLogins(database)
  const { user, version } = await users.syncPerson(person('maria'))
  await users.disablePerson(actor, user.id)
  t.equal(await liveLogins.begin(begunLogin('a', user.id, version)), 'ended-meanwhile')
  t.same((await liveLogins.list(user.id, {})).items, [])
  t.same((await audit.list({ action: 'login' })).items, [])
  await users.enablePerson(actor, user.id)
  const again = await users.syncPerson(person('maria'))
  t.equal(await liveLogins.begin(begunLogin('a', user.id, again.version)), undefined)
  t.equal((await liveLogins.list(user.id, {})).items.length, 1)
})

t.test('an error that has nothing to do with timelines leaves them as they are', async t => {
  const { database } = await openStore(t, postgres)
  const before = await readTimeline(database)
  t.match(before, /^\d+\/[0-9A-F]{8}\/\d+$/)
  for (const statement of ['SELECT 1 / 0', 'SELECT * FROM none', "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$"])
    await t.rejects(onTimeline(database, () => database.read(manager => query(manager, statement))))
  await t.rejects(onTimeline(database, () => Promise.reject(Object.assign(new Error('no right'), { code: '42501' }))))
  t.equal(await readTimeline(database), before)
})

t.test('a database without the functions has no timeline', async t => {
  const { database, url } = await openStore(t, postgres)
  await postgres.query('ALTER FUNCTION pg_control_system() RENAME TO no_control_system', [], url)
  const name = await onTimeline(database, async timeline => {
    await database.read(manager => query(manager, `SELECT ${timeline}`))
    return timeline
  })
  t.equal(name, "''")
  t.equal(await readTimeline(database), '')
})

t.test('however many long lists are asked for, other requests have connections', async t => {
  const postgres = await startOwnPostgres(t)
  const world = await startGateway(t, { postgres })
  const token = await world.tokenFor({ profiles: ['Admin'] })
  for (const [list, table] of [
    ['users', 'user_profiles'],
    ['held-back', 'login_attempts']
  ]) {
    const ask = () => world.fetch(`/auth/admin/${list}`, { token }).then(({ status }) => status)
    await ask()
    const client = await openClient(t, postgres.url)
    await client.query('BEGIN')
    await client.query(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`)
    const lists = Array.from({ length: 30 }, ask)
    await until(async () => (await countLockWaits(postgres)) >= 2)
    t.equal((await world.fetch('/auth/admin/areas', { token })).status, 200)
    t.equal(await countLockWaits(postgres), 2, `${list}: lists have two connections`)
    await client.query('COMMIT')
    for (const status of await Promise.all(lists)) t.ok(status === 200 || status === 503)
    t.equal(await ask(), 200)
  }
})

// What each part of the store does beyond what its own endpoints show: records, bounds, copies and shares.
import t from 'tap'
import type { EntityManager } from 'typeorm'
import { NO_GRANTS } from '../../gateway/routes/grants.ts'
import { createClients } from '../../gateway/store/clients.ts'
import { createLiveLogins } from '../../gateway/store/live-logins.ts'
import { createProviderSessions } from '../../gateway/store/provider-sessions.ts'
import { GRANTS_LOCK } from '../../gateway/store/query.ts'
import { createRegranting } from '../../gateway/store/regranting.ts'
import { updateSigningKeys } from '../../gateway/store/signing-keys.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { actor, begunLogin, openClient, openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'
import { within } from '../support/within.ts'

const postgres = await startPostgres(t)
const store = await openStore(t, postgres)
const { database, users, audit } = store
const nowS = () => Math.floor(Date.now() / 1000)
const newPerson = async (subject: string) => (await users.syncPerson(person(subject))).user

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
  t.same(proven?.addresses, [])
  t.equal(current?.lowestAcceptedVersion, 1)
  t.equal(proven?.person.version, 0)
})

t.test('grants that cannot be applied now are tried again, and nothing fails', async t => {
  const warned: object[] = []
  const failing = { read: () => Promise.reject(new Error('away')), write: () => Promise.reject(new Error('away')) }
  const regranting = createRegranting({
    database: failing as never,
    table: () => ({ grants: NO_GRANTS, profiles: [], changedAt: new Date(0) }),
    log: { ...quiet, warn: (fields: object) => void warned.push(fields) }
  })
  await regranting.load()
  t.match(warned, [{ pauseMs: 500 }])
  t.equal(regranting.state(), 'degraded')
  await regranting.close()
})

// RV-68
t.test('a logout at the provider and a login of the same session never miss each other', async t => {
  const [providerSessions, liveLogins] = [createProviderSessions(database), createLiveLogins(database)]
  const { id: userId } = await newPerson('interleaved')
  const issuer = 'https://id.example'
  const begin = (sid: string) => {
    const times = { createdAt: nowS(), expiresAt: nowS() + 600 }
    const login = begunLogin({ tokenId: `jti-${sid}`, userId, version: 0, ...times })
    return liveLogins.begin({ ...login, atProvider: { issuer, subject: 'sub', sid, issuedAt: nowS() } })
  }
  const logoutOf = (sid: string) => {
    const token = { issuer, subject: undefined, sid, jti: `logout-${sid}`, issuedAt: nowS(), expiresAt: nowS() + 60 }
    return providerSessions.end(token, { requestId: 'r', ip: '::1' })
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
  t.equal(await begun, false, 'a login that was waiting for the logout does not begin')
  t.equal(await begin('first'), false)
  t.equal(await begin('third'), true)
  t.equal(await logoutOf('third'), 1)
})

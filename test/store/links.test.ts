// Changed settings of the directory keep people who they are, and only them.
// LD-07, RW-05, RW-20
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createDirectoryAccounts } from '../../gateway/store/directory-accounts.ts'
import { createLoginNames } from '../../gateway/store/login-names.ts'
import { only } from '../support/only.ts'
import { countLockWaits, startPostgres } from '../support/postgres.ts'
import { actor, grownBy, openClient, openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const GUID = '00112233-4455-6677-8899-aabbccddeeff'
const LONG_AGO = new Date('2020-01-01T00:00:00Z')
const admin = { profiles: ['Admin'], areas: ['Geral'], areaPrincipal: 'Geral' }

const liveSession = (id: number, jti: string | number) => `
  INSERT INTO sessions (jti, user_id, provider, created_at, last_used_at, expires_at)
  VALUES ('${jti}', ${id}, 'ldap', now(), now(), now() + interval '1 hour')`

const stable = (names: string[], more: object = {}) =>
  person(GUID, { username: names[0] ?? '', login: names[0], names, entryCreatedAt: LONG_AGO, ...more })

t.test('a link by login name becomes one by the stable subject, once, and access stays', async t => {
  const { users, audit } = await openStore(t, postgres)
  const before = await users.syncPerson(person('maria'))
  await users.createArea(actor, 'Geral')
  await users.setAccess(actor, before.user.id, admin)
  const after = await users.syncPerson(stable(['maria']))
  t.match(after, { firstLogin: false, user: { id: before.user.id, profiles: only('Admin'), username: 'maria' } })
  t.equal((await users.syncPerson(stable(['maria']))).user.id, before.user.id)
  const { items } = await audit.list({ action: 'person.link' })
  t.match(items, [{ target: `user:${before.user.id}`, before: { subject: 'hidden' }, after: { subject: GUID } }])
})

t.test('an account made after the last login under its name is somebody else', async t => {
  const { users } = await openStore(t, postgres)
  const before = await users.syncPerson(person('maria'))
  const after = await users.syncPerson(stable(['maria'], { entryCreatedAt: new Date(Date.now() + 60_000) }))
  t.not(after.user.id, before.user.id)
  const unknown = await openStore(t, postgres)
  const first = await unknown.users.syncPerson(person('maria'))
  const second = await unknown.users.syncPerson(stable(['maria'], { entryCreatedAt: undefined }))
  t.not(second.user.id, first.user.id, 'and so is one whose age is not known')
})

t.test('a login that somebody has given up for another one leads its new owner to nothing of theirs', async t => {
  const entryCreatedAt = new Date(Date.now() - 86_400_000)
  for (const other of [person('maria.silva', { entryCreatedAt: LONG_AGO }), person('cloud', { provider: 'cloudidp' })])
    for (const owner of [person('maria', { entryCreatedAt }), stable(['maria'], { entryCreatedAt })]) {
      const { url, users } = await openStore(t, postgres)
      const { user } = await users.syncPerson(person('maria'))
      await users.relinkPerson(actor, user.id, (await users.syncPerson(other)).user.id)
      await postgres.query("UPDATE provider_links SET created_at = now() - interval '1 year'", [], url)
      t.equal((await users.syncPerson(other)).user.id, user.id)
      t.match(await users.syncPerson(owner), { firstLogin: true }, `${other.username} ${owner.subject}`)
      t.equal((await users.syncPerson(other)).user.id, user.id)
    }
})

t.test('a person once known by a stable subject is not found by name again', async t => {
  const { users } = await openStore(t, postgres)
  const old = await users.syncPerson(stable(['maria']))
  await users.syncPerson(person('maria'))
  const OTHER = '99112233-4455-6677-8899-aabbccddeeff'
  t.not((await users.syncPerson(stable(['mariab'], { subject: OTHER }))).user.id, old.user.id)
})

t.test('a person who is disabled under one name does not come back under another', async t => {
  // RW-05
  const { users } = await openStore(t, postgres)
  const one = await users.syncPerson(person('maria'))
  const other = await users.syncPerson(person('maria.silva'))
  await users.disablePerson(actor, other.user.id)
  const joined = await users.syncPerson(stable(['maria', 'maria.silva']))
  t.match(joined, { disabled: true, user: { id: other.user.id } })
  t.not(joined.user.id, one.user.id)
})

t.test('a hundred logins at once upgrade a link together', async t => {
  const { users } = await openStore(t, postgres)
  const before = await users.syncPerson(person('maria'))
  const all = await Promise.all(Array.from({ length: 100 }, () => users.syncPerson(stable(['maria']))))
  t.same([...new Set(all.map(({ user }) => user.id))], [before.user.id])
})

t.test('one person who logs in for the first time at instances with and without CLOUDIDP_ISSUER is one', async t => {
  const { users, url } = await openStore(t, postgres)
  const links = await openClient(t, url)
  const cloud = { provider: 'cloudidp', name: 'Maria', email: '', username: 'maria' } as const
  for (const first of [0, 1]) {
    const without = { issuer: 'https://graph.example', subject: `graph ${first}` }
    const logins = [{ issuer: 'https://idp.example', subject: `sub ${first}`, linkWithoutIssuer: without }, without]
    await links.query('BEGIN; LOCK TABLE provider_links IN SHARE MODE')
    const both = [first, 1 - first].map(async (which, n) => {
      await until(async () => (await countLockWaits(postgres, url)) === n)
      return users.syncPerson({ ...cloud, ...without, ...logins[which] })
    })
    await until(async () => (await countLockWaits(postgres, url)) === 2)
    await links.query('COMMIT')
    const [one, other] = await Promise.all(both)
    t.equal(one?.user.id, other?.user.id)
  }
})

t.test('relink moves links only, ends both sessions, and is on record', async t => {
  const { users, audit } = await openStore(t, postgres)
  await users.createArea(actor, 'Geral')
  const { user: old } = await users.syncPerson(person('maria'))
  await users.setAccess(actor, old.id, admin)
  const { user: fresh } = await users.syncPerson(person(GUID, { username: 'maria' }))
  t.equal(await users.relinkPerson(actor, old.id, fresh.id), 1)
  const again = await users.syncPerson(person(GUID, { username: 'maria' }))
  t.match(again, { firstLogin: false, user: { id: old.id, profiles: only('Admin'), areas: only('Geral') } })
  for (const id of [old.id, fresh.id]) {
    const ended = await users.loadPerson(id)
    t.ok((ended?.lowestAcceptedVersion ?? 0) > 0)
    t.equal(ended?.lowestAcceptedVersion, ended?.version)
  }
  const { items } = await audit.list({ action: 'person.relink' })
  t.match(items, [{ target: `user:${old.id}`, before: { user: fresh.id }, after: { user: old.id } }])
})

t.test('a login that waits for its account to be relinked is none of the person whom the account has left', async t => {
  const { users, url } = await openStore(t, postgres)
  const [old, fresh] = [await users.syncPerson(person('old')), await users.syncPerson(person('fresh'))]
  const head = await openClient(t, url)
  await head.query('BEGIN; SELECT FROM audit_head FOR UPDATE')
  const relinking = users.relinkPerson(actor, old.user.id, fresh.user.id)
  await until(async () => (await countLockWaits(postgres, url)) === 1)
  const refused = t.rejects(users.syncPerson(person('fresh')), { code: 'GW_LOGIN_FAILED' })
  await until(async () => (await countLockWaits(postgres, url)) === 2)
  await head.query('COMMIT')
  await Promise.all([relinking, refused])
  t.equal((await users.syncPerson(person('fresh'))).user.id, old.user.id)
})

t.test('a relinked account is looked up for the person who has it now, also while they use another', async t => {
  const { url, database, users } = await openStore(t, postgres)
  const cloud = person('m', { provider: 'cloudidp', issuer: 'https://idp.example' })
  const { user: old } = await users.syncPerson(cloud)
  const accounts = createDirectoryAccounts(database)
  for (const subject of ['maria', GUID]) {
    const { user: fresh } = await users.syncPerson(person(subject, { login: subject }))
    await users.relinkPerson(actor, old.id, fresh.id)
    const { version } = await users.syncPerson(cloud)
    await postgres.query(liveSession(old.id, version), [], url)
    const due = await accounts.due(0, 10)
    t.match(due, [{ userId: old.id, login: subject }], subject)
    t.equal(due.length, 1)
    await accounts.end(actor, old.id, 'gone')
    t.same(await accounts.due(0, 10), [])
  }
})

t.test('of two directory accounts that relink has joined, the one that last logged in is looked up', async t => {
  const { url, database, users } = await openStore(t, postgres)
  const accounts = createDirectoryAccounts(database)
  const own = { login: 'maria', subject: GUID }
  const another = { login: 'm.silva', subject: GUID.replace(/^./, 'f') }
  const logIn = async ({ login, subject }: typeof own) => {
    const { user } = await users.syncPerson(person(subject, { login, username: login }))
    await postgres.query(liveSession(user.id, randomUUID()), [], url)
    return user.id
  }
  const id = await logIn(own)
  await users.relinkPerson(actor, id, await logIn(another))
  for (const account of [own, another, own]) {
    t.equal(await logIn(account), id)
    const due = await accounts.due(0, 10)
    t.match(due, [{ userId: id, ...account }])
    t.equal(due.length, 1)
  }
})

t.test('a closed account of the new person does not take the place of one that is looked up', async t => {
  const { database, users, url } = await openStore(t, postgres)
  const accounts = createDirectoryAccounts(database)
  const { user: old } = await users.syncPerson(person('maria', { login: 'maria' }))
  const { user: fresh } = await users.syncPerson(person(GUID, { login: 'm.silva' }))
  await accounts.end(actor, fresh.id, 'disabled')
  await users.relinkPerson(actor, old.id, fresh.id)
  const { version } = await users.syncPerson(person('maria', { login: 'maria' }))
  await postgres.query(liveSession(old.id, version), [], url)
  t.match(await accounts.due(0, 10), [{ userId: old.id, login: 'maria', subject: 'maria' }])
})

t.test('of many people, a few who are due are found without reading all, or those who are not logged in', async t => {
  const { url, database } = await openStore(t, postgres)
  await database.close()
  for (const statement of [
    "INSERT INTO users (provider, username) SELECT 'ldap', 'p' || i FROM generate_series(1, 10000) i",
    "INSERT INTO provider_links (provider, issuer, subject, user_id) SELECT 'ldap', 'ldap', username, id FROM users",
    `INSERT INTO directory_accounts (user_id, login, checked_at)
      SELECT id, username, now() - CASE WHEN id % 2 = 0 THEN interval '1 hour' ELSE interval '30 days' END FROM users`,
    `INSERT INTO sessions (jti, user_id, provider, created_at, last_used_at, expires_at)
      SELECT id, id, 'ldap', now(), now(), now() + interval '1 hour' FROM users WHERE id % 2 = 0`,
    'ANALYZE'
  ])
    await postgres.query(statement, [], url)
  const read = `SELECT sum(idx_tup_fetch + seq_tup_read) AS read FROM pg_stat_user_tables
    WHERE relname IN ('provider_links', 'directory_accounts', 'sessions')`
  const { result, grown } = await grownBy(postgres, url, read, ({ database }) =>
    createDirectoryAccounts(database).due(0, 5, 2 * 60 * 60 * 1000)
  )
  t.equal(result.length, 5)
  t.ok(Number(grown.read) < 1000, `${grown.read} rows`)
})

t.test('erasing whom an account was relinked from leaves its names and addresses to the person who has it', async t => {
  const { url, database, users, memory } = await openStore(t, postgres)
  const { user: old } = await users.syncPerson(person('maria'))
  const { user: fresh } = await users.syncPerson(person(GUID, { username: 'msilva', login: 'msilva' }))
  const names = ['msilva', 'maria.silva@corp.example']
  await createLoginNames(database).join({ subject: GUID, username: 'msilva', names }, 0)
  await memory.rememberAddress('msilva', '192.0.2.1', fresh.id)
  await users.relinkPerson(actor, old.id, fresh.id)
  await users.erasePerson(actor, fresh.id, 'msilva')
  t.same(await postgres.query('SELECT login FROM login_names ORDER BY login DESC', [], url), [
    { login: 'msilva' },
    { login: 'maria.silva@corp.example' }
  ])
  t.same(await postgres.query('SELECT user_id FROM login_addresses', [], url), [{ user_id: old.id }])
})

t.test('relink is refused where it would lose or mix something', async t => {
  const { users } = await openStore(t, postgres)
  await users.createArea(actor, 'Geral')
  const { user: old } = await users.syncPerson(person('maria'))
  const { user: fresh } = await users.syncPerson(person(GUID))
  await users.setAccess(actor, fresh.id, admin)
  const code = (work: Promise<unknown>) =>
    work.then(
      () => 'done',
      (error: { code?: string }) => error.code
    )
  t.equal(await code(users.relinkPerson(actor, old.id, fresh.id)), 'GW_CONFLICT', 'it has access of its own')
  t.equal(await code(users.relinkPerson(actor, old.id, old.id)), 'GW_CONFLICT')
  t.equal(await code(users.relinkPerson(actor, old.id, 999_999)), 'GW_NOT_FOUND')
  await users.disablePerson(actor, old.id)
  t.equal(await code(users.relinkPerson(actor, fresh.id, old.id)), 'GW_CONFLICT', 'a disabled account would return')
  await users.enablePerson(actor, old.id)
  t.equal(await users.relinkPerson(actor, fresh.id, old.id), 1)
  t.equal(await code(users.relinkPerson(actor, fresh.id, old.id)), 'GW_CONFLICT', 'no link is left')
})

// A person can be erased: nothing in the database names them any more, and the audit log still verifies.
import t, { type Test } from 'tap'
import { appendAudits } from '../../gateway/store/audit-entry.ts'
import { createLiveLogins } from '../../gateway/store/live-logins.ts'
import { portariaHere } from '../support/cli-here.ts'
import { startGateway } from '../support/gateway.ts'
import { jsonRequest } from '../support/login.ts'
import { countLockWaits, startPostgres } from '../support/postgres.ts'
import { actor, begunLogin, openClient, openStore, person } from '../support/store.ts'
import { TEST_SECRET } from '../support/test-secret.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const NAMES = { username: 'quitéria.unica', name: 'Quitéria Única', email: 'quiteria@unica.example' }
const FORMER_NAME = 'quitéria.solteira'
const ADDRESS = '203.0.113.77'
/** Not within what is random. */
const MARKS = /quit[ée]ria|(?<![\w+/-])[úu]nica|203\.0\.113\.77/i

/** Someone who has left traces everywhere, beside another person. */
const startTraced = async (t: Test) => {
  const url = await postgres.newDatabase()
  const { users, audit, memory, force } = await openStore(t, postgres, url)
  const world = await startGateway(t, { postgres: { url } })
  const { user } = await users.syncPerson(
    person('quiteria.unica', { ...NAMES, groups: ['CN=Norte'], names: ['quiteria.unica'], entryCreatedAt: new Date(0) })
  )
  const { user: other } = await users.syncPerson(person('maria'))
  // Under a name from before they married.
  await audit.append({ actor: { id: user.id, username: FORMER_NAME, ip: ADDRESS }, action: 'login' })
  await users.createArea(actor, 'Norte')
  await users.setAccess(actor, user.id, { profiles: ['Agente'], areas: ['Norte'], areaPrincipal: 'Norte' })
  await memory.rememberAddress(NAMES.username, ADDRESS, user.id)
  const self = { id: user.id, username: NAMES.username, ip: ADDRESS }
  await audit.append({ actor: self, action: 'login', target: `user:${user.id}` })
  const failed = { id: null, username: NAMES.username, ip: ADDRESS }
  await audit.append({ actor: failed, action: 'login.failed', target: `user:${user.id}` })
  // By the cloud, from a tenant that may not log in: it is not known whose account it is.
  for (const username of [NAMES.username.replace('unica', 'UNICA'), FORMER_NAME, 'maria'])
    await audit.append({
      actor: { ...failed, username, ip: username === 'maria' ? '192.0.2.2' : ADDRESS },
      action: 'login.failed',
      target: ''
    })
  await audit.append({ actor: { id: other.id, username: 'maria', ip: '192.0.2.1' }, action: 'login' })
  const statements = [
    "INSERT INTO login_names (login, account, subject) VALUES ($1, $1, 'quiteria.unica')",
    `INSERT INTO sessions (jti, user_id, provider, created_at, last_used_at, expires_at, ip) SELECT 'jti ' || $1, id, 'ldap', now(), now(), now() + interval '1 day', '${ADDRESS}' FROM users WHERE username = $1`,
    "INSERT INTO bootstrap_applied (provider, subject, user_id) SELECT 'ldap', $1, id FROM users WHERE username = $1",
    "INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at) SELECT id, 'x', 'of ' || $1, '{}', 1, now() + interval '1 day' FROM users WHERE username = $1"
  ]
  for (const statement of statements) await postgres.query(statement, [NAMES.username], url)
  const admin = await world.tokenFor({ id: 900_002, username: 'root', profiles: ['Admin'] })
  const token = await world.tokenFor({ id: user.id, areas: ['Norte'], areaPrincipal: 'Norte' }, { ver: 1 })
  const erase = (id: number, username: string) =>
    world.fetch(`/auth/admin/users/${id}/erase`, jsonRequest('POST', admin, { username }))
  return { url, users, audit, force, world, user, other, admin, token, erase }
}

/** Every row of every table that mentions the person. */
const traces = async (url: string): Promise<string[]> => {
  const tables = await postgres.query("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'", [], url)
  const found: string[] = []
  for (const { name } of tables)
    for (const { row } of await postgres.query(`SELECT t::text AS row FROM "${name}" t`, [], url))
      if (MARKS.test(String(row))) found.push(`${name}: ${row}`)
  return found
}

t.test('an Admin erases a person: no table names them, their tokens end, the log verifies and tells it', async t => {
  const { url, users, audit, world, user, other, admin, token, erase } = await startTraced(t)
  t.ok((await traces(url)).length > 8)
  t.equal((await world.fetch('/auth/me', { token })).status, 200)
  t.equal((await erase(user.id, 'quiteria.unica')).status, 400, 'the username is not typed exactly')
  t.equal((await erase(user.id, NAMES.username)).status, 204)

  t.same(await traces(url), [])
  t.equal((await world.fetch('/auth/me', { token })).status, 401)
  t.equal((await world.fetch(`/auth/admin/users/${user.id}`, { token: admin })).status, 404)
  t.equal((await erase(user.id, '')).status, 404)
  t.match(await users.listPeople(), { total: 1, items: [{ id: other.id }] })
  t.match(await users.findByUsername(''), [])
  t.match(await audit.verify(), { ok: true })
  const { items } = await audit.list({ user: user.id })
  t.match(items[0], {
    action: 'person.erase',
    actor: { username: 'root' },
    targetName: '',
    before: null,
    after: null
  })
  const theirs = items.filter(({ action }) => action.startsWith('login'))
  t.match(theirs, [
    { action: 'login.failed', actor: { id: null, username: '' }, ip: '' },
    { action: 'login', actor: { id: user.id, username: '' }, ip: '' },
    { action: 'login', actor: { id: user.id, username: '' }, ip: '' }
  ])
  t.match((await audit.list({ user: other.id })).items[0], { actor: { username: 'maria' }, ip: '192.0.2.1' })
  const refused = (await audit.list({ action: 'login.failed' })).items.filter(({ target }) => target === '')
  t.match(refused, [
    { actor: { username: 'maria' }, ip: '192.0.2.2' },
    { actor: { id: null, username: '' }, ip: '' },
    { actor: { id: null, username: '' }, ip: '' }
  ])
  const again = await users.syncPerson(person('quiteria.unica', NAMES))
  t.not(again.user.id, user.id, 'the account is a new person')
  t.equal(again.user.accessStatus, 'unassigned')
})

t.test(
  'what was erased from an entry is neither put back nor replaced, nor anything written beside it, unnoticed',
  async t => {
    const { url, audit, force, user, erase } = await startTraced(t)
    const change = (set: string) => postgres.query(`UPDATE audit_events SET ${set} WHERE actor_id = $1`, [user.id], url)
    await t.rejects(change("actor_username = 'maria'"), { code: '42501' })
    await t.rejects(change("actor_username = ''"), { code: '42501' }, 'not without its digest')
    await t.rejects(change("action = 'x'"), { code: '42501' })
    t.equal((await erase(user.id, NAMES.username)).status, 204)
    await t.rejects(change("actor_username = 'maria', actor_digest = NULL"), { code: '42501' })
    t.match(await audit.verify(), { ok: true })
    const write = (column: string, text: string) =>
      force(`UPDATE audit_events SET ${column} = '${text}' WHERE actor_id = ${user.id}`)
    for (const column of ['actor_username', 'ip']) {
      await write(column, 'maria')
      t.match(await audit.verify(), { ok: false }, column)
      await write(column, '')
      t.match(await audit.verify(), { ok: true })
    }
    await write('actor_digest', 'x')
    t.match(await audit.verify(), { ok: false })
  }
)

t.test('what is under way while a person is erased leaves nothing of them behind', async t => {
  const { url, users, audit, user, erase } = await startTraced(t)
  const { database, memory, tokenState } = await openStore(t, postgres, url)
  const liveLogins = createLiveLogins(database)
  const self = { id: user.id, username: NAMES.username, ip: ADDRESS }
  const target = `user:${user.id}`
  const entry = { actor: self, action: 'login', target }
  const expiresAt = Math.ceil(Date.now() / 1000) + 3600
  const named = { issuer: 'https://id.example', subject: NAMES.username, sid: undefined }
  const atProvider = { ...named, issuedAt: 0, loginEndsAt: expiresAt }
  const { version } = (await users.loadPerson(user.id)) ?? { version: 0 }
  let serial = 0
  /** The rest of a login, a refused one, a logout, the end of other sessions and a recheck. */
  const goOn = () => {
    const login = begunLogin(`late ${++serial}`, user.id, version)
    return Promise.all([
      liveLogins.begin({ ...login, ip: ADDRESS, atProvider, entry }),
      memory.rememberAddress(NAMES.username, ADDRESS, user.id),
      audit.append({ actor: { ...self, id: null }, action: 'login.failed', target }, user.id),
      tokenState.revokeToken(`ended ${serial}`, expiresAt, { actor: self, action: 'logout', target }),
      liveLogins.endAll(self, user.id),
      users.applyGroups(user.id, { provider: 'ldap', groups: ['CN=Quitéria Única'] })
    ])
  }
  // The erasure waits for its entry of the audit log, and what goes on waits for the erasure.
  const holder = await openClient(t, url)
  await holder.query('BEGIN; SELECT FROM audit_head FOR UPDATE')
  const waiting = (count: number) => until(async () => (await countLockWaits(postgres, url)) >= count, `${count} wait`)
  const erased = erase(user.id, NAMES.username)
  await waiting(1)
  const during = goOn()
  const loggingIn = users.syncPerson(person('quiteria.unica', NAMES)).catch((error: unknown) => error)
  await waiting(8)
  await holder.query('COMMIT')
  t.equal((await erased).status, 204)
  t.equal((await during)[0], 'ended-meanwhile')
  t.match(await loggingIn, { statusCode: 401, reason: 'ended-meanwhile' }, 'refused as any login, not as unknown')
  t.equal((await goOn())[0], 'ended-meanwhile')
  t.same(await traces(url), [])
  t.match(await audit.verify(), { ok: true })
  const { items } = await audit.list({ user: user.id })
  for (const action of ['login.failed', 'logout'])
    t.equal(
      items.filter(item => item.action === action && item.actor.username === '').length,
      action === 'logout' ? 2 : 3
    )
})

t.test('a person with more entries in the audit log than a statement can change in its time is erased', async t => {
  const { url, ask, database, users, audit } = await openStore(t, postgres)
  const { user } = await users.syncPerson(person('quiteria.unica', NAMES))
  const self = { id: user.id, username: NAMES.username, ip: ADDRESS }
  const [login, failed] = [
    { actor: self, action: 'login', target: `user:${user.id}` },
    { actor: { ...self, id: null }, action: 'login.failed', target: `user:${user.id}` }
  ]
  const entries = Array.from({ length: 500 }, (_, n) => (n % 2 === 0 ? login : failed))
  await audit.append({ actor: { ...self, username: FORMER_NAME }, action: 'login' })
  // In nine transactions, since one that hashes all of them may be ended as idle.
  for (let part = 0; part < 9; part++) await database.write(manager => appendAudits(manager, entries))
  await audit.append({ actor: { ...failed.actor, username: FORMER_NAME }, action: 'login.failed', target: '' })
  // Takes the place of a deadline that a fast machine would keep.
  await ask(`
    CREATE FUNCTION too_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF (SELECT count(*) FROM changed) > 2000 THEN RAISE 'too late' USING ERRCODE = 'query_canceled'; END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER too_late AFTER UPDATE ON audit_events REFERENCING NEW TABLE AS changed
      FOR EACH STATEMENT EXECUTE FUNCTION too_late()`)
  await t.rejects(users.erasePerson(actor, user.id, 'maria'), { code: 'GW_BAD_REQUEST' })
  const { user: former } = await users.syncPerson(person('former-admin'))
  await users.setAccess(actor, former.id, { profiles: ['Agente'], areas: [], areaPrincipal: null })
  const left = await traces(url)
  const ended = { ...actor, id: former.id, version: 0 }
  await t.rejects(users.erasePerson(ended, user.id, NAMES.username), { code: 'GW_TOKEN_STALE' })
  t.same(await traces(url), left, 'no portion is erased by an Admin whose right has ended')
  // The first attempt ends early.
  await ask(`
    CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'away'; END $$;
    CREATE TRIGGER away BEFORE UPDATE ON audit_events FOR EACH ROW WHEN (OLD.target = '' AND OLD.actor_id IS NULL)
      EXECUTE FUNCTION away()`)
  await t.rejects(users.erasePerson(actor, user.id, NAMES.username), /away/)
  await ask('DROP TRIGGER away ON audit_events')
  await users.erasePerson(actor, user.id, NAMES.username)
  t.same(await traces(url), [])
  t.match(await audit.verify(), { ok: true })
  const [row] = await ask("SELECT details FROM audit_events WHERE action = 'person.erase'")
  t.same(row, { details: { entries: 4_502 } })
})

t.test('an Admin is not erased, whether assigned or by a group', async t => {
  const { url, users, user, erase } = await startTraced(t)
  await users.setAccess(actor, user.id, { profiles: ['Admin'], areas: ['Norte'], areaPrincipal: 'Norte' })
  const answer = await erase(user.id, NAMES.username)
  t.equal(answer.status, 409)
  t.match(await answer.json(), { code: 'GW_CONFLICT' })
  const env = { DATABASE_URL: url, JWT_SECRET: TEST_SECRET }
  const { code, stdout } = await portariaHere(['erase', `id:${user.id}`, '--yes'], { env })
  t.equal(code, 1)
  t.match(stdout, /is an Admin and was not erased/)
  t.match(await users.loadPerson(user.id), { user: { username: NAMES.username } })
})

t.test('the command erases once the username has been typed, or with --yes', async t => {
  const { url, users, user } = await startTraced(t)
  const env = { DATABASE_URL: url, JWT_SECRET: TEST_SECRET }
  const wrong = await portariaHere(['erase', `id:${user.id}`], { env, input: 'quiteria\n' })
  t.match(wrong, { code: 2, stderr: /That is not the username; nothing was changed/ })
  t.equal((await portariaHere(['erase', 'ninguem', '--yes'], { env })).code, 2)
  const right = await portariaHere(['erase', `id:${user.id}`, '--json'], { env, input: `${NAMES.username}\n` })
  t.equal(right.code, 0, right.stderr)
  t.same(right.json(), { id: user.id, erased: true })
  t.same(await traces(url), [])
  const { user: nameless } = await users.syncPerson({ ...person('nameless'), username: '', provider: 'cloudidp' })
  for (const input of ['', '\n', 'nameless\n'])
    t.equal((await portariaHere(['erase', `id:${nameless.id}`], { env, input })).code, 2, 'an empty answer is no yes')
  t.match(await users.loadPerson(nameless.id), { user: { username: '' } })
  t.equal((await portariaHere(['erase', `id:${nameless.id}`], { env, input: `id:${nameless.id}\n` })).code, 0)
  const { user: maria } = await users.syncPerson(person('maria'))
  t.equal((await portariaHere(['erase', 'maria', '--yes'], { env })).code, 0)
  t.equal(await users.loadPerson(maria.id), undefined)
})

// What ends before its time is known to every instance on one Postgres within a second, and never missed.
// DF-10
import { EventEmitter, once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import { createAuditWatch } from '../../gateway/observe/audit-watch.ts'
import { listenAccessChanges } from '../../gateway/store/access-changes.ts'
import { createClients } from '../../gateway/store/clients.ts'
import { createLiveLogins } from '../../gateway/store/live-logins.ts'
import { createLoginAttempts } from '../../gateway/store/login-attempts.ts'
import { createPersonalTokenStore } from '../../gateway/store/personal-tokens.ts'
import type { PersonalTokenUse } from '../../gateway/tokens/personal-tokens.ts'
import type { AccessChange } from '../../gateway/tokens/revocations.ts'
import { collectGarbage } from '../support/garbage.ts'
import { only } from '../support/only.ts'
import { measureOwnTime, within } from '../support/own-time.ts'
import { countLockWaits, startOwnPostgres } from '../support/postgres.ts'
import { keepingLog, quiet } from '../support/quiet.ts'
import { openBare, openClient, openStore, person } from '../support/store.ts'
import { succeeds, until } from '../support/until.ts'

/** What other tests leave open would count as unfinished here. */
const postgres = await startOwnPostgres(t)
const actor = { id: null, username: 'test' }
const soon = () => Math.floor(Date.now() / 1000) + 600

const maria = person('maria')

const listen = (test: Test, database: Parameters<typeof listenAccessChanges>[0], checkMs?: number) => {
  const events = new EventEmitter()
  const heard: AccessChange[] = []
  const onChange = (change: AccessChange) => {
    heard.push(change)
    events.emit('change', change)
  }
  const onLost = () => events.emit('lost')
  const onRestored = () => events.emit('restored')
  const pause = checkMs === undefined ? {} : { checkMs }
  const listener = listenAccessChanges(database, { onChange, onLost, onRestored, log: quiet, ...pause })
  test.teardown(() => listener.close())
  return { events, heard }
}

/** A person with logins whose use is recorded. */
const startPerson = async (t: Test) => {
  const store = await openStore(t, postgres)
  const { user } = await store.users.syncPerson(maria)
  const liveLogins = createLiveLogins(store.database)
  const login = { userId: user.id, provider: 'ldap', version: 0, createdAt: soon() - 600, expiresAt: soon() } as const
  const use = (tokenId: string, more: { usedAt?: number; expiresAt?: number } = {}) => ({
    ...login,
    tokenId,
    usedAt: Date.now(),
    ...more
  })
  return { ...store, user, liveLogins, use }
}

t.test('a change of very many people is one message', async t => {
  const { database, users } = await openStore(t, postgres)
  const area = await users.createArea(actor, 'Norte')
  for (let n = 0; n < 60; n++) {
    const { user } = await users.syncPerson({ ...maria, subject: `m${n}` })
    await users.setAccess(actor, user.id, { profiles: [], areas: ['Norte'], areaPrincipal: 'Norte' })
  }
  const { events, heard } = listen(t, database)
  await once(events, 'restored')
  const change = once(events, 'change')
  await users.renameArea(actor, area.id, 'Sul')
  await change
  t.same(heard, [{ kind: 'many' }])
})

t.test('messages that no gateway of ours wrote are ignored', async t => {
  const { database, tokenState, url } = await openStore(t, postgres)
  const { events, heard } = listen(t, database)
  await once(events, 'restored')
  for (const payload of [
    '',
    '{',
    'null',
    '[]',
    '{"kind":"token","jti":1}',
    '{"kind":"person","userId":"1"}',
    '{"kind":"x"}'
  ]) {
    await postgres.query('SELECT pg_notify($1, $2)', ['portaria_access', payload], url)
  }
  const change = once(events, 'change')
  await tokenState.revokeToken('jti-1', soon())
  await change
  t.equal(heard.length, 1)
})

t.test('a re-read finds what a slow transaction commits late', async t => {
  const { tokenState, url } = await openStore(t, postgres)
  const slow = await openClient(t, url)
  const insert = 'INSERT INTO revocations (jti, expires_at) VALUES ($1, $2)'
  const later = new Date(Date.now() + 600_000)
  const before = await tokenState.loadRevocations()
  t.match(before, { tokens: only(), versions: only(), complete: true })
  await slow.query('BEGIN')
  await slow.query(insert, ['late', later])
  await tokenState.revokeToken('quick', soon())
  const between = await tokenState.changesSince(before.cursor)
  const early = between.tokens.map(token => token.jti)
  t.same(early, ['quick'])
  const again = await tokenState.changesSince(between.cursor)
  t.match(again, { tokens: only(), complete: false }, 'what is known is not read again every two seconds until then')
  await slow.query('COMMIT')
  const after = await tokenState.changesSince(again.cursor)
  t.ok(after.tokens.some(token => token.jti === 'late'))
  const settled = await tokenState.changesSince(after.cursor)
  t.match(await tokenState.changesSince(settled.cursor), { tokens: only(), complete: false })
})

t.test('without a timeline, and from a standby, all that a slow transaction holds up is read again', async t => {
  for (const [mayLag, statement] of [
    [false, 'ALTER FUNCTION pg_control_system() RENAME TO no_control_system'],
    [
      true,
      `ALTER FUNCTION pg_is_in_recovery() RENAME TO is_no_standby;
        CREATE FUNCTION public.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'`
    ]
  ] as const) {
    const { tokenState, url } = await openStore(t, postgres)
    const slow = await openClient(t, url)
    await postgres.query(statement, [], url)
    await slow.query('BEGIN; SELECT pg_current_xact_id()')
    await tokenState.revokeToken('quick', soon())
    const { cursor } = await tokenState.loadRevocations()
    t.match(await tokenState.changesSince(cursor), { tokens: [{ jti: 'quick' }], complete: false, mayLag }, cursor)
    await slow.query('COMMIT')
  }
})

t.test('what a dump of another server has brought is read once, whatever numbers its transactions had', async t => {
  const { ask, tokenState, users } = await openStore(t, postgres)
  const { user } = await users.syncPerson(person('moved'))
  await tokenState.revokeToken('jti-old', soon())
  await ask(`UPDATE users SET access_version = 1, version_changed_in = '9000000000000';
    UPDATE revocations SET revoked_in = '9000000000000'`)
  const whole = await tokenState.loadRevocations()
  t.match(whole, { tokens: [{ jti: 'jti-old' }], versions: [{ userId: user.id }] })
  await tokenState.revokeToken('jti-new', soon())
  const changes = await tokenState.changesSince(whole.cursor)
  t.match(changes, { complete: false, tokens: [{ jti: 'jti-new' }], versions: only() })
  t.equal(changes.tokens.length, 1)
})

t.test('a cursor from a newer database, or no cursor at all, gives everything', async t => {
  const { tokenState } = await openStore(t, postgres)
  await tokenState.revokeToken('jti-1', soon())
  const [timeline] = (await tokenState.loadRevocations()).cursor.split(' ')
  for (const cursor of [
    `${timeline} 18446744073709551000:18446744073709551000:`,
    `${timeline} 3:18446744073709551000:`,
    `${timeline} 3`,
    '',
    "1'; DROP TABLE users",
    `${timeline} -1`,
    'other/00000002 0'
  ]) {
    t.match(await tokenState.changesSince(cursor), { complete: true, tokens: [{ jti: 'jti-1' }] })
  }
})

t.test('a backup that takes the place of the database on the same server is read completely', async t => {
  const { tokenState } = await openStore(t, postgres)
  const { cursor } = await tokenState.loadRevocations()
  const { tokenState: restored, users, url } = await openStore(t, postgres)
  await users.syncPerson(maria)
  t.match(await restored.changesSince(cursor), { complete: true }, 'under the name of the former one')
  const after = await restored.loadRevocations()
  t.match(await restored.changesSince(after.cursor), { complete: false })
  await postgres.query('ALTER TABLE users RENAME TO gone; CREATE TABLE users (LIKE gone)', [], url)
  t.match(await restored.changesSince(after.cursor), { complete: true }, 'into the same database')
})

t.test('a backup that takes the place of the database under a gateway breaks no audit log', async t => {
  const { url, database } = await openStore(t, postgres)
  const name = new URL(url).pathname.slice(1)
  const command = (statement: string) => postgres.query(statement, [], postgres.url)
  await database.close()
  await until(() => succeeds(command(`CREATE DATABASE backup TEMPLATE ${name}`)), 'nothing uses it')
  const { audit } = await openStore(t, postgres, url)
  for (let n = 0; n < 20; n++) await audit.append({ actor, action: 'lost' })
  const { log, said } = keepingLog()
  const warned = (wanted: string) => said.some(({ reason }) => reason === wanted)
  const watch = createAuditWatch(audit, log, { everyMs: 20, lookMs: 20 })
  t.teardown(watch.close)
  await until(() => watch.last().state === 'ok' && watch.last().entries === 20)
  await command(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`)
  await command(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`)
  await until(() => succeeds(command(`ALTER DATABASE ${name} RENAME TO former`)))
  await command(`ALTER DATABASE backup RENAME TO ${name}`)
  await until(() => warned('audit-lost'), 'the loss is noticed')
  await until(() => watch.last().entries === 0)
  t.match(watch.last(), { state: 'ok', firstBroken: undefined })
  t.notOk(warned('audit-broken'))
})

t.test('revoking twice keeps the later end, and what has expired is forgotten', async t => {
  const { tokenState, memory, url } = await openStore(t, postgres)
  const expiresAt = soon()
  await Promise.all([expiresAt, expiresAt + 5, expiresAt - 5].map(at => tokenState.revokeToken('twice', at)))
  t.same((await tokenState.loadRevocations()).tokens, [{ jti: 'twice', expiresAt: expiresAt + 5 }])
  for (const jti of ['', 'a\0', 'x'.repeat(600)])
    await t.rejects(tokenState.revokeToken(jti, expiresAt), { code: 'GW_BAD_REQUEST' })
  await tokenState.revokeToken('old', Math.floor(Date.now() / 1000) - 3_600)
  await memory.useOAuthState('old', new Date(Date.now() - 3_600_000))
  const aMinuteAgo = new Date(Date.now() - 60_000)
  await memory.useOAuthState('late', aMinuteAgo)
  await tokenState.purgeExpired()
  const left =
    'SELECT (SELECT count(*)::int FROM revocations) AS tokens, (SELECT count(*)::int FROM used_oauth_states) AS states'
  t.same(await postgres.query(left, [], url), [{ tokens: 1, states: 1 }])
  t.equal(await memory.useOAuthState('late', aMinuteAgo), false, 'kept for an instance whose clock is behind')
})

t.test('an address is known after a success, for that login alone and 180 days, and the latest are kept', async t => {
  const { memory, users, database, url } = await openStore(t, postgres)
  const { id } = (await users.syncPerson(maria)).user
  const attempts = createLoginAttempts(database)
  const knows = (name: string, address: string) => attempts.isKnown({ name, isTyped: false, address })
  t.equal(await knows('maria', '192.0.2.1'), false)
  await memory.rememberAddress('maria', '192.0.2.1', id)
  t.equal(await knows('maria', '192.0.2.1'), true)
  t.equal(await knows('joao', '192.0.2.1'), false)
  for (let n = 1; n <= 200; n++) await memory.rememberAddress('maria', `198.51.100.${n}`, id)
  t.equal(await knows('maria', '192.0.2.1'), false)
  t.equal(await knows('maria', '198.51.100.1'), true)
  await Promise.all(Array.from({ length: 20 }, () => memory.rememberAddress('maria', '198.51.100.200', id)))
  await postgres.query("UPDATE login_addresses SET last_success_at = now() - interval '180 days'", [], url)
  t.equal(await knows('maria', '198.51.100.1'), false)
})

t.test('a listener comes back after Postgres was killed, and says when it may have missed something', async t => {
  const own = await startOwnPostgres(t)
  const { database, tokenState } = await openStore(t, own, own.url)
  const { events, heard } = listen(t, database)
  await once(events, 'restored')
  const lost = once(events, 'lost')
  await own.kill()
  await lost
  const restored = once(events, 'restored')
  await own.start()
  const ownTimeMs = measureOwnTime()
  await restored
  t.ok(ownTimeMs() < 5_000)
  const change = once(events, 'change')
  await tokenState.revokeToken('after', soon())
  await change
  t.match(heard, [{ jti: 'after' }])
})

t.test('a listener hears again when a frozen Postgres thaws', async t => {
  const own = await startOwnPostgres(t)
  const { database, tokenState } = await openStore(t, own, own.url)
  const { events, heard } = listen(t, database, 10)
  await once(events, 'restored')
  own.freeze()
  await delay(100)
  own.thaw()
  await until(async () => {
    await tokenState.revokeToken('thawed', soon())
    return heard.length > 0
  })
  t.match(heard[0], { jti: 'thawed' })
})

t.test('a listener whose LISTEN is never answered is replaced', async t => {
  const { database } = await openStore(t, postgres)
  let connections = 0
  const connectListener: typeof database.connectListener = async (...asked) => {
    const connection = await database.connectListener(...asked)
    // As when a firewall forgets it at this moment.
    if (++connections === 1) Reflect.get(connection.client, 'connection').stream.pause()
    return connection
  }
  const { events } = listen(t, { ...database, connectListener })
  t.ok(await within(once(events, 'restored'), 30_000))
})

t.test('a token and its refreshed copy are one session, last used when the later one was', async t => {
  const { user, liveLogins, use } = await startPerson(t)
  const now = Math.floor(Date.now() / 60_000) * 60
  const used = (tokenId: string, secondsAgo: number) => use(tokenId, { usedAt: (now - secondsAgo) * 1000 })
  await liveLogins.recordUse([used('copied', 300), used('copied', 120), used('copied', 240), used('other', 180)])
  const { items } = await liveLogins.list(user.id, { page: 1, pageSize: 10 })
  const agesS = items.map(({ lastUsedAt }) => now - Date.parse(lastUsedAt) / 1000)
  t.same(agesS, [120, 180])
})

t.test('a session that is being ended while its use is recorded does not come back', async t => {
  const { ask, url, liveLogins, use } = await startPerson(t)
  const uses = () => ['a', 'b'].map(tokenId => use(tokenId))
  await liveLogins.recordUse(uses())
  const ending = await openClient(t, url)
  await ending.query("BEGIN; DELETE FROM sessions WHERE jti = 'a'")
  await ending.query("INSERT INTO revocations (jti, expires_at) VALUES ('a', now() + interval '1 hour')")
  const recording = liveLogins.recordUse(uses())
  await until(async () => (await countLockWaits(postgres, url)) === 1, 'it waits')
  await ending.query('COMMIT')
  await recording
  t.match(await ask('SELECT jti FROM sessions'), only({ jti: 'b' }))
})

t.test('a token that is renewed at the moment of its end stays ended until the renewed one is over', async t => {
  const { ask, url, tokenState, liveLogins, use } = await startPerson(t)
  await liveLogins.recordUse([use('x')])
  const renewing = await openClient(t, url)
  await renewing.query("BEGIN; UPDATE sessions SET expires_at = '2100-01-01Z'")
  const ending = tokenState.revokeToken('x', soon())
  await until(async () => (await countLockWaits(postgres, url)) === 1, 'it waits')
  await renewing.query('COMMIT')
  await ending
  t.match(await ask('SELECT expires_at FROM revocations'), only({ expires_at: new Date('2100-01-01Z') }))
  t.same(await ask('SELECT FROM sessions'), [])
})

t.test('uses of sessions that are known take no further ids, of which there are 2,147,483,647', async t => {
  const { ask, liveLogins, use } = await startPerson(t)
  for (const tokenId of ['first', 'first', 'first', 'second']) await liveLogins.recordUse([use(tokenId)])
  const rows = await ask('SELECT jti, id FROM sessions ORDER BY id')
  const [first, second] = rows.map(({ id }) => Number(id))
  t.match(rows, [{ jti: 'first' }, { jti: 'second' }])
  t.equal(second, Number(first) + 1)
})

t.test('a use of a session that another process has recorded is not written again', async t => {
  const { ask, liveLogins, use } = await startPerson(t)
  const record = async (minute: number, more = {}) => {
    await liveLogins.recordUse([use('shared', { ...more, usedAt: minute * 60_000 })])
    return (await ask('SELECT ctid::text, extract(epoch FROM last_used_at) / 60 AS minute FROM sessions'))[0]
  }
  const first = await record(10)
  t.same(await record(10), first)
  t.same(await record(9), first)
  const second = await record(11)
  t.equal(Number(second?.minute), 11)
  t.not(second?.ctid, first?.ctid)
  t.not((await record(11, { expiresAt: soon() + 60 }))?.ctid, second?.ctid, 'a renewed token is')
})

t.test('processes that record the same uses at the same time, each in an order of its own, all succeed', async t => {
  const { ask, database, url, user, liveLogins, use } = await startPerson(t)
  const [personalTokens, clients] = [createPersonalTokenStore(database), createClients(database)]
  const usedAt = Date.now()
  const logins = ['a', 'b', 'c'].map(tokenId => use(tokenId, { usedAt }))
  const [tokens, accounts]: [PersonalTokenUse[], { id: number; usedAt: number }[]] = [[], []]
  for (const { tokenId: name } of logins) {
    const expiresAt = new Date(soon() * 1000).toISOString()
    const wish = { name, profiles: [], areas: [], areaPrincipal: null, expiresAt }
    const { id } = await personalTokens.create(actor, { user, tokenId: 'a', version: 0 }, wish)
    tokens.push({ personalToken: id, usedAt })
    accounts.push({ id: (await clients.create(actor, wish)).id, usedAt })
  }
  const order = <T>(uses: readonly T[], isReversed: boolean) => (isReversed ? uses.toReversed() : uses)
  let serial = 0
  const later = (uses: typeof logins) => uses.map(use => ({ ...use, usedAt: usedAt + ++serial }))
  const recorded: [table: string, middle: string, record: (isReversed: boolean) => Promise<void>][] = [
    ['sessions', "jti = 'b'", isReversed => liveLogins.recordUse(order(later(logins), isReversed))],
    [
      'personal_tokens',
      `id = ${tokens[1]?.personalToken}`,
      isReversed => personalTokens.recordUse(order(tokens, isReversed))
    ],
    ['clients', `user_id = ${accounts[1]?.id}`, isReversed => clients.recordUse(order(accounts, isReversed))]
  ]
  for (const [table, middle, record] of recorded) {
    await record(false)
    await ask(`ANALYZE ${table}`)
    const holder = await openClient(t, url)
    await holder.query('BEGIN')
    await holder.query(`SELECT FROM ${table} WHERE ${middle} FOR UPDATE`)
    const recording = Promise.all([record(false), record(true)])
    await until(async () => (await countLockWaits(postgres, url)) === 2, `two wait for ${table}`)
    await holder.query('COMMIT')
    await t.resolves(recording, table)
    const used = `SELECT count(*)::int AS n FROM ${table} WHERE last_used_at > now() - interval '1 hour'`
    t.same(await ask(used), [{ n: 3 }])
  }
})

t.test('thousands of sessions of one person end at once, and each until its own last moment', async t => {
  const { database: listening, url, users } = await openStore(t, postgres, undefined, false)
  const { user } = await users.syncPerson({ ...maria, subject: 'scripted' })
  const database = await openBare(t, url)
  const add = `
    INSERT INTO sessions (jti, user_id, provider, created_at, last_used_at, expires_at)
    SELECT 'jti-' || n, $1, 'ldap', now(), now(), date_trunc('second', now()) + n * interval '1 second'
    FROM generate_series(1, 5000) n`
  await postgres.query(add, [user.id], url)
  await postgres.query("INSERT INTO revocations (jti, expires_at) VALUES ('jti-1', now() + interval '1 day')", [], url)
  const ends = await postgres.query('SELECT jti, expires_at::text AS "end" FROM sessions ORDER BY id', [], url)
  const { events, heard } = listen(t, listening)
  await once(events, 'restored')
  const change = once(events, 'change')
  const statements = t.capture(pg.Client.prototype, 'query', pg.Client.prototype.query)
  t.equal(await createLiveLogins(database).endAll(actor, user.id, 'jti-5000'), 4999)
  t.ok(statements().length < 30, `${statements().length} statements`)
  await change
  t.same(heard, [{ kind: 'many' }])
  t.same(await postgres.query('SELECT jti FROM sessions', [], url), [{ jti: 'jti-5000' }])
  const revoked = await postgres.query('SELECT jti, expires_at::text AS "end" FROM revocations', [], url)
  const revokedEnds = new Map(revoked.map(({ jti, end }) => [jti, end]))
  t.equal(revoked.length, 4999)
  const longer = ends.filter(({ jti, end }) => revokedEnds.get(jti) !== end).map(({ jti }) => jti)
  t.same(longer, ['jti-1', 'jti-5000'], 'what had been revoked for longer stays so')
})

t.test('logins and access tokens that a fail-over brought back are unlisted once their end is restored', async t => {
  const { database, user, tokenState, liveLogins, use } = await startPerson(t)
  const personalTokens = createPersonalTokenStore(database)
  await liveLogins.recordUse([use('ended'), use('live')])
  const expiresAt = new Date(Date.now() + 86_400_000).toISOString()
  const create = (name: string) =>
    personalTokens.create(actor, { user, tokenId: 'live', version: 0 }, { name, profiles: [], expiresAt })
  const [ended] = [await create('ended'), await create('live')]
  const tokens = ['ended', `pt_${ended.id}`].map(jti => ({ jti, expiresAt: soon() }))
  await tokenState.restore({ tokens, people: [] })
  t.match(await liveLogins.list(user.id, { tokenId: 'live' }), { total: 1, items: [{ current: true }] })
  t.match(await personalTokens.list({}, user.id), { total: 1, items: [{ name: 'live' }] })
})

t.test('an access token that is created after a fail-over is not taken for one that had ended before', async t => {
  const { database, users, tokenState } = await openStore(t, postgres)
  const { user } = await users.syncPerson({ ...maria, subject: 'first-after' })
  await tokenState.restore({ tokens: ['pt_1', 'pt_3', 'x'].map(jti => ({ jti, expiresAt: soon() })), people: [] })
  const wish = { name: 'new', profiles: [], expiresAt: new Date(Date.now() + 86_400_000).toISOString() }
  const create = () => createPersonalTokenStore(database).create(actor, { user, tokenId: 'live', version: 0 }, wish)
  const [first, second] = [await create(), await create()]
  t.equal(second.id, first.id + 1)
  const { tokens } = await tokenState.loadRevocations()
  t.notOk(tokens.some(({ jti }) => [first.id, second.id].map(id => `pt_${id}`).includes(jti)))
})

t.test('a new person does not get the id of one whose access had changed and whom a fail-over has lost', async t => {
  const { users, tokenState } = await openStore(t, postgres)
  const { user } = await users.syncPerson({ ...maria, subject: 'kept' })
  const lost = { userId: user.id + 5, version: 1, lowestAccepted: 0, receivedAt: Date.now() / 1000 }
  await tokenState.restore({ tokens: [], people: [lost] })
  t.equal((await users.syncPerson({ ...maria, subject: 'new' })).user.id, lost.userId + 1)
})

t.test('whoever is revoked after a fail-over loses the tokens of the time that was lost too', async t => {
  const { users, tokenState } = await openStore(t, postgres)
  const { user } = await users.syncPerson({ ...maria, subject: 'revoked-after' })
  const issued = { userId: user.id, version: 2, lowestAccepted: 0, receivedAt: Date.now() / 1000 - 60 }
  await tokenState.restore({ tokens: [], people: [issued] })
  t.same(
    (await tokenState.loadRevocations()).versions.map(({ lowestAccepted }) => lowestAccepted),
    [0]
  )
  await users.revokePerson(actor, user.id)
  t.match((await tokenState.loadRevocations()).versions, [{ userId: user.id, version: 3, lowestAccepted: 3 }])
  await tokenState.restore({ tokens: [], people: [issued] })
  t.match((await tokenState.loadRevocations()).versions, [{ version: 3 }], 'another instance has lost the same')
})

t.test('thousands of revocations that a restored backup lacks are written back at once', async t => {
  const { tokenState, url } = await openStore(t, postgres)
  const tokens = Array.from({ length: 5000 }, (_, n) => ({ jti: `jti-${n}`, expiresAt: soon() }))
  const statements = t.capture(pg.Client.prototype, 'query', pg.Client.prototype.query)
  await tokenState.restore({ tokens, people: [] })
  const { length } = statements()
  t.ok(length < 30, `${length} statements`)
  t.same(await postgres.query('SELECT count(*)::int AS n FROM revocations', [], url), [{ n: 5000 }])
})

// RW-63
t.test('a connection open for weeks asks whether it lives, and keeps nothing of what it has asked', async t => {
  const { database, url } = await openStore(t, postgres)
  const results: WeakRef<object>[] = []
  const { query } = pg.Client.prototype
  const value = function (this: pg.Client, ...args: unknown[]) {
    const result: unknown = Reflect.apply(query, this, args)
    if (!String(args[0]).includes('pg_notify') || !(result instanceof Promise)) return result
    return result.then((found: object) => {
      results.push(new WeakRef(found))
      return found
    })
  }
  t.intercept(pg.Client.prototype, 'query', { value, configurable: true })
  const { events } = listen(t, database, 1)
  await once(events, 'restored')
  const listener =
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'portaria-listen' AND datname = current_database()"
  const before = await postgres.query(listener, [], url)
  await until(() => results.length > 20, 'heartbeats')
  t.equal(before.length, 1)
  t.same(await postgres.query(listener, [], url), before, 'all on one connection')
  collectGarbage()
  t.equal(results.slice(0, 15).filter(result => result.deref() !== undefined).length, 0)
})

t.test('a backlog of expired rows is deleted in portions, around rows that somebody holds', async t => {
  const { tokenState, url } = await openStore(t, postgres)
  const add =
    "INSERT INTO revocations (jti, expires_at) SELECT 'old-' || n, now() - interval '1 day' FROM generate_series(1, 11000) n"
  await postgres.query(add, [], url)
  const holder = await openClient(t, url)
  await holder.query("BEGIN; SELECT FROM revocations WHERE jti = 'old-7' FOR UPDATE")
  await tokenState.purgeExpired()
  t.same(await postgres.query('SELECT jti FROM revocations', [], url), [{ jti: 'old-7' }])
  await holder.query('COMMIT')
  await tokenState.purgeExpired()
  t.same(await postgres.query('SELECT jti FROM revocations', [], url), [])
})

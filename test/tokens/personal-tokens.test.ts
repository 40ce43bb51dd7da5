// Checks what each instance knows of access tokens, and how it learns of changes.
import t from 'tap'
import { createPersonalTokenStore } from '../../gateway/store/personal-tokens.ts'
import { createTokenState } from '../../gateway/store/token-state.ts'
import { createPersonalTokens, hashPersonalToken, type OwnerNews } from '../../gateway/tokens/personal-tokens.ts'
import { startRevocationFeed } from '../../gateway/tokens/revocation-feed.ts'
import { createRevocations } from '../../gateway/tokens/revocations.ts'
import { only } from '../support/only.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'
import { fc } from '../support/worlds.ts'

/** Only what the test asks for is read. */
const HOUR_MS = 3_600_000

const textOf = (index: number) => `pt_${String(index).padStart(43, '0')}`

const rowOf = (index: number) => ({
  id: index,
  hash: hashPersonalToken(textOf(index)),
  profiles: index % 2 === 0 ? ['Agente'] : ['Agente', 'Admin'],
  version: 0,
  createdAt: 1.5,
  expiresAt: 1000.25 + index
})

const postgres = await startPostgres(t)
const { database, users, url } = await openStore(t, postgres)
const store = createPersonalTokenStore(database)
const ask = (statement: string) => postgres.query(statement, [], url)

t.test('whatever is learnt, used, ended and purged, a token passes while it and its owner are in order', async () => {
  const { user } = await users.syncPerson(person('any'))
  const ownerOf = (id: number) => ({ user: { ...user, id }, version: 1, disabled: false, confirmedAt: 0 })
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ add: fc.nat(200) }) },
    { weight: 2, arbitrary: fc.record({ end: fc.nat(200) }) },
    { weight: 1, arbitrary: fc.record({ owner: fc.nat(6), disabled: fc.boolean(), lowestAccepted: fc.nat(1) }) },
    { weight: 1, arbitrary: fc.record({ passMs: fc.nat(40_000) }) },
    { weight: 1, arbitrary: fc.constant({ purge: true }) }
  )
  const property = fc.property(fc.array(step, { maxLength: 300, size: 'max' }), steps => {
    let nowMs = 1_000_000
    const revocations = createRevocations(() => nowMs)
    const tokens = createPersonalTokens({ revocations, confirmMs: 1e12, now: () => nowMs })
    const owners = Array.from({ length: 7 }, () => ({ disabled: false, lowestAccepted: 0 }))
    const created = new Set<number>()
    const ended = new Set<number>()
    const passes = (index: number) =>
      created.has(index) &&
      !ended.has(index) &&
      rowOf(index).expiresAt * 1000 > nowMs &&
      owners[index % 7]?.disabled === false &&
      owners[index % 7]?.lowestAccepted === 0
    const learn = (id: number, rows: ReturnType<typeof rowOf>[]) =>
      tokens.learn([{ owner: { ...ownerOf(id), disabled: false, lowestAccepted: 0, ...owners[id] }, tokens: rows }])
    for (const what of steps) {
      if ('add' in what) {
        if (rowOf(what.add).expiresAt * 1000 <= nowMs || ended.has(what.add)) continue
        learn(what.add % 7, [rowOf(what.add)])
        created.add(what.add)
      } else if ('end' in what) {
        revocations.learn({ tokens: [{ jti: `pt_${what.end}`, expiresAt: 1e9 }] })
        ended.add(what.end)
      } else if ('owner' in what) {
        // As in the database, what a person's tokens must at least be never becomes lower.
        const before = owners[what.owner]?.lowestAccepted ?? 0
        const after = { disabled: what.disabled, lowestAccepted: Math.max(before, what.lowestAccepted) }
        owners[what.owner] = after
        learn(what.owner, [])
      } else if ('passMs' in what) nowMs += what.passMs
      else tokens.purge(nowMs / 1000)
      for (let index = 0; index <= 200; index += 9)
        if ('user' in tokens.check(textOf(index)) !== passes(index)) return false
    }
    return true
  })
  fc.assert(property, { numRuns: 15 })
})

t.test('a token whose owner’s access is known to have changed for a second is refused until it is read', async t => {
  const { user } = await users.syncPerson(person('demoted'))
  let nowMs = 1_000_000
  const revocations = createRevocations(() => nowMs)
  const tokens = createPersonalTokens({ revocations, confirmMs: 60_000, now: () => nowMs })
  const owner = { user, version: 1, lowestAccepted: 0, disabled: false, confirmedAt: 1000 }
  tokens.learn([{ owner, tokens: [rowOf(200)] }])
  const state = () => {
    const result = tokens.check(textOf(200))
    return 'user' in result ? 'passes' : `${result.statusCode} ${result.reason}`
  }
  revocations.learn({ versions: [{ userId: user.id, version: 2, lowestAccepted: 0 }] })
  nowMs += 1000
  t.equal(state(), 'passes')
  nowMs += 1
  t.equal(state(), '503 revocations-too-old')
  tokens.learn([{ owner: { ...owner, version: 2 }, tokens: [] }])
  t.equal(state(), 'passes')
  t.equal(tokens.isUnconfirmed(user.id), false)
  nowMs += 60_000
  t.same([state(), tokens.isUnconfirmed(user.id)], ['401 owner-unconfirmed', true])
})

t.test('all live tokens are read, with owners as the database knows them', async t => {
  const owners = await Promise.all(['ana', 'carlos', 'maria'].map(name => users.syncPerson(person(name))))
  const [ana, carlos] = owners.map(({ user }) => user.id)
  await ask(`INSERT INTO areas (name) VALUES ('Norte'), ('alfa'), ('Beta')`)
  await ask(`INSERT INTO user_profiles SELECT ${ana}, id FROM profiles WHERE name IN ('Agente', 'Supervisor')`)
  await ask(`INSERT INTO granted_profiles SELECT ${ana}, id FROM profiles WHERE name IN ('Agente', 'Admin')`)
  await ask(`INSERT INTO user_areas SELECT ${ana}, id FROM areas WHERE name IN ('Norte', 'Beta')`)
  await ask(`INSERT INTO granted_access SELECT ${ana}, '', id FROM areas WHERE name = 'alfa'`)
  await ask(`INSERT INTO granted_areas SELECT ${ana}, id FROM areas WHERE name = 'alfa'`)
  await ask(`INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
    SELECT CASE i % 2 WHEN 0 THEN ${ana} ELSE ${carlos} END, encode(sha256(('pt_' || lpad(i::text, 43, '0'))::bytea), 'hex'),
      'x', CASE WHEN i % 5 = 0 THEN ARRAY['Admin'] ELSE ARRAY['Agente', 'Admin'] END, 0,
      now() + CASE WHEN i = 9000 THEN interval '-1 day' ELSE interval '1 day' END FROM generate_series(1, 9001) i`)
  const tokens = createPersonalTokens({ revocations: createRevocations(), confirmMs: 1e9 })
  const seen: OwnerNews['owner'][] = []
  await store.readLive(undefined, news => {
    seen.push(...news.map(({ owner }) => owner))
    tokens.learn(news)
  })
  t.equal(tokens.size(), 9000)
  const names = seen.map(({ user }) => user.username).toSorted()
  t.same(names, ['ana', 'carlos'], 'each once, and only those who have a token')
  const known = await users.loadPerson(ana ?? 0)
  const read = seen.find(({ user }) => user.id === ana)
  t.strictSame(read?.user, known?.user, 'the very access that a login of theirs would have')
  for (const index of [1, 2, 3999, 4000, 4001, 8000, 8999, 9001])
    t.match(tokens.check(textOf(index)), { kind: 'personal', user: { id: index % 2 === 0 ? ana : carlos } })
  t.match(tokens.check(textOf(4000)), { user: { profiles: only('Admin') } })
  t.match(tokens.check(textOf(4002)), { user: { profiles: only('Admin', 'Agente') } })
  t.match(tokens.check(textOf(9000)), { code: 'GW_UNAUTHENTICATED' })
  t.match(tokens.check(textOf(9002)), { code: 'GW_UNAUTHENTICATED' })
})

t.test('later only what has changed is read', async t => {
  const [now] = await ask('SELECT pg_current_snapshot()::text AS cursor')
  const cursor = String(now?.cursor)
  await users.syncPerson(person('maria', { name: 'Maria, married' }))
  await ask(`INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
    SELECT id, repeat('0', 64), 'x', '{}', 0, now() + interval '1 day' FROM users WHERE username = 'maria'`)
  await ask(
    `INSERT INTO users (id, provider, username, name) VALUES (1000000, 'ldap', 'zoe', 'Zoé, far from the others')`
  )
  await ask(`INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
    VALUES (1000000, repeat('1', 64), 'x', '{}', 0, now() + interval '1 day')`)
  const tokensOf = new Map<string, number>()
  await store.readLive(cursor, news => {
    for (const { owner, tokens } of news) tokensOf.set(owner.user.name, tokens.length)
  })
  t.equal(tokensOf.get('Maria, married'), 1)
  t.equal(tokensOf.get('Zoé, far from the others'), 1)
  await ask("UPDATE users SET last_login_at = now() - interval '1 hour', created_at = now() - interval '1 hour'")
  // Every transaction holds the cursor back, those of the server itself too.
  await until(async () => {
    const [later] = await ask('SELECT pg_current_snapshot()::text AS cursor')
    const read: unknown[] = []
    await store.readLive(String(later?.cursor), news => void read.push(...news))
    return read.length === 0
  }, 'nothing has changed since')
})

// RW-67
t.test('a login during an outage of the database here confirms its owner once the outage is over', async t => {
  const { user } = await users.syncPerson(person('olga'))
  await ask(`INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
    VALUES (${user.id}, repeat('2', 64), 'x', '{}', 0, now() + interval '1 day')`)
  const { loadRevocations, changesSince } = createTokenState(database)
  const confirmed: string[] = []
  const feed = await startRevocationFeed({
    source: {
      // What could be read last is two minutes old.
      loadRevocations: async () => ({ ...(await loadRevocations()), at: Date.now() - 120_000 }),
      changesSince,
      readLiveTokens: store.readLive,
      restore: async () => undefined,
      purgeExpired: async () => undefined,
      listen: () => ({ close: async () => undefined })
    },
    revocations: createRevocations(),
    personalTokens: {
      ...createPersonalTokens({ revocations: createRevocations(), confirmMs: 1e9 }),
      learn: news => confirmed.push(...news.map(({ owner }) => owner.user.username))
    },
    log: quiet,
    pollMs: HOUR_MS
  })
  t.teardown(() => feed.close())
  confirmed.length = 0
  await ask(`UPDATE users SET last_login_at = now() - interval '1 minute' WHERE id = ${user.id}`)
  await feed.catchUp()
  t.ok(confirmed.includes('olga'))
})

t.test('what is revoked under a number of a transaction that a crash of Postgres has lost is known here', async t => {
  const { user } = await users.syncPerson(person('nina'))
  const revocations = createRevocations()
  const learned: string[] = []
  let onLost = () => {}
  const feed = await startRevocationFeed({
    source: {
      ...createTokenState(database),
      readLiveTokens: store.readLive,
      listen(on) {
        onLost = on.onLost
        return { close: async () => undefined }
      }
    },
    revocations,
    personalTokens: {
      ...createPersonalTokens({ revocations, confirmMs: 1e9 }),
      learn: news => learned.push(...news.map(({ owner }) => owner.user.username))
    },
    log: quiet,
    pollMs: HOUR_MS
  })
  t.teardown(() => feed.close())
  // Nobody waited until it was written; the read after it takes it for ended.
  const [lost] = await ask('SELECT pg_current_xact_id()::text AS id')
  await feed.catchUp()
  learned.length = 0
  await ask(
    `INSERT INTO revocations (jti, expires_at, revoked_in) VALUES ('again', now() + interval '1 hour', '${lost?.id}')`
  )
  await ask(`UPDATE users SET access_version = 1, version_changed_in = '${lost?.id}' WHERE id = ${user.id}`)
  await ask(`INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at, changed_in)
    VALUES (${user.id}, repeat('3', 64), 'x', '{}', 0, now() + interval '1 day', '${lost?.id}')`)
  onLost()
  await feed.catchUp()
  t.equal(revocations.isRevoked('again'), true)
  t.not(revocations.changedSince(user.id, 0), undefined)
  t.ok(learned.includes('nina'))
  await ask("DELETE FROM revocations WHERE jti = 'again'")
})

// RW-50
t.test('a login that has ended makes no access token, even on an instance that has not heard of the end', async t => {
  const { user, version } = await users.syncPerson(person('rita'))
  const actor = { id: user.id, username: user.username }
  const wish = { name: 'x', profiles: [], expiresAt: new Date(Date.now() + 86_400_000).toISOString() }
  const make = (tokenId: string, ver: number) => store.create(actor, { user, tokenId, version: ver }, wish)
  const revoked = { code: 'GW_TOKEN_REVOKED' }
  t.match(await make('one', version), { token: /^pt_/ })
  await createTokenState(database).revokeToken('one', Date.now() / 1000 + 1000)
  await t.rejects(make('one', version), revoked, 'logged out')
  await users.revokePerson(actor, user.id)
  await t.rejects(make('two', version), revoked, 'all tokens of the person ended')
  t.match(await make('three', version + 1), { token: /^pt_/ })
  await users.disablePerson(actor, user.id)
  await users.enablePerson(actor, user.id)
  await t.rejects(make('three', version + 1), revoked, 'disabled and enabled again')
  t.equal((await store.list({}, user.id)).total, 0, 'none is left')
})

t.test('of wishes for one more access token that arrive at once, one is granted', async t => {
  const { user, version } = await users.syncPerson(person('nuno'))
  await ask(`INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
    SELECT ${user.id}, 'nuno ' || i, 'x', '{}', ${version}, now() + '1 day' FROM generate_series(1, 99) i`)
  const wish = { name: 'x', profiles: [], expiresAt: new Date(Date.now() + 86_400_000).toISOString() }
  const actor = { id: user.id, username: user.username }
  const making = Array.from({ length: 5 }, () => store.create(actor, { user, tokenId: 'five', version }, wish))
  const outcomes = await Promise.allSettled(making)
  t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
  t.equal((await store.list({}, user.id)).total, 100)
})

t.test('a login whose person was lost by a fail-over makes no access token of who has the id now', async t => {
  const { user, version } = await users.syncPerson(person('vera'))
  const wish = { name: 'x', profiles: [], expiresAt: new Date(Date.now() + 86_400_000).toISOString() }
  for (const other of [{ username: 'lost' }, { provider: 'cloudidp' } as const]) {
    const lost = { ...user, ...other }
    const making = store.create(
      { id: lost.id, username: lost.username },
      { user: lost, tokenId: 'four', version },
      wish
    )
    await t.rejects(making, { code: 'GW_TOKEN_REVOKED' })
  }
})

t.test('owners are read in parts, each with all their tokens', async t => {
  await ask(`INSERT INTO users (id, provider, username, name)
    SELECT 2000000 + i, 'ldap', 'many-' || i, 'Many' FROM generate_series(1, 2500) i`)
  await ask(`INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
    SELECT 2000001 + i / 2, 'many ' || i, 'x', '{}', 0, now() + interval '1 day' FROM generate_series(0, 4999) i`)
  const parts: number[] = []
  const found = new Map<number, number>()
  await store.readLive(undefined, news => {
    parts.push(news.length)
    for (const { owner, tokens } of news) found.set(owner.user.id, tokens.length)
  })
  t.ok(parts.length > 2 && Math.max(...parts) <= 1000)
  const wrong = Array.from({ length: 2500 }, (_, i) => found.get(2_000_001 + i)).filter(count => count !== 2)
  t.same(wrong, [])
})

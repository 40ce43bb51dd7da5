import { hash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { createPersonalTokenStore } from '../../gateway/store/personal-tokens.ts'
import { createTokenState } from '../../gateway/store/token-state.ts'
import type { TokenOwner } from '../../gateway/tokens/owner-table.ts'
import { createPersonalTokens } from '../../gateway/tokens/personal-tokens.ts'
import { startRevocationFeed } from '../../gateway/tokens/revocation-feed.ts'
import { createRevocations } from '../../gateway/tokens/revocations.ts'
import { createTokenTable } from '../../gateway/tokens/token-table.ts'
import { only } from '../support/only.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { openStore, person } from '../support/store.ts'

const textOf = (index: number) => `pt_${String(index).padStart(43, '0')}`
const hashOf = (index: number) => hash('sha256', textOf(index), 'buffer')

const rowOf = (index: number) => ({
  id: index,
  userId: 1 + (index % 7),
  hashes: hashOf(index),
  hashAt: 0,
  profiles: index % 2 === 0 ? ['Agente'] : ['Agente', 'Admin'],
  version: index % 3,
  createdAt: 1.5,
  expiresAt: 1000.25 + index
})

const postgres = await startPostgres(t)
const { database, users, url } = await openStore(t, postgres)
const store = createPersonalTokenStore(database)
const ask = (statement: string) => postgres.query(statement, [], url)

t.test('the table of tokens answers as a map would, whatever is added, found and forgotten', async t => {
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ add: fc.nat(600) }) },
    { weight: 2, arbitrary: fc.record({ find: fc.nat(600) }) },
    { weight: 1, arbitrary: fc.record({ forget: fc.integer({ min: 2, max: 5 }) }) }
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 900, size: 'max' }), steps => {
      const table = createTokenTable()
      const model = new Map<number, number>()
      for (const what of steps) {
        if ('add' in what) {
          table.add(rowOf(what.add))
          if (!model.has(what.add)) model.set(what.add, 0)
          table.markUsed(table.find(hashOf(what.add)), what.add)
        } else if ('forget' in what) {
          table.retain(({ id }) => id % what.forget !== 0)
          for (const id of model.keys()) if (id % what.forget === 0) model.delete(id)
        } else t.equal(table.find(hashOf(what.find)) !== -1, model.has(what.find))
      }
      t.equal(table.size(), model.size)
      for (const id of model.keys()) {
        const { hashes: _, hashAt: __, ...kept } = rowOf(id)
        t.strictSame(table.at(table.find(hashOf(id))), kept)
        t.equal(table.usedMinute(table.find(hashOf(id))), id)
      }
    }),
    { numRuns: 15 }
  )
})

t.test('all live tokens are read in parts, with owners as the database knows them', async t => {
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
  const seen: TokenOwner[] = []
  let parts = 0
  await store.readLive(undefined, news => {
    parts++
    seen.push(...news.owners)
    tokens.learn(news)
  })
  t.ok(parts > 2)
  t.equal(tokens.size(), 9000)
  t.same(
    seen.map(({ user }) => user.username).toSorted(),
    ['ana', 'carlos'],
    'each once, and only those who have a token'
  )
  const known = await users.loadPerson(ana ?? 0)
  const read = seen.find(({ user }) => user.id === ana)
  t.strictSame(read?.user, known?.user, 'the very access that a login of theirs would have')
  for (const index of [1, 2, 3999, 4000, 4001, 8000, 8999, 9001])
    t.match(tokens.judge(textOf(index)), { kind: 'personal', user: { id: index % 2 === 0 ? ana : carlos } })
  t.match(tokens.judge(textOf(4000)), { user: { profiles: only('Admin') } })
  t.match(tokens.judge(textOf(4002)), { user: { profiles: only('Admin', 'Agente') } })
  t.match(tokens.judge(textOf(9000)), { code: 'GW_UNAUTHENTICATED' })
  t.match(tokens.judge(textOf(9002)), { code: 'GW_UNAUTHENTICATED' })
})

t.test('later only what has changed is read', async t => {
  const [now] = await ask('SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS cursor')
  const cursor = String(now?.cursor)
  await users.syncPerson(person('maria', { name: 'Maria, married' }))
  await ask(`INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
    SELECT id, repeat('0', 64), 'x', '{}', 0, now() + interval '1 day' FROM users WHERE username = 'maria'`)
  await ask(
    `INSERT INTO users (id, provider, username, name) VALUES (1000000, 'ldap', 'zoe', 'Zoé, far from the others')`
  )
  await ask(`INSERT INTO personal_tokens (user_id, hash, name, profiles, version, expires_at)
    VALUES (1000000, repeat('1', 64), 'x', '{}', 0, now() + interval '1 day')`)
  const names: string[] = []
  let count = 0
  await store.readLive(cursor, news => {
    count += news.personalTokens.length
    names.push(...news.owners.map(({ user }) => user.name))
  })
  t.equal(count, 2)
  t.ok(names.includes('Maria, married'))
  t.ok(names.includes('Zoé, far from the others'), 'whatever the distance between their ids')
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
      purgeExpired: async () => undefined,
      listen: () => ({ close: async () => undefined })
    },
    revocations: createRevocations(),
    personalTokens: {
      ...createPersonalTokens({ revocations: createRevocations(), confirmMs: 1e9 }),
      learn: ({ owners }) => confirmed.push(...owners.map(owner => owner.user.username))
    },
    log: quiet
  })
  t.teardown(() => feed.close())
  confirmed.length = 0
  await ask(`UPDATE users SET last_login_at = now() - interval '1 minute' WHERE id = ${user.id}`)
  await feed.catchUp()
  t.ok(confirmed.includes('olga'))
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

t.test('what is over is forgotten', async t => {
  let nowMs = 2_000_000
  const revocations = createRevocations(() => nowMs)
  const tokens = createPersonalTokens({ revocations, confirmMs: 1e12, now: () => nowMs })
  const user = { ...(await users.syncPerson(person('ana'))).user, id: 1 }
  const owner = { user, version: 0, lowestAccepted: 0, disabled: false, confirmedAt: 0 }
  const owners = [owner, { ...owner, user: { ...user, id: 2 }, lowestAccepted: 1 }]
  const token = { ...rowOf(7), userId: 1, version: 0, expiresAt: 5000 }
  const row = (id: number, more: object = {}) => ({ ...token, id, hashes: hashOf(id), ...more })
  tokens.learn({ owners, personalTokens: [row(1), row(2, { expiresAt: 2500 }), row(3, { userId: 2 }), row(4)] })
  t.match(tokens.judge(textOf(1)), { tokenId: 'pt_1' })
  t.same(tokens.usedSince(33), [{ personalToken: 1, usedAt: 33 * 60_000 }])
  revocations.learn({ tokens: [{ jti: 'pt_4', expiresAt: 9000 }] })
  t.match(tokens.judge(textOf(4)), { code: 'GW_TOKEN_REVOKED' })
  t.match(tokens.judge(textOf(3)), { code: 'GW_TOKEN_REVOKED' })
  nowMs = 3_000_000
  t.match(tokens.judge(textOf(2)), { code: 'GW_TOKEN_EXPIRED' })
  tokens.purge()
  t.equal(tokens.size(), 1)
  t.notOk(tokens.isOwner(2))
  t.match(tokens.judge(textOf(1)), { tokenId: 'pt_1' })
  t.match(tokens.judge(textOf(2)), { code: 'GW_UNAUTHENTICATED' })
  t.same(tokens.usedSince(33), [{ personalToken: 1, usedAt: 50 * 60_000 }], 'what was used is still known')
})

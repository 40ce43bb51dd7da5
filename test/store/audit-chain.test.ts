// The audit log only grows, tells who did what, and its keyed chain shows when somebody touched it. AD-08
import { createHmac } from 'node:crypto'
import t, { type Test } from 'tap'
import { createAuditWatch } from '../../gateway/observe/audit-watch.ts'
import { contentHash, linkHash, macOf, nextRows } from '../../gateway/store/audit-chain.ts'
import { appendAudit, keyAuditLog, keysOf, startAuditKey } from '../../gateway/store/audit-entry.ts'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import type { Database } from '../../gateway/store/database.ts'
import { erasePerson } from '../../gateway/store/erase-person.ts'
import { query } from '../../gateway/store/query.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { sealingSecret } from '../../gateway/tokens/sealed-keys.ts'
import { startPostgres } from '../support/postgres.ts'
import { keepingLog, quiet } from '../support/quiet.ts'
import { openBare, openStore, PATIENT, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const actor = { id: 1, username: 'maria', requestId: 'r-1', ip: '127.0.0.1' }
const SECRET = 'the secret that the gateways have'

/** Another process with these secrets; `creates`: a gateway that makes the key if none opens. */
const openWith = async (t: Test, url: string, secrets: readonly string[], creates = false) => {
  const database = await openBare(t, url, { deadlines: PATIENT })
  await keyAuditLog(database, { secrets: secrets.map(sealingSecret), creates })
  return { database, audit: createAuditLog(database) }
}

/** Three entries of the release before, then three that are keyed. */
const startKeyed = async (t: Test) => {
  const { url, ask, force, audit: old } = await openStore(t, postgres, undefined, false)
  for (let n = 0; n < 3; n++) await old.append({ actor, action: 'old', details: { n } })
  const { database, audit } = await openWith(t, url, [SECRET], true)
  for (let n = 0; n < 3; n++) await audit.append({ actor, action: 'new', details: { n } })
  return { url, ask, force, database, audit, old }
}

type Keyed = Awaited<ReturnType<typeof startKeyed>>

/** An entry of the release before, which knows no key. */
const appendAsBefore = ({ ask }: Pick<Keyed, 'ask'>) => {
  const of = { at: new Date(), actorId: 1, actorUsername: 'ana', action: 'old', target: '', requestId: '', ip: '' }
  const hash = contentHash({ ...of, before: null, after: null, details: null })
  return ask(
    `INSERT INTO audit_events (at, actor_id, actor_username, action, target, request_id, ip, content_hash)
     VALUES ($1, 1, 'ana', 'old', '', '', '', $2)`,
    [of.at, hash]
  )
}

/** What anyone with the database role can do: change an entry, and link it and all after it as the release before did. */
const relink = async ({ force, database }: Pick<Keyed, 'force' | 'database'>, changed: number, keepsKey: boolean) => {
  const rows = await database.read(manager => nextRows(manager, changed - 1, 1_000))
  const statements: string[] = []
  let previous = rows[0]?.previousHash ?? ''
  for (const row of rows) {
    const ip = row.id === changed ? '9.9.9.9' : row.ip
    const content = contentHash({ ...row, ip })
    const hash = linkHash(previous, content)
    statements.push(`UPDATE audit_events SET ip = '${ip}', content_hash = '${content}', previous_hash = '${previous}',
      hash = '${hash}', key_id = ${keepsKey ? 'key_id' : 'NULL'} WHERE id = ${row.id}`)
    previous = hash
  }
  statements.push(`UPDATE audit_head SET last_hash = '${previous}'`)
  await force(statements.join(';'))
}

const checkAll = async ({ audit }: Pick<Keyed, 'audit'>) => {
  for (;;) {
    const step = await audit.check(1_000)
    if (step?.isDone === true) return step
  }
}

// RV-80
t.test('entries that were changed and linked again without the key are found, also those from before it', async t => {
  // Of those from before it, the last one is anchored in it.
  for (const [changed, firstBroken] of [
    [5, 5],
    [2, 3]
  ] as const) {
    const world = await startKeyed(t)
    t.same(await world.audit.verify(), { ok: true, entries: 6 })
    await relink(world, changed, true)
    t.match(await world.audit.verify(), { ok: false, firstBroken })
    t.match((await checkAll(world)).checkpoint, { firstBroken })
  }
})

// RV-80
t.test('entries that pretend to be of the release before are found, and once checked their change is one', async t => {
  const world = await startKeyed(t)
  await relink(world, 6, false)
  t.same(await world.audit.verify(), { ok: true, entries: 6, unkeyed: 1 })
  const checked = await startKeyed(t)
  t.match(await checkAll(checked), { checkpoint: { verified: 6, firstBroken: null } })
  await relink(checked, 6, false)
  t.match(await checked.audit.verify(), { ok: false, firstBroken: 6 })
  t.match((await checkAll(checked)).checkpoint, { firstBroken: 6 })
})

t.test('a log that exists stays whole: a hash is the HMAC of the one before it and of the content', async t => {
  const { database, audit } = await openStore(t, postgres)
  for (let n = 0; n < 2; n++) await audit.append({ actor, action: 'x' })
  await database.read(async manager => {
    const [key] = keysOf(manager)
    const rows = await nextRows(manager, 0, 10)
    t.match(rows, [{ previousHash: '0'.repeat(64) }, { previousHash: rows[0]?.hash }])
    for (const { previousHash, contentHash: content, hash } of rows) {
      const linked = createHmac('sha256', key?.secret ?? '').update(previousHash + content)
      t.equal(linked.digest('hex'), hash)
    }
  })
})

/** What anyone with the database role can do: change an entry, and name a key that does not exist; its hash stays. */
const disown = ({ force }: Pick<Keyed, 'force'>, id: number) =>
  force(`UPDATE audit_events SET action = 'forged', key_id = 'x' WHERE id = ${id}`)

t.test('an entry that is changed after it was checked, and then names an unknown key, is found', async t => {
  for (const id of [2, 5]) {
    const world = await startKeyed(t)
    await checkAll(world)
    await disown(world, id)
    t.match(await world.audit.verify(), { ok: false, firstBroken: id })
    for (let round = 0; round < 2; round++) t.match((await checkAll(world)).checkpoint, { firstBroken: id })
  }
})

t.test('entries whose key is lost are no fault once counted, whatever keys instances know; one more is', async t => {
  const world = await startKeyed(t)
  const { url } = world
  const isWhole = async (...checking: Pick<Keyed, 'audit'>[]) => {
    for (const world of [...checking, ...checking]) {
      t.match((await checkAll(world)).checkpoint, { firstBroken: null })
      t.match(await world.audit.verify(), { ok: true })
    }
  }
  const replaced = await openWith(t, url, ['a new secret'], true)
  await replaced.audit.append({ actor, action: 'new' })
  await isWhole(replaced)
  const late = await openWith(t, url, [SECRET])
  await late.audit.append({ actor, action: 'new' })
  await replaced.audit.append({ actor, action: 'new' })
  await isWhole(replaced)
  await isWhole(late, replaced)
  const both = await openWith(t, url, ['a new secret', SECRET])
  await isWhole(both, replaced, late)
  await isWhole(replaced)
  await disown(world, 9)
  t.match(await replaced.audit.verify(), { ok: false, firstBroken: 9 })
  t.match((await checkAll(replaced)).checkpoint, { firstBroken: 9 })
})

t.test('a rotation of the secret and an erasure change nothing about what was checked', async t => {
  const world = await startKeyed(t)
  const { url, database, audit } = world
  const { user } = await createUsers(database).syncPerson(person('ana'))
  await audit.append({ actor: { id: user.id, username: user.username, ip: '192.0.2.1' }, action: 'login' })
  await checkAll(world)
  const rotated = await openWith(t, url, ['another secret', SECRET])
  await erasePerson(database, actor, user.id, user.username)
  for (const each of [rotated, world, rotated]) {
    t.match((await checkAll(each)).checkpoint, { firstBroken: null, unknown: 0 })
    t.match(await each.audit.verify(), { ok: true })
  }
})

t.test('after an upgrade entries with unknown keys are counted by the next pass over everything', async t => {
  const world = await startKeyed(t)
  const { database, audit } = world
  await checkAll(world)
  await database.write(async manager => {
    const [key] = keysOf(manager)
    const [row] = await query<{ body: string }>(manager, 'SELECT body FROM audit_check')
    const { keys, unknown, sweptUnknown, ...earlier } = JSON.parse(row?.body ?? '')
    const body = JSON.stringify({ ...earlier, swept: 4 })
    await query(manager, 'UPDATE audit_check SET body = $1, mac = $2', [body, key && macOf(key, `checkpoint ${body}`)])
    t.same([keys, unknown, sweptUnknown], [key?.id, 0, 0])
  })
  t.match(await audit.verify(), { ok: true })
  t.match(await audit.check(0), { checkpoint: { verified: 6, firstBroken: null, unknown: null } })
  t.match((await checkAll(world)).checkpoint, { firstBroken: null, unknown: 0 })
  await disown(world, 1)
  t.match(await audit.verify(), { ok: false, firstBroken: 1 })
})

t.test('entries that are written and checked while another process verifies are no fault', async t => {
  const { url, database } = await startKeyed(t)
  const other = await openWith(t, url, [SECRET])
  const meddling: Database = {
    ...database,
    read: work =>
      database.read(manager => {
        const query = async (text: string, values?: unknown[]) => {
          await other.audit.append({ actor, action: 'meanwhile' })
          await checkAll(other)
          return manager.query(text, values)
        }
        return work(
          new Proxy(manager, { get: (target, name) => (name === 'query' ? query : Reflect.get(target, name)) })
        )
      })
  }
  t.match(await createAuditLog(meddling).verify(), { ok: true })
})

t.test('entries that the release before writes during an upgrade are part of the chain, and counted', async t => {
  const world = await startKeyed(t)
  const { audit } = world
  await appendAsBefore(world)
  await audit.append({ actor, action: 'new' })
  t.same(await audit.verify(), { ok: true, entries: 8, unkeyed: 1 })
  t.match(await checkAll(world), { unkeyed: 1, checkpoint: { verified: 8, firstBroken: null } })
  t.same(await audit.verify(), { ok: true, entries: 8 }, 'a gateway has seen and logged them')
  await audit.append({ actor, action: 'new' })
  t.match(await checkAll(world), { unkeyed: 0 })
})

t.test('entries that number themselves are refused unless each follows the one before, the first the head', async t => {
  const { url, audit } = await startKeyed(t)
  const [head] = await postgres.query('SELECT last_hash FROM audit_head', [], url)
  const last = String(head?.last_hash)
  const insert = (rows: readonly (readonly [id: number | null, previous: string, hash: string])[]) => {
    const [ids, previous, hashes] = [rows.map(([id]) => id), rows.map(row => row[1]), rows.map(row => row[2])]
    return postgres.query(
      `INSERT INTO audit_events (id, at, actor_username, action, target, request_id, ip, content_hash, key_id, previous_hash, hash)
       SELECT id, now(), 'ana', 'new', '', '', '', 'c', 'k', previous, hash
       FROM unnest($1::bigint[], $2::text[], $3::text[]) AS rows (id, previous, hash)`,
      [ids, previous, hashes],
      url
    )
  }
  const first = [7, last, 'x'] as const
  for (const [title, ...rows] of [
    ['a gap', [8, last, 'x']],
    ['a gap between two', first, [9, 'x', 'y']],
    ['a number that is taken', [6, last, 'x']],
    ['another entry before it', [7, 'other', 'x']],
    ['another entry between two', first, [8, 'other', 'y']],
    ['not numbered, after another entry', [null, 'other', 'x']]
  ] as const)
    await t.rejects(insert(rows), { code: title === 'a number that is taken' ? '23505' : '40001' }, title)
  t.same(await audit.verify(), { ok: true, entries: 6 })
  await insert([first, [8, 'x', 'y']])
  await insert([[null, 'y', 'z']])
  t.match(await postgres.query('SELECT entries, last_hash FROM audit_head', [], url), [
    { entries: '9', last_hash: 'z' }
  ])
})

t.test('a backup from before the key, restored under a running gateway, breaks nothing: a new key is made', async t => {
  const { url, force, database, audit } = await startKeyed(t)
  await force(`DELETE FROM audit_events WHERE id > 2; DELETE FROM audit_keys; DELETE FROM audit_check;
    UPDATE audit_head SET entries = 2, last_hash = (SELECT hash FROM audit_events WHERE id = 2)`)
  await audit.append({ actor, action: 'before the gateway has noticed' })
  await keyAuditLog(database, { secrets: [sealingSecret(SECRET)], creates: false, records: true })
  for (let n = 0; n < 3; n++) await audit.append({ actor, action: 'new' })
  const whole = { ok: true, entries: 7, uncheckable: 1 }
  t.same(await audit.verify(), whole)
  t.same(await (await openWith(t, url, [SECRET])).audit.verify(), whole)
  t.match(await audit.list({ action: 'audit.key' }), { total: 1 })
})

t.test('entries without the key are logged also if another process goes on with the round that found them', async t => {
  const world = await startKeyed(t)
  const { database } = world
  await checkAll(world)
  await appendAsBefore(world)
  const { log, said } = keepingLog()
  let rounds = 0
  const audit = createAuditLog(database)
  const check: typeof audit.check = async (...asked) => {
    const step = rounds++ === 0 ? await audit.check(...asked) : undefined
    return step && { ...step, isDone: false }
  }
  const watch = createAuditWatch({ check, checked: audit.checked }, log, { lookMs: 20, pauseMs: 1 })
  t.teardown(watch.close)
  await until(() => said.length > 0)
  t.match(said, [{ reason: 'audit-unkeyed', unkeyed: 1 }])
})

// RV-80
t.test('a running watch remembers: fewer entries than it has checked, or others, are broken', async t => {
  const EMPTY = `TRUNCATE audit_events; DELETE FROM audit_keys; DELETE FROM audit_check;
    UPDATE audit_head SET entries = 0, last_hash = repeat('0', 64)`
  for (const [title, forge] of [
    ['emptied', ({ force }: Keyed) => force(EMPTY)],
    [
      're-linked, and what was checked removed',
      async (world: Keyed) => {
        await relink(world, 4, false)
        await world.ask('DELETE FROM audit_check; DELETE FROM audit_keys')
      }
    ]
  ] as const) {
    const world = await startKeyed(t)
    const { log, said } = keepingLog()
    const watch = createAuditWatch(world.audit, log, { lookMs: 20 })
    t.teardown(watch.close)
    await until(() => watch.last().state === 'ok')
    await forge(world)
    await until(() => watch.last().state === 'broken', title)
    t.ok(Number(watch.last().firstBroken) <= 6, title)
    t.match(said, [{ reason: 'audit-broken', firstBroken: Number }])
  }
})

t.test('the entry about a new key comes with it, however its gateway ends, or its transaction repeats', async t => {
  const { url, audit } = await openStore(t, postgres, undefined, false)
  const database = await openBare(t, url, { deadlines: PATIENT })
  let writes = 0
  const write: Database['write'] = async work => {
    writes++
    if (writes > 1) throw new Error('the process has ended')
    await t.rejects(
      database.write(async manager => {
        await work(manager)
        throw new Error('rolled back')
      })
    )
    return database.write(work)
  }
  const secrets = [sealingSecret(SECRET)]
  const { close } = await startAuditKey({ ...database, write }, secrets, quiet).catch(() => ({ close() {} }))
  t.teardown(close)
  t.match(await audit.list(), { total: 1, items: [{ action: 'audit.key' }] })
  t.same(await (await openWith(t, url, [SECRET])).audit.verify(), { ok: true, entries: 1 })
})

t.test('the key is found under a new secret while the old one is known; no other secret replaces it', async t => {
  const { url, audit } = await startKeyed(t)
  const rotated = await openWith(t, url, ['another secret', SECRET])
  await rotated.audit.append({ actor, action: 'new' })
  const later = await openWith(t, url, ['another secret'])
  await later.audit.append({ actor, action: 'new' })
  t.same(await later.audit.verify(), { ok: true, entries: 8 })
  t.same(await audit.verify(), { ok: true, entries: 8 })
  const stranger = await openWith(t, url, ['a secret of nobody'])
  await t.rejects(stranger.audit.append({ actor, action: 'new' }), { name: 'AuditKeyMissing' })
  await t.rejects(stranger.audit.verify(), { name: 'AuditKeyMissing' })
  t.same(await audit.verify(), { ok: true, entries: 8 }, 'nothing was written')
})

t.test('a start with another JWT_SECRET than the gateways of this database have is warned of', async t => {
  const { ask, database } = await startKeyed(t)
  const warnings = async (...secrets: string[]) => {
    const { log, said } = keepingLog()
    const { close } = await startAuditKey(database, secrets.map(sealingSecret), log)
    close()
    return said
  }
  t.same(await warnings(SECRET), [])
  t.same(await warnings('another secret', SECRET), [])
  t.same(await warnings('a mistyped secret'), [{ reason: 'other-secret' }])
  t.same(await warnings('a mistyped secret'), [{ reason: 'other-secret' }], 'its own key does not hide the mistake')
  t.same(await warnings('a mistyped secret', SECRET), [])
  await ask(
    "UPDATE audit_keys SET sealed = regexp_replace(sealed::text, '\"namedAt\": \\d+', '\"namedAt\": 0', 'g')::jsonb"
  )
  t.same(await warnings('a mistyped secret'), [], 'an hour after the last instance with the other one')
  t.same(await warnings('a third secret'), [{ reason: 'other-secret' }])
})

t.test('when all secrets are replaced at once a new key takes over; links of the lost one are unchecked', async t => {
  const { url, force } = await startKeyed(t)
  const { audit, database } = await openWith(t, url, ['a new secret'], true)
  await audit.append({ actor, action: 'new' })
  t.same(await audit.verify(), { ok: true, entries: 7, uncheckable: 3 })
  const late = await openWith(t, url, [SECRET])
  await late.audit.append({ actor, action: 'new' })
  await audit.append({ actor, action: 'new' })
  const verdict = { ok: true, entries: 9, uncheckable: 3, unkeyed: 1 }
  t.same(await audit.verify(), verdict, 'an instance that still has the old secret goes on with its key')
  await relink({ force, database }, 7, true)
  t.match(await audit.verify(), { ok: false, firstBroken: 7 })
})

t.test('secrets, NUL, broken text and huge values never reach the table, and the chain holds', async t => {
  const { audit, database, ask, force } = await openStore(t, postgres)
  const details = { password: 'hunter2', nested: { Token: 'eyJ', note: 'a\0b\ud800' }, tokenId: 'kept' }
  await audit.append({ actor: { id: 1, username: 'a\0b\nfake line' }, action: 'x', details })
  await audit.append({ actor, action: 'x', before: { big: 'x'.repeat(100_000) } })
  const [, first] = (await audit.list()).items
  t.equal(first?.actor.username, 'ab\nfake line')
  const rows = JSON.stringify(await ask('SELECT before, details FROM audit_events'))
  t.notMatch(rows, /hunter2|eyJ/)
  t.match(rows, /"tokenId":"kept"/)
  t.ok(rows.length < 1_000)
  t.same(await audit.verify(), { ok: true, entries: 2 })
  await force('UPDATE audit_events SET details = details || \'{"password": "forged"}\' WHERE id = 1')
  t.same(await audit.verify(), { ok: false, entries: 2, firstBroken: 1 }, 'a value in place of [redacted]')
  t.ok(await database.ping())
})

t.test('the database itself refuses to change or remove an entry', async t => {
  const { audit, ask } = await openStore(t, postgres)
  await audit.append({ actor, action: 'x' })
  for (const statement of [
    "UPDATE audit_events SET action = 'y'",
    'DELETE FROM audit_events',
    'TRUNCATE audit_events',
    'UPDATE audit_head SET entries = 0',
    'DELETE FROM audit_head',
    'TRUNCATE audit_head',
    "INSERT INTO audit_head VALUES (false, 0, '')"
  ])
    await t.rejects(ask(statement), { code: '42501' }, statement)
  t.same(await audit.verify(), { ok: true, entries: 1 })
})

// What only a superuser can do: triggers do not fire for a replica's changes.
const EXTRA =
  "INSERT INTO audit_events SELECT 1211, at, actor_id, actor_username, action, target, before, after, request_id, ip, details, content_hash, hash, repeat('b', 64) FROM audit_events WHERE id = 1210"
const RESTORE = 'TRUNCATE audit_events; INSERT INTO audit_events SELECT * FROM copy'

t.test('whatever a superuser does to the entries is found, with the first that is wrong', async t => {
  const forgeries: [string, string, number][] = [
    ['an altered entry', 'UPDATE audit_events SET after = \'{"a":2}\' WHERE id = 1203', 1203],
    ['an altered time', "UPDATE audit_events SET at = at + interval '1 ms' WHERE id = 7", 7],
    ['a hidden SQL null', 'UPDATE audit_events SET actor_id = NULL WHERE id = 8', 8],
    ['an entry taken out', 'DELETE FROM audit_events WHERE id = 1000', 1000],
    ['the first entry gone', 'DELETE FROM audit_events WHERE id = 1', 1],
    ['a tail cut off', 'DELETE FROM audit_events WHERE id > 1205', 1206],
    ['everything gone', 'TRUNCATE audit_events', 1],
    [
      'two entries exchanged',
      'UPDATE audit_events SET id = CASE id WHEN 20 THEN -21 ELSE -20 END WHERE id IN (20, 21)',
      20
    ],
    ['a rehashed entry', "UPDATE audit_events SET content_hash = repeat('a', 64) WHERE id = 5", 5],
    ['an entry beyond the head', EXTRA, 1211]
  ]
  const { ask, force, audit, database } = await openStore(t, postgres)
  for (let n = 0; n < 121; n++)
    await database.write(async manager => {
      for (let m = 0; m < 10; m++) await appendAudit(manager, { actor, action: 'x', after: { a: 1, m } })
    })
  t.same(await audit.verify(), { ok: true, entries: 1210 })
  await ask('CREATE TABLE copy AS SELECT * FROM audit_events')
  for (const [title, statement, firstBroken] of forgeries) {
    await force(statement)
    t.same(await audit.verify(), { ok: false, entries: 1210, firstBroken }, title)
    await force(RESTORE)
    t.same(await audit.verify(), { ok: true, entries: 1210 }, `${title}, put back`)
  }
})

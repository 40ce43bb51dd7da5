// The audit log only grows, tells who did what, and shows when somebody touched it.
// AD-08
import t from 'tap'
import { appendAudit } from '../../gateway/store/audit-entry.ts'
import { startPostgres } from '../support/postgres.ts'
import { openStore } from '../support/store.ts'

const postgres = await startPostgres(t)
const actor = { id: 1, username: 'maria', requestId: 'r-1', ip: '127.0.0.1' }

t.test('an entry of a transaction that fails leaves no gap', async t => {
  const { audit, database } = await openStore(t, postgres)
  await audit.append({ actor, action: 'kept' })
  const failing = database.write(async manager => {
    await appendAudit(manager, { actor, action: 'lost' })
    throw new Error('on purpose')
  })
  await t.rejects(failing, { message: 'on purpose' })
  await audit.append({ actor, action: 'kept' })
  t.same(await audit.verify(), { ok: true, entries: 2 })
})

t.test('secrets, NUL, broken text and huge values never reach the table, and the chain holds', async t => {
  const { audit, database, url } = await openStore(t, postgres)
  const details = { password: 'hunter2', nested: { Token: 'eyJ', note: 'a\0b\ud800' }, tokenId: 'kept' }
  await audit.append({ actor: { id: 1, username: 'a\0b\nfake line' }, action: 'x', details })
  await audit.append({ actor, action: 'x', before: { big: 'x'.repeat(100_000) } })
  const [, first] = (await audit.list()).items
  t.equal(first?.actor.username, 'ab\nfake line')
  const rows = JSON.stringify(await postgres.query('SELECT before, details FROM audit_events', [], url))
  t.notMatch(rows, /hunter2|eyJ/)
  t.match(rows, /"tokenId":"kept"/)
  t.ok(rows.length < 1_000)
  t.same(await audit.verify(), { ok: true, entries: 2 })
  const forged = 'UPDATE audit_events SET details = details || \'{"password": "forged"}\' WHERE id = 1'
  await postgres.query(`SET session_replication_role = replica; ${forged}`, [], url)
  t.same(await audit.verify(), { ok: false, entries: 2, firstBroken: 1 }, 'a value in place of [redacted]')
  t.ok(await database.ping())
})

t.test('the database itself refuses to change or remove an entry', async t => {
  const { audit, url } = await openStore(t, postgres)
  await audit.append({ actor, action: 'x' })
  for (const statement of [
    "UPDATE audit_events SET action = 'y'",
    'DELETE FROM audit_events',
    'TRUNCATE audit_events',
    'UPDATE audit_head SET entries = 0',
    'DELETE FROM audit_head',
    'TRUNCATE audit_head',
    "INSERT INTO audit_head VALUES (false, 0, '')"
  ]) {
    await t.rejects(postgres.query(statement, [], url), { code: '42501' }, statement)
  }
  t.same(await audit.verify(), { ok: true, entries: 1 })
})

// What only a superuser can do: triggers do not fire for a replica's changes.
const EXTRA =
  "INSERT INTO audit_events SELECT 1211, at, actor_id, actor_username, action, target, before, after, request_id, ip, details, content_hash, hash, repeat('b', 64) FROM audit_events WHERE id = 1210"
const RESTORE =
  'SET session_replication_role = replica; TRUNCATE audit_events; INSERT INTO audit_events SELECT * FROM copy'

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
  const { url, audit, database } = await openStore(t, postgres)
  for (let n = 0; n < 121; n++) {
    await database.write(async manager => {
      for (let m = 0; m < 10; m++) await appendAudit(manager, { actor, action: 'x', after: { a: 1, m } })
    })
  }
  t.same(await audit.verify(), { ok: true, entries: 1210 })
  await postgres.query('CREATE TABLE copy AS SELECT * FROM audit_events', [], url)
  for (const [title, statement, firstBroken] of forgeries) {
    await postgres.query(`SET session_replication_role = replica; ${statement}`, [], url)
    t.same(await audit.verify(), { ok: false, entries: 1210, firstBroken }, title)
    await postgres.query(RESTORE, [], url)
    t.same(await audit.verify(), { ok: true, entries: 1210 }, `${title}, put back`)
  }
})

// The oldest entries of the audit log leave as a file that can be verified without the database, and in no other way.
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { archiveAudit, retainAudit } from '../../gateway/store/audit-archive.ts'
import { archiveHeader, verifyArchive } from '../../gateway/store/audit-archive-file.ts'
import { appendAudits, keyAuditLog, keysOf } from '../../gateway/store/audit-entry.ts'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import type { Database } from '../../gateway/store/database.ts'
import { sealingSecret } from '../../gateway/tokens/sealed-keys.ts'
import { portariaHere } from '../support/cli-here.ts'
import { shiftClocks } from '../support/clocks.ts'
import { startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { keepingLog, quiet } from '../support/quiet.ts'
import { openBare, openStore, PATIENT } from '../support/store.ts'
import { TEST_SECRET } from '../support/test-secret.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const actor = { id: 1, username: 'maria', ip: '192.0.2.7' }
const DAY_MS = 86_400_000
const START = Date.parse('2024-01-01T00:00:00Z')

/** An entry a day from 2024 on, with all kinds of content. */
const startOld = async (t: Test, days = 1_200) => {
  const store = await openStore(t, postgres)
  const entries = Array.from({ length: days }, (_, n) => ({
    actor,
    action: 'x',
    before: { b: [1, 2.5, -0, 1e21, 1e-7], a: 'é\u2028"\\' },
    details: { n },
    at: new Date(START + n * DAY_MS)
  }))
  await store.database.write(manager => appendAudits(manager, entries))
  const { url } = store
  const env = { DATABASE_URL: url, JWT_SECRET: TEST_SECRET }
  const out = join(t.testdir({}), 'audit.jsonl')
  const archive = (before: string, ...more: string[]) =>
    portariaHere(['audit', 'archive', '--before', before, '--out', out, ...more], { env })
  return { ...store, env, out, archive }
}

const NEW_SECRETS = [sealingSecret('a new secret')]

/** A gateway of which all secrets have been replaced at once. */
const startReplaced = async (t: Test, url: string) => {
  const database = await openBare(t, url, { deadlines: PATIENT })
  await keyAuditLog(database, { secrets: NEW_SECRETS, creates: true })
  return { database, audit: createAuditLog(database) }
}

t.test('who has the old secret alone archives nothing once others have a new one', async t => {
  const { url, archive } = await startOld(t, 10)
  const { audit } = await startReplaced(t, url)
  t.match(await archive('2024-01-05'), { code: 2, stderr: /set JWT_SECRET as for the gateways/ })
  t.match(await audit.verify(), { ok: true, entries: 10 })
})

// RV-74
t.test('entries before a date leave as a file; what is left, and the file, can be verified', async t => {
  const { url, audit, env, out, archive } = await startOld(t)
  const done = await archive('2026-01-31', '--json')
  t.equal(done.code, 0, done.stderr)
  t.same(done.json(), { file: out, first: 1, last: 761, entries: 761 })
  t.same(await audit.verify(), { ok: true, entries: 1_201, archived: 761 })
  t.match(await audit.list(), { total: 440, items: [{ action: 'audit.archive', details: undefined }] })
  t.match(await audit.list({ until: new Date('2026-01-31') }), { total: 0 })
  t.same(await postgres.query('SELECT min(id)::int AS first FROM audit_events', [], url), [{ first: 762 }])
  t.match(await audit.check(1_000), { isDone: true, checkpoint: { verified: 1_201, firstBroken: null } })

  const verified = await portariaHere(['audit', 'verify', out], { env: { JWT_SECRET: TEST_SECRET } })
  t.match(verified, { code: 0, stdout: /The archive is whole: entries 1 to 761/ })
  const missing = await portariaHere(['audit', 'verify', `${out}.gone`], { env: { JWT_SECRET: TEST_SECRET } })
  t.match(missing, { code: 2, stderr: /\.gone cannot be read \(ENOENT\)/ })
  t.equal((await archive('2026-02-28')).code, 2, 'a file that exists is not replaced')
  const next = join(t.testdir({}), 'next.jsonl')
  const again = await portariaHere(['audit', 'archive', '--out', next, '--before', '2026-02-28'], { env })
  t.equal(again.code, 0, again.stderr)
  t.same(await verifyArchive(next, [sealingSecret(TEST_SECRET)]), { ok: true, first: 762, last: 789 })
  t.match((await portariaHere(['audit', 'verify'], { env })).stdout, /The first 789 of them have been archived/)
})

// RV-74
t.test('a changed, shortened, extended or foreign archive is found', async t => {
  const { database, env, out, archive } = await startOld(t, 100)
  t.equal((await archive('2024-03-01')).code, 0)
  const lines = readFileSync(out, 'utf8').trimEnd().split('\n')
  t.equal(lines.length, 61)
  const [header = '', ...entries] = lines
  const disowned = JSON.stringify({ ...JSON.parse(entries[6] ?? ''), action: 'forged', keyId: 'x' })
  const { unknown, ...earlier } = JSON.parse(header)
  t.equal(unknown, 0)
  const other = { ...JSON.parse(header), last: 59, lastHash: JSON.parse(entries[58] ?? '').hash }
  const forgeries: [string, readonly string[], number][] = [
    ['changed', lines.map((line, n) => (n === 7 ? line.replace('192.0.2.7', '192.0.2.8') : line)), 7],
    ['a name that is no text', lines.map((line, n) => (n === 7 ? line.replace('"maria"', '5') : line)), 7],
    ['changed, with a key that is not known', lines.map((line, n) => (n === 7 ? disowned : line)), 7],
    ['without the number of such entries', [JSON.stringify(earlier), ...entries], 1],
    ['shortened', lines.slice(0, -1), 60],
    ['cut in a line', [...lines.slice(0, -1), entries[59]?.slice(0, 50) ?? ''], 60],
    ['without an entry', lines.filter((_, n) => n !== 30), 30],
    ['extended', [...lines, entries[59] ?? ''], 61],
    ['shortened, and its header too', [JSON.stringify(other), ...entries.slice(0, -1)], 1]
  ]
  for (const [title, forged, firstBroken] of forgeries) {
    const file = `${out}.forged`
    writeFileSync(file, `${forged.join('\n')}\n`)
    const { code, json } = await portariaHere(['audit', 'verify', file, '--json'], { env })
    t.equal(code, 1, title)
    t.match(json(), { ok: false, firstBroken }, title)
  }
  const [key] = await database.read(async manager => keysOf(manager))
  if (key !== undefined) {
    const before = { ...archiveHeader(key, earlier), format: 'portaria audit archive 1' }
    writeFileSync(`${out}.before`, [JSON.stringify(before), ...entries].join('\n'))
  }
  const ofEarlier = await portariaHere(['audit', 'verify', `${out}.before`], { env })
  t.equal(ofEarlier.code, 0, 'one that an earlier release has written')
  const badKeys = [[null], [{ id: 'x' }], [{ id: 'x', sealed: { y: null } }], [{ id: 'x', sealed: { y: {} } }]]
  const merged = { unknown: undefined, writtenAt: `${earlier.writtenAt} ${unknown}` }
  for (const damage of [...badKeys.map(keys => ({ keys })), { first: undefined }, { first: '1' }, merged]) {
    const forged = [JSON.stringify({ ...JSON.parse(header), ...damage }), ...entries.slice(0, 6), disowned]
    writeFileSync(`${out}.header`, [...forged, ...entries.slice(7)].join('\n'))
    const { code, stderr } = await portariaHere(['audit', 'verify', `${out}.header`], { env })
    t.match([code, stderr], [2, /is not an archive/], JSON.stringify(damage))
  }
  const foreign = { JWT_SECRET: 'another secret that is long enough for this' }
  t.equal((await portariaHere(['audit', 'verify', out], { env: foreign })).code, 2)
  t.equal((await portariaHere(['audit', 'verify', out], { env: {} })).code, 2)
  t.match(await verifyArchive(out, [sealingSecret('a new one'), sealingSecret(TEST_SECRET)]), { ok: true })
  t.equal((await portariaHere(['audit', 'verify', import.meta.filename], { env })).code, 2)
})

// RV-74
t.test('the database removes entries only once they are archived, and a forged beginning is found', async t => {
  const { url, audit, archive } = await startOld(t, 10)
  await t.rejects(postgres.query('DELETE FROM audit_events WHERE id = 1', [], url), { code: '42501' })
  await t.rejects(postgres.query("UPDATE audit_head SET archived = 5, archived_hash = 'x'", [], url), { code: '42501' })
  // What somebody with the database role can say: the trigger takes it, the key does not vouch for it.
  const move = 'UPDATE audit_head SET archived = 5, archived_hash = (SELECT hash FROM audit_events WHERE id = 5)'
  await postgres.query(`${move}; DELETE FROM audit_events WHERE id <= 5`, [], url)
  const again = `INSERT INTO audit_events (id, at, actor_username, action, target, request_id, ip, content_hash, key_id, previous_hash, hash)
    VALUES (3, now(), '', '', '', '', '', '', 'k', '', '')`
  await t.rejects(postgres.query(again, [], url), { code: '42501' }, 'the number of an entry that is gone')
  t.match(await audit.verify(), { ok: false, firstBroken: 5 })
  t.equal((await archive('2025-01-01')).code, 1)
})

t.test('no hash of an entry vouches for a beginning, whatever the database calls the hash before it', async t => {
  const { ask, audit } = await startOld(t, 10)
  const insert = (id: number, hash: string) =>
    ask(`INSERT INTO audit_events
      (id, at, actor_username, action, target, request_id, ip, content_hash, key_id, previous_hash, hash)
      SELECT ${id}, now(), '', '', '', '', '', '', 'k', last_hash, ${hash} FROM audit_head`)
  await insert(11, "'portaria audit archived 13 '")
  t.match(await audit.verify(), { ok: false, firstBroken: 11 })
  await audit.append({ actor, action: 'x' })
  await insert(13, '(SELECT content_hash FROM audit_events WHERE id = 12)')
  await ask(`UPDATE audit_head SET archived = 13, archived_hash = e.content_hash, archived_key = e.key_id,
    archived_mac = e.hash FROM audit_events e WHERE e.id = 12`)
  await ask('DELETE FROM audit_events')
  t.match(await audit.verify(), { ok: false, firstBroken: 13 })
})

t.test('of two archives into one file at once, one is written, and the other is refused', async t => {
  const secrets = [sealingSecret(TEST_SECRET)]
  const refusals = [
    [1, { name: 'ArchivedMeanwhile' }],
    [2, { code: 'EEXIST' }]
  ] as const
  for (const [reads, refusal] of refusals) {
    const { database, audit, out } = await startOld(t)
    const run = (through: Database, before: string) =>
      archiveAudit(through, { actor, secrets, before: new Date(before), fileOf: () => out })
    let left: number = reads
    const overtaken: Database = {
      ...database,
      async read(work) {
        const found = await database.read(work)
        left -= 1
        if (left === 0) await run(database, '2026-01-31')
        return found
      }
    }
    await t.rejects(run(overtaken, '2024-03-01'), refusal)
    t.match(await verifyArchive(out, secrets), { ok: true, first: 1, last: 761 })
    t.match(await audit.verify(), { ok: true, archived: 761 })
    t.same(readdirSync(dirname(out)), ['audit.jsonl'])
  }
})

t.test('of two archives into two files at once, the one that comes too late leaves no file', async t => {
  const secrets = [sealingSecret(TEST_SECRET)]
  const { database, out } = await startOld(t, 10)
  const run = (through: Database, file: string) =>
    archiveAudit(through, { actor, secrets, before: new Date('2024-01-05'), fileOf: () => file })
  let isFirst = true
  const overtaken: Database = {
    ...database,
    async write(...work) {
      if (!isFirst) await run(database, out)
      isFirst = false
      return database.write(...work)
    }
  }
  await t.rejects(run(overtaken, `${out}.late`), { name: 'ArchivedMeanwhile' })
  t.match(await verifyArchive(out, secrets), { ok: true, first: 1, last: 4 })
  t.same(readdirSync(dirname(out)), ['audit.jsonl'])
})

t.test('a file stays where it is not known whether its entries have left the database', async t => {
  const secrets = [sealingSecret(TEST_SECRET)]
  const { database, out } = await startOld(t, 10)
  const broken = Object.assign(new Error('bad record mac'), { code: 'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC' })
  let writes = 0
  const cut: Database = {
    ...database,
    async write(...work) {
      const result = await database.write(...work)
      if (++writes > 1) throw broken
      return result
    }
  }
  const archiving = { actor, secrets, before: new Date('2024-01-05'), fileOf: () => out }
  await t.rejects(archiveAudit(cut, archiving), broken)
  t.match(await verifyArchive(out, secrets), { ok: true, first: 1, last: 4 })
})

// RV-74
t.test(
  'a log that is broken is not archived, even if it was whole at the last check, and nothing is removed',
  async t => {
    for (const [isChecked, forged] of [
      [false, "target = 'y'"],
      [true, "target = 'y', key_id = 'of an unknown key'"]
    ] as const) {
      const { ask, force, audit, archive } = await startOld(t, 10)
      if (isChecked) t.match(await audit.check(0), { isDone: true })
      await force(`UPDATE audit_events SET ${forged} WHERE id = 4`)
      const { code, stdout } = await archive('2025-01-01')
      t.equal(code, 1)
      const said = /entry 4 of the audit log is missing or has been altered; nothing was archived/
      t.match(stdout.replaceAll('\n', ' '), said, forged)
      t.same(await ask('SELECT count(*)::int AS n FROM audit_events'), [{ n: 10 }])
    }
  }
)

t.test('entries whose key is lost leave with the others, and are counted in the archive', async t => {
  const { url, out } = await startOld(t, 10)
  const { database, audit } = await startReplaced(t, url)
  await audit.append({ actor, action: 'x', at: new Date(START + 10 * DAY_MS) })
  for (let round = 0; round < 2; round++)
    t.match(await audit.check(100), { checkpoint: { unknown: 10, firstBroken: null } })
  await archiveAudit(database, { actor, secrets: NEW_SECRETS, before: new Date('2025-01-01'), fileOf: () => out })
  t.same(await verifyArchive(out, NEW_SECRETS), { ok: true, first: 1, last: 11, uncheckable: 10 })
  const verified = await portariaHere(['audit', 'verify', out], { env: { JWT_SECRET: 'a new secret' } })
  t.match(verified, { code: 0, stdout: /whole: entries 1 to 11\.\s10 entries cannot be checked/ })
  t.match(JSON.parse(readFileSync(out, 'utf8').split('\n')[0] ?? ''), { unknown: 10 })
  for (let round = 0; round < 2; round++) t.match(await audit.check(100), { checkpoint: { firstBroken: null } })
  t.match(await audit.verify(), { ok: true, archived: 11 })
})

t.test('a log with archived entries is whole, and archived further, when all secrets are replaced at once', async t => {
  const { url, ask, out, archive } = await startOld(t, 10)
  t.equal((await archive('2024-01-05')).code, 0)
  const { database, audit } = await startReplaced(t, url)
  t.same(await audit.verify(), { ok: true, entries: 11, archived: 4, uncheckable: 7 })
  t.match(await audit.check(100), { isDone: true, checkpoint: { firstBroken: null } })
  const next = `${out}.next`
  await archiveAudit(database, { actor, secrets: NEW_SECRETS, before: new Date('2024-01-07'), fileOf: () => next })
  t.match(await verifyArchive(next, NEW_SECRETS), { ok: true, first: 5, last: 6 })
  t.match(await audit.verify(), { ok: true, archived: 6 })
  const hash = '(SELECT hash FROM audit_events WHERE id = 8)'
  await ask(`UPDATE audit_head SET archived = 8, archived_hash = ${hash}, archived_key = 'lost'`)
  t.match(await audit.verify(), { ok: false, firstBroken: 8 }, 'nobody else can begin it later')
})

// RV-74
t.test('a gateway with AUDIT_RETENTION archives what is older, and the chain goes on', async t => {
  const { url, audit } = await startOld(t, 60)
  const folder = t.testdir({})
  const env = { AUDIT_RETENTION: '90d', AUDIT_ARCHIVE: folder }
  const world = await startGateway(t, { postgres: { url }, env })
  await world.logged(({ msg }) => msg === 'archived entries of the audit log')
  const file = join(folder, 'audit-1-60.jsonl')
  t.same(await verifyArchive(file, [sealingSecret(TEST_SECRET)]), { ok: true, first: 1, last: 60 })
  await until(async () => (await audit.verify()).archived === 60)
  t.match(await audit.verify(), { ok: true })
})

/** Entries of these ages, and AUDIT_RETENTION of 90 days. */
const startAged = async (t: Test, ages: readonly number[]) => {
  const { database, audit } = await openStore(t, postgres)
  const entries = ages.map(days => ({ actor, action: 'x', at: new Date(Date.now() - days * DAY_MS) }))
  await database.write(manager => appendAudits(manager, entries))
  const [folder, secrets] = [t.testdir({}), [sealingSecret(TEST_SECRET)]]
  const retain = () => retainAudit({ database, secrets, log: quiet, retentionMs: 90 * DAY_MS, folder })
  return { audit, folder, retain }
}

t.test('a clock that is a year ahead archives nothing that is younger than AUDIT_RETENTION', async t => {
  const { audit, folder, retain } = await startAged(t, [100, 95, 30, 10])
  shiftClocks(t).wallMs = 365 * DAY_MS
  await retain()
  t.same(readdirSync(folder), ['audit-1-2.jsonl'])
  t.match(await audit.verify(), { ok: true, archived: 2 })
})

t.test('an entry that was written by a clock far ahead does not keep those after it from being archived', async t => {
  const { audit, folder, retain } = await startAged(t, [-3650, 100, 95, 30, 10])
  await retain()
  t.same(readdirSync(folder), ['audit-1-3.jsonl'])
  t.match(await audit.verify(), { ok: true, archived: 3 })
})

t.test('what a process left that was killed while it archived is removed a day later, and nothing else', async t => {
  const { folder, retain } = await startAged(t, [10])
  const [left, written] = ['audit-1-9', 'audit-1-8'].map(name => `${name}.jsonl.unfinished-${randomUUID()}`)
  const others = [written, 'audit-1-7.jsonl', 'audit-2026.jsonl.unfinished-yet']
  for (const name of [left, ...others]) {
    const file = join(folder, `${name}`)
    writeFileSync(file, '')
    const age = name === written ? 0 : 2 * DAY_MS
    utimesSync(file, new Date(Date.now() - age), new Date(Date.now() - age))
  }
  await retain()
  t.same(new Set(readdirSync(folder)), new Set(others))
})

t.test('what cannot be written is not removed', async t => {
  const { database, audit } = await startOld(t, 10)
  const { log, said } = keepingLog()
  const secrets = [sealingSecret(TEST_SECRET)]
  await retainAudit({ database, secrets, log, retentionMs: DAY_MS, folder: '/nonexistent/folder' })
  t.match(said, [{ reason: 'audit-unarchived', err: { code: 'ENOENT' } }])
  t.same(await audit.verify(), { ok: true, entries: 10 })
})

// The chain of the audit log is keyed: whoever has the database role alone cannot re-link it unnoticed.
import t, { type Test } from 'tap'
import { createAuditWatch } from '../../gateway/observe/audit-watch.ts'
import { contentHash, linkHash, nextRows } from '../../gateway/store/audit-chain.ts'
import { keyAuditLog } from '../../gateway/store/audit-entry.ts'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import { openDatabase } from '../../gateway/store/database.ts'
import { sealingSecret } from '../../gateway/tokens/sealed-keys.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { openStore, PATIENT } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const actor = { id: 1, username: 'maria', requestId: 'r-1', ip: '127.0.0.1' }
const SECRET = 'the secret that the gateways have'

/** Another process with these secrets; `creates`: a gateway that makes the key if none opens. */
const openWith = async (t: Test, url: string, secrets: readonly string[], creates = false) => {
  const database = await openDatabase({ databaseUrl: url, dataDir: '/nonexistent', log: quiet, deadlines: PATIENT })
  t.teardown(() => database.close())
  await keyAuditLog(database, { secrets: secrets.map(sealingSecret), creates })
  return { database, audit: createAuditLog(database) }
}

/** Three entries of the release before, then three that are keyed. */
const startKeyed = async (t: Test) => {
  const { url, audit: old } = await openStore(t, postgres, undefined, false)
  for (let n = 0; n < 3; n++) await old.append({ actor, action: 'old', details: { n } })
  const { database, audit } = await openWith(t, url, [SECRET], true)
  for (let n = 0; n < 3; n++) await audit.append({ actor, action: 'new', details: { n } })
  return { url, database, audit, old }
}

type Keyed = Awaited<ReturnType<typeof startKeyed>>

/** What anyone with the database role can do: change an entry, and link it and all after it as the release before did. */
const relink = async ({ url, database }: Pick<Keyed, 'url' | 'database'>, changed: number, keepsKey: boolean) => {
  const rows = await database.read(manager => nextRows(manager, changed - 1, 1_000))
  const statements = ['SET session_replication_role = replica']
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
  await postgres.query(statements.join(';'), [], url)
}

const checkAll = async ({ audit }: Pick<Keyed, 'audit'>) => {
  for (;;) {
    const step = await audit.check(1_000)
    if (step?.isDone === true) return step
  }
}

// RV-80
t.test('entries that were changed and linked again without the key are found', async t => {
  const world = await startKeyed(t)
  t.same(await world.audit.verify(), { ok: true, entries: 6 })
  await relink(world, 5, true)
  t.match(await world.audit.verify(), { ok: false, firstBroken: 5 })
  t.match((await checkAll(world)).checkpoint, { firstBroken: 5 })
})

// RV-80
t.test('what the release before wrote is anchored in the key, and cannot be changed afterwards either', async t => {
  const world = await startKeyed(t)
  await relink(world, 2, true)
  t.match(await world.audit.verify(), { ok: false, firstBroken: 3 }, 'the last one that the key took over from')
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

t.test('entries that the release before writes during an upgrade are part of the chain, and counted', async t => {
  const world = await startKeyed(t)
  const { url, audit } = world
  const of = { at: new Date(), actorId: 1, actorUsername: 'ana', action: 'old', target: '', requestId: '', ip: '' }
  const hash = contentHash({ ...of, before: null, after: null, details: null })
  await postgres.query(
    `INSERT INTO audit_events (at, actor_id, actor_username, action, target, request_id, ip, content_hash)
     VALUES ($1, 1, 'ana', 'old', '', '', '', $2)`,
    [of.at, hash],
    url
  )
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

// RV-80
t.test('a running watch remembers: fewer entries than it has checked, or others, are broken', async t => {
  const EMPTY = `SET session_replication_role = replica; TRUNCATE audit_events; DELETE FROM audit_keys; DELETE FROM audit_check;
    UPDATE audit_head SET entries = 0, last_hash = repeat('0', 64)`
  for (const [title, forge] of [
    ['emptied', ({ url }: Keyed) => postgres.query(EMPTY, [], url)],
    [
      're-linked, and what was checked removed',
      async (world: Keyed) => {
        await relink(world, 4, false)
        await postgres.query('DELETE FROM audit_check; DELETE FROM audit_keys', [], world.url)
      }
    ]
  ] as const) {
    const world = await startKeyed(t)
    const broken: object[] = []
    const log = { ...quiet, error: (fields: object) => void broken.push(fields) }
    const watch = createAuditWatch(world.audit, log, { lookMs: 20 })
    t.teardown(watch.close)
    await until(() => watch.last().state === 'ok')
    await forge(world)
    await until(() => watch.last().state === 'broken', title)
    t.ok(Number(watch.last().firstBroken) <= 6, title)
    t.match(broken, [{ reason: 'audit-broken', firstBroken: Number }])
  }
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

t.test(
  'when all secrets are replaced at once a new key takes over; the links of the lost one are unchecked',
  async t => {
    const { url } = await startKeyed(t)
    const { audit, database } = await openWith(t, url, ['a new secret'], true)
    await audit.append({ actor, action: 'new' })
    t.same(await audit.verify(), { ok: true, entries: 7, uncheckable: 3 })
    const late = await openWith(t, url, [SECRET])
    await late.audit.append({ actor, action: 'new' })
    await audit.append({ actor, action: 'new' })
    const verdict = { ok: true, entries: 9, uncheckable: 3, unkeyed: 1 }
    t.same(await audit.verify(), verdict, 'an instance that still has the old secret goes on with its key')
    await relink({ url, database }, 7, true)
    t.match(await audit.verify(), { ok: false, firstBroken: 7 })
  }
)

t.test('fifty writers on two keyed instances leave one unbroken chain', async t => {
  const { url, audit: one } = await startKeyed(t)
  const { audit: two } = await openWith(t, url, [SECRET])
  await Promise.all(
    Array.from({ length: 50 }, async (_, writer) => {
      for (let n = 0; n < 5; n++) await (writer % 2 === 0 ? one : two).append({ actor, action: 'test', details: { n } })
    })
  )
  t.same(await one.verify(), { ok: true, entries: 256 })
})

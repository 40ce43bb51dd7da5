// The audit log is checked by one process for all, from where the last one stopped, a part of it again in each round.
import t from 'tap'
import { createAuditWatch } from '../../gateway/observe/audit-watch.ts'
import { archivedMac, macOf } from '../../gateway/store/audit-chain.ts'
import { appendAudits, keysOf } from '../../gateway/store/audit-entry.ts'
import type { AuditLog } from '../../gateway/store/audit-log.ts'
import { query } from '../../gateway/store/query.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { openClient, openStore } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const actor = { id: 1, username: 'maria' }
const ENTRIES = 7_000

const startFull = async (entries = ENTRIES) => {
  const store = await openStore(t, postgres)
  const some = Array.from({ length: 500 }, (_, n) => ({ actor, action: 'x', details: { n } }))
  for (let written = 0; written < entries; written += some.length)
    await store.database.write(manager => appendAudits(manager, some))
  return store
}

/** Counts the entries that are read. */
const counting = (audit: AuditLog) => {
  const read = { fresh: 0, again: 0, steps: 0 }
  let verified = 0
  const check: AuditLog['check'] = async (...asked) => {
    const step = await audit.check(...asked)
    if (step === undefined) return step
    read.steps++
    read.again += step.swept
    read.fresh += step.checkpoint.verified - verified
    verified = step.checkpoint.verified
    return step
  }
  return { read, audit: { check, checked: audit.checked } }
}

// RV-73
t.test('one process of many reads the log, and a process that starts knows the result without reading it', async t => {
  const { audit } = await startFull()
  const { read, audit: counted } = counting(audit)
  const watches = Array.from({ length: 4 }, () => createAuditWatch(counted, quiet, { lookMs: 20, pauseMs: 1 }))
  for (const watch of watches) t.teardown(watch.close)
  await until(() => watches.every(watch => watch.last().state === 'ok'))
  t.same(read, { ...read, fresh: ENTRIES, again: 0 }, 'once, although four processes started together')
  t.match(watches[0]?.last(), { entries: ENTRIES, firstBroken: undefined, checkedAt: Date })

  const { fresh, again } = read
  const late = createAuditWatch(counted, quiet, { lookMs: 20 })
  t.teardown(late.close)
  await until(() => late.last().state === 'ok')
  t.match(read, { fresh, again })
})

// RV-73
t.test('a round reads what is new and a share of the rest; the rounds of a day read everything', async t => {
  const { force, audit } = await startFull()
  const round = async (sweep: number) => {
    let swept = 0
    for (;;) {
      const step = await audit.check(sweep - swept)
      if (step === undefined) continue
      swept += step.swept
      if (step.isDone) return { ...step.checkpoint, sweptNow: swept }
    }
  }
  const first = await round(0)
  t.match(first, { verified: ENTRIES, swept: 0, fullAt: String })
  await audit.append({ actor, action: 'new' })
  const share = Math.ceil(ENTRIES / 12)
  t.match(await round(share), { verified: ENTRIES + 1, swept: share, sweptNow: share, fullAt: first.fullAt })
  let last = first
  let rounds = 1
  for (; last.fullAt === first.fullAt; rounds++) last = await round(share)
  t.equal(rounds, 12)
  t.match(last, { swept: 0, firstBroken: null })

  await force("UPDATE audit_events SET target = 'user:2' WHERE id = 3000")
  const states: (number | null)[] = []
  for (let n = 0; n < 12; n++) states.push((await round(share)).firstBroken)
  t.same(states, [null, null, null, null, null, ...Array.from({ length: 7 }, () => 3000)], 'it stays where it broke')
})

// RV-73
t.test('a step is short: it reads two thousand entries at most, however many there are', async t => {
  const { audit } = await startFull()
  const seen: number[] = []
  for (;;) {
    const step = await audit.check(0)
    seen.push(step?.checkpoint.verified ?? 0)
    if (step?.isDone === true) break
  }
  t.same(seen, [2000, 4000, 6000, 7000])
})

t.test('a clock of the database that was set back does not put the next round off', async t => {
  const { database, audit } = await startFull(500)
  await audit.check(0)
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString()
  await database.write(async manager => {
    const [key] = keysOf(manager)
    const [row] = await query<{ body: string }>(manager, 'SELECT body FROM audit_check')
    const body = JSON.stringify({ ...JSON.parse(row?.body ?? ''), checkedAt: tomorrow })
    await query(manager, 'UPDATE audit_check SET body = $1, mac = $2', [body, key && macOf(key, `checkpoint ${body}`)])
  })
  t.match((await audit.checked()).checkpoint, { checkedAt: tomorrow })
  t.match(await audit.check(0, 600_000), { isDone: true })
  t.ok((await audit.checked()).ageMs < 600_000)
})

t.test('what is archived while a process looks is not missing', async t => {
  const { url, database, audit } = await startFull(500)
  await audit.check(0)
  const { checkpoint } = await audit.checked()
  const archiving = await openClient(t, url)
  await archiving.query('BEGIN; LOCK TABLE audit_events')
  const looking = audit.checked(checkpoint)
  const waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'audit_events'::regclass"
  await until(async () => (await archiving.query(waiting)).rowCount === 1)
  const [key] = await database.read(async manager => keysOf(manager))
  if (key === undefined || checkpoint === undefined) throw new Error('the log has no key')
  const { verified, hash } = checkpoint
  const begin = 'UPDATE audit_head SET archived = $1, archived_hash = $2, archived_key = $3, archived_mac = $4'
  await archiving.query(begin, [verified, hash, key.id, archivedMac(key, verified, hash)])
  await archiving.query('DELETE FROM audit_events WHERE id <= $1', [verified])
  await archiving.query('COMMIT')
  t.equal((await looking).lost, undefined)
  t.equal((await audit.checked(checkpoint)).lost, undefined)
})

t.test('a checkpoint that was not written with the key counts for nothing', async t => {
  const { ask, audit } = await startFull(500)
  t.match(await audit.check(0), { isDone: true, checkpoint: { verified: 500 } })
  await ask(`UPDATE audit_check SET body = replace(body, '"verified":500', '"verified":499')`)
  t.match(await audit.checked(), { checkpoint: undefined, lost: undefined })
  t.match(await audit.check(0), { checkpoint: { verified: 500 } })
  t.match(await audit.checked({ verified: 500, hash: 'another' }), { lost: 500 })
  t.match(await audit.checked({ verified: 501, hash: 'another' }), { lost: 501 })
})

// A fail-over of Postgres that loses commits: what had ended stays ended everywhere, and new logins are good, without a restart.
import t from 'tap'
import { createAuditWatch } from '../../gateway/observe/audit-watch.ts'
import { runFailOver } from '../support/fail-over-world.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { keepingLog } from '../support/quiet.ts'
import { actor, openStore } from '../support/store.ts'
import { succeeds, until } from '../support/until.ts'

t.test('audit entries that a fail-over has lost are warned of once; the log is whole without them', async t => {
  const postgres = await startOwnPostgres(t)
  const standby = await postgres.addStandby()
  const name = new URL(postgres.url).pathname.slice(1)
  const hosts = [postgres, standby].map(({ port }) => `127.0.0.1:${port}`)
  const { audit } = await openStore(t, postgres, `postgres://postgres@${hosts}/${name}`)
  const append = (action: string) => audit.append({ actor, action })
  await append('kept')
  await standby.cutOff()
  const { log, said } = keepingLog()
  const reasons = () => said.flatMap(({ reason }) => (reason?.startsWith('audit-') ? [reason] : []))
  const watch = createAuditWatch(audit, log, { everyMs: 20, lookMs: 20 })
  t.teardown(watch.close)
  for (let n = 0; n < 20; n++) await append('lost')
  const { entries: before } = (await audit.checked()) ?? {}
  await until(async () => (await audit.checked()).checkpoint?.verified === before, 'all entries are checked')
  const checkedAt = Date.now()
  await until(() => Number(watch.last().checkedAt ?? 0) > checkedAt, 'the process knows that they are')
  await postgres.kill()
  await standby.promote()
  await until(() => reasons().includes('audit-lost'), 'the loss is noticed')
  await until(() => succeeds(append('later')))
  await until(async () => watch.last().entries === (await audit.checked()).entries, 'the new entry is seen')
  // An attempt whose success was not reported is made again.
  const { total } = await audit.list({ action: 'later' })
  t.match(watch.last(), { state: 'ok', firstBroken: undefined, entries: Number(before) - 20 + total })
  t.same(
    reasons().filter(reason => reason !== 'audit-unreadable'),
    ['audit-lost']
  )
  await standby.query("SET session_replication_role = replica; DELETE FROM audit_events WHERE action = 'later'", name)
  await until(async () => watch.last().state === 'broken', 'what is gone without a fail-over is missed')
})

// RV-100 RV-101
t.test('no revoked token passes anywhere when the promoted standby lacks 1.5 s, new logins do, on record', async t => {
  t.same(await runFailOver(t, await startOwnPostgres(t), 30), [])
})

// A fail-over of Postgres that loses commits: what had ended stays ended everywhere, and new logins are good, without a restart.
import t, { type Test } from 'tap'
import type { Identity } from '../../gateway/identity.ts'
import { createAuditWatch } from '../../gateway/observe/audit-watch.ts'
import { listenAccessChanges } from '../../gateway/store/access-changes.ts'
import { createLiveLogins } from '../../gateway/store/live-logins.ts'
import { createPersonalTokenStore } from '../../gateway/store/personal-tokens.ts'
import { createPersonalTokens } from '../../gateway/tokens/personal-tokens.ts'
import { startRevocationFeed } from '../../gateway/tokens/revocation-feed.ts'
import { createRevocations } from '../../gateway/tokens/revocations.ts'
import { runFailOver } from '../support/fail-over-world.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { actor, begunLogin, openStore, person } from '../support/store.ts'
import { succeeds, until } from '../support/until.ts'

const nowS = () => Math.floor(Date.now() / 1000)

const startInstance = async (test: Test, postgres: Awaited<ReturnType<typeof startOwnPostgres>>) => {
  const store = await openStore(test, postgres, postgres.url)
  const revocations = createRevocations()
  const personalTokens = createPersonalTokens({ revocations, confirmMs: 3_600_000 })
  const isAway = { now: false }
  const feed = await startRevocationFeed({
    source: {
      ...store.tokenState,
      async changesSince(cursor) {
        if (isAway.now) throw new Error('away')
        return store.tokenState.changesSince(cursor)
      },
      readLiveTokens: createPersonalTokenStore(store.database).readLive,
      listen: on =>
        listenAccessChanges(store.database, {
          ...on,
          onChange: change => (isAway.now ? undefined : on.onChange(change)),
          log: quiet
        })
    },
    revocations,
    personalTokens,
    log: quiet,
    pollMs: 100
  })
  test.teardown(() => feed.close())
  return { ...store, revocations, isAway, feed }
}

type Instance = Awaited<ReturnType<typeof startInstance>>

const tokenOf = (userId: number, tokenId: string, version: number, issuedAt: number) =>
  ({ user: { id: userId }, tokenId, version, issuedAt }) as Identity

// RV-100 RV-101
t.test('no revoked token passes on any instance after a fail-over that lost commits, and new logins do', async t => {
  const postgres = await startOwnPostgres(t)
  const instances = await Promise.all([1, 2, 3].map(() => startInstance(t, postgres)))
  const [away, one, two] = instances as [Instance, Instance, Instance]
  const { user } = await one.users.syncPerson(person('maria'))
  const login = { userId: user.id, version: 0, tokenId: 'old', createdAt: nowS() - 60, expiresAt: nowS() + 3600 }
  await createLiveLogins(one.database).begin(begunLogin(login))
  await postgres.replicate()
  await until(() => one.database.ping())

  const ended = Array.from({ length: 20 }, (_, n) => `lost-${n}`)
  for (const jti of ended) await one.tokenState.revokeToken(jti, nowS() + 3600)
  await one.users.revokePerson(actor, user.id)
  const old = tokenOf(user.id, 'old', 0, nowS() - 60)
  await until(() => instances.every(({ revocations }) => revocations.tokenState(old) === 'revoked'))
  await until(() => instances.every(({ revocations }) => ended.every(revocations.isRevoked)))
  const revokedAt = nowS()
  away.isAway.now = true
  await postgres.failOver()
  await until(() => two.database.ping())
  const later = Array.from({ length: 20 }, (_, n) => `later-${n}`)
  for (const jti of later) await until(() => succeeds(two.tokenState.revokeToken(jti, nowS() + 3600)))
  away.isAway.now = false

  const all = [...ended, ...later]
  await until(() => instances.every(({ revocations }) => all.every(revocations.isRevoked)))
  await until(() => instances.every(({ revocations }) => revocations.tokenState(old) === 'revoked'))
  // Tokens tell when they were issued in whole seconds: those of the second of a lost revocation are refused.
  await until(() => nowS() > revokedAt)
  const again = await one.users.syncPerson(person('maria'))
  const fresh = tokenOf(user.id, 'fresh', again.version, nowS())
  for (const { revocations } of instances) {
    t.equal(revocations.tokenState(old), 'revoked')
    t.equal(revocations.tokenState(fresh), 'valid')
  }
  t.ok((await one.audit.list({ action: 'revocations.restored' })).total >= 1)
  const restarted = await startInstance(t, postgres)
  t.ok(all.every(restarted.revocations.isRevoked))
  t.equal(restarted.revocations.tokenState(old), 'revoked')
  t.equal(restarted.revocations.tokenState(fresh), 'valid')
})

t.test('audit entries that a fail-over has lost are warned of once; the log is whole without them', async t => {
  const postgres = await startOwnPostgres(t)
  const { audit, database } = await openStore(t, postgres, postgres.url)
  const append = (action: string) => audit.append({ actor, action })
  await append('kept')
  await postgres.replicate()
  await until(() => database.ping())
  const reasons: string[] = []
  const note = ({ reason = '' }: { reason?: string }) => void reasons.push(reason)
  const log = { ...quiet, info: () => undefined, warn: note, error: note } as never
  const watch = createAuditWatch(audit, log, { everyMs: 20, lookMs: 20 })
  t.teardown(watch.close)
  for (let n = 0; n < 20; n++) await append('lost')
  const { entries: before } = (await audit.checked()) ?? {}
  await until(async () => (await audit.checked()).checkpoint?.verified === before, 'all entries are checked')
  const checkedAt = Date.now()
  await until(() => Number(watch.last().checkedAt ?? 0) > checkedAt, 'the process knows that they are')
  await postgres.failOver()
  await until(() => reasons.includes('audit-lost'), 'the loss is noticed')
  await until(() => succeeds(append('later')))
  await until(async () => watch.last().entries === (await audit.checked()).entries, 'the new entry is seen')
  t.match(watch.last(), { state: 'ok', firstBroken: undefined, entries: Number(before) - 19 })
  t.same(
    reasons.filter(reason => reason.startsWith('audit-') && reason !== 'audit-unreadable'),
    ['audit-lost']
  )
  await postgres.query("SET session_replication_role = replica; DELETE FROM audit_events WHERE action = 'later'")
  await until(async () => watch.last().state === 'broken', 'what is gone without a fail-over is missed')
})

// RV-100 RV-101
t.test('three gateways go on when the promoted standby lacks 1.5 s, one of them away for longer', async t => {
  t.same(await runFailOver(t, await startOwnPostgres(t), 30), [])
})

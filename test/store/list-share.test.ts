// Lists that take long leave database connections to everything else.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { openClient } from '../support/store.ts'
import { until } from '../support/until.ts'

t.test('however many lists of people are asked for, other requests have connections', async t => {
  const postgres = await startOwnPostgres(t)
  const world = await startGateway(t, { postgres })
  const token = await world.tokenFor({ profiles: ['Admin'] })
  await world.fetch('/auth/admin/users', { token })
  const client = await openClient(t, postgres.url)
  await client.query('BEGIN')
  await client.query('LOCK TABLE user_profiles IN ACCESS EXCLUSIVE MODE')
  const lists = Array.from({ length: 30 }, () =>
    world.fetch('/auth/admin/users', { token }).then(({ status }) => status)
  )
  const waiting = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
  await until(async () => Number((await postgres.query(waiting))[0]?.n) >= 2)
  t.equal((await world.fetch('/auth/admin/areas', { token })).status, 200)
  t.same(await postgres.query(waiting), [{ n: 2 }], 'lists have two connections')
  await client.query('COMMIT')
  for (const status of await Promise.all(lists)) t.ok(status === 200 || status === 503)
  t.equal((await world.fetch('/auth/admin/users', { token })).status, 200)
})

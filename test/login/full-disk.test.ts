// While the volume of Postgres is full, every login that is accepted is on record, and /health says that nothing can be written.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { jsonRequest, postClient, postLogin } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

// RV-79
t.test('a login that is accepted while the disk is full has its audit entry, and others are 503', async t => {
  const postgres = await startOwnPostgres(t, ['autovacuum=off'], { volumeMb: 64 })
  const ldap = await startOpenLdap(t)
  const env = { ...ldap.env, LOGIN_FAILURES_PER_IP: '1000' }
  const world = await startGateway(t, { postgres, env })
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  const wish = jsonRequest('POST', admin, { name: 'Robo', ...NOTHING })
  const { clientId, clientSecret } = await world.json<Record<string, string>>('/auth/admin/clients', wish)
  const byClient = () => postClient(world, clientId, clientSecret)
  const database = async () => (await world.health()).checks.database
  t.equal((await postLogin(world, 'maria')).status, 200)
  t.equal(await database(), 'ok')

  await fill(postgres)
  await until(async () => (await database()) === 'degraded', '/health says so')
  const statuses = new Map([[200, 1]])
  for (let n = 0; n < 60; n++) {
    const answer = await (n % 3 === 0 ? byClient() : postLogin(world, 'maria'))
    const { status } = answer
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    // Its error body is always that of RFC 6749 §5.2.
    if (n % 3 === 0 && status === 503) t.match(await answer.json(), { error: 'temporarily_unavailable' })
  }
  t.ok((statuses.get(503) ?? 0) > 0, JSON.stringify([...statuses]))
  t.same([...statuses.keys()].sort(), [200, 503])
  t.equal(await database(), 'degraded')
  await postgres.query('DROP TABLE filler')
  await until(async () => (await database()) === 'ok', 'the database can be written again')
  t.equal((await postLogin(world, 'maria')).status, 200)
  const [entries] = await postgres.query("SELECT count(*)::int AS n FROM audit_events WHERE action = 'login'")
  t.equal(entries?.n, (statuses.get(200) ?? 0) + 1, 'one entry for each login that was accepted')
})

const NOTHING = { profiles: [], areas: [], areaPrincipal: null }

/** To the last page of a table. */
const fill = async (postgres: Awaited<ReturnType<typeof startOwnPostgres>>) => {
  await postgres.query('CREATE TABLE filler (text text)')
  for (const pages of [400, 1]) {
    for (let isFull = false; !isFull; ) {
      const insert = `INSERT INTO filler SELECT repeat(md5(n::text), 59) FROM generate_series(1, ${4 * pages}) n`
      isFull = await postgres.query(insert).then(
        () => false,
        error => error.code === '53100'
      )
    }
  }
}

// Logins are on record, whatever floods in, and a password typed as a name is written nowhere.
// LD-21, AD-08, RW-13, RW-19, RW-25
import t, { type Test } from 'tap'
import { createLoginAudit } from '../../gateway/login/audit.ts'
import { startGateway } from '../support/gateway.ts'
import { logIn, postLogin } from '../support/login.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { openClient } from '../support/store.ts'
import { until } from '../support/until.ts'

const ldap = await startOpenLdap(t)

const startWorld = async (t: Test, env: Record<string, string> = {}) => {
  const postgres = await startPostgres(t)
  const world = await startGateway(t, { postgres, env: { ...ldap.env, TRUST_PROXY: '127.0.0.1', ...env } })
  const login = async (username: string, password: string, from: string): Promise<number> => {
    const answer = await postLogin(world, username, { password, from })
    await answer.arrayBuffer()
    return answer.status
  }
  return { postgres, world, login }
}

/** The entries about refused logins, and of how many they tell. */
const refusalsIn = async (postgres: TestPostgres) => {
  const rows = await postgres.query("SELECT details FROM audit_events WHERE action = 'login.failed'")
  const details = rows.map(row => row.details as { count?: number; seconds?: number })
  return { details, counted: details.reduce((sum, { count = 1 }) => sum + count, 0) }
}

t.test('who was refused is named when known, by any name of the account, else by a keyed hash', async t => {
  const { postgres, world, login } = await startWorld(t, ldap.serviceEnv)
  const secret = 'Minha-Senha-Secreta-7'
  t.equal(await login('maria@corp.example', SAMPLE_PASSWORD, '192.0.2.1'), 200)
  t.equal(await login('maria@corp.example', 'errada', '192.0.2.1'), 401)
  t.equal(await login(secret, 'maria', '192.0.2.1'), 401)
  t.equal(await login(secret, 'maria de novo', '192.0.2.1'), 401)
  await world.logged(({ reason }) => reason === 'unknown-user')
  await world.gateway.close()
  const rows = await postgres.query(
    "SELECT actor_id, actor_username, target FROM audit_events WHERE action = 'login.failed' ORDER BY id"
  )
  t.match(rows, [
    { actor_id: null, actor_username: 'maria', target: /^user:\d+$/ },
    { actor_id: null, actor_username: /^unknown:[\w-]{16}$/, target: '' },
    { actor_id: null, actor_username: /^unknown:[\w-]{16}$/, target: '' }
  ])
  t.equal(rows[1]?.actor_username, rows[2]?.actor_username, 'the same name is recognised')
  const everything = JSON.stringify(await postgres.query('SELECT * FROM audit_events'))
  for (const text of [everything, world.logText()]) t.notMatch(text.toLowerCase(), secret.toLowerCase())
})

t.test('a refused login names a service account as such', async t => {
  const targets: string[] = []
  const audit = createLoginAudit({
    audit: { append: async ({ target = '' }) => void targets.push(target) },
    names: { personOf: async () => undefined },
    secret: 'a secret for tests that is long enough',
    log: { ...quiet, debug() {} }
  })
  for (const provider of ['client', 'cloudidp'] as const)
    audit.record({ ok: false, provider, reason: 'x', username: 'robot', userId: 7, requestId: 'r', ip: '' })
  await audit.flush()
  t.same(targets, ['client:7', 'user:7'])
})

t.test('the stable subject of a person is no name of theirs: a refused login under it names nobody', async t => {
  const { postgres, world, login } = await startWorld(t)
  t.equal(await login('maria', SAMPLE_PASSWORD, '192.0.2.1'), 200)
  const [link] = await postgres.query('SELECT subject FROM provider_links')
  t.equal(await login(String(link?.subject), 'errada', '192.0.2.1'), 401)
  await world.gateway.close()
  const rows = await postgres.query("SELECT actor_username, target FROM audit_events WHERE action = 'login.failed'")
  t.match(rows, [{ actor_username: /^unknown:/, target: '' }])
})

t.test('under a flood of refusals every success is on record, and the refusals are summed up', async t => {
  const { postgres, world, login } = await startWorld(t)
  const refused: number[] = []
  const accepted: number[] = []
  // A hundred at a time, of which the database takes four: more than 256 that wait would be refused with 503.
  let next = 0
  const client = async () => {
    for (let n = next++; n < 440; n = next++) {
      if (n % 11 === 0) accepted.push(await login('maria', SAMPLE_PASSWORD, `198.51.100.${n / 11}`))
      else refused.push(await login(`ninguem${n}`, 'x', `203.0.${n >> 8}.${n & 255}`))
    }
  }
  await Promise.all(Array.from({ length: 100 }, client))
  t.same([accepted.length, ...new Set(accepted)], [40, 200])
  t.same([refused.length, ...new Set(refused)], [400, 401])
  await world.gateway.close()
  const [successes] = await postgres.query("SELECT count(*)::int AS n FROM audit_events WHERE action = 'login'")
  t.equal(successes?.n, 40)
  const { details, counted } = await refusalsIn(postgres)
  t.ok(details.length < 100, `${details.length} entries`)
  t.equal(counted, 400)
  const sums = details.flatMap(({ seconds }) => seconds ?? [])
  t.ok(sums.length > 0 && sums.every(seconds => seconds >= 1 && seconds <= 60), `${sums} s`)
})

t.test('refusals that are summed up are on record at a stop, also if sessions cannot be written in time', async t => {
  const { postgres, world, login } = await startWorld(t)
  const { token } = await logIn(world, 'maria')
  t.equal((await world.fetch('/auth/me', { token })).status, 200)
  await Promise.all(Array.from({ length: 70 }, (_, n) => login(`ninguem${n}`, 'x', `203.0.113.${n}`)))
  // A stop waits a second and a half for the database, which a busy machine needs for the sixty entries themselves.
  await until(async () => (await refusalsIn(postgres)).details.length >= 60)
  // As while a database that is upgraded changes this table.
  const holder = await openClient(t, postgres.url)
  await holder.query('BEGIN; LOCK TABLE sessions')
  await world.gateway.close()
  await holder.query('COMMIT')
  t.equal((await refusalsIn(postgres)).counted, 70)
})

t.test('with directory login off an anonymous POST leaves no row', async t => {
  const { postgres, world, login } = await startWorld(t, { LDAP_ENABLED: 'false' })
  for (let n = 0; n < 20; n++) t.equal(await login('maria', 'x', `203.0.113.${n}`), 401)
  await world.gateway.close()
  t.same(await postgres.query("SELECT 1 FROM audit_events WHERE action LIKE 'login%'"), [])
})

t.test('sixty refusals have an entry each, then one every five seconds, and no typed name is in them', async t => {
  let now = 0
  const names: string[] = []
  const audit = createLoginAudit({
    audit: { append: async ({ actor }) => void names.push(actor.username) },
    names: { personOf: async () => undefined },
    secret: 'a secret for tests that is long enough',
    log: { ...quiet, debug() {} },
    clock: () => now
  })
  const refuse = async (username: string) => {
    audit.record({ ok: false, provider: 'ldap', reason: 'x', username, userId: undefined, requestId: 'r', ip: '' })
    // It writes the sums of those without an entry too, which name no one.
    await audit.flush()
    return names.filter((name, i) => name !== '' || i === 0).length
  }
  await refuse('')
  for (let n = 2; n <= 70; n++) t.equal(await refuse('typed'), Math.min(n, 60))
  now = 4999
  t.equal(await refuse('typed'), 60)
  now = 5000
  t.equal(await refuse('typed'), 61)
  t.equal(await refuse('typed'), 61)
  t.equal(names[0], '')
  t.match(names[1], /^unknown:[\w-]{16}$/)
})

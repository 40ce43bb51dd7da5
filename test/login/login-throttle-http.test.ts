// Three whole gateways share what they know of failed logins, and say the same to everybody.
// LD-07, LD-12, LD-14, RL-08
import t from 'tap'
import { startGateway, type World } from '../support/gateway.ts'
import { postLogin } from '../support/login.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { HOME, stranger } from '../support/throttles.ts'

const [ldap, redis] = await Promise.all([startOpenLdap(t, { lockoutThreshold: 5 }), startRedis(t)])

const startGateways = async (test: Parameters<typeof startGateway>[0]) => {
  const postgres = await startPostgres(test)
  const env = {
    REDIS_URL: redis.url,
    TRUST_PROXY: '127.0.0.1',
    OPS_PORT: '0',
    ...ldap.env,
    // A hundred logins of one person wait for each other, on a busy machine too.
    LDAP_TIMEOUT_MS: '20000'
  }
  const worlds: World[] = []
  for (let n = 0; n < 3; n++) worlds.push(await startGateway(test, { postgres, env }))
  const login = async (n: number, from: string, username: string, password: string) => {
    const world = worlds[n % worlds.length]
    if (world === undefined) throw new Error('no gateway')
    const ask = () => postLogin(world, username, { password, headers: { 'x-forwarded-for': from } })
    let answer = await ask()
    // A crowd that waits for the database for longer than a login may, on a machine that does other things too.
    while (answer.status === 503) answer = await ask()
    const body = (await answer.json()) as { code?: string; requestId?: string }
    return { status: answer.status, retryAfter: answer.headers.get('retry-after'), body, world }
  }
  return { worlds, postgres, login }
}

t.test('guesses from many addresses through three gateways lock no one out', async t => {
  const { login, postgres, worlds } = await startGateways(t)
  t.equal((await login(0, HOME, 'maria', SAMPLE_PASSWORD)).status, 200)
  const statuses = new Map<number, number>()
  const guess = (n: number) => login(n, stranger(n), n % 2 ? 'maria' : 'CORP\\Maria', `guess ${n}`)
  for (let first = 0; first < 600; first += 100) {
    const crowd = Array.from({ length: 100 }, (_, n) => guess(first + n))
    for (const { status } of await Promise.all(crowd)) statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  t.same(Object.fromEntries(statuses), { 401: 2, 429: 598 })
  t.equal(await ldap.failureCount('maria'), 2)
  const refused = await login(1, stranger(9), 'maria', SAMPLE_PASSWORD)
  t.match(refused, { status: 429, retryAfter: /^\d+$/, body: { statusCode: 429, code: 'GW_LOGIN_THROTTLED' } })
  t.notMatch(JSON.stringify(refused.body), /maria|account/)
  await refused.world.logged(
    line => line.requestId === refused.body.requestId && line.reason === 'login-throttled-account'
  )
  t.equal((await login(2, HOME, 'maria', SAMPLE_PASSWORD)).status, 200, 'from home the owner gets in')
  await Promise.all(worlds.map(world => world.gateway.close()))
  const [audit] = await postgres.query("SELECT count(*)::int AS n FROM audit_events WHERE action = 'login.failed'")
  t.ok(Number(audit?.n) < 100, `600 guesses are ${audit?.n} entries of the audit log`)
})

t.test('twenty failures of one client close all gateways for its logins, and every refusal is counted', async t => {
  const { login, worlds } = await startGateways(t)
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) => login(n, '192.0.2.1', `name${n}`, 'Verao2026'))
  )
  t.equal(answers.filter(({ status }) => status === 401).length, 20)
  const refused = await login(1, '192.0.2.1', 'ana', SAMPLE_PASSWORD)
  t.match(refused, { status: 429, body: { code: 'GW_LOGIN_THROTTLED' } })
  t.ok(Number(refused.retryAfter) > 200 && Number(refused.retryAfter) <= 300, `${refused.retryAfter}`)
  let counted = 0
  for (const { gateway } of worlds) {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.opsPort}/metrics`)).text()
    for (const [, count] of metrics.matchAll(/^portaria_logins_total\{.*"login-throttled-client"\} (\d+)$/gm))
      counted += Number(count)
  }
  t.equal(counted, 41)
  t.equal((await login(1, '192.0.2.2', 'ana', SAMPLE_PASSWORD)).status, 200)
})

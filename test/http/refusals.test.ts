// A refusal says no more than it may, to programs as JSON and to people as a page.
import t from 'tap'
import { routesTo, startGateway, type World } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'

const postgres = await startPostgres(t)

const config = routesTo('http://127.0.0.1:9', [
  { path: '/reports', roles: ['Admin', 'Supervisor'] },
  { path: '/internal', requireAssigned: true }
])
const CONTACT = 'Ana <ana@corp.example> & co, ramal 7'

const start = (test: Parameters<typeof startGateway>[0], env: Record<string, string> = {}) =>
  startGateway(test, { postgres, config, env })

const refusal = async (world: World, path: string, user: Parameters<World['tokenFor']>[0]) => {
  const answer = await world.fetch(path, { token: await world.tokenFor(user) })
  t.equal(answer.status, 403)
  const body = (await answer.json()) as Record<string, string>
  t.equal(body.requestId, answer.headers.get('x-request-id'), 'the body names the request')
  return body
}

t.test('a 403 says nothing of roles unless REVEAL_REASON is set', async t => {
  const world = await start(t, { CONTACT })
  const body = await refusal(world, '/reports', { profiles: ['Agente'] })
  t.equal(body.code, 'GW_FORBIDDEN')
  t.notMatch(JSON.stringify(body), /Supervisor|Ana/)
})

t.test('with REVEAL_REASON a 403 names the missing profile, and whom to ask', async t => {
  const world = await start(t, { REVEAL_REASON: 'true', CONTACT })
  const forbidden = await refusal(world, '/reports', { profiles: ['Agente'] })
  t.match(forbidden, { statusCode: 403, code: 'GW_FORBIDDEN', error: 'Forbidden' })
  for (const word of ['Admin', 'Supervisor', CONTACT]) t.ok(forbidden.message?.includes(word), word)
  const unassigned = await refusal(world, '/internal', { profiles: [], areas: [], accessStatus: 'unassigned' })
  t.equal(unassigned.code, 'GW_UNASSIGNED')
  t.match(unassigned.message, /profile and an area/)

  const silent = await start(t, { REVEAL_REASON: 'true' })
  t.notMatch((await refusal(silent, '/reports', { profiles: ['Agente'] })).message, /Ask/)
})

t.test('a navigation gets the same as a page that names the request', async t => {
  const world = await start(t, { REVEAL_REASON: 'true', CONTACT })
  const token = await world.tokenFor({ profiles: ['Agente'] })
  const get = (mode: string) =>
    world.raw(
      `GET /reports HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\nAccept: text/html,*/*;q=0.8\r\nSec-Fetch-Mode: ${mode}\r\n\r\n`
    )
  const answer = await get('navigate')
  t.equal(answer.status, 403)
  t.match(answer.headers, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': /default-src 'none'/
  })
  t.ok(answer.body.includes(answer.headers['x-request-id'] ?? 'no id'))
  t.match(answer.body, /Admin, Supervisor/)
  t.ok(answer.body.includes('Ana &lt;ana@corp.example&gt; &amp; co, ramal 7'), 'the contact is text, not markup')
  t.match(answer.body, 'GW_FORBIDDEN')
  t.match((await get('cors')).headers['content-type'], /^application\/json/, 'a script gets JSON')
})

t.test("a page of a refusal speaks the reader's language, bears the name of the site, and leads on", async t => {
  // What each page says is shown in test/pages/page-parts.test.ts.
  const env = { BRAND_NAME: 'Casa <b>', CONTACT, REVEAL_REASON: 'true', FRONTEND_URL: 'https://app.example.org' }
  const world = await start(t, env)
  const token = await world.tokenFor({ profiles: ['Agente'] })
  const page = async (path: string, language: string) => {
    const answer = await world.raw(
      `GET ${path} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\nAccept: text/html\r\nAccept-Language: ${language}\r\n\r\n`
    )
    return Buffer.from(answer.body, 'latin1').toString()
  }
  const denied = await page('/reports', 'en')
  for (const text of ['<h1>Access denied</h1>', 'Casa &lt;b&gt;', 'For help: Ana &lt;ana@corp.example&gt;'])
    t.ok(denied.includes(text), text)
  t.match(denied, /<a href="https:\/\/app\.example\.org">Go to the start page/)
  t.match(denied, /<link rel="icon" href="data:image\/svg\+xml,/, 'no browser asks the site for an icon')
  for (const language of ['pt-BR,pt;q=0.9,en;q=0.8', 'en;q=0.3, pt-PT;q=0.7', 'PT']) {
    const body = await page('/reports', language)
    t.match(
      body,
      /<html lang="pt-BR">.*Acesso negado.*É preciso ter um destes perfis: Admin, Supervisor.*Ver o meu acesso/s
    )
    t.notMatch(body, /Access denied|profile|Request id/)
  }
  for (const language of ['en-GB,pt;q=0.5', 'de', '*', ';;q=x', 'ptx'])
    t.match(await page('/reports', language), /<html lang="en">/, language)
  const atHome = await start(t)
  const body = (
    await atHome.raw(`GET /?x=1 HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\nAccept: text/html\r\n\r\n`)
  ).body
  t.match(body, /404 GW_NO_ROUTE/)
  t.match(body, /<nav><a href="\/auth\/login">Log in<\/a><\/nav>/, 'the start page does not lead to itself')
})

t.test('the request id of what cannot be read as a request leads to a line in the log', async t => {
  const world = await start(t, { OPS_PORT: '0' })
  for (const [bytes, status, reason] of [
    ['NONSENSE\r\n\r\n', 400, 'malformed'],
    [`GET / HTTP/1.1\r\nHost: gw\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431, 'too-large']
  ] as const) {
    const requestId = (await world.raw(bytes)).headers['x-request-id']
    const line = await world.logged(({ requestId: id }) => id === requestId)
    t.match(line, { msg: 'refused an unreadable request', status, code: 'GW_BAD_REQUEST', reason, ip: '127.0.0.1' })
  }
  const metrics = await (await fetch(`http://127.0.0.1:${world.gateway.opsPort}/metrics`)).text()
  t.match(metrics, 'portaria_refusals_total{code="GW_BAD_REQUEST",reason="too-large"} 1')
})

t.test('what clients send that is no request does not use up the rate limit of the proxy in front', async t => {
  const limit = { RATE_LIMIT_MAX: '2', RATE_LIMIT_TTL_MS: '3600000' }
  for (const [env, status, health] of [
    [{ ...limit, TRUST_PROXY: '127.0.0.1' }, 400, 200],
    [limit, 429, 429]
  ] as const) {
    const world = await start(t, env)
    for (let i = 0; i < 2; i++) t.equal((await world.raw('NONSENSE\r\n\r\n')).status, 400)
    t.equal((await world.raw('NONSENSE\r\n\r\n')).status, status)
    t.equal((await world.fetch('/health')).status, health)
  }
})

t.test('each refusal over the limit says when to return, and has an id of its own', async t => {
  const world = await start(t, { RATE_LIMIT_MAX: '2', RATE_LIMIT_TTL_MS: '3600000' })
  for (let i = 0; i < 2; i++) await world.fetch('/reports')
  const answers = [await world.fetch('/reports'), await world.fetch('/internal'), await world.fetch('/auth/me')]
  const ids = new Set<string>()
  for (const answer of answers) {
    t.equal(answer.status, 429)
    const retryAfter = Number(answer.headers.get('retry-after'))
    t.ok(retryAfter > 3500 && retryAfter <= 3600, `retry-after: ${retryAfter}`)
    const body = (await answer.json()) as Record<string, string>
    t.match(body, { code: 'GW_RATE_LIMITED', requestId: answer.headers.get('x-request-id') ?? 'none' })
    ids.add(body.requestId ?? '')
  }
  t.equal(ids.size, 3)
})

// Git and other clients that only know Basic send an access token as the password.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'

const ldap = await startOpenLdap(t)
const raw = await startRawUpstream(t)
raw.respond(() => OK)
const world = await startGateway(t, {
  config: {
    upstreams: { raw: { url: raw.url } },
    routes: [
      { path: '/git/*', upstream: 'raw', basic: true, roles: ['Admin'], forwardToken: true },
      { path: '/any/*', upstream: 'raw', basic: true },
      { path: '/bearer/*', upstream: 'raw' },
      { path: '/open/*', upstream: 'raw', public: true }
    ]
  },
  env: {
    ...ldap.env,
    BOOTSTRAP_ADMINS: 'ldap:maria'
  }
})

const json = { 'content-type': 'application/json' }
const login = await world.fetch('/auth/login', {
  method: 'POST',
  headers: json,
  body: JSON.stringify({ username: 'maria', password: SAMPLE_PASSWORD })
})
const { token: loginToken } = (await login.json()) as { token: string }
const made = await world.fetch('/auth/tokens', {
  method: 'POST',
  token: loginToken,
  headers: json,
  body: JSON.stringify({ name: 'git', profiles: ['Admin'], expiresAt: new Date(Date.now() + 86_400_000).toISOString() })
})
const { token } = (await made.json()) as { token: string }

const basic = (password: string, user = 'anything') => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
const ask = async (path: string, headers: Record<string, string>, method = 'GET') => {
  const answer = await world.fetch(path, { method, headers })
  const text = await answer.text()
  return { status: answer.status, challenge: answer.headers.get('www-authenticate'), text }
}

t.test('an access token is the password of Basic where the route says so, whatever the user name', async t => {
  for (const user of ['maria', '', 'x-access-token']) {
    t.match(await ask('/git/repo/info/refs', { authorization: basic(token, user) }), { status: 200 })
    const head = raw.requests.at(-1)?.head ?? ''
    t.match(head, /x-user-username: maria\r\n/)
    t.notMatch(head, /authorization/i, 'Basic is never forwarded')
  }
  t.match(await ask('/git/x', { authorization: `Bearer ${token}` }), { status: 200 }, 'Bearer works there too')
  t.match(await ask('/bearer/x', { authorization: basic(token) }), { status: 401, challenge: 'Bearer' })
})

t.test('a password that is no access token is no token: not a JWT, not a password of the directory', async t => {
  for (const password of [loginToken, SAMPLE_PASSWORD, '', `pt_${'A'.repeat(43)}`, `${token}x`]) {
    const answer = await ask('/any/x', { authorization: basic(password, 'maria') })
    t.match(answer, { status: 401, challenge: 'Basic realm="Portaria", charset="UTF-8"' })
  }
  t.notOk(world.logText().includes(SAMPLE_PASSWORD))
  t.notOk(world.logText().includes(basic(SAMPLE_PASSWORD, 'maria').slice(6)))
})

t.test('the challenge is Basic instead of Bearer, and a page gets none', async t => {
  t.match(await ask('/git/x', {}), { status: 401, challenge: /^Basic / })
  const page = await world.raw('GET /git/x HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nConnection: close\r\n\r\n')
  t.equal(page.status, 401)
  t.notMatch(page.head, /www-authenticate/i)
  t.match(await ask('/bearer/x', {}), { status: 401, challenge: 'Bearer' })
})

t.test('Basic from another site is refused, whatever the method', async t => {
  for (const method of ['GET', 'POST', 'DELETE']) {
    const sent = { authorization: basic(token), origin: 'https://evil.example' }
    t.match(await ask('/git/x', sent, method), { status: 403, text: /GW_BAD_ORIGIN/ }, method)
  }
})

t.test('a public route strips an access token in Basic, and passes other credentials', async t => {
  t.match(await ask('/open/x', { authorization: basic(token) }), { status: 200 })
  t.match(raw.requests.at(-1), { target: '/open/x' })
  t.notMatch(raw.requests.at(-1)?.head, /authorization/i)
  t.match(await ask('/open/x', { authorization: basic('a backend password') }), { status: 200 })
  t.match(raw.requests.at(-1)?.head, /authorization: Basic/i)
})

t.test('a live access token reaches no public backend in a path; text that only looks like one does', async t => {
  // RW-23
  for (const path of [token, `a/${token}.zip`, `x-${token}-x`, `pt_${token}`])
    t.match(await ask(`/open/${path}`, {}), { status: 400, text: /GW_BAD_REQUEST/ }, path.replace(token, 'TOKEN'))
  t.match(await ask('/open/pt_BR-manual-de-utilizacao-do-sistema-completo', {}), { status: 200 })
})

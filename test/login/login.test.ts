// Logs people in with a name and a password of the directory.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { startLdapServer } from '../support/ldap-server.ts'
import { only } from '../support/only.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { words } from '../support/words.ts'

const ldap = await startOpenLdap(t)
const postgres = await startPostgres(t)

const start = (test: Parameters<typeof startGateway>[0], env: Record<string, string> = {}) =>
  startGateway(test, { postgres, env: { ...ldap.env, BOOTSTRAP_ADMINS: 'ldap:maria', ...env } })

const world = await start(t)

const login = (at: typeof world, body: unknown, type = 'application/json') =>
  at.fetch('/auth/login', {
    method: 'POST',
    headers: { 'content-type': type },
    body: typeof body === 'string' ? body : JSON.stringify(body)
  })

t.test('a person of the directory gets a token, and is who the directory says', async t => {
  const answer = await login(world, { username: 'CORP\\Maria', password: SAMPLE_PASSWORD })
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('cache-control'), 'no-store')
  const { token, user } = (await answer.json()) as { token: string; user: Record<string, unknown> }
  t.match(user, {
    id: Number,
    name: 'Maria da Silva',
    email: 'maria@corp.example',
    username: 'maria',
    provider: 'ldap',
    perfis: only('Admin'),
    profiles: only('Admin'),
    areas: only('Geral'),
    areaPrincipal: 'Geral',
    accessStatus: 'assigned'
  })
  const [header, payload] = token
    .split('.')
    .slice(0, 2)
    .map(part => JSON.parse(Buffer.from(part, 'base64url').toString()))
  t.same(header, { alg: 'HS256', typ: 'JWT' })
  const claims = words`
    accessStatus areaPrincipal areas auth_time email exp iat jti name perfis profiles provider sub username ver
  `
  t.same(Object.keys(payload).sort(), claims)
  t.equal(payload.sub, String(user.id))
  t.equal(payload.exp - payload.iat, 8 * 3600)
  t.same(await world.json('/auth/me', { token }), user)
  t.equal((await world.fetch('/auth/admin/users', { token })).status, 200)
  t.notMatch(
    world.logText(),
    new RegExp(`${SAMPLE_PASSWORD}|${token.slice(-20)}`),
    'neither password nor token is logged'
  ) // LD-21, OA-10
})

/** A failed login and its reason in the log. */
const refusalOf = async (at: typeof world, credentials: object) => {
  const answer = await login(at, credentials)
  const body = (await answer.json()) as Record<string, unknown>
  const { reason } = await at.logged(line => line.requestId === body.requestId && line.reason !== undefined)
  return { answer, body, logged: reason }
}

t.test('every failure has one answer for the client and its own reason in the log', async t => {
  // LD-12, LD-11, DF-11
  await ldap.lock('locked')
  const gone = await start(t, { LDAP_URL: 'ldap://127.0.0.1:1' })
  const silent = await startLdapServer(t, () => undefined)
  const late = await start(t, { LDAP_URL: silent.url, LDAP_TIMEOUT_MS: '300' })
  const off = await startGateway(t, { postgres })
  const tries = [
    { world, username: 'maria', password: 'wrong', reason: 'invalid-credentials' },
    { world, username: 'nobody', password: 'wrong', reason: 'invalid-credentials' },
    { world, username: 'locked', password: SAMPLE_PASSWORD, reason: 'account-locked' },
    { world: gone, username: 'maria', password: SAMPLE_PASSWORD, reason: 'directory-unreachable' },
    { world: late, username: 'maria', password: SAMPLE_PASSWORD, reason: 'directory-timeout' },
    { world: off, username: 'maria', password: SAMPLE_PASSWORD, reason: 'ldap-not-active' }
  ]
  for (const { world: tried, username, password, reason } of tries) {
    const { answer, body, logged } = await refusalOf(tried, { username, password })
    t.equal(answer.status, 401, reason)
    t.same(
      { ...body, requestId: '' },
      { statusCode: 401, code: 'GW_LOGIN_FAILED', error: 'Unauthorized', message: 'Autenticacao falhou', requestId: '' }
    )
    t.equal(answer.headers.get('www-authenticate'), 'Bearer')
    t.equal(logged, reason)
  }
})

t.test('a body that is no user name and password is refused before any directory is asked', async t => {
  // LD-01, HD-27, AD-13
  const world = await start(t, { LDAP_URL: 'ldap://127.0.0.1:1' })
  const bad: unknown[] = [
    {},
    { username: 'maria' },
    { username: 'maria', password: null },
    { username: 'maria', password: '' },
    { username: '', password: 'x' },
    { username: ['maria'], password: 'x' },
    { username: 'maria', password: 0 },
    { username: 'maria', password: false },
    { username: 'a'.repeat(257), password: 'x' },
    { username: 'maria', password: 'x'.repeat(1025) },
    [],
    'null',
    '{"username":"maria",',
    '"text"'
  ]
  for (const body of bad) {
    const answer = await login(world, body)
    const text = await answer.text()
    t.equal(answer.status, 400, text)
    t.match(JSON.parse(text), { code: 'GW_BAD_REQUEST' })
    t.notMatch(text, /FST_|maria|JSON/)
  }
  const other = ['text/plain', 'application/json\ta', 'application/json garbage', 'application/x-www-form-urlencoded']
  for (const type of other)
    t.match(await login(world, { username: 'maria', password: 'x' }, type), { status: 415 }, type)
  t.match(await (await login(world, { username: 'maria', password: 'x'.repeat(70_000) })).json(), {
    code: 'GW_BODY_TOO_LARGE'
  })
  t.notOk(
    world.log.some(line => line.reason === 'directory-unreachable'),
    'no directory was asked'
  )
})

t.test('names and passwords of letters beyond the basic plane may be as long as others', async t => {
  const [letter, key] = ['\u{20000}', '\u{1f511}']
  for (const [username, password] of [
    [letter.repeat(256), 'wrong'],
    ['nobody', key.repeat(1024)]
  ])
    t.match(await refusalOf(world, { username, password }), { answer: { status: 401 }, logged: 'invalid-credentials' })
  for (const [username, password] of [
    [letter.repeat(257), 'wrong'],
    ['nobody', key.repeat(1025)]
  ])
    t.equal((await login(world, { username, password })).status, 400)
})

t.test('anyone may read which ways to log in are open', async t => {
  const answer = await world.fetch('/auth/config')
  t.same(await answer.json(), {
    ldap: { enabled: true },
    cloudidp: { enabled: false, startUrl: '/auth/oauth/cloudidp/start' }
  })
  t.match(Object.fromEntries(answer.headers), {
    'access-control-allow-origin': 'http://localhost:3000',
    vary: 'Origin',
    'x-content-type-options': 'nosniff'
  })
  t.match(await world.health(), {
    status: 'ok',
    checks: { database: 'ok', rateLimit: 'ok', routes: 'ok' }
  })
})

// OA-21
t.test('no answer to a password is a redirect, which a browser could follow with the password', async t => {
  const world = await start(t, { BROWSER_SESSION: 'true' })
  const right = { username: 'maria', password: SAMPLE_PASSWORD }
  const statuses = {
    right: (await login(world, right)).status,
    wrong: (await login(world, { ...right, password: 'nope' })).status,
    'no password': (await login(world, { username: 'maria' })).status,
    form: (await login(world, new URLSearchParams(right).toString(), 'application/x-www-form-urlencoded')).status
  }
  t.same(statuses, { right: 200, wrong: 401, 'no password': 400, form: 415 })
  const navigation = { accept: 'text/html', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }
  for (const path of ['/auth/login', '/auth/login/', '/auth/oauth/cloudidp/start', '/auth/oauth/cloudidp/callback']) {
    const answer = await fetch(`${world.url}${path}`, {
      method: 'POST',
      redirect: 'manual',
      headers: { ...navigation, 'content-type': 'text/plain' },
      body: 'password=x'
    })
    t.ok(answer.status >= 400, `${path} ${answer.status}`)
    t.equal(answer.headers.get('location'), null)
  }
})

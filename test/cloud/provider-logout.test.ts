// The cloud provider's groups, logout in both directions, and its absence.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { logInByCloud, readFragment } from '../support/cloud-browser.ts'
import { answerJson, startFaultyProvider } from '../support/faulty-provider.ts'
import { startGateway } from '../support/gateway.ts'
import { only } from '../support/only.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const EVENT = 'http://schemas.openid.net/event/backchannel-logout'
const BACKCHANNEL = '/auth/oauth/cloudidp/backchannel-logout'
const TENANT = '72f988bf-86f1-41af-91ab-2d7cd011db47'

const provider = await startFaultyProvider(t)
provider.metadata = { end_session_endpoint: `${provider.issuer}/end?x=1` }
const env = {
  CLOUDIDP_ENABLED: 'true',
  CLOUDIDP_ISSUER: provider.issuer,
  CLOUDIDP_CLIENT_ID: 'portaria',
  CLOUDIDP_CLIENT_SECRET: 'a client secret that nothing may show',
  CLOUDIDP_TENANT_ID: TENANT,
  CLOUDIDP_NAME: 'Contoso'
}
const GRANTS = [
  { claim: 'g-1', profiles: ['Supervisor'], areas: ['Vendas'] },
  { claim: 'g-2', tenant: TENANT.toUpperCase(), profiles: ['Agente'], areas: ['Suporte'] }
]
const postgres = await startPostgres(t)
const world = await startGateway(t, { env, postgres, config: { grants: GRANTS } })
const second = await startGateway(t, { env, postgres, config: { grants: GRANTS } })

interface Session {
  token: string
  user: Record<string, unknown>
}

/** The answer to the callback, which is what ends a login. */
const callBack = (claims: Record<string, unknown>): Promise<Response> => {
  provider.claims = claims
  return logInByCloud(world, provider)
}

const logIn = async (claims: Record<string, unknown> = {}): Promise<Session> => {
  const done = await callBack(claims)
  t.equal(done.status, 302)
  return readFragment(done.headers.get('location') ?? '') as unknown as Session
}

const nowS = () => Math.floor(Date.now() / 1000)

const logoutToken = (claims: Record<string, unknown>): Promise<string> => {
  const right = { iss: provider.issuer, aud: 'portaria', iat: nowS(), exp: nowS() + 120, jti: randomUUID() }
  return provider.sign(JSON.parse(JSON.stringify({ ...right, events: { [EVENT]: {} }, ...claims })))
}

const post = async (token: string, at = world.url) => {
  const answer = await fetch(at + BACKCHANNEL, { method: 'POST', body: new URLSearchParams({ logout_token: token }) })
  const text = await answer.text()
  return {
    status: answer.status,
    body: text === '' ? undefined : JSON.parse(text),
    store: answer.headers.get('cache-control')
  }
}

const statusOf = async (token: string, at = world) => (await at.fetch('/auth/me', { token })).status

t.test('groups of the ID token, else of userinfo, give what the grants say', async t => {
  provider.profile = { sub: 'ana' }
  t.match((await logIn({ sub: 'ana', groups: ['g-1', 'other'] })).user, {
    profiles: only('Supervisor'),
    areaPrincipal: 'Vendas'
  })
  t.match((await logIn({ sub: 'ana', groups: ['g-2'], tid: TENANT })).user, { profiles: only('Agente') })
  provider.profile = { sub: 'bia', groups: 'g-1' }
  t.match((await logIn({ sub: 'bia' })).user, { profiles: only('Supervisor'), accessStatus: 'assigned' })
  provider.profile = { sub: 'ana' }
  t.match((await logIn({ sub: 'ana' })).user, { profiles: only(), accessStatus: 'unassigned' })
})

t.test('a list of groups that the provider cut off grants nothing, and log and administration say so', async t => {
  provider.profile = { sub: 'caio' }
  await logIn({ sub: 'caio', groups: ['g-1'] })
  for (const cut of [{ _claim_names: { groups: 'src1' } }, { hasgroups: true }]) {
    const { user } = await logIn({ sub: 'caio', ...cut })
    t.match(user, { profiles: only(), accessStatus: 'unassigned' })
    const token = await world.tokenFor({ profiles: ['Admin'] })
    const item = await world.json(`/auth/admin/users/${user.id}`, { token })
    t.match(item, { groupsCutOff: true, granted: only() })
  }
  t.match(await world.logged(({ reason }) => reason === 'groups-cut-off'), { level: 40, msg: /truncated/ })
})

// OA-24
t.test('the provider ends one session by sid, or all of a person by sub, on every instance', async t => {
  provider.profile = { sub: 'eva' }
  const [one, two] = [await logIn({ sub: 'eva', sid: 's-1' }), await logIn({ sub: 'eva', sid: 's-2' })]
  provider.profile = { sub: 'leo' }
  const leo = await logIn({ sub: 'leo', sid: 's-3' })
  t.match(await post(await logoutToken({ sub: 'eva', sid: 's-1' })), {
    status: 200,
    body: undefined,
    store: 'no-store'
  })
  t.equal(await statusOf(one.token), 401)
  for (let status = 200; status !== 401; ) status = await statusOf(one.token, second)
  t.equal(await statusOf(two.token), 200)
  t.match(await post(await logoutToken({ sub: 'eva' }), second.url), { status: 200 })
  t.equal(await statusOf(two.token, second), 401)
  t.equal(await statusOf(leo.token), 200)
  t.match(await post(await logoutToken({ sub: 'leo', sid: 's-3' })), { status: 200 })
  t.match(await post(await logoutToken({ sid: 'nobody' })), { status: 200 }, 'nothing to end is a success')
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  const path = `/auth/admin/users/${leo.user.id}/audit`
  const { items } = await world.json<{ items: object[] }>(path, { token: admin })
  t.match(items[0], { action: 'logout.provider', actor: { username: 'cloudidp' } })
})

// RV-68
t.test('a logout that arrives while its login is under way ends it, and nothing else', async t => {
  t.teardown(() => delete provider.faults.userinfo)
  const me = 'the one who logs in'
  // Both tokens say when they were issued, so it does not matter how long a row takes.
  const at = nowS()
  const later = at + 5
  const table: [login: Record<string, unknown>, logout: Record<string, unknown>, status: number][] = [
    [{ sid: 'i-1' }, { sid: 'i-1' }, 401],
    [{ sid: 'i-2' }, { sub: me }, 401],
    [{ sid: 'i-3' }, { sub: me, sid: 'i-3' }, 401],
    [{}, { sub: me, sid: 'i-4' }, 401],
    [{ sid: 'i-5', iat: later }, { sid: 'i-5' }, 401],
    [{ sid: 'i-6' }, { sid: 'another' }, 302],
    [{ sid: 'i-7' }, { sub: 'somebody else' }, 302],
    [{ sid: 'i-8' }, { sub: me, sid: 'another' }, 302],
    [{ sid: 'i-9' }, { sub: 'somebody else', sid: 'i-9' }, 302],
    [{ sid: 'i-10', iat: later }, { sub: me }, 302]
  ]
  for (const [n, [login, logout, status]] of table.entries()) {
    const sub = `ivo-${n}`
    const ended = { ...logout, ...(logout.sub === me ? { sub } : {}) }
    provider.faults.userinfo = async res => {
      t.equal((await post(await logoutToken({ iat: at, ...ended }), second.url)).status, 200)
      answerJson(res, { sub })
    }
    t.equal((await callBack({ sub, iat: at, ...login })).status, status, JSON.stringify({ login, logout }))
    delete provider.faults.userinfo
    provider.profile = { sub }
    const { token } = await logIn({ sub, sid: `anew-${n}`, iat: later })
    t.equal(await statusOf(token), 200, 'who has been logged out may log in again')
  }
  t.match(await world.logged(({ reason }) => reason === 'ended-at-provider'), { msg: /./ })
})

// OA-02, OA-11
t.test('a logout token that is not right, or was used before, ends nothing', async t => {
  provider.profile = { sub: 'zoe' }
  const { token } = await logIn({ sub: 'zoe', sid: 's-9' })
  const right = { sub: 'zoe', sid: 's-9' }
  // Which tokens are right is a table of provider-tokens.test.ts.
  for (const make of [logoutToken({ ...right, events: undefined }), logoutToken({ ...right, aud: 'other' }), 'abc'])
    t.match(await post(await make), { status: 400, body: { error: 'invalid_request' }, store: 'no-store' })
  const { body } = await post(await logoutToken({ ...right, aud: 'other' }))
  t.equal(body.error_description, 'the logout token is not valid (claim aud)')
  t.match(await post(''), { status: 400, body: { error_description: /exactly one logout_token$/ } })
  const form = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"logout_token":"x"}' }
  t.equal((await fetch(world.url + BACKCHANNEL, form)).status, 400)
  t.equal(await statusOf(token), 200)
  const good = await logoutToken({ ...right, sid: 'another' })
  t.equal((await post(good)).status, 200)
  t.equal((await post(good, second.url)).status, 400, 'used before, on another instance')
  t.equal(await statusOf(token), 200)
})

// OA-02
t.test('a logout that the database does not take is refused as OpenID Connect says, and may be sent again', async t => {
  provider.profile = { sub: 'gil' }
  const { token } = await logIn({ sub: 'gil', sid: 's-10' })
  const logout = await logoutToken({ sub: 'gil', sid: 's-10' })
  await postgres.query(`
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      RAISE 'no space left' USING ERRCODE = 'disk_full';
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON used_logout_tokens EXECUTE FUNCTION full_disk()`)
  const away = { error: 'invalid_request', error_description: 'the logout token cannot be processed at the moment' }
  t.same(await post(logout), { status: 400, body: away, store: 'no-store' })
  await world.logged(({ reason, causes }) => reason === 'logout-token' && /no space left/.test(String(causes)))
  t.equal(await statusOf(token), 200)
  await postgres.query('DROP FUNCTION full_disk CASCADE')
  t.equal((await post(logout)).status, 200)
  t.equal(await statusOf(token), 401)
})

t.test('garbage sent as logout tokens does not flood the log: each has its line of the access log alone', async t => {
  for (let n = 0; n < 30; n++) t.equal((await post(`garbage ${n}`)).status, 400)
  const refusals = () => world.log.filter(({ reason }) => reason === 'logout-token')
  const requests = () => refusals().filter(({ path }) => path === BACKCHANNEL)
  await until(() => requests().length >= 30)
  t.match(requests().at(-1), {
    level: 30,
    decision: 'refuse',
    causes: [/^the logout token is not valid \(malformed\)$/]
  })
  t.ok(refusals().filter(({ level }) => level === 40).length < 10)
})

t.test('a logout names the address of the provider’s, if asked to and if the login came from there', async t => {
  provider.profile = { sub: 'bob' }
  const logOut = async (token: string, body: unknown, accept = 'application/json') => {
    const headers = { accept, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }
    const more = body === undefined ? {} : { body: JSON.stringify(body) }
    const answer = await world.fetch('/auth/logout', { method: 'POST', token, headers, ...more })
    return {
      status: answer.status,
      body: answer.status === 200 ? ((await answer.json()) as { logoutUrl: string }) : undefined
    }
  }
  const { status, body } = await logOut((await logIn({ sub: 'bob' })).token, { provider: true })
  t.equal(status, 200)
  const url = new URL(body?.logoutUrl ?? '')
  t.equal(url.origin + url.pathname, `${provider.issuer}/end`)
  t.same(Object.fromEntries(url.searchParams), {
    x: '1',
    client_id: 'portaria',
    post_logout_redirect_uri: 'http://localhost:3000/auth/login'
  })
  for (const [asked, accept] of [
    [undefined],
    [{ provider: false }],
    [{ provider: true }, 'application/json;q=0']
  ] as const)
    t.equal((await logOut((await logIn({ sub: 'bob' })).token, asked, accept)).status, 204, JSON.stringify(asked))
  t.equal((await logOut(await world.tokenFor({ provider: 'ldap' }), { provider: true })).status, 204)
})

t.test('the login page knows the name of the provider, and /health whether it answers', async t => {
  t.match(await world.json('/auth/config'), { cloudidp: { enabled: true, name: 'Contoso' } })
  for (let provider = ''; provider !== 'ok'; ) provider = (await world.health()).checks.provider ?? ''
  provider.faults.discovery = res => answerJson(res, {}, 503)
  const late = await startGateway(t, { env })
  await late.logged(({ reason, level }) => reason === 'login-provider-away' && level === 40)
  t.match(await late.health(), { status: 'degraded', checks: { provider: 'away' } })
  delete provider.faults.discovery
  await late.logged(({ reason }) => reason === 'login-provider-back')
  t.match(await late.health(), { checks: { provider: 'ok' } })
})

t.test('without CLOUDIDP_ISSUER there is no back-channel logout', async t => {
  const { CLOUDIDP_ISSUER: _, ...without } = env
  const plain = await startGateway(t, { env: without })
  const answer = await plain.fetch(BACKCHANNEL, { method: 'POST', body: new URLSearchParams({ logout_token: 'x' }) })
  t.equal(answer.status, 404)
  t.match(await answer.json(), { code: 'GW_NOT_FOUND' })
})

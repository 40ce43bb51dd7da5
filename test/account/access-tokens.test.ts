// Access tokens act for their owner, are managed by them and by Admins, and end with them.
import { once } from 'node:events'
import t from 'tap'
import { WebSocket } from 'ws'
import type { World } from '../support/gateway.ts'
import { adminCall, jsonRequest, logIn } from '../support/login.ts'
import { only } from '../support/only.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { OK } from '../support/raw-upstream.ts'
import { switchingProtocols } from '../support/raw-websocket.ts'
import { felt, startTwoInstances } from '../support/two-instances.ts'
import { until } from '../support/until.ts'

const ldap = await startOpenLdap(t)
const { postgres, raw, start, first, second } = await startTwoInstances(
  t,
  [
    { path: '/any/*', forwardToken: true },
    { path: '/agente/*', roles: ['Agente'] },
    { path: '/admin/*', roles: ['Admin'] },
    { path: '/socket', websocket: { tokenInQuery: true } },
    { path: '/git/*', basic: true, roles: ['Admin'], forwardToken: true }
  ],
  { ...ldap.env, BOOTSTRAP_ADMINS: 'ldap:maria' }
)

const login = (username: string, world: World = first) => logIn(world, username)

/** The same moment a year later: 365 days, or 366. */
const inAYear = (moreMs = 0): string => {
  const date = new Date(Date.now() + moreMs)
  date.setUTCFullYear(date.getUTCFullYear() + 1)
  return date.toISOString()
}
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

interface Made {
  id: number
  token: string
}

const make = async (owner: string, more: object = {}): Promise<Made> => {
  const wish = { name: 'script', profiles: ['Agente'], expiresAt: inDays(30), ...more }
  const answer = await first.fetch('/auth/tokens', jsonRequest('POST', owner, wish))
  t.equal(answer.status, 201)
  return (await answer.json()) as Made
}

const ask = async (world: World, token: string, path = '/agente/x') => {
  const answer = await world.fetch(path, { token })
  return { status: answer.status, text: await answer.text() }
}

const admin = (await login('maria')).token
await first.fetch('/auth/admin/areas', jsonRequest('POST', admin, { name: 'Norte' }))
const giveAccess = (id: number, profiles: string[]) =>
  adminCall(first, admin)('PUT', `users/${id}/access`, { profiles, areas: ['Norte'], areaPrincipal: 'Norte' })
const worker = async (username: string, profiles = ['Agente', 'Supervisor']) => {
  const { user } = await login(username)
  await giveAccess(user.id, profiles)
  return { ...(await login(username)), id: user.id }
}

const { token: gitToken } = await make(admin, { name: 'git', profiles: ['Admin'] })

t.test('an access token works on both instances within a second, as its owner, with the profiles it names', async t => {
  const ana = await worker('ana')
  const { token, id } = await make(ana.token)
  t.match(token, /^pt_[\w-]{43}$/)
  t.equal((await ask(first, token)).status, 200, 'at once where it was made')
  t.ok((await felt(second, '/agente/x', token, 200)) < 1000)
  const seen = raw.requests.at(-1)?.head ?? ''
  t.match(seen, /x-user-profiles: Agente\r\n/)
  t.match(seen, new RegExp(`x-user-id: ${ana.id}\r\n`))
  t.equal((await ask(second, token, '/admin/x')).status, 403)
  await ask(first, token, '/any/x')
  t.notMatch(raw.requests.at(-1)?.head, /pt_|authorization/i, 'never forwarded, not even with forwardToken')
  t.match(await first.json('/auth/me', { token }), {
    username: 'ana',
    profiles: only('Agente'),
    perfis: only('Agente'),
    accessStatus: 'assigned'
  })
  const { items } = await first.json<{ items: object[] }>('/auth/tokens', { token: ana.token })
  t.match(items, [{ id, name: 'script', profiles: only('Agente') }])
  t.notOk(JSON.stringify(items).includes('pt_'))
  const end = async (owner: string) => (await first.fetch(`/auth/tokens/${id}`, jsonRequest('DELETE', owner))).status
  t.equal(await end((await login('carlos')).token), 404, 'only its owner may end it')
  t.equal(await end(ana.token), 204)
  t.ok((await felt(second, '/agente/x', token, 401)) < 1000)
})

t.test('a request whose access token expires while its body is awaited is refused', async t => {
  const ana = await worker('ana')
  const expiresAt = new Date(Date.now() + 3000)
  const { token } = await make(ana.token, { expiresAt: expiresAt.toISOString() })
  const before = raw.requests.length
  const client = await first.connect()
  const fields = `Host: gw\r\nAuthorization: Bearer ${token}\r\nContent-Length: 4\r\nExpect: 100-continue`
  client.send(`POST /agente/x HTTP/1.1\r\n${fields}\r\n\r\n`)
  t.equal((await client.response()).status, 100)
  await until(() => Date.now() >= expiresAt.getTime())
  client.send('body')
  t.match(await client.response(), { status: 401, body: /GW_TOKEN_EXPIRED/ })
  t.equal(raw.requests.length, before)
})

t.test('an upload by an access token goes on with what its owner may still do', async t => {
  const ana = await worker('ana')
  const { token } = await make(ana.token)
  for (const [left, status] of [
    ['Agente', 200],
    ['Supervisor', 403]
  ] as const) {
    const connection = await first.connect()
    t.teardown(() => connection.destroy())
    connection.send(
      `POST /agente/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\nContent-Length: 4\r\n\r\n`
    )
    await first.fetch('/health')
    await giveAccess(ana.id, [left])
    connection.send('body')
    t.equal((await connection.response()).status, status, left)
  }
})

t.test('an access token opens WebSockets by subprotocol, and is refused in a query', async t => {
  const { token: owner } = await worker('ana')
  const { token } = await make(owner)
  const address = `${first.url.replace('http', 'ws')}/socket`
  const before = raw.requests.length
  const refused = new WebSocket(`${address}?access_token=${token}`)
  const [, answer] = await once(refused, 'unexpected-response')
  t.equal(answer.statusCode, 400)
  raw.respond(({ head }) => switchingProtocols(head, 'Sec-WebSocket-Protocol: chat\r\n'))
  t.teardown(() => raw.respond(() => OK))
  const socket = new WebSocket(address, ['bearer', token, 'chat'])
  await once(socket, 'open')
  t.equal(socket.protocol, 'chat')
  socket.terminate()
  t.equal(raw.requests.length, before + 1, 'refused in a query it reached no upstream')
  t.notMatch(raw.requests.at(-1)?.head, /pt_/)
})

t.test('an access token cannot administer, refresh, log out, list sessions or make tokens', async t => {
  const { token } = await make(admin, { profiles: ['Admin'] })
  for (const [method, path] of [
    ['GET', '/auth/admin/users'],
    ['POST', '/auth/refresh'],
    ['POST', '/auth/logout'],
    ['GET', '/auth/sessions'],
    ['GET', '/auth/tokens'],
    ['POST', '/auth/tokens']
  ] as const) {
    t.match(await first.json(path, { method, token }), { statusCode: 403, code: 'GW_FORBIDDEN' }, `${method} ${path}`)
  }
  t.equal((await ask(first, token, '/admin/x')).status, 200)
})

t.test('a new access token needs a login less than 15 minutes old', async t => {
  const { user } = await login('ana')
  const wish = { name: 'x', profiles: [], expiresAt: inDays(1) }
  const loggedInAt = (auth_time?: number) => first.tokenFor({ id: user.id, username: 'ana' }, { auth_time, ver: 100 })
  const nowS = Math.floor(Date.now() / 1000)
  for (const old of [await loggedInAt(), await loggedInAt(nowS - 901)]) {
    const answer = await first.json('/auth/tokens', jsonRequest('POST', old, wish))
    t.match(answer, { statusCode: 401, code: 'GW_LOGIN_REQUIRED' })
  }
  const fresh = await loggedInAt(nowS - 890)
  t.equal((await first.fetch('/auth/tokens', jsonRequest('POST', fresh, wish))).status, 201)
})

t.test('what is wrong with a wish is said', async t => {
  const { token: owner } = await worker('ana')
  const rows: [object, RegExp][] = [
    [{ expiresAt: undefined }, /expiresAt/],
    [{ expiresAt: inDays(-1) }, /at most a year ahead/],
    [{ expiresAt: inAYear(60_000) }, /at most a year ahead/],
    [{ expiresAt: 'soon' }, /at most a year ahead/],
    [{ profiles: ['Agente', 'Admin'] }, /profiles\/1 is not one of your profiles/],
    [{ name: ' ' }, /name must have 1 to 64 characters/],
    [{ name: 'a\0b' }, /name must have 1 to 64 characters, without control characters/],
    [{ scope: 'all' }, /additional properties/]
  ]
  for (const [more, message] of rows) {
    const wish = { name: 'x', profiles: ['Agente'], expiresAt: inDays(1), ...more }
    t.match(
      await first.json('/auth/tokens', jsonRequest('POST', owner, wish)),
      { statusCode: 400, message },
      JSON.stringify(more)
    )
  }
  const whole = { name: 'x', profiles: ['Agente'], expiresAt: inAYear() }
  t.equal((await first.fetch('/auth/tokens', jsonRequest('POST', owner, whole))).status, 201, 'a whole year')
})

// RV-72
t.test('the end of a token or service account is an RFC 3339 date or time that exists', async t => {
  const { token: owner } = await worker('ana')
  const [day] = inDays(200).split('T')
  const [year] = (day ?? '').split('-')
  const bad = [
    '01/02/2027',
    '2027-02-30',
    '2027',
    'Dec 31 2026',
    ...['T00:00:00', ' 00:00:00Z', 'T25:00:00Z'].map(end => `${day}${end}`)
  ]
  const good = [day, `${day}T10:00:00Z`, `${day}T10:00:00.5-03:00`]
  const forToken = { name: 'x', profiles: ['Agente'] }
  const forClient = { profiles: ['Agente'], areas: ['Geral'], areaPrincipal: 'Geral' }
  for (const expiresAt of [...bad, ...good, year]) {
    const wishes = { '/auth/tokens': forToken, '/auth/admin/clients': { ...forClient, name: `robot ${expiresAt}` } }
    for (const [path, wish] of Object.entries(wishes)) {
      const who = path === '/auth/tokens' ? owner : admin
      const answer = await first.fetch(path, jsonRequest('POST', who, { ...wish, expiresAt }))
      const body = (await answer.json()) as { code?: string; expiresAt?: string }
      if (!good.includes(expiresAt))
        t.match([answer.status, body], [400, { code: 'GW_BAD_REQUEST' }], `${path} ${expiresAt}`)
      else
        t.match([answer.status, body.expiresAt], [201, new Date(expiresAt ?? '').toISOString()], `${path} ${expiresAt}`)
    }
  }
})

t.test('guesses are refused without a word of difference', async t => {
  const bodies = new Set<string>()
  for (const guess of ['pt_', 'pt_x', `pt_${'A'.repeat(43)}`, `pt_${'A'.repeat(44)}`, `pt_${'!'.repeat(43)}`]) {
    const answer = await first.fetch('/agente/x', { headers: { authorization: `Bearer ${guess}` } })
    t.equal(answer.status, 401, guess)
    const { requestId: _, ...body } = (await answer.json()) as { requestId: string }
    bodies.add(JSON.stringify(body))
  }
  t.equal(bodies.size, 1)
})

t.test('Admins see all access tokens with their owners, end any of them, and both are on record', async t => {
  const ana = await worker('ana')
  const { token, id } = await make(ana.token, { name: 'found by an Admin' })
  const list = await first.json<{ items: { id: number }[] }>('/auth/admin/tokens', { token: admin })
  const listed = list.items.find(item => item.id === id)
  t.match(listed, { name: 'found by an Admin', user: { id: ana.id, username: 'ana' } })
  t.equal((await first.fetch(`/auth/admin/tokens/${id}`, jsonRequest('DELETE', admin))).status, 204)
  t.equal((await ask(first, token)).status, 401)
  const audit = await (await first.fetch(`/auth/admin/users/${ana.id}/audit`, { token: admin })).text()
  t.match(audit, /"token\.create"/)
  const { items } = JSON.parse(audit) as { items: { action: string; before: unknown }[] }
  const ended = items.find(({ action }) => action === 'token.end')
  t.match(ended, { before: { id, name: 'found by an Admin', profiles: only('Agente') } }, 'it says which token')
  t.notMatch(audit + first.logText() + second.logText(), /pt_[\w-]{43}/)
})

const basic = (password: string, user = 'anything') => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
/** As git and other clients that only know Basic: with an access token as the password. */
const askBy = async (path: string, headers: Record<string, string>, method = 'GET') => {
  const answer = await first.fetch(path, { method, headers })
  const text = await answer.text()
  return { status: answer.status, challenge: answer.headers.get('www-authenticate'), text }
}

t.test('an access token is the password of Basic where the route says so, whatever the user name', async t => {
  for (const user of ['maria', '', 'x-access-token']) {
    t.match(await askBy('/git/repo/info/refs', { authorization: basic(gitToken, user) }), { status: 200 })
    const head = raw.requests.at(-1)?.head ?? ''
    t.match(head, /x-user-username: maria\r\n/)
    t.notMatch(head, /authorization/i, 'Basic is never forwarded')
  }
  t.match(await askBy('/git/x', { authorization: `Bearer ${gitToken}` }), { status: 200 }, 'Bearer works there too')
  t.match(await askBy('/agente/x', { authorization: basic(gitToken) }), { status: 401, challenge: 'Bearer' })
})

t.test('a password that is no access token is no token: not a JWT, not a password of the directory', async t => {
  for (const password of [admin, SAMPLE_PASSWORD, '', `pt_${'A'.repeat(43)}`, `${gitToken}x`]) {
    const answer = await askBy('/git/x', { authorization: basic(password, 'maria') })
    t.match(answer, { status: 401, challenge: 'Basic realm="Portaria", charset="UTF-8"' })
  }
  t.notOk(first.logText().includes(SAMPLE_PASSWORD))
  t.notOk(first.logText().includes(basic(SAMPLE_PASSWORD, 'maria').slice(6)))
})

t.test('the challenge is Basic instead of Bearer, and a page gets none', async t => {
  t.match(await askBy('/git/x', {}), { status: 401, challenge: /^Basic / })
  const page = await first.raw('GET /git/x HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nConnection: close\r\n\r\n')
  t.equal(page.status, 401)
  t.notMatch(page.head, /www-authenticate/i)
  t.match(await askBy('/agente/x', {}), { status: 401, challenge: 'Bearer' })
})

t.test('an owner who has not been confirmed for ACCESS_TOKEN_CONFIRM has to log in again', async t => {
  const strict = await start({ ACCESS_TOKEN_CONFIRM: '1m' })
  const ana = await worker('ana')
  const { token } = await make(ana.token)
  t.ok((await felt(strict, '/agente/x', token, 200)) < 1000)
  await postgres.query(`UPDATE users SET last_login_at = now() - interval '2 minutes' WHERE id = ${ana.id}`)
  await postgres.query('DELETE FROM directory_accounts')
  const late = await start({ ACCESS_TOKEN_CONFIRM: '1m' })
  t.match(await ask(late, token), { status: 401, text: /GW_LOGIN_REQUIRED/ })
  await login('ana')
  await felt(late, '/agente/x', token, 200)
})

// Service accounts get tokens by OAuth's client credentials, within their conditions.
import * as oauth from 'openid-client'
import t from 'tap'
import type { World } from '../support/gateway.ts'
import { adminCall } from '../support/login.ts'
import { only } from '../support/only.ts'
import { startTwoInstances } from '../support/two-instances.ts'

const { postgres, raw, first, second } = await startTwoInstances(
  t,
  [{ path: '/any/*' }, { path: '/agente/*', roles: ['Agente'] }],
  { TRUST_PROXY: '127.0.0.1', LOGIN_FAILURES_PER_IP: '5', OPS_PORT: '0' }
)
// What a test forges as a person needs no login.
const admin = await first.tokenFor({ profiles: ['Admin'], username: 'root' })

interface Client {
  id: number
  clientId: string
  clientSecret: string
  name: string
  [field: string]: unknown
}

const call = adminCall(first, admin)
await call('POST', 'areas', { name: 'Norte' })
let serial = 0
const createClient = async (more: object = {}): Promise<Client> => {
  serial += 1
  const wish = { name: `robot-${serial}`, profiles: ['Agente'], areas: ['Norte'], areaPrincipal: 'Norte', ...more }
  const { status, body } = await call('POST', 'clients', wish)
  t.equal(status, 201)
  return body as Client
}

const GRANT = { grant_type: 'client_credentials' }

interface Asked {
  form?: string | Record<string, string>
  authorization?: string
  from?: string
  type?: string
}

let sender = 0
/** Each request from an address of its own, so that failures of one test do not limit another. */
const askToken = async ({ form = GRANT, authorization, from, type }: Asked) => {
  sender += 1
  const answer = await fetch(`${first.url}/auth/token`, {
    method: 'POST',
    headers: {
      'content-type': type ?? 'application/x-www-form-urlencoded',
      'x-forwarded-for': from ?? `198.51.100.${(sender % 250) + 1}`,
      ...(authorization === undefined ? {} : { authorization })
    },
    body: typeof form === 'string' ? form : new URLSearchParams(form).toString()
  })
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Record<string, unknown> }
}

const basic = (id: string, secret: string): string =>
  `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString('base64')}`

const askAs = ({ clientId, clientSecret }: Client, from?: string) =>
  askToken({ authorization: basic(clientId, clientSecret), ...(from === undefined ? {} : { from }) })

const tokenOf = async (client: Client, from?: string): Promise<string> => {
  const { status, body } = await askAs(client, from)
  t.equal(status, 200)
  return String(body.access_token)
}

const statusOf = async (world: World, token: string, path = '/agente/x', from = '198.51.100.1') => {
  const answer = await world.fetch(path, { token, headers: { 'x-forwarded-for': from } })
  return { status: answer.status, text: await answer.text() }
}

t.test('a service account gets an ordinary token, and backends see who it is', async t => {
  const client = await createClient({ name: 'nightly export' })
  t.match(client, {
    clientId: /^pc_[\w-]{20}$/,
    clientSecret: /^ps_[\w-]{43}$/,
    expiresAt: '',
    addresses: [],
    lastUsedAt: ''
  })
  const { status, headers, body } = await askAs(client)
  t.match([status, body], [200, { token_type: 'Bearer', expires_in: 8 * 3600 }])
  t.match(headers.get('cache-control'), /no-store/)
  const token = String(body.access_token)
  t.equal((await statusOf(second, token)).status, 200)
  const seen = raw.requests.at(-1)?.head ?? ''
  t.match(seen, /x-user-provider: client\r\n/)
  t.match(seen, /x-user-username: nightly export\r\n/)
  t.match(seen, new RegExp(`x-user-id: ${client.id}\r\n`))
  t.match(await first.json('/auth/me', { token }), {
    id: client.id,
    provider: 'client',
    profiles: only('Agente'),
    areaPrincipal: 'Norte',
    accessStatus: 'assigned'
  })
  t.match((await call('GET', `clients/${client.id}`)).body.lastUsedAt, /^\d{4}-/)
})

t.test('a real OAuth client library gets its token, with either way of authentication', async t => {
  const client = await createClient()
  const server = { issuer: first.url, token_endpoint: `${first.url}/auth/token` }
  for (const method of [oauth.ClientSecretBasic(client.clientSecret), oauth.ClientSecretPost(client.clientSecret)]) {
    const config = new oauth.Configuration(server, client.clientId, undefined, method)
    oauth.allowInsecureRequests(config)
    const { access_token } = await oauth.clientCredentialsGrant(config)
    t.equal((await statusOf(first, access_token)).status, 200)
  }
})

t.test('the errors of a token request are those of RFC 6749 §5.2', async t => {
  const { clientId: client_id, clientSecret: client_secret } = await createClient()
  const right = basic(client_id, client_secret)
  const rows: [title: string, asked: Asked, status: number, error: string][] = [
    ['no grant type', { form: {}, authorization: right }, 400, 'invalid_request'],
    ['an empty grant type', { form: 'grant_type=', authorization: right }, 400, 'invalid_request'],
    ['another grant type', { form: { grant_type: 'password' }, authorization: right }, 400, 'unsupported_grant_type'],
    ['grant type before client', { form: { grant_type: 'password' } }, 400, 'unsupported_grant_type'],
    [
      'a repeated parameter',
      { form: 'grant_type=client_credentials&grant_type=client_credentials' },
      400,
      'invalid_request'
    ],
    ['a scope', { form: { ...GRANT, scope: 'all' }, authorization: right }, 400, 'invalid_scope'],
    ['no credentials', {}, 401, 'invalid_client'],
    ['no secret', { form: { ...GRANT, client_id } }, 401, 'invalid_client'],
    ['an unknown client', { form: { ...GRANT, client_id: 'pc_unknown', client_secret } }, 401, 'invalid_client'],
    ['a wrong secret', { form: { ...GRANT, client_id, client_secret: 'ps_wrong' } }, 401, 'invalid_client'],
    ['a wrong secret by header', { authorization: basic(client_id, 'ps_wrong') }, 401, 'invalid_client'],
    ['a client id with NUL', { authorization: basic('pc_\0', 'ps_x') }, 401, 'invalid_client'],
    ['another scheme', { authorization: 'Bearer x' }, 401, 'invalid_client'],
    ['Base64 of another alphabet', { authorization: 'Basic -_-_' }, 401, 'invalid_client'],
    [
      'credentials in two places',
      { form: { ...GRANT, client_id, client_secret }, authorization: right },
      400,
      'invalid_request'
    ],
    ['two client ids', { form: { ...GRANT, client_id: 'pc_x' }, authorization: right }, 400, 'invalid_request'],
    ['JSON', { form: JSON.stringify(GRANT), type: 'application/json', authorization: right }, 400, 'invalid_request'],
    ['an overlong secret', { form: { ...GRANT, client_id, client_secret: 'x'.repeat(600) } }, 401, 'invalid_client']
  ]
  for (const [title, asked, status, error] of rows) {
    const answer = await askToken(asked)
    t.match(answer, { status, body: { error, error_description: String } }, title)
    t.same(Object.keys(answer.body).sort(), ['error', 'error_description'], title)
    const challenge = answer.headers.get('www-authenticate')
    if (status === 401) t.match(challenge, asked.authorization === undefined ? /^Bearer$/ : /^Basic realm="/, title)
  }
  const tried = ['pc_unknown', client_id].map(id =>
    askToken({ form: { ...GRANT, client_id: id, client_secret: 'ps_no' } })
  )
  const [unknown, wrong] = await Promise.all(tried)
  t.same(unknown?.body, wrong?.body, 'an unknown client is not told from a wrong secret')
  for (const reason of ['unknown-id', 'wrong-secret']) await first.logged(line => line.reason === `client-${reason}`)
})

t.test('failed secrets are limited per address alone: a known clientId cannot be blocked by others', async t => {
  const client = await createClient()
  const wrong = { form: { ...GRANT, client_id: client.clientId, client_secret: 'ps_wrong' }, from: '192.0.2.66' }
  for (let i = 0; i < 5; i++) t.equal((await askToken(wrong)).status, 401)
  const limited = await askToken(wrong)
  t.equal(limited.status, 429)
  t.match(limited.headers.get('retry-after'), /^\d+$/)
  const right = { ...wrong.form, client_secret: client.clientSecret }
  t.equal((await askToken({ ...wrong, form: right })).status, 429)
  const metrics = await (await fetch(`http://127.0.0.1:${first.gateway.opsPort}/metrics`)).text()
  t.match(metrics, /^portaria_logins_total\{provider="client",result="refused",reason="throttled"\} 2$/m)
  await tokenOf(client, '192.0.2.67')
})

t.test('after a rotation two secrets live; the one before them has ended', async t => {
  const client = await createClient()
  const { body: rotated } = await call('POST', `clients/${client.id}/rotate`)
  t.not(rotated.clientSecret, client.clientSecret)
  await tokenOf(client)
  await tokenOf(rotated)
  const { body: again } = await adminCall(second, admin)('POST', `clients/${client.id}/rotate`)
  await tokenOf(again)
  await tokenOf(rotated)
  t.equal((await askAs(client)).status, 401)
})

// RW-54
t.test('a service account whose areas fit no token gets none', async t => {
  const client = await createClient()
  await postgres.query(
    `WITH made AS (INSERT INTO areas (name) SELECT 'Departamento ' || i FROM generate_series(1, 500) i RETURNING id)
    INSERT INTO user_areas SELECT ${client.id}, id FROM made`
  )
  t.match(await askAs(client), { status: 401, body: { error: 'invalid_client' } })
  t.match(first.logText(), /"reason":"client-token-too-long"/)
})

t.test('areas and addresses that fit no token together are refused, and no token for both is issued', async t => {
  await postgres.query("INSERT INTO areas (name) SELECT 'Filial ' || i FROM generate_series(1, 150) i")
  const areas = Array.from({ length: 150 }, (_, n) => `Filial ${n + 1}`)
  const far = Array.from({ length: 99 }, (_, n) => `2001:db8:aaaa:bbbb:cccc:dddd:eeee:${(0x1000 + n).toString(16)}/128`)
  const addresses = ['198.51.100.0/24', ...far]
  const access = { profiles: ['Agente'], areas, areaPrincipal: 'Filial 1' }
  const message = 'The areas, profiles and addresses are too many for a token'
  t.match(await call('POST', 'clients', { ...access, name: 'both', addresses }), { status: 400, body: { message } })
  const [client, near] = [await createClient(access), await createClient({ addresses })]
  t.match(await call('PATCH', `clients/${client.id}`, { addresses }), { status: 400, body: { message } })
  t.match(await call('PATCH', `clients/${near.id}`, access), { status: 400, body: { message } })
  await tokenOf(client)
  await tokenOf(near, '198.51.100.7')

  // As an earlier release has accepted it.
  await postgres.query('UPDATE clients SET addresses = $2 WHERE user_id = $1', [client.id, addresses])
  const refused = await askAs(client, '198.51.100.7')
  t.match(refused, { status: 401, body: { error: 'invalid_client' } })
  const requestId = refused.headers.get('x-request-id')
  await first.logged(line => line.requestId === requestId && line.reason === 'client-token-too-long')
  const fewer = await call('PATCH', `clients/${client.id}`, { areas: areas.slice(0, 149) })
  t.equal(fewer.status, 200, 'what is too long can be reduced, step by step')
  t.equal((await call('PATCH', `clients/${client.id}`, { addresses: [...addresses.slice(0, 99), '::1'] })).status, 400)
  t.equal((await call('PATCH', `clients/${client.id}`, { addresses: addresses.slice(0, 40) })).status, 200)
  await tokenOf(client, '198.51.100.7')
})

t.test('a service account in its last second is refused as an expired one is', async t => {
  const client = await createClient()
  await postgres.query(
    `UPDATE clients SET expires_at = date_trunc('second', now()) + interval '999 ms' WHERE user_id = ${client.id}`
  )
  const last = await askAs(client)
  t.match(last, { status: 401, body: { error: 'invalid_client' } })
  await postgres.query(`UPDATE clients SET expires_at = now() - interval '1 hour' WHERE user_id = ${client.id}`)
  const expired = await askAs(client)
  t.same(expired.body, last.body)
  const requestId = expired.headers.get('x-request-id')
  await first.logged(line => line.requestId === requestId && line.reason === 'client-expired')
})

t.test('addresses are enforced where the token is asked for and wherever it is used', async t => {
  const client = await createClient({ addresses: ['203.0.113.0/24', '2001:db8::/32'] })
  t.same(client.addresses, ['203.0.113.0/24', '2001:db8::/32'])
  t.equal((await askAs(client, '198.51.100.9')).status, 401)
  const token = await tokenOf(client, '203.0.113.7')
  t.equal((await statusOf(second, token, '/agente/x', '203.0.113.200')).status, 200)
  t.equal((await statusOf(second, token, '/agente/x', '2001:db8::9')).status, 200)
  t.match(await statusOf(second, token, '/agente/x', '198.51.100.9'), { status: 401, text: /GW_UNAUTHENTICATED/ })
  await call('PATCH', `clients/${client.id}`, { addresses: ['192.0.2.0/24'] })
  t.equal((await statusOf(first, token, '/agente/x', '203.0.113.7')).status, 401)
})

t.test('a service account is no person: it cannot log in, refresh, administer or be listed, but log out', async t => {
  const client = await createClient({ name: 'maria', profiles: ['Admin', 'Agente'] })
  const token = await tokenOf(client)
  for (const [method, path] of [
    ['GET', '/auth/admin/users'],
    ['POST', '/auth/refresh'],
    ['GET', '/auth/sessions'],
    ['DELETE', '/auth/sessions']
  ] as const) {
    t.match(await first.json(path, { method, token }), { statusCode: 403, code: 'GW_FORBIDDEN' }, `${method} ${path}`)
  }
  t.equal((await call('GET', `users/${client.id}`)).status, 404)
  t.equal(
    (await call('PUT', `users/${client.id}/access`, { profiles: [], areas: [], areaPrincipal: null })).status,
    404
  )
  t.notOk((await call('GET', 'users?pageSize=200')).body.items.some(({ id }: { id: number }) => id === client.id))
  t.equal((await first.fetch('/auth/logout', { method: 'POST', token })).status, 204)
  t.equal((await statusOf(first, token)).status, 401)
})

t.test('what is wrong with a wish is said', async t => {
  const wish = { name: 'odd', profiles: ['Agente'], areas: ['Norte'], areaPrincipal: 'Norte' }
  const rows: [object, RegExp][] = [
    [{ name: '' }, /body\/name/],
    [{ name: 'x'.repeat(65) }, /body\/name/],
    [{ name: 'a\0b' }, /name must have 1 to 64 characters, without control characters/],
    [{ expiresAt: '2001-01-01' }, /expiresAt must be a time in the future/],
    [{ addresses: ['203.0.113.0/24', '10.0.0.0/33'] }, /addresses\/1 must be an IP address or a CIDR block/],
    [{ secret: 'mine' }, /additional properties/]
  ]
  for (const [more, message] of rows)
    t.match(await call('POST', 'clients', { ...wish, ...more }), { status: 400, body: { message } })
  t.match(await call('POST', 'clients', { ...wish, profiles: ['Nobody'] }), { status: 400 })
  t.equal((await call('POST', 'clients', wish)).status, 201)
  t.match(await call('POST', 'clients', { ...wish, name: 'ODD' }), { status: 409, body: { code: 'GW_CONFLICT' } })
})

t.test('every change is on record, without a secret', async t => {
  const client = await createClient()
  const token = await tokenOf(client)
  t.equal((await first.fetch('/auth/logout', { method: 'POST', token })).status, 204)
  await call('POST', `clients/${client.id}/rotate`)
  for (const user of [client.id, client.name.toUpperCase()]) {
    const { items } = (await call('GET', `audit?user=${user}`)).body
    const seen = items.map((item: Record<string, string>) => `${item.action} ${item.targetName}`)
    t.same(
      seen,
      ['client.rotate', 'logout', 'login', 'client.create'].map(action => `${action} ${client.name}`),
      `user=${user}`
    )
  }
  await call('DELETE', `clients/${client.id}`)
  const { body } = await call('GET', 'audit?pageSize=200')
  const actions = body.items.filter(({ target }: { target: string }) => target === `client:${client.id}`)
  const changes = actions.map(({ action }: { action: string }) => action)
  t.same(changes, ['client.remove', 'client.rotate', 'logout', 'login', 'client.create'])
  await first.logged(line => line.msg === 'login' && line.provider === 'client' && line.user === client.id)
  t.notMatch(JSON.stringify(body), /ps_[\w-]{43}/)
  t.notOk(first.logText().includes(client.clientSecret))
})

// No header of a client passes for the gateway's word, and no token of ours goes further than it should.
import t from 'tap'
import { holdsOwnToken } from '../../gateway/tokens/own-tokens.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { identityFields, isAlive } from '../support/oracles.ts'
import { measureWork } from '../support/own-time.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { words } from '../support/words.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  config: routesTo(raw.url, [
    { path: '/api/*' },
    { path: '/keep/*', forwardToken: true },
    { path: '/open/*', public: true },
    { path: '/live/*', public: true, websocket: {} }
  ])
})
const person = {
  id: 7,
  name: 'Maria',
  email: 'maria@corp.example',
  username: 'maria',
  profiles: ['Agente'],
  areas: ['Norte', 'Sul'],
  areaPrincipal: 'Sul'
}
const token = await world.tokenFor(person)

const send = async (path: string, lines: string, bearer: string | null = token) => {
  const auth = bearer === null ? '' : `Authorization: Bearer ${bearer}\r\n`
  const before = raw.requests.length
  const answer = await world.raw(`GET ${path} HTTP/1.1\r\nHost: gw\r\n${auth}${lines}\r\n`)
  return { answer, request: raw.requests[before] }
}

const OURS = {
  'x-user-id': ['7'],
  'x-user-name': ['Maria'],
  'x-user-email': ['maria@corp.example'],
  'x-user-username': ['maria'],
  'x-user-provider': ['ldap'],
  'x-user-profiles': ['Agente'],
  'x-user-areas': ['Norte,Sul'],
  'x-user-area-principal': ['Sul'],
  'x-user-access-status': ['assigned']
}

const forgeries = (
  "X-User-Id: 1¦x-user-ID: 1¦X_User_Id: 1¦X-User_Profiles: Admin¦X.User.Id: 1¦X'User'Id: 1¦X!User!Id: 1¦" +
  'X~User~Id: 1¦X|User|Id: 1¦X*User*Id: 1¦X-User-Role: admin¦X-User-Anything: 1¦x_user-access.status: assigned'
).split('¦')

t.test("the gateway's fields precede the client's, of which a backend may drop the last", async t => {
  // RW-49
  const before = raw.requests.length
  const fields = `Authorization: Bearer ${token}\r\n${'a: b\r\n'.repeat(1200)}Content-Length: 2\r\n`
  t.equal((await world.raw(`POST /api/x HTTP/1.1\r\nHost: gw\r\n${fields}\r\nok`)).status, 200)
  const names = raw.requests[before]?.headers.map(([name]) => name) ?? []
  t.equal(names.filter(name => name === 'a').length, 1200)
  const first = names.indexOf('a')
  for (const name of ['content-length', 'x-user-id', 'x-user-areas', 'x-forwarded-for', 'x-real-ip', 'x-request-id'])
    t.ok(names.indexOf(name) < first, name)
})

t.test('identity fields are the gateway’s alone, on private and public routes, in every spelling', async t => {
  // HD-01, HD-02, HD-03, HD-04, HD-33, HD-28
  for (const forged of [
    ...forgeries,
    forgeries.join('\r\n'),
    'X-User-Id: 1\r\nX-User-Id: 2',
    '__proto__: x\r\nconstructor: y\r\nhasOwnProperty: z'
  ]) {
    const { request } = await send('/api/x', `${forged}\r\n`)
    t.same(request && identityFields(request), OURS, forged)
    const open = await send('/open/x', `${forged}\r\n`, null)
    t.same(open.request && identityFields(open.request), {}, `public: ${forged}`)
    const openWithToken = await send('/open/x', `${forged}\r\n`)
    t.same(openWithToken.request && identityFields(openWithToken.request), {}, 'on a public route nobody is identified')
  }
})

t.test('absent values give no field at all', async t => {
  // HD-01, HD-18
  const { request } = await send(
    '/api/x',
    'X-User-Email: forged@x\r\n',
    await world.tokenFor({
      ...person,
      email: '',
      areas: [],
      areaPrincipal: '',
      profiles: [],
      accessStatus: 'unassigned'
    })
  )
  t.same(
    request && Object.keys(identityFields(request)),
    words`
    x-user-id x-user-name x-user-username x-user-provider x-user-access-status
  `
  )
})

t.test('any name travels, percent-encoded as UTF-8', async t => {
  // HD-14, HD-15, HD-16, HD-19
  const name = 'Ďurčo 田中 é 😀 100%\r\nX-User-Id: 1\0'
  const { request } = await send('/api/x', '', await world.tokenFor({ ...person, name, areas: ['a,b', 'ção', ' c '] }))
  const fields = request === undefined ? {} : identityFields(request)
  t.equal(decodeURIComponent(fields['x-user-name']?.[0] ?? ''), name)
  t.match(fields['x-user-name']?.[0], /^[\x21-\x7e ]+$/)
  t.same(fields['x-user-areas']?.[0]?.split(',').map(decodeURIComponent), ['a,b', 'ção', ' c '])
  t.same(fields['x-user-id'], ['7'])
})

t.test('what says where a request came from is written afresh', async t => {
  // HD-08, HD-09, HD-10, HD-11, RW-27
  const family = (
    'Forwarded: for=1.1.1.1;host=evil¦X-Forwarded-For: 1.2.3.4¦X-Forwarded-For: 5.6.7.8¦X-Forwarded-Host: evil¦' +
    'X-Forwarded-Proto: https¦X-Forwarded-Port: 1¦X-Forwarded-Prefix: /x¦X-Forwarded-Uri: /x¦' +
    'X-Forwarded-Server: x¦X-Forwarded-Scheme: x¦X-Forwarded-Ssl: on¦X-Real-IP: 9.9.9.9¦True-Client-IP: 9¦' +
    'CF-Connecting-IP: 9¦X-Client-IP: 9¦X-Cluster-Client-IP: 9¦X-Original-Host: evil¦Front-End-Https: on¦' +
    'X_Forwarded_For: 1¦X_Real_IP: 9¦X-Request-Id: mine'
  ).split('¦')
  const { request, answer } = await send('/api/x', `${family.join('\r\n')}\r\n`)
  const seen = (request?.headers ?? []).filter(([name]) => /forward|real|client|original|front|request.id/i.test(name))
  t.same(Object.fromEntries(seen), {
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': 'gw',
    'x-real-ip': '127.0.0.1',
    'x-request-id': answer.headers['x-request-id']
  })
  t.equal(seen.length, 5)
})

/** Under these names other gateways pass identity, addresses and certificates. */
const FOREIGN = words`
  Remote-User X-Remote-User X-WEBAUTH-USER X-WEBAUTH-Role X-Auth-Request-User X-Auth-Request-Groups
  X-Forwarded-User X-Forwarded-Email X-Forwarded-Groups X-Forwarded-Preferred-Username X-Forwarded-Access-Token
  X-Amzn-Oidc-Data X-Amzn-Oidc-Identity X-Goog-IAP-JWT-Assertion X-Goog-Authenticated-User-Email
  X-MS-CLIENT-PRINCIPAL X-MS-CLIENT-PRINCIPAL-NAME X-MS-TOKEN-AAD-ID-TOKEN X-Pomerium-Jwt-Assertion
  Cf-Access-Jwt-Assertion Cf-Access-Authenticated-User-Email Tailscale-User-Login SSL-Client-Cert SSL-Client-S-DN
  X-SSL-Client-Verify Client-Cert Client-Cert-Chain X-Client-Cert Proxy Client-IP X-Original-Forwarded-For
  X-Remote-Addr WL-Proxy-Client-IP WL-Proxy-Client-Cert X-Azure-ClientIP X-Amzn-Mtls-Clientcert X-Remote-Group
  Impersonate-User Impersonate-Extra-Scopes X-Proxy-User X-Proxy-Roles SM-User iv-user OAM-Remote-User $WSRU
  MS-ASPNETCORE-CLIENTCERT X-Envoy-Original-Path X-Vouch-User Remote-User-Group X-Auth-CouchDB-UserName
  X-Auth-CouchDB-Roles X-ProxiedEntitiesChain X-ProxyContextPath OIDC-Claim-Email OIDC-Access-Token X-Userinfo
  Kubeflow-Userid X-Token-User-Email Shib-Session-ID X-Client-Verify X-Client-DN X-Scheme X-Proxied-Https
  Proxy-Auth-Cert CloudFront-Viewer-Address X-SSL-Cert X-SSL-Subject X-Tls-Client-Cert X-Client-Certificate
  CERT-CHAIN-0 X-Real-Client-IP Forwarded-For-IP Cdn-Src-IP HTTP-X-Forwarded-For HTTP-Forwarded HTTP-X-User-Id
  HTTP-Remote-User HTTP-Host Grpc-Metadata-X-User-Id Grpc-Metadata-Remote-User HTTP-Grpc-Metadata-X-Forwarded-For Cf-Client-Cert-Sha256 Cf-Cert-Verified X-Client-Cert-Present X-Endpoint-API-UserInfo
  X-Apigateway-Api-UserInfo X-Credential-Identifier X-Anonymous-Consumer X-Auth-Roles X-Auth-Username X-Auth-Email
  Teleport-JWT-Assertion X-Amzn-Ava-User-Context Tailscale-App-Capabilities CF-Visitor CloudFront-Forwarded-Proto X-ARR-SSL
`
/** By these, backends serve another path or method than the one that was checked. */
const MISLEADING = words`
  X-Original-URL X-Original-URI X-Original-Method X-Rewrite-URL X-Override-URL X-HTTP-Method X-HTTP-Method-Override
  X-Method-Override Script-Name Path-Info X-Script-Name X-Matched-Path X-Invoke-Path X-Now-Route-Matches
  X-Middleware-Subrequest X-Accel-Mapping X-Sendfile-Type AspFilterSessionId
`

t.test('fields that name people, or mislead backends, are removed from requests on every route', async t => {
  // RW-27, RW-43, RW-44, RW-55, RW-56, RW-81, RW-88
  const spellings = [
    (name: string) => name,
    (name: string) => name.toUpperCase(),
    (name: string) => name.replaceAll('-', '_'),
    (name: string) => name.replaceAll('-', '.')
  ]
  const lines = spellings.flatMap(spell => [...FOREIGN, ...MISLEADING].map(name => `${spell(name)}: forged`))
  for (let from = 0; from < lines.length; from += 60) {
    const block = `${lines.slice(from, from + 60).join('\r\n')}\r\n`
    for (const path of ['/api/x', '/open/x']) {
      const { request, answer } = await send(path, block)
      t.equal(answer.status, 200)
      t.notMatch(request?.head, /forged/, path)
      t.match(request?.head, /^x-real-ip: 127\.0\.0\.1\r$/m)
    }
  }
  const neighbours =
    'Proxy-Status¦X-Client-Version¦X-Auth¦X-Auth-Token¦HTTP-Referer¦HTTPX-Host¦X-Middleware-Prefetch¦Grpc-Metadata-Authorization'.split(
      '¦'
    )
  const { request } = await send('/api/x', neighbours.map(name => `${name}: kept\r\n`).join(''))
  t.equal(request?.head.match(/: kept/g)?.length, neighbours.length, 'what is no such field passes')
})

t.test('a token of ours reaches no public backend, wherever it is; what is none of ours passes', async t => {
  // RW-23, RW-58, RW-59, WS-03, WS-04; what counts as a token: test/tokens/own-tokens.test.ts.
  const [header = '', payload = ''] = token.split('.')
  const personal = `pt_${'a'.repeat(43)}`
  const foreign = `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.${'a'.repeat(43)}`
  const upgrade =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
  const offer = (protocols: string) => `${upgrade}Sec-WebSocket-Protocol: ${protocols}\r\n`
  const plain = 'GET /open/x HTTP/1.1'
  const passed: [target: string, lines: string, left: string][] = [
    ['/open/x', `Authorization: Token ${token}\r\n`, plain],
    ['/open/x', `Authorization: Basic ${Buffer.from(`x:${token}`).toString('base64')}\r\n`, plain],
    ['/open/x', `Authorization: Bearer ${personal}\r\n`, plain],
    ['/open/x', `X-Auth: a=1;jwt=${token};b=2\r\nX-Portaria-Via: ${personal}\r\n`, plain],
    ['/open/x', `Cookie: theme=dark; s=%22${token}%22; lang=pt\r\n`, 'cookie: theme=dark; lang=pt\r'],
    [`/open/x?a=1&t=Bearer+${token}&b=%zz`, '', 'GET /open/x?a=1&b=%zz HTTP/1.1'],
    [`/open/x?a=${personal}&b=2`, '', 'GET /open/x?b=2 HTTP/1.1'],
    [`/live/x?t=${token.replaceAll('.', '%2E')}&b=%2F`, upgrade, 'GET /live/x?b=%2F HTTP/1.1'],
    ['/live/x', offer(`${token}, chat, ${personal}`), 'sec-websocket-protocol: chat\r'],
    ['/live/x', offer(`chat, bearer, ${token}`), 'sec-websocket-protocol: chat\r'],
    ['/live/x', offer('chat, other'), 'sec-websocket-protocol: chat, other\r'],
    ['/live/x', offer(`bearer, ${foreign}, chat`), `sec-websocket-protocol: bearer, ${foreign}, chat\r`],
    ['/live/x', `${offer('bearer, a, chat')}Authorization: Bearer b\r\n`, 'sec-websocket-protocol: bearer, a, chat\r'],
    ['/open/x', `Authorization: Bearer ${foreign}\r\n`, `authorization: bearer ${foreign.toLowerCase()}`],
    [`/open/${foreign}`, '', `GET /open/${foreign} HTTP/1.1`]
  ]
  for (const [target, lines, left] of passed) {
    const { request } = await send(target, lines, null)
    t.ok(request?.head.toLowerCase().includes(left.toLowerCase()), `${target} ${lines}`.slice(0, 60))
    t.notOk(request?.head.includes(payload))
    t.notMatch(request?.head, /pt_a|Basic/)
  }
  for (const path of [personal, `${header}.${payload}`])
    t.match((await send(`/open/${path}`, '', null)).request?.head, `GET /open/${path} HTTP/1.1`, 'no live token')
  const before = raw.requests.length
  for (const [method, path, lines] of [
    ['GET', `/open/a/x-${token}-x`, 'Host: gw'],
    ['GET', `/open/${token.replaceAll('.', '%2E')}`, 'Host: gw'],
    ['GET', '/open/x', `Host: ${token}`],
    ['COPY', '/open/x', `Host: gw\r\nDestination: /open/${token}`],
    ['MOVE', '/open/x', `Host: gw\r\nDestination: http://gw/open/y?t=${token}`]
  ] as const) {
    const answer = await world.raw(`${method} ${path} HTTP/1.1\r\n${lines}\r\n\r\n`)
    t.match(answer, { status: 400, body: /"GW_BAD_REQUEST"/ }, `${method} ${path} ${lines}`.slice(0, 40))
  }
  t.equal(raw.requests.length, before)
  t.notMatch(world.logText(), payload)
  t.notMatch(world.logText(), personal)
})

t.test('a flood of what looks like tokens costs little', async t => {
  // RW-39
  const isOurs = () => false
  const values = [
    'eyJ'.repeat(5000),
    'eyJ.'.repeat(4000),
    `${`eyJ.a.${'b'.repeat(43)}.`.repeat(300)}`,
    '.'.repeat(16_000)
  ]
  const ownTimeMs = measureWork()
  for (const value of values) t.notOk(holdsOwnToken(value, isOurs))
  t.ok(ownTimeMs() < 200)
})

t.test('a backend’s nameless cookie never becomes the session cookie', async t => {
  // RW-24, HD-21
  const bad = [
    '=portaria_session=x',
    ' = portaria_session=x; Path=/',
    '==portaria_session=x',
    '=__Host-portaria_session=x',
    '=Portaria_Session_1=x',
    'portaria_session',
    'portaria_session\t=x'
  ]
  for (const cookie of bad) {
    raw.respond(() => `HTTP/1.1 200 OK\r\nSet-Cookie: ${cookie}\r\nSet-Cookie: =other\r\nContent-Length: 0\r\n\r\n`)
    const { answer } = await send('/open/x', '', null)
    t.equal(answer.status, 200)
    t.same([answer.headers['set-cookie']].flat(), ['=other'], cookie)
  }
  raw.respond(() => OK)
})

t.test('a backend deletes no login from browsers, and does not end their strict transport security', async t => {
  // HD-21
  const sites = async (fields: string) => {
    raw.respond(() => `HTTP/1.1 200 OK\r\n${fields}Content-Length: 0\r\n\r\n`)
    const { headers } = (await send('/open/x', '', null)).answer
    return [headers['clear-site-data'], headers['strict-transport-security']]
  }
  for (const [sent, left] of [
    ['"cookies"', undefined],
    ['"*"', undefined],
    ['"cookies", "storage"', undefined],
    ['"cache", "Cookies", "storage", "executionContexts"', '"cache", "executionContexts"'],
    ['"storage","cache"', '"cache"'],
    ['"cache"', '"cache"']
  ] as const)
    t.same(await sites(`Clear-Site-Data: ${sent}\r\n`), [left, undefined], sent)
  for (const off of ['max-age=0', 'includeSubDomains ; Max-Age = "00"', 'max-age=1', 'preload;max-age="15551999"'])
    t.same(await sites(`Strict-Transport-Security: ${off}\r\n`), [undefined, undefined], off)
  const on = 'max-age=63072000; preload'
  t.same(await sites(`Strict-Transport-Security: ${on}\r\n`), [undefined, on])
  raw.respond(() => OK)
})

t.test('a backend has browsers report no requests, and tells no Envoy in front that the gateway is ill', async t => {
  const sent = [
    'NEL: {"report_to":"x","max_age":9,"include_subdomains":true}',
    'X-Envoy-Immediate-Health-Check-Fail: true'
  ]
  const fields = [...sent, 'X-Envoy-Degraded: 1', 'X-Envoy-Upstream-Service-Time: 7', ''].join('\r\n')
  raw.respond(() => `HTTP/1.1 200 OK\r\n${fields}Content-Length: 0\r\n\r\n`)
  const { headers } = (await send('/open/x', '', null)).answer
  t.same(
    Object.keys(headers).filter(name => /^(?:nel|x-envoy-.*)$/.test(name)),
    ['x-envoy-upstream-service-time']
  )
  raw.respond(() => OK)
})

t.test('a token of ours goes on only if the route says so; others’ credentials pass on public routes', async t => {
  // HD-20
  const hidden = await send('/api/x', '')
  t.equal(hidden.answer.status, 200)
  t.notMatch(hidden.request?.head, /authorization/i)
  const kept = await send('/keep/x', '')
  t.match(kept.request?.head, new RegExp(`authorization: Bearer ${token.replaceAll('.', '\\.')}`, 'i'))
  const basic = await world.raw('GET /open/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Basic eDp5\r\n\r\n')
  t.equal(basic.status, 200)
  t.match(raw.requests.at(-1)?.head, /Authorization: Basic eDp5/)
  const open = await send('/open/x', '')
  t.equal(open.answer.status, 200)
  t.notMatch(open.request?.head, /authorization/i, 'a Portaria token is not shown to a public backend')
})

t.test('heads that two parsers could read differently are refused', async t => {
  // HD-12, HD-13, HD-32, HD-26, RX-01, SM-09, SM-10, SM-11, SM-21, RT-28
  const before = raw.requests.length
  const auth = `Authorization: Bearer ${token}\r\n`
  const bad: [string, number][] = [
    [`GET /api/x HTTP/1.1\r\nHost: gw\r\nHost: evil\r\n${auth}\r\n`, 400],
    [`GET /api/x HTTP/1.1\r\n${auth}\r\n`, 400],
    [`GET /api/x HTTP/1.1\r\nHost:\r\n${auth}\r\n`, 400],
    [`GET /api/x HTTP/1.1\r\nHost: gw,evil.example\r\n${auth}\r\n`, 400],
    [`GET /api/x HTTP/1.1\r\nHost: evil/..@x:99999\r\n${auth}\r\n`, 400],
    [`GET /api/x HTTP/1.1\r\nHost: gw\r\n${auth}${auth}\r\n`, 400],
    [`GET /api/x HTTP/2.0\r\nHost: gw\r\n${auth}\r\n`, 505],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['\x16\x03\x01\x02\x00\x01', 400],
    ['GET /api/x HTTP/1.2\r\nHost: a\r\n\r\n', 400],
    ['NONSENSE\r\n\r\n', 400],
    [`GET /api/x HTTP/1.1\r\nHost: gw\r\nX-A: b\r\n c\r\n${auth}\r\n`, 400],
    [`GET /api/x HTTP/1.1\r\nHost: gw\r\nX-User-Id : 1\r\n${auth}\r\n`, 400],
    [`POST /api/x HTTP/1.0\r\nHost: gw\r\n${auth}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
    [`POST /api/x HTTP/1.1\r\nHost: gw\r\n${auth}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, 501],
    [`GET /api/x HTTP/1.1\r\nHost: gw\r\nX-Big: ${'a'.repeat(20_000)}\r\n${auth}\r\n`, 431],
    [
      `GET /api/x HTTP/1.1\r\nHost: gw\r\n${Array.from({ length: 2500 }, (_, i) => `x${i}: 1`).join('\r\n')}\r\n${auth}\r\n`,
      431
    ]
  ]
  for (const [bytes, status] of bad)
    t.match(await world.raw(bytes), { status, headers: { 'content-type': /json/ } }, bytes.slice(0, 70))
  t.equal(raw.requests.length, before)
  t.equal(await isAlive(world, raw), undefined)
})

t.test('a request that comes back to the gateway that sent it is refused', async t => {
  // CF-12
  world.writeRoutes(routesTo(world.url, [{ path: '/*' }]))
  t.ok(await world.gateway.reload())
  t.equal((await world.fetch('/loop', { token })).status, 508)
})

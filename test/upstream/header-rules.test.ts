// Checks the headers that an upstream sets or removes.
import { once } from 'node:events'
import http from 'node:http'
import t from 'tap'
import { readAsMetadata } from '../../gateway/http/fields.ts'
import { startGateway } from '../support/gateway.ts'
import { identityFields, isAlive } from '../support/oracles.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { fc } from '../support/worlds.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  env: { LOG_LEVEL: 'error' },
  config: {
    upstreams: {
      raw: {
        url: raw.url,
        requestHeaders: {
          set: { 'X-Tenant': 'norte', Authorization: 'Basic YTpi', 'X-Empty': '' },
          remove: ['Accept-Language', 'Origin', 'X-Debug', 'Max-Forwards']
        },
        responseHeaders: { set: { 'X-Frame-Options': 'DENY' }, remove: ['Server', 'X-Powered-By'] },
        identityHeaders: {
          'X-WEBAUTH-USER': 'login',
          'X-WEBAUTH-NAME': 'name',
          'X-WEBAUTH-EMAIL': 'email',
          'X-WEBAUTH-GROUPS': 'profiles',
          'X-Who': 'id'
        },
        identityHeadersShared: true
      },
      grpc: {
        url: raw.url,
        requestHeaders: { set: { 'Grpc-Metadata-X-Site': 'norte' }, remove: ['Grpc-Metadata-X-Debug'] },
        responseHeaders: { set: { 'X-Site': 'norte' }, remove: ['Grpc-Metadata-Content-Type'] }
      },
      plain: { url: raw.url }
    },
    routes: [
      { path: '/api/*', upstream: 'raw' },
      { path: '/keep/*', upstream: 'raw', forwardToken: true },
      { path: '/open/*', upstream: 'raw', public: true },
      { path: '/plain/*', upstream: 'plain' },
      { path: '/grpc/*', upstream: 'grpc' },
      { path: '/live', upstream: 'raw', websocket: {} }
    ]
  }
})
const person = { id: 7, name: 'Ana Sá, Jr.', email: '', username: 'ana', profiles: ['Agente', 'Supervisor'] }
const token = await world.tokenFor(person)

const send = async (path: string, lines = '', bearer: string | undefined = token) => {
  const auth = bearer === undefined ? '' : `Authorization: Bearer ${bearer}\r\n`
  const before = raw.requests.length
  const answer = await world.raw(`GET ${path} HTTP/1.1\r\nHost: gw\r\n${auth}${lines}\r\n`)
  const request = raw.requests[before]
  if (request === undefined) throw new Error(`did not arrive: ${answer.status}`)
  return { answer, request }
}

/** `name: value` of all fields whose name a lax backend reads as this one. */
const lines = (request: { headers: [string, string][] }, name: string): string[] =>
  request.headers
    .filter(([one]) => readAsMetadata(one) === readAsMetadata(name))
    .map(([one, value]) => `${one}: ${value}`)

const UPGRADE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'

t.test('a backend receives the headers that its upstream sets, whatever the client says, upgrades too', async t => {
  // HD-01, HD-02, HD-04, HD-05, HD-34
  const forged =
    'x-tenant: sul\r\nX_Tenant: sul\r\nX.TENANT: sul\r\nHTTP_X_TENANT: sul\r\nGrpc-Metadata-X-Tenant: sul\r\nx-webauth-user: root\r\nX_WEBAUTH_USER: root\r\n' +
    'X-WEBAUTH-EMAIL: root@corp.example\r\nX_Who: 1\r\nHttp-X-Who: 1\r\nx-empty: full\r\nConnection: x-tenant, x-webauth-user, x-who\r\n'
  for (const [path, more] of [
    ['/api/x', ''],
    ['/live', UPGRADE]
  ] as const) {
    const { request } = await send(path, forged + more)
    for (const [name, ...expected] of [
      ['x-tenant', 'X-Tenant: norte'],
      ['x-webauth-user', 'X-WEBAUTH-USER: ldap:ana'],
      ['x-webauth-name', 'X-WEBAUTH-NAME: Ana S%C3%A1, Jr.'],
      ['x-webauth-groups', 'X-WEBAUTH-GROUPS: Agente,Supervisor'],
      ['x-who', 'X-Who: 7'],
      ['x-empty', 'X-Empty: '],
      // A value that the person lacks does not let the client fill it in.
      ['x-webauth-email'],
      ['authorization', 'Authorization: Basic YTpi']
    ] as const)
      t.same(lines(request, name), expected, `${path} ${name}`)
  }
})

t.test('what an upstream removes does not arrive, and other upstreams are not touched', async t => {
  const sent =
    'Accept-Language: pt\r\nOrigin: http://a.example\r\nX_Debug: 1\r\nHTTP_X_DEBUG: 1\r\nGrpc-Metadata-X-Debug: 1\r\nX-Kept: 1\r\n'
  const { request } = await send('/api/x', sent)
  for (const name of ['accept-language', 'origin', 'x-debug']) t.same(lines(request, name), [], name)
  t.same(lines(request, 'x-kept'), ['X-Kept: 1'])
  await world.raw(`OPTIONS /api/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\nMax-Forwards: 5\r\n\r\n`)
  t.match(raw.requests.at(-1), { method: 'OPTIONS' })
  t.notMatch(raw.requests.at(-1)?.head, /max-forwards/i)
  const other = await send('/plain/x', sent)
  for (const [name, count] of [
    ['accept-language', 1],
    ['origin', 1],
    ['x-debug', 3]
  ] as const)
    t.equal(lines(other.request, name).length, count, name)
  t.same(lines(other.request, 'x-tenant'), [])
})

t.test('a header that is named as metadata of a grpc-gateway is that one alone, and in answers each is', async t => {
  raw.respond(
    () =>
      'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nGrpc-Metadata-Content-Type: application/grpc\r\n' +
      'X-Site: sul\r\nGrpc-Metadata-X-Site: sul\r\nContent-Length: 0\r\n\r\n'
  )
  t.teardown(() => raw.respond(() => OK))
  const sent = ['X-Site', 'X-Debug', 'Grpc-Metadata-X-Site', 'Grpc-Metadata-X-Debug'].map(name => `${name}: sul\r\n`)
  const { request, answer } = await send('/grpc/x', sent.join(''))
  t.same(lines(request, 'x-site').sort(), ['Grpc-Metadata-X-Site: norte', 'X-Site: sul'])
  t.same(lines(request, 'x-debug'), ['X-Debug: sul'])
  t.match(answer.headers, { 'content-type': 'text/plain', 'x-site': 'norte', 'grpc-metadata-x-site': 'sul' })
  t.equal(answer.headers['grpc-metadata-content-type'], undefined)
})

t.test('answers lose and gain what the upstream says, in trailers too', async t => {
  raw.respond(
    () =>
      'HTTP/1.1 200 OK\r\nServer: secret/1\r\nx_powered_by: php\r\nx-frame-options: ALLOWALL\r\nX-Kept: 1\r\nTransfer-Encoding: chunked\r\n\r\n' +
      '2\r\nok\r\n0\r\nServer: secret/1\r\nX-Kept-Too: 1\r\n\r\n'
  )
  const request = http.get(`${world.url}/api/x`, { headers: { authorization: `Bearer ${token}` } })
  const [answer] = (await once(request, 'response')) as [http.IncomingMessage]
  await answer.resume().toArray()
  t.match(answer.headers, { 'x-frame-options': 'DENY', 'x-kept': '1' })
  t.notMatch(answer.rawHeaders.join(), /secret|php|ALLOWALL/)
  t.same(answer.rawTrailers, ['X-Kept-Too', '1'])
  raw.respond(() => OK)
})

const separator = fc.constantFrom('-', '_', '.', '~', '!', '|', '*', "'", '`', '^')
const spelling = fc
  .tuple(
    fc.constantFrom(
      ['x', 'webauth', 'user'],
      ['x', 'who'],
      ['x', 'tenant'],
      ['authorization'],
      ['x', 'user', 'id'],
      ['x', 'user', 'profiles'],
      ['x', 'user', 'new'],
      ['x', 'user', 'assertion'],
      ['content', 'type']
    ),
    separator,
    fc.boolean()
  )
  .map(([words, between, isUpper]) => (isUpper ? words.join(between).toUpperCase() : words.join(between)))
const fieldValue = fc.constantFrom('root', '', '0', 'Admin,Supervisor', 'x\ty', '%0d%0aX-Who: 1', '\u00ff')
const text = fc.string({ unit: 'grapheme', maxLength: 20 })
const evil = fc.constantFrom('a\r\nX-Who: 1', 'a\nX-Who: 1', '\u010d\u010aX-Who: 1', '\u0000', '\u2028x', ' ', '\ud800')

t.test('whatever fields are sent, identity and framing are the gateway’s alone and no value breaks a line', async t => {
  // HD-01, HD-02, HD-04, HD-05, HD-06, HD-14, HD-15, HD-19
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(spelling, fieldValue), { maxLength: 8 }),
      fc.record({ name: fc.oneof(text, evil), username: fc.oneof(text, evil), email: fc.oneof(text, evil) }),
      fc.boolean(),
      fc.boolean(),
      async (fields, names, isPublic, isNamed) => {
        const bearer = await world.tokenFor({ ...names, id: 7, profiles: ['Agente'] })
        const isTwice = fields.some(([name]) => name.toLowerCase() === 'authorization')
        const connection = isNamed
          ? 'Connection: CLOSE,\tx-who, x-tenant, x-user-id, content-length, transfer-encoding, host\r\nConnection: x-forwarded-for\r\n'
          : ''
        const before = raw.requests.length
        const head = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
        const answer = await world.raw(
          Buffer.from(
            `POST /${isPublic ? 'open' : 'api'}/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${bearer}\r\n${head}${connection}Content-Length: 3\r\n\r\nabc`,
            'latin1'
          )
        )
        const arrived = raw.requests.slice(before)
        const [request] = arrived
        const want = (holds: boolean, what: string) => {
          if (!holds) throw new Error(`${what}: ${answer.status} ${request?.head}`)
        }
        if (isTwice) return want(request === undefined && answer.status === 400, 'two credentials')
        want(arrived.length === 1 && request?.body === 'abc', `${arrived.length} arrived`)
        if (request === undefined) return
        for (const [name, line] of [
          ['content-length', 'content-length: 3'],
          ['transfer-encoding', ''],
          ['x-tenant', 'X-Tenant: norte'],
          ['authorization', 'Authorization: Basic YTpi'],
          ['x-who', isPublic ? '' : 'X-Who: 7']
        ] as const)
          want(lines(request, name).join() === line, name)
        for (const name of ['host', 'x-forwarded-for']) want(lines(request, name).length === 1, name)
        const isLogin = (line: string) => /^X-WEBAUTH-USER: ldap:[\x20-\x7e]*[\x21-\x7e]$/.test(line)
        want(lines(request, 'x-webauth-user').every(isLogin), 'a login of several lines')
        const identity = identityFields(request)
        want(isPublic ? Object.keys(identity).length === 0 : identity['x-user-id']?.join() === '7', 'identity')
        want(!/Admin|root/.test(JSON.stringify(identity)), 'a forged identity')
        want(
          Object.values(identity).every(values => values.length === 1),
          'identity twice'
        )
      }
    ),
    { numRuns: 600 }
  )
  t.equal(await isAlive(world, raw, 4), undefined)
})

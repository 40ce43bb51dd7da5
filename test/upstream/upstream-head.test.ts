// What a backend is sent of a request: its target and fields, with the identity and without the gateway's own tokens.
import t from 'tap'
import { ownHeaders } from '../../gateway/http/answer.ts'
import { createCrossOrigins } from '../../gateway/http/cross-origin.ts'
import { requestRulesOf } from '../../gateway/upstream/headers/header-rules.ts'
import { createUpstreamHeads } from '../../gateway/upstream/headers/upstream-head.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { person, routeAt, upstreamAt } from '../support/routes.ts'

const OWN = `pt_${'o'.repeat(43)}`
const heads = createUpstreamHeads({
  tokens: { isOurs: token => token === OWN },
  ownCookies: { has: name => name === 'portaria_session' },
  assertions: { lineFor: () => 'x-user-assertion: signed\r\n' }
})
const upstream = upstreamAt(4001)

t.test('a person’s query passes as it is; a public route passes no token of ours on', async t => {
  const identity = { kind: 'session', user: { id: 7 } } as never
  const target = (more: Parameters<typeof exchangeOf>[0]) =>
    heads
      .whole(exchangeOf({ target: `/x?a=1&t=${OWN}`, ...more }), routeAt('/x', upstream), '127.0.0.1:4001', false)
      .split(' ')[1]
  t.equal(target({ identity }), `/x?a=1&t=${OWN}`)
  t.equal(target({}), '/x?a=1')
})

t.test('without a stripped prefix, rules or an upstream, none is told', async t => {
  const { upstream: _, ...bare } = routeAt('/x', upstream)
  const exchange = exchangeOf({ fields: ['Host', 'gw', 'A', '1'] })
  t.notMatch(heads.whole(exchange, bare as never, 'up:1', false), /x-forwarded-prefix/)
  t.notMatch(heads.whole(exchange, routeAt('/x', upstream, { stripPrefix: '/' }), 'up:1', false), /x-forwarded-prefix/)
  t.match(
    heads.whole(exchange, routeAt('/x', upstream, { stripPrefix: '/x' }), 'up:1', false),
    /\r\nx-forwarded-prefix: \/x\r\n/
  )
})

t.test('a COPY names the same server for what it writes to (RFC 4918 §10.3)', async t => {
  const exchange = exchangeOf({ method: 'COPY', fields: ['Host', 'gw', 'Destination', 'https://gw/y'] })
  exchange.route = routeAt('/x', upstream)
  exchange.destination = '/y'
  const head = heads.whole(exchange, exchange.route, '127.0.0.1:4001', false)
  t.match(head, /\r\ndestination: http:\/\/127\.0\.0\.1:4001\/y\r\n/)
  t.equal(head.match(/destination/gi)?.length, 1)
})

t.test('what an upstream’s rules write replaces what a client sent in any spelling', async t => {
  const rules = requestRulesOf({
    ...upstream,
    requestHeaders: { set: [['X-Tenant', 'a']], remove: ['X-Old'] },
    identityHeaders: [
      { name: 'X-Login', attribute: 'login' },
      { name: 'X-Groups', attribute: 'profiles' }
    ]
  })
  for (const name of ['x_tenant', 'X-LOGIN', 'x.groups', 'x-old']) t.equal(rules?.removes(name), true, name)
  t.equal(rules?.removes('X-New'), false)
  t.equal(rules?.lines, 'X-Tenant: a\r\n')
  const linesOf = (username: string) =>
    rules?.identityLines({ user: person({ username, provider: 'ldap', profiles: ['Agente', 'Admin'] }) } as never)
  t.equal(linesOf('maria'), 'X-Login: ldap:maria\r\nX-Groups: Agente,Admin\r\n')
  t.equal(linesOf(''), 'X-Groups: Agente,Admin\r\n')
  t.equal(rules?.identityLines(undefined), '')
})

t.test(
  'the gateway’s own fields replace those of the same name, and what the client may not tell is left out',
  async t => {
    const headOf = (more: Partial<Parameters<typeof exchangeOf>[0]> & object, fields: string[]) => {
      const exchange = exchangeOf({ ...more, fields: ['Host', 'gw', ...fields] })
      exchange.trace = { traceId: 'x', traceparent: '00-ours', keepsState: true }
      return heads.whole(exchange, routeAt('/x', upstream), 'up:1', false)
    }
    const traced = headOf({}, ['Traceparent', '00-theirs', 'A', '1', 'B', '2', 'C', OWN, 'TE', 'gzip, trailers'])
    t.match(traced, /\r\nA: 1\r\nB: 2\r\ntraceparent: 00-ours\r\n\r\n$/)
    t.match(traced, /\r\nte: trailers\r\nconnection: te\r\n/)
    t.notMatch(traced, /00-theirs|C: /)
    t.match(traced, /\r\nx-real-ip: 192\.0\.2\.1\r\n/)
    t.match(headOf({}, ['X-Portaria-Via', 'other']), /\r\nx-portaria-via: other, [^\r,]+\r\n/)
    t.match(headOf({}, ['X-Portaria-Via', 'o'.repeat(201)]), /\r\nx-portaria-via: [^\r,]+\r\n/)
    const proxied = { trusted: true, peer: '::ffff:192.0.2.9' }
    const behind = headOf(proxied, ['X-Forwarded-For', '198.51.100.1', 'X-Forwarded-Proto', 'https'])
    t.match(behind, /x-forwarded-for: 198\.51\.100\.1, 192\.0\.2\.9\r\nx-forwarded-proto: https\r\n/)
    t.match(headOf(proxied, ['X-Forwarded-For', OWN]), /x-forwarded-for: 192\.0\.2\.9\r\n/)
  }
)

t.test('the scheme is the one that the client used, as the proxies in TRUST_PROXY report it', async t => {
  const protoOf = (trusted: boolean, protos: string[], addresses = '198.51.100.1') => {
    const lines = protos.flatMap(proto => ['X-Forwarded-Proto', proto])
    const exchange = exchangeOf({ trusted, fields: ['Host', 'gw', 'X-Forwarded-For', addresses, ...lines] })
    const head = heads.whole(exchange, routeAt('/x', upstream), 'up:1', false)
    const told = [...head.matchAll(/\r\nx-forwarded-proto: ([^\r]*)/gi)].map(([, proto]) => proto)
    // What the gateway's own responses tell the browser agrees with it (RFC 6797 §7.2).
    const own = ownHeaders(exchange, { origins: createCrossOrigins('http://gw', 'http://gw', []) })
    t.equal(own.includes('strict-transport-security'), told[0] === 'https', protos.join(' and '))
    return told.join(' and ')
  }
  for (const [proto, expected] of [
    ['https', 'https'],
    ['HTTPS', 'https'],
    ['Http', 'http'],
    // Traefik, for WebSocket upgrades.
    ['wss', 'https'],
    ['ws', 'http'],
    ['evil', 'http'],
    ['https:', 'http'],
    ['', 'http']
  ] as const) {
    t.equal(protoOf(true, [proto]), expected, proto)
    t.equal(protoOf(false, [proto]), 'http', `${proto} from a client`)
  }
  const inner = '198.51.100.1, 192.0.2.8'
  t.equal(protoOf(true, ['https,http'], inner), 'https', 'TLS ends at the outer proxy')
  t.equal(protoOf(true, ['HTTPS , http'], inner), 'https')
  t.equal(protoOf(true, ['https', 'http'], inner), 'https', 'on lines of their own')
  t.equal(protoOf(true, ['http, https'], inner), 'http', 'only the proxies use TLS between them')
  t.equal(protoOf(true, ['https, http, http'], `6.6.6.6, ${inner}`), 'http', 'the first was invented by the client')
  t.equal(protoOf(true, ['https, http']), 'http', 'so it was by a client of the only proxy')
  t.equal(protoOf(true, ['https, http'], `${inner}, 192.0.2.7`), 'https', 'one of the proxies adds nothing')
  t.equal(protoOf(true, ['https, http'], '192.0.2.7, 192.0.2.8'), 'https', 'the client is a proxy itself')
  t.equal(protoOf(true, ['https, http'], 'unknown'), 'http')
  t.equal(protoOf(true, ['https, evil'], '198.51.100.1'), 'http')
  t.equal(protoOf(true, ['https, '], '198.51.100.1'), 'http')
})

t.test('an access token is not passed on, even where tokens are', async t => {
  const authorization = (kind: string) => {
    const exchange = exchangeOf({ fields: ['Host', 'gw', 'Authorization', 'Bearer x'] })
    exchange.identity = { kind, user: person() } as never
    const head = heads.whole(exchange, routeAt('/x', upstream, { forwardToken: true }), 'up:1', false)
    return head.includes('Authorization: Bearer x')
  }
  t.same(['login', 'personal'].map(authorization), [true, false])
})

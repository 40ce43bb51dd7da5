// What a backend is sent of a request, with the identity and without the gateway's own tokens, and what a client gets of its response.
import t from 'tap'
import { ownCookies } from '../../gateway/access/session-cookie.ts'
import { createCrossOrigins } from '../../gateway/http/cross-origin.ts'
import { ownHeaders } from '../../gateway/http/own-responses.ts'
import type { User } from '../../gateway/identity.ts'
import { clientHead, clientTrailers, createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { identityFields } from '../../gateway/upstream/headers/identity-headers.ts'
import { privateAnswersOf } from '../../gateway/upstream/headers/private-answers.ts'
import { createUpstreamHeads } from '../../gateway/upstream/headers/upstream-head.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { person, routeAt, upstreamAt } from '../support/routes.ts'
import { parseHead } from '../support/upstream-connections.ts'

const OWN = `pt_${'o'.repeat(43)}`
const heads = createUpstreamHeads({
  tokens: { isOurs: token => token === OWN },
  ownCookies: { has: name => name === 'portaria_session' },
  assertions: { lineFor: () => 'x-user-assertion: signed\r\n' }
})
const upstream = upstreamAt(4001)

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

const context = createResponseContext(ownCookies)(routeAt('/x', upstream), upstream, '127.0.0.1:4001')
const PUBLIC = undefined
const PRIVATE = privateAnswersOf(routeAt('/x', upstream))

const headOf = (fields: readonly string[], privacy: typeof PRIVATE, status = 200) => {
  const lines = fields.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${fields[index + 1]}\r\n`] : []))
  return clientHead(parseHead(`HTTP/1.1 ${status} OK\r\n${lines.join('')}`, 'GET'), context, privacy)
}

t.test('the gateway adds a Date unless one passes (RFC 9110 §6.6.1)', async t => {
  t.equal(headOf(['DATE', 'x'], PRIVATE).hasDate, true)
  t.equal(headOf(['Connection', 'date', 'Date', 'x'], PRIVATE).hasDate, false)
  t.equal(headOf(['X-Date', 'x'], PRIVATE).hasDate, false)
})

t.test('a stream of events is one by its type alone', async t => {
  const isStream = (type: string) => headOf(['Content-Type', type], PUBLIC).eventStream
  for (const type of ['text/event-stream', 'Text/Event-Stream ; charset=utf-8']) t.equal(isStream(type), true, type)
  const beside = ['Content-Type', 'text/event-stream', 'Set-Cookie', 'a=b', 'Location', '/x', 'Date', 'x']
  t.equal(headOf(beside, PUBLIC).eventStream, true)
  t.equal(headOf(['Location', 'text/event-stream'], PUBLIC).eventStream, false)
  for (const type of ['text/event-streams', 'x/text/event-stream', 'text/plain']) t.equal(isStream(type), false, type)
})

t.test('a trailer passes unless it would change how the response is read', async t => {
  const trailers = ['X-Sum', '1', 'Content-Type', 'x', 'set-cookie', 'a=b', 'X-User-Id', '1', 'Grpc-Status', '0']
  t.same(clientTrailers(trailers, undefined), ['X-Sum', '1', 'Grpc-Status', '0'])
  for (const name of ['Refresh', 'Clear-Site-Data', 'Strict-Transport-Security', 'Alt-Svc', 'CDN-Cache-Control', 'TE'])
    t.same(clientTrailers([name, '1'], undefined), [], `${name}, which is read in a head`)
  t.same(clientTrailers(['Access-Control-Allow-Origin', '*', 'Content-Length', '9'], undefined), [])
  t.same(clientTrailers(['Content-Digest', 'x'], undefined), ['Content-Digest', 'x'])
  t.same(
    clientTrailers(trailers, name => name === 'X-Sum'),
    ['Grpc-Status', '0']
  )
})

t.test('blanks at the ends of an attribute survive; without a person every identity field is empty', async t => {
  const valuesOf = (user: User | undefined) => identityFields(user).filter((_, index) => index % 2 === 1)
  const values = valuesOf(person({ name: '  a b  ', areas: ['  a', 'b  '] }))
  t.ok(values.includes('%20%20a b%20%20'))
  t.ok(values.includes('%20%20a,b%20%20'))
  t.same([...new Set(valuesOf(undefined))], [''])
})

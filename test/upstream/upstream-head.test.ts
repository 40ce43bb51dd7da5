// What a backend is sent of a request: its target and fields, with the identity and without the gateway's own tokens.
import t from 'tap'
import { createCrossOrigins } from '../../gateway/http/cross-origin.ts'
import { ownHeaders } from '../../gateway/http/own-responses.ts'
import { createUpstreamHeads } from '../../gateway/upstream/headers/upstream-head.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { routeAt, upstreamAt } from '../support/routes.ts'

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

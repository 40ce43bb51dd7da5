// Proxies with mistakes beyond their reading of paths are found out, with their remedies.
// RW-07, RW-23, RW-27, RT-16, RT-17, RT-30, RT-34, HD-01, HD-02, HD-09, HD-12, HD-24, HD-30, JW-01 to JW-05, JW-16, JW-19, JW-23, WS-01, WS-02
import t from 'tap'
import { ANSWER_CHECKS } from '../../gateway/cli/doctor/answers.ts'
import { HEADER_CHECKS } from '../../gateway/cli/doctor/headers.ts'
import { HTTP2_CHECKS } from '../../gateway/cli/doctor/http2.ts'
import { PATH_CHECKS } from '../../gateway/cli/doctor/paths.ts'
import { SOCKET_CHECKS } from '../../gateway/cli/doctor/sockets.ts'
import { TOKEN_CHECKS } from '../../gateway/cli/doctor/tokens.ts'
import { checkFoundOut } from '../support/doctor.ts'
import { ERRS, NAMED_BY } from '../support/vulnerable-proxy.ts'

t.test('for each finding there is a proxy with the mistake that it names', async t => {
  const overHttp1 = { ...PATH_CHECKS, ...HEADER_CHECKS, ...TOKEN_CHECKS, ...SOCKET_CHECKS, ...ANSWER_CHECKS }
  // No mistake of the proxy: its certificate, and a server that takes anything.
  const named = new Set([...Object.values(NAMED_BY), 'tls', 'http2-malformed'])
  t.same(
    Object.keys({ ...overHttp1, ...HTTP2_CHECKS }).filter(id => !named.has(id) && !named.has(id.replace('http2-', ''))),
    []
  )
})

t.test('a proxy that makes mistakes is found out, with their remedies', t =>
  checkFoundOut(t, ERRS, [
    [['private-open']],
    [['role-by-exact-path']],
    [['sni-believed'], 'http2-sni-confused', 'tls'],
    [
      [
        'original-url',
        'method-override',
        'head-open',
        'identity-believed',
        'address-believed',
        'identity-forwarded',
        'foreign-identity-forwarded',
        'token-forwarded',
        'shared-cache',
        'two-hosts',
        'any-hmac',
        'key-from-token',
        'expiry-ignored',
        'token-in-query',
        'socket-origin',
        'cors-mirror',
        'no-limit',
        'metrics-open',
        'stack-trace',
        'no-challenge',
        'lax-cookie'
      ]
    ],
    [
      [
        'options-open',
        'host-spelled',
        'underscore-forwarded',
        'weak-secret',
        'upgrade-open',
        'limit-by-header',
        'input-mirrored'
      ],
      'address-believed',
      'websocket-no-token'
    ],
    [['alg-none', 'made-secret', 'limit-by-port'], 'websocket-no-token'],
    [['socket-open', 'signature-ignored'], 'upgrade-bypass', 'jwt-weak-secret', 'jwt-key-by-token']
  ])
)

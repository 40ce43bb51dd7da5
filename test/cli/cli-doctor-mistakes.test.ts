// Proxies with mistakes beyond their reading of paths are found out, with their remedies.
// RW-07, RW-23, RW-27, RT-16, RT-17, RT-30, RT-34, HD-01, HD-02, HD-09, HD-12, HD-24, HD-30, JW-01 to JW-05, JW-16, JW-19, JW-23, WS-01, WS-02
import t from 'tap'
import { checkFoundOut } from '../support/doctor.ts'

t.test('a proxy that makes mistakes is found out, with their remedies', t =>
  checkFoundOut(t, [
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

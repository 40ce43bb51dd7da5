// A proxy with one mistake beyond its reading of paths is found out, with its remedy.
// RW-07, RW-23, RW-27, RT-16, RT-17, RT-30, RT-34, HD-01, HD-02, HD-09, HD-12, HD-24, HD-30, JW-01 to JW-05, JW-16, JW-19, JW-23, WS-01, WS-02
import t from 'tap'
import { checkFoundOut } from '../support/doctor.ts'
import type { Mistake } from '../support/vulnerable-proxy.ts'

/** Which finding names which mistake. */
const FOUND_AS: Readonly<Partial<Record<Mistake, string>>> = {
  'private-open': 'private-open',
  'role-by-exact-path': 'path-case',
  'original-url': 'header-original-url',
  'method-override': 'header-method-override',
  'head-open': 'method-unguarded',
  'options-open': 'method-unguarded',
  'identity-believed': 'identity-believed',
  'address-believed': 'address-believed',
  'host-spelled': 'host-confused',
  'sni-believed': 'sni-confused',
  'identity-forwarded': 'identity-forged',
  'underscore-forwarded': 'identity-forged',
  'foreign-identity-forwarded': 'foreign-identity-forged',
  'token-forwarded': 'token-on-public',
  'shared-cache': 'cache-shared',
  'two-hosts': 'two-hosts',
  'alg-none': 'jwt-none',
  'signature-ignored': 'jwt-signature',
  'weak-secret': 'jwt-weak-secret',
  'made-secret': 'jwt-weak-secret',
  'any-hmac': 'jwt-algorithm',
  'key-from-token': 'jwt-key-by-token',
  'expiry-ignored': 'jwt-lifetime',
  'token-in-query': 'jwt-place',
  'socket-open': 'websocket-no-token',
  'socket-origin': 'websocket-origin',
  'upgrade-open': 'upgrade-bypass',
  'cors-mirror': 'cors',
  'no-limit': 'rate-limit-missing',
  'limit-by-header': 'rate-limit-address',
  'limit-by-port': 'rate-limit-address',
  'metrics-open': 'operations-open',
  'stack-trace': 'leak',
  'input-mirrored': 'leak',
  'no-challenge': 'challenge-missing',
  'lax-cookie': 'cookies'
}

t.test('a proxy with one mistake is found out, with its remedy', t => checkFoundOut(t, FOUND_AS))

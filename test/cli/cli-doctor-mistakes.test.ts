// A proxy with one mistake beyond its reading of paths is found out, with its remedy.
// RW-07, RW-23, RW-27, RT-16, RT-17, RT-30, RT-34, HD-01, HD-02, HD-09, HD-12, HD-24, HD-30, JW-01 to JW-05, JW-16, JW-19, JW-23, WS-01, WS-02
import t, { type Test } from 'tap'
import { type Diagnosis, examine } from '../support/doctor.ts'
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

/** One process each: on a busy machine they take longer than a file otherwise may. */
const AT_ONCE = 2
const isFoundOut = async (t: Test, mistake: Mistake, id: string) => {
  const result = await examine(t, mistake)
  t.equal(result.code, 1, `${mistake}: exit code\n${result.stderr}`)
  const { findings } = result.json<Diagnosis>()
  const finding = findings.find(one => one.id === id)
  t.ok(finding, `${mistake} is found as ${id}, among ${findings.map(one => one.id)}`)
  t.ok(finding !== undefined && finding.evidence.length > 0 && finding.fix !== '', `${mistake}: evidence and remedy`)
  t.notOk(result.stdout.includes('eyJ'), `${mistake}: no token is repeated`)
}

t.test('a proxy with one mistake is found out, with its remedy', async t => {
  const mistakes = Object.entries(FOUND_AS) as [Mistake, string][]
  for (let from = 0; from < mistakes.length; from += AT_ONCE)
    await Promise.all(mistakes.slice(from, from + AT_ONCE).map(([mistake, id]) => isFoundOut(t, mistake, id)))
})

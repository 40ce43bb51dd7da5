// Every reason for a decision has a sentence of its own.
import t from 'tap'
import type { Decision } from '../../gateway/routes/decide.ts'
import { reasonInWords } from '../../gateway/routes/decision-words.ts'
import type { RouteMatch } from '../../gateway/routes/route.ts'
import { routeOf } from '../support/exchanges.ts'
import { tableOf } from '../support/route-files.ts'
import { words } from '../support/words.ts'

const maria = { name: 'maria' }
const person = (...profiles: string[]) => ({
  name: 'maria',
  user: { profiles, accessStatus: 'assigned', provider: 'ldap' } as const
})
const because = (reason: string): Decision => ({ decision: 403, code: 'GW_FORBIDDEN', reason })
const NO_ROUTE: RouteMatch = { refusal: 'no-route' }
const NO_METHOD: RouteMatch = { refusal: 'method', routes: [routeOf({ methods: new Set(['GET']) })], public: false }

const DECISIONS = words`public socketio engineio-path engineio-method any-valid-token has-role role-missing cloud-unassigned unassigned`
const REFUSALS = words`
  method no-route destination lax-reading not-absolute fragment double-slash dot-segment encoded-slash backslash semicolon
  control-character double-encoding percent-encoding utf-8 raw-character
`
const TOKENS = words`
  no-token expired bad-signature bad-header bad-claims issued-in-the-future foreign-host foreign-address not-yet-valid
  lives-too-long
`

t.test('each reason has a sentence of its own', async t => {
  const table = await tableOf(t, '/x')
  const match = table.match('GET', '/x')
  const sentences = new Map<string, string>()
  for (const reason of [...DECISIONS, ...REFUSALS, ...TOKENS]) {
    const sentence = reasonInWords(because(reason), match, maria)
    t.match(sentence, /^[A-Z%2].* .*\.\)?\.?$/, reason)
    t.equal(sentences.get(sentence), undefined, `${reason} has its own`)
    sentences.set(sentence, reason)
  }
  t.equal(reasonInWords(because('token-kind'), NO_ROUTE, maria), 'token-kind', 'others are named')
})

t.test('a refused address is named beside the networks of the route, or how to name one', async t => {
  const match = (await tableOf(t, '/x {from: [10.0.0.0/8, 192.0.2.1]}')).match('GET', '/x')
  const say = (address?: string) => reasonInWords(because('address'), match, { ...maria, ...(address && { address }) })
  const sentence = say('192.0.2.7')
  t.match(sentence, /^The route admits only clients from 10\.0\.0\.0\/8, 192\.0\.2\.1\S* \(not 192\.0\.2\.7\)\.$/)
  t.match(say(), /\(write "from 10\.1\.2\.3" after who asks to name an address\)\.$/)
  const other = (await tableOf(t, '/x {methods: [GET], from: [10.0.0.0/8]}')).match('PUT', '/x')
  t.match(reasonInWords(because('address'), other, maria), 'only clients from 10.0.0.0/8')
})

t.test('a sentence names the roles that a route requires and those that the person has', async t => {
  const table = await tableOf(t, '/x {roles: [Admin, Supervisor]}', '/any', '/staff {requireAssigned: true}')
  const say = (reason: string, path: string, asker: Parameters<typeof reasonInWords>[2]) =>
    reasonInWords(because(reason), table.match('GET', path), asker)
  t.match(say('has-role', '/x', maria), 'Admin or Supervisor, and maria has it')
  const sentence = say('role-missing', '/x', person('Agente', 'Auditor'))
  t.match(sentence, 'Admin or Supervisor, and maria has only Agente, Auditor.')
  for (const none of [maria, person()]) t.match(say('role-missing', '/x', none), 'maria has no profile.')
  t.match(say('any-valid-token', '/any', maria), 'requires no role.')
  t.match(say('any-valid-token', '/staff', maria), 'only admits assigned people.')
})

t.test('a sentence about a missing method names the methods that exist', async t => {
  t.match(reasonInWords(because('method'), NO_METHOD, maria), 'allowed: GET, HEAD.')
})

t.test('without a token, a sentence says what is not disclosed', async t => {
  const table = await tableOf(t, '/x')
  const [unknown, method, known] = [NO_ROUTE, NO_METHOD, table.match('GET', '/x')].map(match =>
    reasonInWords(because('expired'), match, maria)
  )
  t.match(known, /^The token has expired\.$/)
  t.match(unknown, /^No route has this path.* not disclosed\. The token has expired\.$/)
  t.match(method, /this method.* not disclosed\. The token has expired\.$/)
})

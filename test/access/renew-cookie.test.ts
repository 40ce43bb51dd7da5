// Which requests renew a session cookie, when, and what the others are told meanwhile.
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createRenewCookie } from '../../gateway/access/renew-cookie.ts'
import { type GatewayError, TokenExpired, TokenStale, Unavailable } from '../../gateway/errors.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import type { Renewed } from '../../gateway/tokens/renew-login.ts'
import { shiftClocks } from '../support/clocks.ts'
import { exchangeOf, identityOf } from '../support/exchanges.ts'
import { collectGarbage } from '../support/garbage.ts'

const DUE = identityOf({ tokenId: 'due' })
const FRESH = identityOf({ tokenId: 'fresh' })
const STALE = new TokenStale({ reason: 'stale' })

const cookiesOf = ({ setCookies }: Exchange) => setCookies?.()

/** Renewals settle when the test says so. */
const start = (t: Test) => {
  const clocks = shiftClocks(t)
  const begun: { tokenId: string; settle: PromiseWithResolvers<Renewed> }[] = []
  const identified: unknown[] = []
  const refusals = new Map<string, GatewayError>()
  const renew = createRenewCookie({
    cookies: { fieldsOf: token => [`session=${token}`], isNavigation: ({ path }) => path === '/x' },
    renewLogin({ tokenId }) {
      const settle = Promise.withResolvers<Renewed>()
      begun.push({ tokenId, settle })
      return settle.promise
    },
    verifiedTokens: {
      check(token, options) {
        identified.push([token, options])
        return refusals.get(token) ?? DUE
      }
    },
    renewsAt: login => Date.now() / 1000 + (login === DUE ? -1 : 1)
  })
  const by = (cookie: string | undefined, more: Partial<Exchange> = {}) => {
    const exchange = exchangeOf({ route: { browser: true }, identity: DUE })
    exchange.sessionToken = cookie
    exchange.sessionHost = 'a.example'
    return Object.assign(exchange, more)
  }
  return { clocks, begun, identified, refusals, renew, by }
}

t.test('a cookie is renewed once, by a request that does not wait; later responses bring the new cookie', async t => {
  const { begun, renew, by } = start(t)
  const fresh = by('old', { identity: FRESH })
  t.equal(renew(fresh, undefined), undefined)
  t.equal(begun.length, 0, 'it is not due')
  const [first, second, third] = [by('old'), by('old'), by('old')]
  t.same([renew(first, undefined), renew(second, undefined)], [undefined, undefined])
  const ids = begun.map(({ tokenId }) => tokenId)
  t.same(ids, ['due'])
  t.same([first, second].map(cookiesOf), [undefined, undefined])
  begun[0]?.settle.resolve({ token: 'new', identity: FRESH })
  await turn()
  t.equal(renew(third, undefined), undefined)
  // Somebody may ask nothing more before the old one expires, or ask another process.
  t.same([first, second, third].map(cookiesOf), Array(3).fill(['session=new']))
  renew(by('another'), undefined)
  t.equal(begun.length, 2)
})

t.test('a login that has ended meanwhile is neither renewed nor set again', async t => {
  const { begun, refusals, renew, by } = start(t)
  const slow = by('old')
  renew(slow, undefined)
  begun[0]?.settle.resolve({ token: 'new', identity: FRESH })
  await turn()
  const ended = new TokenExpired({ reason: 'expired' })
  refusals.set('new', ended).set('gone', ended)
  t.same(cookiesOf(slow), [])
  t.equal(await renew(by('gone'), STALE), ended)
  t.equal(begun.length, 1)
})

t.test('a renewal that is remembered does not keep the head of its request', async t => {
  const { begun, renew, by } = start(t)
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < 200; i++) {
    const head = Buffer.alloc(100_000, `a-cookie-of-this-session-${i};`).toString('latin1')
    renew(by(head.slice(0, 30)), undefined)
  }
  for (const { settle } of begun) settle.resolve({ token: 'new', identity: FRESH })
  await turn()
  collectGarbage()
  t.ok(process.memoryUsage().heapUsed - before < 5_000_000)
})

t.test('a renewal that failed is tried again after ten seconds', async t => {
  const { clocks, begun, renew, by } = start(t)
  renew(by('old'), undefined)
  begun[0]?.settle.reject(new Unavailable({ reason: 'database' }))
  await turn()
  clocks.monotonicMs += 9000
  renew(by('old'), undefined)
  t.equal(begun.length, 1)
  clocks.monotonicMs += 1001
  renew(by('old'), undefined)
  t.equal(begun.length, 2)
})

t.test('a navigation with a stale cookie goes on with the current access, or with what refuses it', async t => {
  const { begun, identified, renew, by } = start(t)
  const navigation = by('old')
  const outcome = renew(navigation, STALE)
  begun[0]?.settle.resolve({ token: 'new', identity: FRESH })
  t.equal(await outcome, undefined)
  t.same(identified, [['old', { allowStale: true, host: 'a.example' }]])
  t.equal(navigation.identity, FRESH)
  t.same(cookiesOf(navigation), ['session=new'])
  const refused = renew(by('old'), STALE)
  begun[1]?.settle.reject(new TokenExpired({ reason: 'session-over' }))
  t.match(await refused, { code: 'GW_TOKEN_EXPIRED' })
})

t.test('no other request is renewed: its refusal stands', async t => {
  const { begun, renew, by } = start(t)
  const offer = { token: undefined, subprotocols: [], bearerOffered: false, query: '' }
  for (const [what, exchange] of Object.entries({
    'without a cookie': by(undefined),
    'on a route that is not for browsers': by('old', { route: undefined }),
    'that opens a socket': by('old', { offer }),
    'about which a proxy asks': by('old', { forwardAuth: 'plain' })
  }))
    for (const refusal of [undefined, STALE]) {
      t.equal(renew(exchange, refusal), refusal, what)
      t.equal(begun.length, 0, what)
    }
  const expired = new TokenExpired({ reason: 'expired' })
  t.equal(renew(by('old'), expired), expired, 'only what is stale has a new access')
  t.equal(renew(by('old', { path: '/data' }), STALE), STALE, 'that is no navigation')
  t.equal(begun.length, 0)
})

// What pages are made of, without a browser: counts and days that were chosen, addresses that a login leads back to, and the words
// and ways of each refusal, of which no value becomes markup.
import t from 'tap'
import * as errors from '../../gateway/errors.ts'
import { safeReturnTo } from '../../gateway/pages/browser/return-to.ts'
import { countedEvery, dayOf, endOfDay } from '../../gateway/pages/browser/times.ts'
import { escapeHtml } from '../../gateway/pages/page-html.ts'
import { createRefusalPage } from '../../gateway/pages/refusal-page.ts'
import { parseTimestamp } from '../../gateway/values/quantities.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { words } from '../support/words.ts'

const STEP_MS = 5_000
const MINUTE_MS = 60_000
const FOUR = '2026-11-22T04:00:00Z'

t.test('one login is one, in whichever step it happened; a step that began before the period is left out', t => {
  const logins = [0, 0, 1, ...Array(9).fill(0), 2, 0, 0, 1]
  for (const [what, begin, counts, widthMs, minutes, expected] of [
    ['by the minute', FOUR, logins, MINUTE_MS, [0, 1], [1, 3]],
    ['step by step', FOUR, logins, STEP_MS, undefined, logins],
    ['from the middle of a minute', '2026-11-22T04:00:30Z', [5, 5, 5, 5, 5, 5, 1], MINUTE_MS, [1], [1]],
    ['nothing', FOUR, [], MINUTE_MS, [], []]
  ] as const) {
    const points = counts.map((count, i) => ({ at: new Date(Date.parse(begin) + i * STEP_MS).toISOString(), count }))
    const { at, of } = countedEvery(points, STEP_MS, widthMs)
    const values = of(({ count }) => count)
    t.same(values, expected, what)
    if (minutes)
      t.same(
        at,
        minutes.map(minute => Date.parse(FOUR) + minute * MINUTE_MS),
        what
      )
  }
  t.end()
})

t.test('an account can expire on the last day of the year 9999, in whatever time zone', t => {
  const before = process.env.TZ
  t.teardown(() => {
    if (before === undefined) delete process.env.TZ
    else process.env.TZ = before
  })
  for (const [zone, expected] of [
    ['America/Sao_Paulo', '9999-12-31T23:59:59.000Z'],
    ['UTC', '9999-12-31T23:59:59.000Z'],
    ['Asia/Tokyo', '9999-12-31T14:59:59.000Z']
  ] as const) {
    process.env.TZ = zone
    const end = parseTimestamp(endOfDay('9999-12-31'))
    t.equal(end?.toISOString(), expected, zone)
    t.equal(end && dayOf(end), '9999-12-31', zone)
    t.equal(parseTimestamp(endOfDay('2027-06-30'))?.getTime(), new Date('2027-06-30T23:59:59').getTime(), zone)
  }
  t.end()
})

const ORIGIN = 'https://portaria.example'

// Schemes, slashes, backslashes, blanks and look-alikes before, between and behind, as they are tried in the wild.
const STARTS = (
  '//¦///¦////¦/\\¦\\/¦\\\\¦/\\/¦\\/\\/¦/./\\¦/.//¦/..//¦/%09//¦/\t/¦/\n/¦/\r/¦/\0/¦/ /¦/\u00a0/¦/\u2028/¦' +
  '/\ufeff/¦／／¦/／¦〱¦/\u200b/¦/.\\¦/x/..//¦/x/../\\'
).split('¦')
const ENDS = words`
  evil.example evil.example/ evil.example@portaria.example portaria.example.evil.example evil%E3%80%82example
  evil。example
`
const WHOLE = (
  '¦ ¦.¦evil.example¦https:evil.example¦https:/evil.example¦https://evil.example¦HTTPS://evil.example¦' +
  'https:\\\\evil.example¦http://portaria.example/¦javascript:alert(1)¦JaVaScRiPt:alert(1)¦' +
  'java\nscript:alert(1)¦ javascript:alert(1)¦\u0001javascript:alert(1)¦data:text/html,x¦vbscript:x¦' +
  'blob:https://portaria.example/x¦about:blank¦file:///etc/passwd¦mailto:x@evil.example¦@evil.example¦:80¦#¦?¦' +
  '../¦./¦x/y¦/auth/login¦/auth/login?returnTo=/¦/AUTH/login¦/auth/logout¦/auth/oauth/cloudidp/start¦/auth¦' +
  '/health¦/a b¦/a\\b¦/a{b¦/a?b c¦/a?b"c¦/a?b\tc¦/a?é¦/a\tb¦/é¦/a/../b¦/a/./b¦/%2e%2e//evil.example¦/"><script>'
).split('¦')

// OA-08
t.test('nothing but a path of this origin is a place to return to', async t => {
  const spellings = [...WHOLE, `/${'x'.repeat(10_240)}`, ...STARTS.flatMap(start => ENDS.map(end => start + end))]
  t.ok(spellings.length > 100, `${spellings.length} spellings`)
  const taken = spellings.filter(text => safeReturnTo(text, ORIGIN) !== undefined)
  t.same(taken, [])
  t.equal(safeReturnTo(null, ORIGIN), undefined)
  for (const text of words`
    / /app /app/x?y=1&z=%2F#part /a%20b /auth/console /auth/account /auth/apps /auth/console#/people/7
    /app?next=https://evil.example /authors /wiki/a|b /repo//x
  `)
    t.equal(safeReturnTo(text, ORIGIN), text, text)
  // RV-84: browsers send these characters of a query as they are.
  const queries = ['panes={%22a%22:1}', 'host=a|b', 'q=x^2', 'q=`x`', 'q=C:\\x&next=//evil.example']
  for (const query of queries) t.equal(safeReturnTo(`/app?${query}`, ORIGIN), `/app?${query}`, query)
})

const site = {
  brandName: 'B',
  contact: undefined,
  publicUrl: 'https://gw.example',
  frontendUrl: 'https://gw.example',
  cloudidp: { name: 'C', successRedirectUrl: '/auth/login' }
}
const pageOf = (error: errors.GatewayError, exchange = exchangeOf(), parts = {}) =>
  createRefusalPage({ ...site, ...parts }).html(error, exchange)

t.test('every refusal has a page with words and a way on', async t => {
  const refusals = Object.values(errors).flatMap(value =>
    typeof value === 'function' && value.prototype instanceof errors.GatewayError
      ? [value as typeof errors.NoRoute]
      : []
  )
  t.ok(refusals.length > 30)
  for (const Refusal of refusals)
    t.match(pageOf(new Refusal({})), /<h1>[^<]+<\/h1>\n<p>[^<]+<\/p>\n<nav><a href="/, Refusal.name)
})

t.test('each kind of refusal says what to do, and where to go on', async t => {
  for (const [error, title, ...ways] of [
    [new errors.TokenExpired(), 'Login required', 'Log in', 'Go to the start page'],
    [new errors.OAuthState(), 'The login failed', 'Start again'],
    [new errors.PasswordExpired(), 'The login failed', 'Start again'],
    [new errors.Forbidden(), 'Access denied', 'See what I have access to', 'Go to the start page'],
    [new errors.Unassigned(), 'Waiting for access', 'See what I have access to', 'Go to the start page'],
    [new errors.BadOrigin(), 'Request refused', 'Go to the start page'],
    [new errors.NoRoute(), 'Page not found', 'Go to the start page'],
    [new errors.BodyTooLarge(), 'Request refused', 'Go to the start page'],
    [new errors.LoginThrottled(), 'Too many attempts', 'Try again'],
    [new errors.UpstreamTimeout(), 'Service unavailable', 'Try again', 'Go to the start page'],
    [new errors.Unavailable(), 'Not available right now', 'Try again', 'Go to the start page']
  ] as const) {
    const page = pageOf(error)
    t.ok(page.includes(`<h1>${title}</h1>`), error.code)
    const links = [...page.matchAll(/<a href="[^"]*">([^<]*)/g)].map(([, words]) => words)
    t.same(links, ways, error.code)
  }
})

t.test('a page speaks the language of its reader, and no value of it becomes markup', async t => {
  t.equal(escapeHtml(`<a href="x">'&`), '&lt;a href=&quot;x&quot;&gt;&#39;&amp;')
  const inPortuguese = exchangeOf({ fields: ['Host', 'gw', 'Accept-Language', 'pt-BR'] })
  t.match(pageOf(new errors.TokenExpired({}), inPortuguese), />Entrar<\/a>/)
  t.ok(pageOf(new errors.NoRoute(), inPortuguese).includes(`<span id="request-id">${inPortuguese.requestId}</span>`))
  t.notMatch(createRefusalPage(site).policy, /unsafe|https?:/)
  const forbidden = pageOf(new errors.Forbidden({ profiles: [] }), exchangeOf(), { brandName: '<b>' })
  t.match(forbidden, /<p>A profile and an area are needed\.<\/p>\n<nav>/)
  t.match(forbidden, '<p class="brand">&lt;b&gt;</p>')
})

t.test('a page leads home: to the frontend if there is another one', async t => {
  t.match(pageOf(new errors.NoRoute()), '<a href="/">')
  t.match(
    pageOf(new errors.NoRoute(), exchangeOf(), { frontendUrl: 'https://app.example' }),
    '<a href="https://app.example">'
  )
})

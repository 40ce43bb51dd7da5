// Every refusal has a page with words and a way on, in both languages, and no value of it becomes markup.
import t from 'tap'
import * as errors from '../../gateway/errors.ts'
import { escapeHtml } from '../../gateway/pages/page-html.ts'
import { createRefusalPage } from '../../gateway/pages/refusal-page.ts'
import { exchangeOf } from '../support/exchanges.ts'

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

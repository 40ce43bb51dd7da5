// Every refusal has a page with words and a way on, in both languages, and no value of it becomes markup.
import t from 'tap'
import * as errors from '../../gateway/errors.ts'
import { escapeHtml } from '../../gateway/pages/page-html.ts'
import { createRefusalPage, REFUSAL_KINDS, REFUSAL_WORDS } from '../../gateway/pages/refusal-page.ts'
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
  const titles: string[] = Object.values(REFUSAL_KINDS).map(({ title }) => title[1])
  const waysOf = (error: errors.GatewayError) => {
    const page = pageOf(error)
    t.ok(titles.includes(/<h1>(.*)<\/h1>/.exec(page)?.[1] ?? ''), error.code)
    return page.match(/<a href="[^"]*"/g)?.length
  }
  for (const Refusal of refusals) t.ok(waysOf(new Refusal({})), Refusal.name)
  t.equal(waysOf(new errors.Unavailable({})), 2, 'again, and home')
  t.equal(waysOf(new errors.TokenExpired({})), 2, 'log in, and home')
})

t.test('each kind of refusal says what to do', async t => {
  for (const [error, title] of [
    [new errors.TokenExpired(), 'Login required'],
    [new errors.OAuthState(), 'The login failed'],
    [new errors.PasswordExpired(), 'The login failed'],
    [new errors.Forbidden(), 'Access denied'],
    [new errors.Unassigned(), 'Waiting for access'],
    [new errors.BadOrigin(), 'Request refused'],
    [new errors.NoRoute(), 'Page not found'],
    [new errors.BodyTooLarge(), 'Request refused'],
    [new errors.LoginThrottled(), 'Too many attempts'],
    [new errors.UpstreamTimeout(), 'Service unavailable'],
    [new errors.Unavailable(), 'Not available right now']
  ] as const)
    t.ok(pageOf(error).includes(`<h1>${title}</h1>`), error.code)
})

t.test('both languages have a text for everything, with the same places for values', async t => {
  const holes = (text: string) => text.match(/\{\w+\}/g) ?? []
  const texts = [
    ...Object.values(REFUSAL_KINDS).flatMap(({ title, text }) => [title, text]),
    ...Object.values(REFUSAL_WORDS)
  ]
  for (const [pt, en] of texts) {
    t.ok(pt.length > 0 && en.length > 0)
    t.same(holes(pt), holes(en), en)
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

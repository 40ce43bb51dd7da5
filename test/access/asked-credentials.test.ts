// Where the token of a request is looked for, in which order, and which cookies are the gateway's own.
import t from 'tap'
import { createCredentials } from '../../gateway/access/credentials.ts'
import { ownCookies } from '../../gateway/access/own-cookies.ts'
import { Unauthenticated } from '../../gateway/errors.ts'
import type { Settings } from '../../gateway/settings/settings.ts'
import { exchangeOf, identityOf } from '../support/exchanges.ts'

const create = (parts: Partial<Settings> = {}) => {
  const ended: unknown[] = []
  const settings = {
    publicUrl: 'https://gw.example',
    frontendUrl: 'https://gw.example',
    corsOrigins: [],
    browserSession: true,
    jwt: { secret: 's', previousSecrets: [] },
    brandName: 'Acme',
    contact: 'the desk',
    cloudidp: { successRedirectUrl: 'https://gw.example/done', name: 'Cloud' },
    ...parts
  } as unknown as Settings
  const verifiedTokens = {
    identify: (token: string) => {
      if (token === 'nobody') throw new Unauthenticated({ reason: 'x' })
      return identityOf({ subject: token })
    }
  } as never
  const endLogin = async (login: { subject: string }, context: object) => void ended.push([login.subject, context])
  const renewal = { tokens: { renewsAt: () => Number.POSITIVE_INFINITY }, renewLogin: async () => Promise.reject() }
  const page = { policy: '', html: () => '' }
  const routes = () => ({ namesHost: () => false })
  return { ...createCredentials(settings, { verifiedTokens, endLogin, ...renewal }, routes, page), ended }
}
const cookie = (value: string) => ['Cookie', `__Host-portaria_session=${value}`]
const basic = ['Authorization', `Basic ${Buffer.from('maria:pt_x').toString('base64')}`]

t.test('a token comes from the offer of an upgrade, the Authorization field, or the cookie', async t => {
  const { tokenOf } = create()
  const ask = (fields: readonly string[], offer?: { token: string | undefined }, route: object = {}) => {
    const exchange = exchangeOf({
      fields: ['Host', 'gw.example', ...fields],
      route: { browser: true, basic: true, ...route }
    })
    if (offer !== undefined) exchange.offer = { subprotocols: [], bearerOffered: false, query: '', ...offer }
    return tokenOf(exchange)
  }
  t.equal(ask(['Authorization', 'Bearer a']), 'a')
  t.equal(ask(['Authorization', 'Bearer a', ...cookie('c')]), 'a')
  t.equal(ask(basic), 'pt_x')
  t.equal(ask(basic, undefined, { basic: false }), undefined)
  t.equal(ask(cookie('c')), 'c')
  t.equal(ask(cookie('c'), undefined, { browser: false }), undefined)
  t.equal(ask(['Authorization', 'Bearer a'], { token: 'o' }), 'o', 'the offer has been compared with the field already')
  t.equal(ask(['Sec-Fetch-Site', 'same-origin', ...cookie('c')], { token: undefined }), 'c')
  t.equal(ask([]), undefined)
})

t.test('without BROWSER_SESSION there is no cookie and no redirect to the login', async t => {
  const off = create({ browserSession: false })
  t.equal(off.sessionCookies, undefined)
  t.equal(off.answers.loginAddress, undefined)
  t.equal(off.tokenOf(exchangeOf({ fields: ['Host', 'gw', ...cookie('c')], route: { browser: true } })), undefined)
  const on = create()
  const page = exchangeOf({ fields: ['Host', 'gw.example', 'Accept', 'text/html'], route: { browser: true } })
  t.equal(on.answers.loginAddress?.(page), '/auth/login?returnTo=%2Fx')
})

t.test('the login that another person replaces in the same browser is ended, with the request that did it', async t => {
  const { sessionCookies, ended } = create()
  const exchange = exchangeOf({ fields: ['Host', 'gw.example', ...cookie('7')], peer: '192.0.2.9' })
  await sessionCookies?.begin(exchange, '8')
  t.same(ended, [['7', { requestId: exchange.requestId, ip: '192.0.2.9' }]])
})

t.test('the cookies of sessions and of cloud logins in progress are the gateway’s own', async t => {
  const own = ['portaria_login_a', '__Host-portaria_login_a', '__Host-portaria_session', 'portaria_session_1']
  for (const name of own) t.equal(ownCookies.has(name), true, name)
  for (const name of ['', 'x', 'a_portaria_login_', 'a__Host-portaria_login_', 'portaria_sessions', 'portaria_logi'])
    t.equal(ownCookies.has(name), false, name)
})

t.test('a refusal is written as the settings say: JSON, or the way to the login page', async t => {
  const { refuse } = create()
  const answerTo = (...fields: string[]) => {
    const exchange = exchangeOf({ fields: ['Host', 'gw.example', ...fields], route: { browser: true } })
    const answered: unknown[] = []
    Object.assign(exchange.response, { whole: (...parts: unknown[]) => answered.push(...parts) })
    refuse(exchange, new Unauthenticated({ reason: 'x' }))
    return answered
  }
  t.match(answerTo(), [{ status: 401, headers: /www-authenticate,Bearer/ }, /"code":"GW_UNAUTHENTICATED"/])
  const navigation = ['Accept', 'text/html', 'Sec-Fetch-Mode', 'navigate']
  t.match(answerTo(...navigation), [{ status: 302, headers: /location,\/auth\/login\?returnTo=%2Fx,/ }, ''])
})

// The cloud login works with a real OpenID Connect provider, discovered or configured address by address.
import t, { type Test } from 'tap'
import { beginCloudLogin, createCloudBrowser, logInAtProvider, readFragment } from '../support/cloud-browser.ts'
import { type OAuthApp, startOAuthApp } from '../support/oauth-app.ts'
import { maria, startOidcProvider } from '../support/oidc-provider.ts'
import { freePort } from '../support/ports.ts'

const callbackAt = (port: number) => `http://127.0.0.1:${port}/auth/oauth/cloudidp/callback`

/** A provider and a gateway's door that know each other. */
const startBoth = async (
  t: Test,
  { discovered = true, people = [maria], clientAuthentication = 'client_secret_basic' as Authentication } = {}
) => {
  const port = await freePort()
  const provider = await startOidcProvider(t, { redirectUris: [callbackAt(port)], people, clientAuthentication })
  const { issuer, clientId, clientSecret } = provider
  const explicit = { authorizationUrl: `${issuer}/auth`, tokenUrl: `${issuer}/token`, profileUrl: `${issuer}/me` }
  const cloudidp = { clientId, clientSecret, ...(discovered ? { issuer } : explicit) }
  return { provider, app: await startOAuthApp(t, { port, cloudidp }) }
}

const START = '/auth/oauth/cloudidp/start'

/** The answer to the callback of a whole login in a browser of its own. */
const logIn = async (app: OAuthApp, person: Parameters<typeof logInAtProvider>[2]) => {
  const browser = createCloudBrowser()
  return browser.get(await logInAtProvider(browser, await beginCloudLogin(browser, app.url), person))
}

type Authentication = 'client_secret_basic' | 'client_secret_post'

// OA-05, OA-07, OA-10, OA-26
for (const discovered of [true, false]) {
  t.test(`somebody logs in at a provider that is ${discovered ? 'discovered' : 'configured'}`, async t => {
    const { app, provider } = await startBoth(t, { discovered })
    const browser = createCloudBrowser()
    const started = await browser.get(app.url + START)
    t.equal(started.status, 302)
    t.equal(started.headers.get('cache-control'), 'no-store')
    const asked = new URL(started.headers.get('location') ?? '')
    t.match(Object.fromEntries(asked.searchParams), {
      response_type: 'code',
      client_id: 'portaria',
      redirect_uri: app.callbackUrl,
      scope: 'openid profile email',
      code_challenge_method: 'S256',
      code_challenge: /^[\w-]{43}$/,
      state: /^[\w-]{40}\.[\w-]{43}$/
    })
    t.equal(asked.searchParams.has('nonce'), discovered, 'a nonce is sent exactly with OpenID Connect')

    const returned = await logInAtProvider(browser, asked.href, maria)
    const done = await browser.get(returned)
    t.equal(done.status, 302)
    t.equal(done.headers.get('cache-control'), 'no-store')
    t.equal(done.headers.get('referrer-policy'), 'no-referrer')
    const location = new URL(done.headers.get('location') ?? '')
    t.equal(location.origin + location.pathname + location.search, `${app.url}/welcome`, 'nothing in the query')
    t.match(readFragment(location.href), {
      token: 'token-of-b3b1a7c2-0001',
      user: { username: maria.username, provider: 'cloudidp' }
    })
    t.match(app.people, [
      {
        provider: 'cloudidp',
        issuer: discovered ? provider.issuer : `${provider.issuer}/me`,
        subject: maria.subject,
        name: maria.name,
        email: maria.email,
        username: maria.username
      }
    ])
    t.equal(browser.cookies.get(app.url)?.size, 0, 'the cookie of the attempt is gone')
    for (const secret of [provider.clientSecret, new URL(returned).searchParams.get('code') ?? '', 'token-of-'])
      t.notOk(app.logText().includes(secret), 'the log holds no secret')
  })
}

t.test('the client secret is sent where the provider takes it, and only there from then on', async t => {
  for (const clientAuthentication of ['client_secret_basic', 'client_secret_post'] as const) {
    for (const discovered of [true, false]) {
      const { app } = await startBoth(t, { discovered, clientAuthentication })
      for (const login of [1, 2])
        t.equal((await logIn(app, maria)).status, 302, `${clientAuthentication}, ${discovered}, login ${login}`)
    }
  }
})

// OA-01, OA-05, OA-06, OA-09
t.test('of two interleaved logins, state, nonce, code and cookie must all belong to one', async t => {
  const joao = { username: 'joao', name: 'João', email: 'joao@corp.example', password: 'of joao', subject: 'j-1' }
  const { app } = await startBoth(t, { people: [maria, joao] })
  const people = [maria, joao]
  const both = [0, 1] as const
  const worlds = [...Array(48).keys()].map(n => ({
    state: both[n & 1] ?? 0,
    nonce: both[(n >> 1) & 1] ?? 0,
    challenge: both[(n >> 2) & 1] ?? 0,
    callback: both[(n >> 3) & 1] ?? 0,
    cookies: (['own', 'other', 'both'] as const)[n >> 4] ?? 'own'
  }))
  for (const world of worlds) {
    const attempts = await Promise.all(
      both.map(async () => {
        const browser = createCloudBrowser()
        const url = new URL(await beginCloudLogin(browser, app.url))
        return { url, cookie: browser.cookieHeader(app.url) }
      })
    )
    const parameterOf = (name: string, of: 0 | 1) => attempts[of]?.url.searchParams.get(name) ?? ''
    const asked = new URL(attempts[0]?.url ?? '')
    asked.searchParams.set('state', parameterOf('state', world.state))
    asked.searchParams.set('nonce', parameterOf('nonce', world.nonce))
    asked.searchParams.set('code_challenge', parameterOf('code_challenge', world.challenge))
    const person = people[world.nonce] ?? maria
    const returned = new URL(await logInAtProvider(createCloudBrowser(), asked.href, person))
    t.equal(returned.searchParams.get('state'), parameterOf('state', world.state))
    returned.searchParams.set('state', parameterOf('state', world.callback))
    const kept = { own: [world.callback], other: [1 - world.callback], both }[world.cookies]
    const cookie = kept.map(of => attempts[of]?.cookie).join('; ')
    const before = app.people.length
    const { status } = await fetch(returned, { headers: { cookie }, redirect: 'manual' })
    const isOne = world.nonce === world.callback && world.challenge === world.callback
    const expected = world.cookies === 'other' ? 400 : isOne ? 302 : 401
    t.equal(status, expected, JSON.stringify(world))
    const subjects = app.people.slice(before).map(({ subject }) => subject)
    t.same(subjects, expected === 302 ? [person.subject] : [], 'nobody but the one who authenticated is logged in')
  }
})

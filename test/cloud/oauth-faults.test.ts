// Whatever a provider does wrong, nobody is logged in, nothing hangs, and the client learns nothing but that it failed.
import { gzipSync } from 'node:zlib'
import { generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import t from 'tap'
import { createProviderFetch } from '../../gateway/cloud/provider-fetch.ts'
import { createProviderMetadata, isOfProvider, reachProvider } from '../../gateway/cloud/provider-metadata.ts'
import type { CloudIdpSettings } from '../../gateway/settings/settings.ts'
import { beginCloudLogin, createCloudBrowser } from '../support/cloud-browser.ts'
import { answerJson, type Fault, type FaultyProvider, startFaultyProvider } from '../support/faulty-provider.ts'
import { type OAuthApp, startOAuthApp } from '../support/oauth-app.ts'
import { quiet } from '../support/quiet.ts'

const START = '/auth/oauth/cloudidp/start'
/** Where nothing comes, it is waited for half of this. */
const SHORT_MS = 600
const OTHER_KEY = (await generateKeyPair('RS256')).privateKey
const nowS = () => Math.floor(Date.now() / 1000)

const logIn = async (app: OAuthApp, provider: FaultyProvider, more = '', query = '') => {
  const browser = createCloudBrowser()
  return browser.get(provider.authorize(await beginCloudLogin(browser, app.url, query)) + more)
}

const endpointsOf = ({ issuer }: FaultyProvider) => ({
  authorizationUrl: `${issuer}/authorize`,
  tokenUrl: `${issuer}/token`,
  profileUrl: `${issuer}/userinfo`
})

/** What the provider does otherwise. */
type Break = ((provider: FaultyProvider) => void) | Partial<FaultyProvider>

/** Each fault against a gateway of its own: 401, one text for all, the reason in the log, no secret anywhere. */
const fails = (
  what: string,
  reason: string,
  breaks: Break,
  { discovered = true, more = '', tenants = '', query = '' } = {}
) =>
  t.test(`nobody is logged in by ${what}`, async t => {
    const provider = await startFaultyProvider(t)
    const { issuer } = provider
    const app = await startOAuthApp(t, {
      cloudidp: {
        ...(discovered ? { issuer } : endpointsOf(provider)),
        ...(tenants === '' ? {} : { allowedTenants: tenants.split(',') })
      },
      deadlineMs: reason === 'provider-timeout' ? SHORT_MS : 10_000
    })
    if (typeof breaks === 'function') breaks(provider)
    else Object.assign(provider, breaks)
    const answer = await logIn(app, provider, more, query)
    t.equal(answer.status, 401)
    t.match(await answer.json(), { code: 'GW_OAUTH_FAILED', message: 'Autenticacao falhou' })
    t.match(app.outcomes, [{ ok: false, provider: 'cloudidp', reason }])
    t.same(app.people, [])
    t.notMatch(app.logText(), /access-secret|a client secret that|eyJ|code-1/, 'no secret is logged')
    t.match(answer.headers.get('set-cookie'), /Max-Age=0/, 'the attempt is over')
  })

const asJson = { 'content-type': 'application/json' }
const pour: Fault = res => {
  res.writeHead(200, asJson)
  const chunk = Buffer.alloc(64 * 1024, ' ')
  const more = () => {
    while (!res.destroyed && res.write(chunk));
  }
  res.on('drain', more)
  more()
}
// Made before any deadline runs.
const bomb = gzipSync(Buffer.alloc(32 * 1024 * 1024, ' '))

// OA-17, DF-12
const FAULTS: readonly [what: string, reason: string, fault: Fault][] = [
  ['never answers', 'provider-timeout', () => {}],
  ['stops midway', 'provider-timeout', res => res.writeHead(200, asJson).write('{"access_token":')],
  ['hangs up', 'provider-unreachable', res => res.destroy()],
  ['fails with 500', 'provider-error', res => answerJson(res, { hint: 'access-secret' }, 500)],
  ['redirects', 'provider-error', res => res.writeHead(307, { location: '/jwks' }).end()],
  [
    'answers HTML',
    'provider-nonsense',
    res => res.writeHead(200, { 'content-type': 'text/html' }).end('<h1>access-secret</h1>')
  ],
  [
    'answers broken JSON',
    'provider-nonsense',
    res => res.writeHead(200, asJson).end('{"access_token":"access-secret"')
  ],
  ['answers a list', 'provider-nonsense', res => answerJson(res, ['access-secret'])],
  ['answers without an end', 'provider-nonsense', pour],
  [
    'answers with a gzip bomb',
    'provider-nonsense',
    res => res.writeHead(200, { ...asJson, 'content-encoding': 'gzip' }).end(bomb)
  ]
]
for (const endpoint of ['token', 'userinfo'] as const)
  for (const [what, reason, fault] of FAULTS)
    fails(`a ${endpoint} endpoint that ${what}`, reason, ({ faults }) => {
      faults[endpoint] = fault
    })

fails('a token answer without an access token', 'provider-nonsense', { tokenAnswer: { access_token: undefined } })
fails('an access token of a hundred thousand characters', 'provider-nonsense', {
  tokenAnswer: { access_token: 'access-secret'.repeat(8000) }
})
fails('a client secret that is refused', 'client-refused', ({ faults }) => {
  faults.token = res => answerJson(res, { error: 'invalid_client', error_description: 'access-secret' }, 401)
})
fails('a code that is refused', 'code-refused', ({ faults }) => {
  faults.token = res => answerJson(res, { error: 'invalid_grant', error_description: 'access-secret' }, 400)
})
fails('an access token that the profile endpoint refuses', 'profile-refused', ({ faults }) => {
  faults.userinfo = res => res.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end()
})

// OA-11, OA-16
fails(
  'a provider that was asked to let the person log in again, and went on with its session',
  'login-not-repeated',
  { claims: { auth_time: nowS() - 600 } },
  { query: '?page=1&again=1' }
)
t.test('what a token answer says beside its tokens is not used, and may be anything', async t => {
  const provider = await startFaultyProvider(t)
  provider.tokenAnswer = { scope: ['openid'], refresh_token: null, expires_in: null }
  for (const settings of [{ issuer: provider.issuer }, endpointsOf(provider)]) {
    const app = await startOAuthApp(t, { cloudidp: settings })
    t.equal((await logIn(app, provider)).status, 302)
  }
})

t.test('a login asked for again counts if the provider calls it new, or does not say when it was', async t => {
  const provider = await startFaultyProvider(t)
  const app = await startOAuthApp(t, { cloudidp: { issuer: provider.issuer } })
  for (const [claims, query] of [
    [{ auth_time: nowS() }, '?again=1'],
    [{}, '?again=1'],
    [{ auth_time: nowS() - 600 }, '']
  ] as const) {
    provider.claims = claims
    t.equal((await logIn(app, provider, '', query)).status, 302, `${JSON.stringify(claims)} ${query}`)
  }
  t.equal(app.people.length, 3)
  t.match(provider.asked, { discovery: 1, jwks: 1 }, 'keys and addresses are fetched once for many logins')
})
t.test('a login asked for again asks Google for the account, because it refuses to ask for a password', async t => {
  for (const [authorizationUrl, prompt] of [
    ['https://accounts.google.com/o/oauth2/v2/auth', 'select_account'],
    ['https://login.example/accounts.google.com', 'login']
  ] as const) {
    const app = await startOAuthApp(t, { cloudidp: { authorizationUrl } })
    const { searchParams } = new URL(await beginCloudLogin(createCloudBrowser(), app.url, '?again=1'))
    t.same([searchParams.get('prompt'), searchParams.get('max_age')], [prompt, '0'])
  }
})

// Which ID tokens are right is the table of provider-tokens.test.ts.
fails('an ID token of another issuer', 'id-token-invalid', { claims: { iss: 'https://evil.example' } })
fails('an ID token with another nonce', 'id-token-invalid', { claims: { nonce: 'of another login' } })
fails('an ID token that is no token', 'id-token-invalid', { sign: async () => 'nonsense' })
fails('no ID token', 'id-token-missing', { tokenAnswer: { id_token: undefined } })
fails('a profile of somebody else', 'subject-mismatch', { profile: { sub: 'subject-2' } })
fails('a signed profile that somebody else signed', 'provider-nonsense', provider => {
  provider.metadata = { userinfo_signing_alg_values_supported: ['RS256'] }
  provider.faults.userinfo = async res => {
    const profile = new SignJWT({ iss: provider.issuer, aud: 'portaria', sub: 'subject-1', name: 'Eva' })
    const signed = await profile.setProtectedHeader({ alg: 'RS256', kid: 'one' }).sign(OTHER_KEY)
    res.writeHead(200, { 'content-type': 'application/jwt' }).end(signed)
  }
})

// OA-16
fails('keys that cannot be fetched', 'provider-error', ({ faults }) => {
  faults.jwks = res => res.writeHead(500).end()
})
fails('ten thousand keys', 'provider-nonsense', provider => {
  provider.keys = Array.from({ length: 10_000 }, (_, index) => ({ kty: 'oct', kid: String(index), k: 'AA' }))
})
fails('keys of several megabytes', 'provider-nonsense', ({ faults }) => {
  faults.jwks = res => answerJson(res, { keys: [], padding: 'x'.repeat(4_000_000) })
})

// OA-04
fails('an answer that names another issuer', 'issuer-mismatch', {}, { more: '&iss=https://evil.example' })
fails('an answer that names no issuer, from a provider that announces it', 'issuer-mismatch', {
  metadata: { authorization_response_iss_parameter_supported: true }
})

// From configured endpoints no keys are known, so that other checks prove whose answer it is.
const CONFIGURED: readonly [what: string, reason: string, breaks: Break][] = [
  [
    'a profile without a stable subject',
    'subject-missing',
    { profile: { sub: undefined, userPrincipalName: 'ana@corp.example' } }
  ],
  ['an ID token for another client', 'id-token-invalid', { claims: { aud: 'another' } }],
  ['an ID token that has expired', 'id-token-invalid', { claims: { exp: nowS() - 60 } }],
  ['an unsigned ID token', 'id-token-invalid', { sign: async claims => new UnsecuredJWT(claims).encode() }],
  ['an ID token about somebody else than the profile', 'subject-mismatch', { claims: { sub: 'subject-2' } }]
]
for (const [what, reason, breaks] of CONFIGURED)
  fails(`${what}, from configured endpoints`, reason, breaks, { discovered: false })

// OA-14
for (const discovered of [true, false]) {
  const more = { discovered, tenants: 'tenant-1,tenant-2' }
  fails(`one of another tenant (discovered: ${discovered})`, 'tenant-refused', { claims: { tid: 'tenant-3' } }, more)
  fails(`somebody of no known tenant (discovered: ${discovered})`, 'tenant-unknown', {}, more)
}

// OA-16, OA-19
t.test('a discovery that names another issuer, or addresses without https, is of no use', async t => {
  for (const metadata of [
    { issuer: 'https://evil.example' },
    { token_endpoint: 'http://evil.example/token' },
    { authorization_endpoint: 'javascript:alert(1)' },
    { jwks_uri: 'file:///etc/passwd' },
    { jwks_uri: undefined }
  ]) {
    const provider = await startFaultyProvider(t)
    provider.metadata = metadata
    const app = await startOAuthApp(t, { cloudidp: { issuer: provider.issuer } })
    const started = await fetch(`${app.url}${START}`, { redirect: 'manual' })
    t.equal(started.status, 401, JSON.stringify(metadata))
    t.equal(app.refusals[0]?.reason, 'provider-metadata')
  }
})

t.test('addresses without https are refused beyond this machine unless the operator allows them', async t => {
  const provider = await startFaultyProvider(t)
  const { issuer } = provider
  const endpoints = { authorizationUrl: `${issuer}/authorize`, profileUrl: `${issuer}/userinfo` }
  const app = await startOAuthApp(t, { cloudidp: { ...endpoints, tokenUrl: 'http://192.0.2.1/token' } })
  t.equal((await logIn(app, provider)).status, 401)
  t.match(app.outcomes, [{ reason: 'provider-metadata' }])
  const allowed = { ...endpoints, tokenUrl: 'http://192.0.2.1/token', insecure: true }
  const lax = await startOAuthApp(t, { cloudidp: allowed, deadlineMs: SHORT_MS })
  t.equal((await logIn(lax, provider)).status, 401)
  t.match(lax.outcomes, [{ reason: /^provider-(?:unreachable|timeout)$/ }], 'it was tried')
})

t.test('the discovered issuer is the configured one, or Microsoft’s own name for its tenant', async t => {
  const tenant = '8a3f6c1e-0000-4000-8000-000000000001'
  const [microsoft, other] = ['https://login.microsoftonline.com', '8a3f6c1e-0000-4000-8000-000000000002']
  const discovered = (issuer: string, found: string) => {
    const asked: string[] = []
    const fetch = async (url: string) => {
      asked.push(url)
      const endpoints = { authorization_endpoint: 'https://a', token_endpoint: 'https://b', jwks_uri: 'https://c' }
      return Response.json({ issuer: found, ...endpoints })
    }
    const settings = { issuer, insecure: false } as never
    const metadata = createProviderMetadata({ settings, fetch: fetch as never, log: quiet, now: () => 0 })
    return metadata().then(
      ({ issuer }) => [issuer, ...asked],
      (error: { reason: string }) => error.reason
    )
  }
  for (const [issuer, found] of [
    ['https://id.example', 'https://id.example/'],
    ['https://id.example/', 'https://id.example'],
    ['https://id.example/.well-known/openid-configuration', 'https://id.example'],
    [`${microsoft}/common/v2.0`, `${microsoft}/{tenantid}/v2.0`],
    [`${microsoft}/corp.example/v2.0`, `${microsoft}/${tenant}/v2.0`],
    [`${microsoft}/${tenant.toUpperCase()}/v2.0`, `${microsoft}/${tenant}/v2.0`],
    [`${microsoft}/corp.example`, `https://sts.windows.net/${tenant}/`]
  ] as const) {
    const base = issuer.replace(/\/(\.well-known.*)?$/, '')
    t.same(await discovered(issuer, found), [found, `${base}/.well-known/openid-configuration`], issuer)
  }
  for (const [issuer, found] of [
    ['https://id.example/a', 'https://id.example/b'],
    [`${microsoft}/${tenant}/v2.0`, `${microsoft}/${other}/v2.0`],
    [`${microsoft}/corp.example/v2.0`, `${microsoft}/${tenant}/v1.0`],
    ['https://id.example/corp.example/v2.0', `https://id.example/${tenant}/v2.0`],
    [`${microsoft}.example/corp.example`, `${microsoft}.example/${tenant}`]
  ] as const)
    t.equal(await discovered(issuer, found), 'provider-metadata', issuer)
  // A stored issuer may have any escapes.
  t.notOk(isOfProvider('https://id.example/S%E3o', 'https://id.example/a'))
})

t.test(
  'a configured provider that answers is there, whatever it answers; a discovered one has to say more',
  async t => {
    const provider = await startFaultyProvider(t)
    const { issuer } = provider
    const fetch = createProviderFetch({ insecure: false, timeoutMs: 10_000 })
    const reach = (settings: object) =>
      reachProvider({ tokenUrl: `${issuer}/token`, ...settings } as CloudIdpSettings, fetch).then(
        () => 'ok',
        (error: { reason: string }) => error.reason
      )
    for (const status of [302, 401, 405, 503]) {
      const fault: Fault = res => res.writeHead(status, { location: '/login' }).end()
      provider.faults = { token: fault, discovery: fault }
      t.equal(await reach({}), status === 503 ? 'provider-error' : 'ok', `${status}`)
      t.equal(await reach({ issuer }), 'provider-error', `${status}`)
    }
    provider.faults = {}
    t.equal(await reach({ issuer }), 'ok')
    t.equal(await reach({ issuer: `${issuer}/other` }), 'provider-error', 'nothing is published there')
    for (const found of [{}, { issuer: 'https://elsewhere.example' }]) {
      provider.faults.discovery = res => answerJson(res, found)
      t.equal(await reach({ issuer }), 'provider-metadata', 'no login can succeed')
    }
  }
)

t.test('a provider that takes the client secret in the other way from now on gets it so', async t => {
  const provider = await startFaultyProvider(t)
  const app = await startOAuthApp(t, { cloudidp: { issuer: provider.issuer } })
  t.equal((await logIn(app, provider)).status, 302)
  provider.faults.token = res => {
    delete provider.faults.token
    answerJson(res, { error: 'invalid_client' }, 401)
  }
  t.equal((await logIn(app, provider)).status, 302)
  t.equal((await logIn(app, provider)).status, 302)
  const ways = provider.tokenRequests.map(({ authorization }) => (authorization === undefined ? 'post' : 'basic'))
  t.same(ways, ['basic', 'basic', 'post', 'post'])
})

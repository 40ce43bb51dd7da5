// Whatever a provider does wrong, nobody is logged in, nothing hangs, and the client learns nothing but that it failed.
import { gzipSync } from 'node:zlib'
import { generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import t from 'tap'
import { createProviderMetadata } from '../../gateway/cloud/provider-metadata.ts'
import { createCloudBrowser } from '../support/cloud-browser.ts'
import { answerJson, type FaultyProvider, startFaultyProvider } from '../support/faulty-provider.ts'
import { type OAuthApp, startOAuthApp } from '../support/oauth-app.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { freePort } from '../support/ports.ts'
import { quiet } from '../support/quiet.ts'
import { until } from '../support/until.ts'

const START = '/auth/oauth/cloudidp/start'
/** Where nothing comes, it is waited for half of this. */
const SHORT_MS = 600
const OTHER_KEY = (await generateKeyPair('RS256')).privateKey
const nowS = () => Math.floor(Date.now() / 1000)

const logIn = async (app: OAuthApp, provider: FaultyProvider, more = '', query = '') => {
  const browser = createCloudBrowser()
  let location = ''
  const start = async () => {
    const { headers } = await browser.get(`${app.url}${START}${query}`)
    location = headers.get('location') ?? ''
    return location !== ''
  }
  // On a busy machine a short deadline may end before the discovery, which is then repeated.
  await until(start, 'the login starts')
  return browser.get(provider.authorize(location) + more)
}

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
    const explicit = {
      authorizationUrl: `${issuer}/authorize`,
      tokenUrl: `${issuer}/token`,
      profileUrl: `${issuer}/userinfo`
    }
    const app = await startOAuthApp(t, {
      cloudidp: {
        ...(discovered ? { issuer } : explicit),
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

// OA-17
for (const endpoint of ['token', 'userinfo'] as const) {
  fails(`a ${endpoint} endpoint that never answers`, 'provider-timeout', ({ faults }) => {
    faults[endpoint] = () => {}
  })
  fails(`a ${endpoint} endpoint that stops midway`, 'provider-timeout', ({ faults }) => {
    faults[endpoint] = res => res.writeHead(200, { 'content-type': 'application/json' }).write('{"access_token":')
  })
  fails(`a ${endpoint} endpoint that hangs up`, 'provider-unreachable', ({ faults }) => {
    faults[endpoint] = res => res.destroy()
  })
  fails(`a ${endpoint} endpoint that fails with 500`, 'provider-error', ({ faults }) => {
    faults[endpoint] = res => answerJson(res, { hint: 'access-secret' }, 500)
  })
  fails(`a ${endpoint} endpoint that redirects`, 'provider-error', ({ faults, issuer }) => {
    faults[endpoint] = res => res.writeHead(307, { location: `${issuer}/jwks` }).end()
  })
  fails(`a ${endpoint} endpoint that answers HTML`, 'provider-nonsense', ({ faults }) => {
    faults[endpoint] = res => res.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Welcome access-secret</h1>')
  })
  fails(`a ${endpoint} endpoint that answers broken JSON`, 'provider-nonsense', ({ faults }) => {
    faults[endpoint] = res =>
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"access_token":"access-secret"')
  })
  fails(`a ${endpoint} endpoint that answers a list`, 'provider-nonsense', ({ faults }) => {
    faults[endpoint] = res => answerJson(res, ['access-secret'])
  })
  fails(`a ${endpoint} endpoint that answers without an end`, 'provider-nonsense', ({ faults }) => {
    faults[endpoint] = res => {
      res.writeHead(200, { 'content-type': 'application/json' })
      const chunk = Buffer.alloc(64 * 1024, ' ')
      const pour = () => {
        while (!res.destroyed && res.write(chunk));
      }
      res.on('drain', pour)
      pour()
    }
  })
  fails(`a ${endpoint} endpoint that answers with a gzip bomb`, 'provider-nonsense', ({ faults }) => {
    faults[endpoint] = res =>
      res
        .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
        .end(gzipSync(Buffer.alloc(32 * 1024 * 1024, ' ')))
  })
}

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

// OA-11
fails(
  'a provider that was asked to let the person log in again, and went on with its session',
  'login-not-repeated',
  { claims: { auth_time: nowS() - 600 } },
  { query: '?page=1&again=1' }
)
t.test(
  'a login that was asked for again counts if the provider says that it is new, or does not say when it was',
  async t => {
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
  }
)
fails('an ID token of another issuer', 'id-token-invalid', { claims: { iss: 'https://evil.example' } })
fails('an ID token for another client', 'id-token-invalid', { claims: { aud: 'another' } })
fails('an ID token for several clients that does not say for whom', 'id-token-invalid', {
  claims: { aud: ['portaria', 'another'] }
})
fails('an ID token issued to another client', 'id-token-invalid', {
  claims: { aud: ['portaria', 'another'], azp: 'another' }
})
fails('an ID token for this client alone, issued to another', 'id-token-invalid', { claims: { azp: 'another' } })
fails('an ID token with another nonce', 'id-token-invalid', { claims: { nonce: 'of another login' } })
fails('an ID token without a nonce', 'id-token-invalid', { claims: { nonce: undefined } })
fails('an ID token that has expired', 'id-token-invalid', { claims: { exp: nowS() - 60, iat: nowS() - 120 } })
fails('an ID token without a subject', 'id-token-invalid', { claims: { sub: undefined } })
fails('an unsigned ID token', 'id-token-invalid', { sign: async claims => new UnsecuredJWT(claims).encode() })
fails('an ID token signed with the client secret', 'id-token-invalid', provider => {
  provider.metadata = { id_token_signing_alg_values_supported: ['RS256', 'HS256'] }
  provider.sign = claims =>
    new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from('a client secret that nothing may show'))
})
fails('an ID token of an algorithm that the provider does not announce', 'id-token-invalid', provider => {
  provider.sign = claims =>
    new SignJWT(claims).setProtectedHeader({ alg: 'HS512' }).sign(Buffer.from('a client secret that nothing may show'))
})
fails('an ID token signed by somebody else', 'id-token-invalid', {
  sign: claims => new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'one' }).sign(OTHER_KEY)
})
fails('an ID token of an unknown key', 'id-token-invalid', provider => {
  provider.sign = claims =>
    new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'two' }).sign(provider.privateKey)
})
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

// Explicit endpoints
fails(
  'a profile without a stable subject',
  'subject-missing',
  { profile: { sub: undefined, email: 'ana@corp.example', userPrincipalName: 'ana@corp.example' } },
  { discovered: false }
)
fails(
  'an ID token for another client, from configured endpoints',
  'id-token-invalid',
  { claims: { aud: 'another' } },
  { discovered: false }
)
fails(
  'an unsigned ID token, from configured endpoints',
  'id-token-invalid',
  { sign: async claims => new UnsecuredJWT(claims).encode() },
  { discovered: false }
)
fails(
  'an ID token about somebody else than the profile, from configured endpoints',
  'subject-mismatch',
  { claims: { sub: 'subject-2' } },
  { discovered: false }
)

// OA-14
for (const discovered of [true, false]) {
  const tenants = 'tenant-1,tenant-2'
  fails(
    `somebody of another tenant than the allowed ones (discovered: ${discovered})`,
    'tenant-refused',
    { claims: { tid: 'tenant-3' } },
    { discovered, tenants }
  )
  fails(`somebody of no known tenant (discovered: ${discovered})`, 'tenant-unknown', {}, { discovered, tenants })
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

// DF-12
t.test('a provider that is dead at the callback fails the login, quickly', async t => {
  const provider = await startFaultyProvider(t)
  const { issuer } = provider
  const gone = `http://127.0.0.1:${await freePort()}`
  const app = await startOAuthApp(t, {
    cloudidp: { authorizationUrl: `${issuer}/authorize`, tokenUrl: `${gone}/token`, profileUrl: `${gone}/me` }
  })
  const ownTimeMs = measureOwnTime()
  t.equal((await logIn(app, provider)).status, 401)
  t.ok(ownTimeMs() < 2000)
  t.match(app.outcomes, [{ reason: 'provider-unreachable' }])
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

t.test('a slow provider is waited for within the deadline', async t => {
  const provider = await startFaultyProvider(t)
  let release = () => {}
  const asked = new Promise<void>(resolve => {
    provider.faults.userinfo = res => {
      release = () => answerJson(res, { sub: 'subject-1' })
      resolve()
    }
  })
  const app = await startOAuthApp(t, { cloudidp: { issuer: provider.issuer } })
  const login = logIn(app, provider)
  await asked
  release()
  t.equal((await login).status, 302)
})

// OA-16
t.test('keys are fetched once for many logins', async t => {
  const provider = await startFaultyProvider(t)
  const app = await startOAuthApp(t, { cloudidp: { issuer: provider.issuer } })
  t.same(app.described.toSorted(), ['/auth/oauth/cloudidp/callback', START])
  for (let login = 0; login < 3; login++) t.equal((await logIn(app, provider)).status, 302)
  t.equal(provider.asked.jwks, 1)
  t.equal(provider.asked.discovery, 1)
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
})

t.test('a discovery that fails counts for nothing, and is repeated after two seconds only', async t => {
  let [asked, time] = [0, 0]
  const issuer = 'https://id.example'
  const endpoints = { authorization_endpoint: 'https://a', token_endpoint: 'https://b', jwks_uri: 'https://c' }
  const fetch = async () => Response.json({ issuer, ...endpoints }, { status: asked++ === 0 ? 404 : 200 })
  const settings = { issuer, insecure: false } as never
  const metadata = createProviderMetadata({ settings, fetch, log: quiet, now: () => time })
  const reason = () => metadata().then(String, (error: { reason: string }) => error.reason)
  t.equal(await reason(), 'provider-error')
  time = 1999
  t.equal(await reason(), 'provider-error')
  t.equal(asked, 1)
  time = 2000
  t.match(await metadata(), { issuer })
})

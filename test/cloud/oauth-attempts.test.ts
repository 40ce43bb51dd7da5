// A cloud login belongs to one browser, which may have several under way, and can be finished once; its state is accepted as it was
// made, until it is too old, and in no other spelling.
import { createHmac, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { beginAttempt, findAttempt, signState, verifyState } from '../../gateway/cloud/attempts.ts'
import { linkWithoutIssuer } from '../../gateway/cloud/person.ts'
import { createLoginMemory } from '../../gateway/store/login-names.ts'
import { beginCloudLogin, createCloudBrowser, readFragment } from '../support/cloud-browser.ts'
import { answerJson, startFaultyProvider } from '../support/faulty-provider.ts'
import { type OAuthAppOptions, startOAuthApp } from '../support/oauth-app.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { openStore } from '../support/store.ts'
import { fc } from '../support/worlds.ts'

const START = '/auth/oauth/cloudidp/start'

/** A provider, the gateway's door to it, and a browser that has logged in there and is about to come back. */
const startLogin = async (t: Test, { cloudidp = {}, ...options }: OAuthAppOptions = {}) => {
  const provider = await startFaultyProvider(t)
  const app = await startOAuthApp(t, { cloudidp: { issuer: provider.issuer, ...cloudidp }, ...options })
  const browser = createCloudBrowser()
  const returned = provider.authorize(await beginCloudLogin(browser, app.url))
  const state = new URL(returned).searchParams.get('state') ?? ''
  return { provider, app, browser, returned, state, cookie: browser.cookieHeader(app.url) }
}

// OA-02, OA-06
t.test('a callback works once, over all instances that share a database, and its code is exchanged once', async t => {
  const provider = await startFaultyProvider(t)
  const { database } = await openStore(t, await startPostgres(t))
  const memory = createLoginMemory(database)
  const useOnce = (nonce: string) => memory.useOAuthState(nonce, new Date(Date.now() + 60_000))
  const cloudidp = { issuer: provider.issuer, redirectUri: `http://127.0.0.1:${await freePort()}/callback` }
  const [one, other] = [await startOAuthApp(t, { cloudidp, useOnce }), await startOAuthApp(t, { cloudidp, useOnce })]
  const browser = createCloudBrowser()
  const { search } = new URL(provider.authorize(await beginCloudLogin(browser, one.url)))
  const cookie = browser.cookieHeader(one.url)
  const callBack = (app: typeof one) => createCloudBrowser().get(`${app.callbackUrl}${search}`, { cookie })
  const answers = await Promise.all([other, one, other, one, other, one].map(callBack))
  t.same(answers.map(({ status }) => status).sort(), [302, 400, 400, 400, 400, 400])
  t.equal(provider.asked.token, 1)
  const again = await callBack(other)
  t.equal(again.status, 400)
  t.match(again.headers.get('set-cookie'), /Max-Age=0/, 'its cookie goes')
  t.equal(other.refusals.at(-1)?.reason, 'state-replayed')
})

// OA-19
t.test('several tabs log in at once, five at most, and the oldest leaves first', async t => {
  let now = Date.now()
  const provider = await startFaultyProvider(t)
  const app = await startOAuthApp(t, { cloudidp: { issuer: provider.issuer }, now: () => now })
  const browser = createCloudBrowser()
  const returns: string[] = []
  for (let tab = 0; tab < 7; tab++) {
    returns.push(provider.authorize(await beginCloudLogin(browser, app.url)))
    now += 1000
    t.ok((browser.cookies.get(app.url)?.size ?? 0) <= 5, 'no more than five cookies')
  }
  const statuses: number[] = []
  for (const returned of returns.reverse()) statuses.push((await browser.get(returned)).status)
  t.same(statuses, [302, 302, 302, 302, 302, 400, 400])
  t.equal(browser.cookies.get(app.url)?.size, 0, 'nothing is left')
})

t.test('cookies of attempts that are over, or were never one, are cleared by the next start', async t => {
  let now = Date.now()
  const { app, browser, returned } = await startLogin(t, { now: () => now })
  browser.cookies.get(app.url)?.set('portaria_login_junk', '%00')
  browser.cookies.get(app.url)?.set('session', 'of a backend')
  now += 600_000
  t.equal((await browser.get(returned)).status, 400)
  t.equal(app.refusals.at(-1)?.reason, 'state-expired')
  await beginCloudLogin(browser, app.url)
  const names = [...(browser.cookies.get(app.url)?.keys() ?? [])]
  t.match(names, ['session', /^portaria_login_/])
  t.equal(names.length, 2)
})

t.test('a login begun before JWT_SECRET was rotated finishes after it', async t => {
  const provider = await startFaultyProvider(t)
  const cloudidp = { issuer: provider.issuer, redirectUri: 'http://127.0.0.1:9/callback' }
  const before = await startOAuthApp(t, { cloudidp, secrets: ['the old secret, long enough for this'] })
  const after = await startOAuthApp(t, { cloudidp, secrets: ['the new one', 'the old secret, long enough for this'] })
  const browser = createCloudBrowser()
  const { search } = new URL(provider.authorize(await beginCloudLogin(browser, before.url)))
  const cookie = browser.cookieHeader(before.url)
  t.equal((await createCloudBrowser().get(`${after.callbackUrl}${search}`, { cookie })).status, 302)
})

t.test('the cookie of an attempt is for this host, this browser and this login alone', async t => {
  const { issuer } = await startFaultyProvider(t)
  for (const [publicUrl, expected] of [
    [
      'http://localhost',
      /^portaria_login_[\w-]{12}=[\w-]{48}; Path=\/auth\/oauth\/cloudidp; HttpOnly; SameSite=Lax; Max-Age=600$/
    ],
    [
      'https://portal.example.org',
      /^__Host-portaria_login_[\w-]{12}=[\w-]{48}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=600$/
    ]
  ] as const) {
    const app = await startOAuthApp(t, { cloudidp: { issuer }, publicUrl })
    const { headers } = await fetch(`${app.url}${START}`, { redirect: 'manual' })
    t.match(headers.getSetCookie(), [expected], publicUrl)
  }
})

// OA-03, OA-09
t.test('a bad state is refused with 400 before anything else is checked, and nothing of it comes back', async t => {
  const { provider, app, browser, returned, state } = await startLogin(t)
  const cases: Record<string, string> = {
    'no query': '',
    'no state': 'code=c',
    'empty state': 'code=c&state=',
    'state twice': `code=c&state=${state}&state=${state}`,
    'code twice': `code=c&code=d&state=${state}`,
    'state as an array': `code=c&state[]=${state}`,
    'cut state': `code=c&state=${state.slice(0, -1)}`,
    'error with a bad state': 'error=<script>alert(1)</script>&state=a.b',
    'ten thousand characters': `code=c&state=${'a'.repeat(10_000)}`
  }
  for (const [what, query] of Object.entries(cases)) {
    const answer = await browser.get(`${app.callbackUrl}?${query}`)
    t.equal(answer.status, 400, what)
    const body = await answer.text()
    t.match(JSON.parse(body), { code: 'GW_OAUTH_STATE' }, what)
    t.notOk(body.includes('script'), what)
  }
  const withoutCode = await browser.get(`${app.callbackUrl}?state=${state}`)
  t.equal(withoutCode.status, 400)
  t.match(await withoutCode.json(), { code: 'GW_BAD_REQUEST' })
  t.equal(provider.asked.token, 0)
  t.equal((await browser.get(returned)).status, 302, 'the good one still works')
})

// OA-20
t.test('a preview, a scanner or a prefetch does not use the login up', async t => {
  const { provider, browser, returned, cookie } = await startLogin(t)
  const head = await fetch(returned, { method: 'HEAD', headers: { cookie }, redirect: 'manual' })
  t.equal(head.status, 204)
  t.equal(head.headers.get('cache-control'), 'no-store')
  t.equal((await fetch(returned, { method: 'HEAD', redirect: 'manual' })).status, 400)
  for (const headers of [
    { 'sec-purpose': 'prefetch' },
    { 'sec-purpose': 'prefetch;prerender' },
    { purpose: 'prefetch' },
    { 'x-moz': 'prefetch' }
  ]) {
    t.equal((await browser.get(returned, headers)).status, 503, JSON.stringify(headers))
  }
  t.equal(provider.asked.token, 0)
  t.equal((await browser.get(returned)).status, 302)
})

// OA-07
t.test('the redirect address is the configured one, byte for byte, whatever the request says', async t => {
  const provider = await startFaultyProvider(t)
  const redirectUri = 'http://LOCALHOST:80/auth/oauth/cloudidp/callback?from=cloud'
  const app = await startOAuthApp(t, { cloudidp: { issuer: provider.issuer, redirectUri } })
  const browser = createCloudBrowser()
  const started = await browser.get(`${app.url}${START}?redirect_uri=http://evil.example&next=//evil.example`, {
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'evil'
  })
  const asked = new URL(started.headers.get('location') ?? '')
  t.equal(asked.searchParams.get('redirect_uri'), redirectUri)
  const code = new URL(provider.authorize(asked.href).replace('?from=cloud?', '?')).searchParams
  t.equal((await browser.get(`${app.callbackUrl}?${code}`)).status, 302)
  t.equal(provider.tokenRequests[0]?.form.get('redirect_uri'), redirectUri)
})

// OA-08
t.test('after the login the browser goes to the configured address and nowhere else', async t => {
  const successRedirectUrl = 'https://app.example.org/login?lang=pt'
  const { browser, returned } = await startLogin(t, { cloudidp: { successRedirectUrl } })
  const done = await browser.get(`${returned}&next=//evil.example`)
  const location = done.headers.get('location') ?? ''
  t.ok(location.startsWith('https://app.example.org/login?lang=pt#auth='))
  t.equal(readFragment(location).token, 'token-of-subject-1')
})

t.test('an attempt stays usable while the memory of used states is away', async t => {
  let isAway = true
  const useOnce = async () => {
    if (isAway) throw new Error('away')
    return true
  }
  const { browser, returned } = await startLogin(t, { useOnce })
  t.equal((await browser.get(returned)).status, 500)
  isAway = false
  t.equal((await browser.get(returned)).status, 302)
})

t.test('a cloud login that is not active fails as any login, after its state was checked', async t => {
  const app = await startOAuthApp(t, { cloudidp: { active: false } })
  const started = await fetch(`${app.url}${START}`, { redirect: 'manual' })
  t.equal(started.status, 401)
  t.match(await started.json(), { code: 'GW_OAUTH_FAILED', message: 'Autenticacao falhou' })
  t.equal((await fetch(`${app.callbackUrl}?code=c&state=a.b`, { redirect: 'manual' })).status, 400)
})

// OA-09
t.test('a refusal by the provider is reported without its words', async t => {
  const { provider, app, browser, state } = await startLogin(t)
  const error = new URLSearchParams({
    error: '<script>access_denied',
    error_description: 'x\r\nSet-Cookie: a=b',
    error_uri: 'javascript:alert(1)',
    state
  })
  const answer = await browser.get(`${app.callbackUrl}?${error}`)
  t.equal(answer.status, 401)
  const body = await answer.text()
  t.match(JSON.parse(body), { code: 'GW_OAUTH_FAILED' })
  t.notMatch(body, /script|access_denied|Set-Cookie/)
  t.match(app.outcomes, [{ reason: 'provider-refused' }])
  t.match(app.refusals, [{ cause: /access_denied/ }], 'the log tells')
  t.equal((await browser.get(`${app.callbackUrl}?${error}`)).status, 400, 'the attempt is over')
  t.equal(provider.asked.token, 0)
})

/** A provider whose discovery fails, and a way to start a login there. */
const startUndiscovered = async (t: Test, now: () => number) => {
  const provider = await startFaultyProvider(t)
  provider.faults.discovery = res => answerJson(res, { error: 'away' }, 503)
  const app = await startOAuthApp(t, { cloudidp: { issuer: provider.issuer }, now })
  return { provider, start: () => fetch(`${app.url}${START}`, { redirect: 'manual' }) }
}

t.test('a start fails with 401 while the provider cannot be discovered, and works soon after it is back', async t => {
  let now = Date.now()
  const { provider, start } = await startUndiscovered(t, () => now)
  for (const { status } of await Promise.all([start(), start(), start()])) t.equal(status, 401)
  t.equal(provider.asked.discovery, 1, 'asked once for all')
  delete provider.faults.discovery
  now += 1999
  t.equal((await start()).status, 401)
  now += 1
  t.equal((await start()).status, 302)
  provider.faults.discovery = res => res.destroy()
  now += 60 * 60 * 1000
  t.equal((await start()).status, 302, 'what is known outlives an outage')
})

t.test('after a failed discovery, a clock that is set back does not put the next one off', async t => {
  let now = Date.now()
  const { provider, start } = await startUndiscovered(t, () => now)
  t.equal((await start()).status, 401)
  delete provider.faults.discovery
  now -= 60 * 60 * 1000
  t.equal((await start()).status, 302)
})

const SECRET = 'the secret of this test, 32 bytes or more'
const NOW = 1_800_000_000_000
const options = { secrets: [SECRET], maxAgeMs: 600_000 }
const fresh = (secret = SECRET, at = NOW) => signState(randomBytes(24), at, secret)

t.test('a state is base64url of nonce and timestamp, signed with HMAC-SHA256 under JWT_SECRET', async t => {
  const nonce = randomBytes(24)
  const [payload = '', signature] = signState(nonce, NOW, SECRET).split('.')
  t.same(Buffer.from(payload, 'base64url').subarray(0, 24), nonce)
  t.equal(Buffer.from(payload, 'base64url').readUIntBE(24, 6), NOW)
  t.equal(signature, createHmac('sha256', SECRET).update(payload).digest('base64url'))
})

t.test('a state is valid from its creation until its age is reached', async t => {
  const state = fresh()
  t.match(verifyState(state, NOW, options), { issuedAt: NOW, expiresAt: NOW + 600_000, signedBy: 0 })
  t.match(verifyState(state, NOW + 599_999, options), { issuedAt: NOW })
  t.equal(verifyState(state, NOW + 600_000, options), 'state-expired')
  t.equal(verifyState(state, NOW - 31_000, options), 'state-from-future')
  t.match(verifyState(state, NOW - 29_000, options), { issuedAt: NOW }, 'clocks of two instances may differ a little')
})

// OA-03, OA-25
t.test('a state that was cut, lengthened, re-encoded or signed otherwise is refused', async t => {
  const state = fresh()
  const [payload = '', signature = ''] = state.split('.')
  const hex = Buffer.from(signature, 'base64url').toString('hex')
  const spare = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const last = spare.indexOf(signature.at(-1) ?? '')
  const sameBytes = signature.slice(0, -1) + spare[(last & ~3) | ((last + 1) & 3)]
  t.same(Buffer.from(sameBytes, 'base64url'), Buffer.from(signature, 'base64url'), 'another spelling of the same bytes')
  const bad: Record<string, string | undefined> = {
    nothing: undefined,
    empty: '',
    'payload alone': payload,
    'no signature': `${payload}.`,
    'no payload': `.${signature}`,
    'signature of one byte': `${payload}.A`,
    'signature in hex': `${payload}.${hex}`,
    'signature respelt': `${payload}.${sameBytes}`,
    'signature of other case': `${payload}.${signature.replace(/[a-z]/g, letter => letter.toUpperCase())}`,
    'beyond ASCII': `${payload}.${'é'.repeat(43)}`,
    'a JWT': `eyJhbGciOiJIUzI1NiJ9.e30.${signature}`,
    'another payload': `${fresh().split('.')[0]}.${signature}`,
    huge: 'A'.repeat(100_000)
  }
  for (const [what, text] of Object.entries(bad)) t.type(verifyState(text, NOW, options), 'string', what)
})

t.test('no change of one character leaves a state valid', async t => {
  const state = fresh()
  fc.assert(
    fc.property(fc.nat(state.length), fc.string({ minLength: 0, maxLength: 3, unit: 'binary' }), (at, put) => {
      const changed = state.slice(0, at) + put + state.slice(at + 1)
      return changed === state || typeof verifyState(changed, NOW, options) === 'string'
    })
  )
  t.pass()
})

t.test('an attempt is found by its own cookie alone, and says how it was begun', async t => {
  const attempts = { ...options, isSecure: false }
  for (const [page, again] of [
    [undefined, false],
    ['1', false],
    [undefined, true],
    ['9'.repeat(40), true]
  ] as const) {
    const { attempt, setCookies } = beginAttempt('other=1; =x; portaria oauth=1', { page, again }, NOW, attempts)
    t.equal(setCookies.length, 1, 'nothing is removed')
    const [cookie = ''] = (setCookies[0] ?? '').split(';')
    const [name = '', value = ''] = cookie.split('=')
    const state = verifyState(attempt.state, NOW, options)
    if (typeof state === 'string') return t.fail(state)
    const find = (header: string) => findAttempt(header, attempt.state, state, attempts)
    t.same(find(`a=b; ${cookie}`), attempt)
    t.match(attempt, { page, againSince: again ? NOW : undefined })
    const otherName = `${name.slice(0, -1)}${name.endsWith('x') ? 'y' : 'x'}=${value}`
    for (const header of ['', `${name}=short`, otherName]) t.equal(find(header), undefined, header)
  }
})

t.test('an account is linked by its id in a tenant that the settings name, and in no other', async t => {
  const settings = { tenantId: 'T-1', allowedTenants: ['t-2'] }
  const link = (tid: unknown, oid: unknown) => linkWithoutIssuer({ tid, oid } as never, 'graph', settings)
  t.same(link('t-1', 'o'), { issuer: 'graph', subject: 'o' })
  t.same(link('T-2', 'o'), { issuer: 'graph', subject: 'o' })
  for (const [tid, oid] of [
    ['t-3', 'o'],
    ['t-1', ''],
    ['t-1', 'o'.repeat(256)],
    ['t-1', 'o\0'],
    ['t-1', '\ud800'],
    [undefined, 'o'],
    ['t-1', 5]
  ])
    t.equal(link(tid, oid), undefined)
})

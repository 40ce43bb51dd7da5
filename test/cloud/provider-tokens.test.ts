// Which tokens of the provider count, in every combination of key, name of the key, algorithm and claims; and what it says about
// somebody becomes the person of the contract, whichever shape it has. OA-02, OA-11
import { createPublicKey } from 'node:crypto'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT } from 'jose'
import t from 'tap'
import { provePerson } from '../../gateway/cloud/person.ts'
import { createProviderFetch } from '../../gateway/cloud/provider-fetch.ts'
import { checkIdToken, checkLogoutToken, createTokenVerifier } from '../../gateway/cloud/provider-tokens.ts'
import { admittedTenants } from '../../gateway/settings/cloud.ts'
import { beginCloudLogin, createCloudBrowser } from '../support/cloud-browser.ts'
import { answerJson, startFaultyProvider } from '../support/faulty-provider.ts'
import { startOAuthApp } from '../support/oauth-app.ts'
import { until } from '../support/until.ts'

const NOW_S = Math.floor(Date.now() / 1000)
const SECRET = Buffer.from('a client secret that nothing may show')

const pair = async (alg: string) => {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { alg, privateKey, publicKey, jwk: await exportJWK(publicKey) }
}

const provider = await startFaultyProvider(t)
const [rsa, next, foreign, ec] = (await Promise.all(['RS256', 'RS256', 'RS256', 'ES256'].map(pair))) as [
  Pair,
  Pair,
  Pair,
  Pair
]
type Pair = Awaited<ReturnType<typeof pair>>

const metadata = {
  issuer: provider.issuer,
  authorization_endpoint: `${provider.issuer}/authorize`,
  token_endpoint: `${provider.issuer}/token`,
  jwks_uri: `${provider.issuer}/jwks`,
  id_token_signing_alg_values_supported: ['RS256', 'HS256', 'none']
}
const verifier = () =>
  createTokenVerifier({
    clientId: 'portaria',
    fetch: createProviderFetch({ insecure: false, timeoutMs: 10_000 }),
    now: Date.now
  })
const right = { iss: provider.issuer, aud: 'portaria', sub: 's', iat: NOW_S, exp: NOW_S + 600, nonce: 'n' }
/** The right claims but for these; undefined removes one. */
const claimsOf = (claims: object) => JSON.parse(JSON.stringify({ ...right, ...claims }))
const sign = (key: Pair, kid?: string, claims: object = {}) =>
  new SignJWT(claimsOf(claims))
    .setProtectedHeader({ alg: key.alg, ...(kid === undefined ? {} : { kid }) })
    .sign(key.privateKey)
const outcome = (verified: Promise<unknown>) =>
  verified.then(
    () => 'accepted',
    (error: { code?: string; reason?: string }) => error.code ?? error.reason ?? 'no code'
  )

t.test('a token counts if key, algorithm and claims are all right, and only then', async t => {
  provider.keys = [
    { ...rsa.jwk, kid: 'one' },
    { ...ec.jwk, kid: 'two' }
  ]
  const pem = Buffer.from(await exportSPKI(rsa.publicKey))
  const der = createPublicKey(pem).export({ format: 'der', type: 'spki' })
  const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const unsigned = (alg: string) => (claims: object) =>
    Promise.resolve(`${encode({ alg })}.${encode(claimsOf(claims))}.`)
  const hmac =
    (key: Buffer, alg = 'HS256') =>
    (claims: object) =>
      new SignJWT(claimsOf(claims)).setProtectedHeader({ alg, kid: 'one' }).sign(key)
  const signers: Record<string, [isRight: boolean, sign: (claims: object) => Promise<string>]> = {
    'the published key': [true, claims => sign(rsa, 'one', claims)],
    'the published key without its name': [true, claims => sign(rsa, undefined, claims)],
    'the name of another key': [false, claims => sign(rsa, 'two', claims)],
    'a foreign key under that name': [false, claims => sign(foreign, 'one', claims)],
    'a foreign key without a name': [false, claims => sign(foreign, undefined, claims)],
    'a published key of an algorithm that is not announced': [false, claims => sign(ec, 'two', claims)],
    'the client secret': [false, hmac(SECRET)],
    'the client secret by an algorithm that is not announced': [false, hmac(SECRET, 'HS512')],
    'the public key as a secret (PEM)': [false, hmac(pem)],
    'the public key as a secret (DER)': [false, hmac(der)],
    'no signature': [false, unsigned('none')],
    'no signature, spelt otherwise': [false, unsigned('NonE')],
    'no signature under the right algorithm': [false, unsigned('RS256')]
  }
  const contents: Record<string, [isRight: boolean, claims: object]> = {
    'right claims': [true, {}],
    'this client among others, issued to it': [true, { aud: ['other', 'portaria'], azp: 'portaria' }],
    'this client, issued to it': [true, { azp: 'portaria' }],
    'this client, issued to another': [false, { azp: 'other' }],
    'several clients, issued to nobody': [false, { aud: ['other', 'portaria'] }],
    'another client': [false, { aud: 'other' }],
    'another client, issued to this one': [false, { aud: 'other', azp: 'portaria' }],
    'another issuer': [false, { iss: 'https://evil.example' }],
    'a slash more in the issuer': [false, { iss: `${provider.issuer}/` }],
    'the nonce of another login': [false, { nonce: 'm' }],
    'no nonce': [false, { nonce: undefined }],
    'no subject': [false, { sub: undefined }],
    'an empty subject': [false, { sub: '' }],
    'an end long ago': [false, { exp: NOW_S - 60 }],
    'no end': [false, { exp: undefined }],
    'no beginning': [false, { iat: undefined }],
    'a time that no clock shows': [false, { iat: 1e300 }],
    'a time before all others': [false, { iat: -1e300 }],
    'a beginning to come': [false, { nbf: NOW_S + 600 }]
  }
  const verify = verifier()
  for (const [how, [isSigned, make]] of Object.entries(signers)) {
    for (const [what, [isClaimed, claims]] of Object.entries(contents)) {
      const token = await make(claims)
      const checked = verify(token, metadata).then(verified => checkIdToken(verified.claims, 'portaria', 'n'))
      const accepted = (await outcome(checked)) === 'accepted'
      t.equal(accepted, isSigned && isClaimed, `${how}, ${what}`)
    }
  }
})

// OA-16, RW-30
t.test('keys that the provider has just replaced verify at the first try, with and without names', async t => {
  for (const named of [true, false]) {
    const key = (pair: Pair, kid: string) => ({ ...pair.jwk, ...(named ? { kid } : {}) })
    const signed = (pair: Pair, kid: string) => sign(pair, named ? kid : undefined)
    const [before, verify] = [provider.asked.jwks, verifier()]
    const check = async (token: Promise<string>) => outcome(verify(await token, metadata))
    provider.keys = [key(rsa, 'one')]
    t.equal(await check(signed(rsa, 'one')), 'accepted')
    provider.keys = [key(next, 'two')]
    const together = [signed(next, 'two'), signed(next, 'two'), signed(next, 'two')].map(check)
    t.same(await Promise.all(together), ['accepted', 'accepted', 'accepted'])
    t.equal(provider.asked.jwks, before + 2, 'asked once for all of them')
    const refused = named ? 'ERR_JWKS_NO_MATCHING_KEY' : 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED'
    for (let n = 0; n < 5; n++) t.not(await check(signed(foreign, `unknown-${n}`)), 'accepted')
    t.equal(await check(signed(rsa, 'one')), refused, 'the old key is gone')
    t.equal(provider.asked.jwks, before + 2, 'and not again within ten seconds')
  }
})

t.test('a token checked with old keys while another fetches the new ones is checked again', async t => {
  const { subtle } = globalThis.crypto
  const check = subtle.verify.bind(subtle)
  t.teardown(() => Reflect.deleteProperty(subtle, 'verify'))
  const verify = verifier()
  provider.keys = [rsa.jwk]
  t.equal(await outcome(verify(await sign(rsa), metadata)), 'accepted')
  provider.keys = [next.jwk]
  const [quick, slow] = [await sign(next), await sign(next)]
  const isNewRead = Promise.withResolvers<void>()
  let checks = 0
  subtle.verify = async (...given: Parameters<typeof check>) => {
    const isFirst = ++checks === 1
    const isRight = await check(...given)
    if (isFirst) await isNewRead.promise
    return isRight
  }
  const slowly = outcome(verify(slow, metadata))
  await until(() => checks === 1)
  t.equal(await outcome(verify(quick, metadata)), 'accepted')
  isNewRead.resolve()
  t.equal(await slowly, 'accepted')
})

t.test('while two keys without names are published, tokens of both count', async t => {
  const verify = verifier()
  provider.keys = [next.jwk, rsa.jwk]
  t.equal(await outcome(verify(await sign(rsa), metadata)), 'accepted')
  t.equal(await outcome(verify(await sign(next), metadata)), 'accepted')
  t.not(await outcome(verify(await sign(foreign), metadata)), 'accepted')
  t.equal(
    await outcome(verify(await sign(rsa, undefined, { aud: 'other' }), metadata)),
    'ERR_JWT_CLAIM_VALIDATION_FAILED'
  )
})

t.test('keys that cannot be read are the fault of the provider, not of the token', async t => {
  t.teardown(() => delete provider.faults.jwks)
  const token = await sign(rsa, 'one')
  const reasonWith = (jwks_uri: string | undefined) =>
    outcome(verifier()(token, { ...metadata, jwks_uri } as typeof metadata))
  t.equal(await reasonWith(undefined), 'provider-metadata')
  t.equal(await reasonWith('no address'), 'provider-metadata')
  t.equal(await reasonWith('http://192.0.2.1/jwks'), 'provider-metadata')
  provider.faults.jwks = res => answerJson(res, { keys: 'none' })
  t.equal(await reasonWith(metadata.jwks_uri), 'provider-nonsense')
  provider.faults.jwks = res => res.destroy()
  t.equal(await reasonWith(metadata.jwks_uri), 'provider-unreachable')
  provider.faults.jwks = res =>
    answerJson(res, { keys: ['text', null, { kty: 'oct', k: 'AA' }, { ...rsa.jwk, kid: 'one' }] })
  t.equal(await reasonWith(metadata.jwks_uri), 'accepted', 'members that are no keys are passed over (RFC 7517 §5)')
})

t.test('keys count for an hour after they were read while they cannot be read again', async t => {
  t.teardown(() => delete provider.faults.jwks)
  provider.keys = [{ ...rsa.jwk, kid: 'one' }]
  let minutes = 0
  const verify = createTokenVerifier({
    clientId: 'portaria',
    fetch: createProviderFetch({ insecure: false, timeoutMs: 10_000 }),
    now: () => (NOW_S + minutes * 60) * 1000
  })
  const token = await sign(rsa, 'one', { exp: NOW_S + 24 * 3600 })
  const before = provider.asked.jwks
  for (const [at, isAway, expected, reads] of [
    [0, false, 'accepted', 1],
    [4, false, 'accepted', 1],
    [6, true, 'accepted', 2],
    [6.1, true, 'accepted', 2],
    [59, true, 'accepted', 3],
    [60, true, 'provider-error', 4],
    [61, false, 'accepted', 5]
  ] as const) {
    minutes = at
    if (isAway) provider.faults.jwks = res => res.writeHead(503).end()
    else delete provider.faults.jwks
    t.equal(await outcome(verify(token, metadata)), expected, `after ${at} minutes`)
    t.equal(provider.asked.jwks - before, reads, `after ${at} minutes`)
  }
  provider.keys = [{ ...next.jwk, kid: 'two' }]
  minutes = 68
  t.equal(await outcome(verify(token, metadata)), 'ERR_JWKS_NO_MATCHING_KEY', 'a key that is gone')
})

// OA-02, OA-11
t.test('a logout token is refused in words that name what is wrong', async t => {
  provider.keys = [{ ...rsa.jwk, kid: 'one' }]
  const event = 'http://schemas.openid.net/event/backchannel-logout'
  const verify = verifier()
  const check = async (token: string, issuer = provider.issuer) =>
    checkLogoutToken(token, { metadata: { ...metadata, issuer }, verify, now: NOW_S * 1000 }).then(
      ({ subject, sid }) => `${subject} ${sid}`,
      (error: Error) => error.message
    )
  const rightLogout = { nonce: undefined, events: { [event]: {} }, jti: 'j', sid: 'i' }
  const rows: [claims: object, expected: RegExp][] = [
    [{}, /^s i$/],
    [{ sub: undefined }, /^undefined i$/],
    [{ sid: undefined }, /^s undefined$/],
    [{ events: undefined }, /claim events/],
    [{ events: { other: {} } }, /claim events/],
    [{ events: { [event]: true } }, /claim events/],
    [{ nonce: 'n' }, /claim nonce/],
    [{ sub: undefined, sid: undefined }, /claim sub/],
    [{ sub: '' }, /claim sub/],
    [{ sid: 5 }, /claim sid/],
    [{ jti: undefined }, /claim jti/],
    [{ jti: 'x'.repeat(513) }, /claim jti/],
    [{ aud: 'other' }, /claim aud/],
    [{ iss: 'https://other.example' }, /claim iss/],
    [{ exp: NOW_S - 60 }, /claim exp/],
    [{ exp: undefined }, /claim exp/],
    [{ iat: NOW_S + 60 }, /claim iat/],
    [{ iat: -1e300 }, /claim iat/],
    [{ exp: 1e300 }, /claim exp/]
  ]
  for (const [claims, expected] of rows)
    t.match(await check(await sign(rsa, 'one', { ...rightLogout, ...claims })), expected, JSON.stringify(claims))
  const typed = (typ: string) =>
    new SignJWT(claimsOf(rightLogout)).setProtectedHeader({ alg: 'RS256', kid: 'one', typ }).sign(rsa.privateKey)
  for (const typ of ['JWT', 'logout+jwt', 'application/logout+jwt']) t.equal(await check(await typed(typ)), 's i', typ)
  t.match(await check(await typed('at+jwt')), /claim typ/)
  t.match(await check('x'), /\(malformed\)/)
  t.match(await check('x'.repeat(16 * 1024 + 1)), /too long/)
  t.match(await check(await sign(foreign, 'one', rightLogout)), /\(signature\)/)
  t.match(await check(await sign(rsa, 'two', rightLogout)), /\(unknown key\)/)
  const bySecret = new SignJWT(claimsOf(rightLogout)).setProtectedHeader({ alg: 'HS256', kid: 'one' }).sign(SECRET)
  t.match(await check(await bySecret), /\(algorithm\)/)
  const ofTenants = `${provider.issuer}/{tenantid}/v2.0`
  const inTenant = { ...rightLogout, tid: 't-1', iss: `${provider.issuer}/t-1/v2.0` }
  t.equal(await check(await sign(rsa, 'one', inTenant), ofTenants), 's i')
  t.match(await check(await sign(rsa, 'one', { ...inTenant, tid: undefined }), ofTenants), /claim tid/)
  t.match(await check(await sign(rsa, 'one', { ...inTenant, exp: NOW_S - 60 }), ofTenants), /claim exp/)
  t.match(await check('x', ofTenants), /\(malformed\)/)
})

t.test('where many tenants publish their keys together, a key counts for the issuer that it names alone', async t => {
  const template = `${provider.issuer}/{tenantid}/v2.0`
  const issuerOf = (tenant: string) => template.replace('{tenantid}', tenant)
  provider.keys = [
    { ...rsa.jwk, kid: 'all', issuer: template },
    { ...next.jwk, kid: 'two', issuer: issuerOf('tenant-2') }
  ] as object[] as typeof provider.keys
  const verify = verifier()
  const ask = async (key: Pair, kid: string | undefined, tid: string) =>
    outcome(verify(await sign(key, kid, { tid, iss: issuerOf(tid) }), { ...metadata, issuer: template }))
  t.equal(await ask(rsa, 'all', 'tenant-1'), 'accepted')
  t.equal(await ask(next, 'two', 'tenant-2'), 'accepted')
  t.equal(await ask(next, 'two', 'tenant-1'), 'ERR_JWKS_NO_MATCHING_KEY')
  t.not(await ask(next, undefined, 'tenant-1'), 'accepted')

  const both = [{ ...rsa.jwk, kid: 'two', issuer: issuerOf('tenant-1') }, provider.keys[1]]
  provider.keys = both as object[] as typeof provider.keys
  const verifyBoth = verifier()
  const askBoth = async (key: Pair, tid: string) =>
    outcome(verifyBoth(await sign(key, 'two', { tid, iss: issuerOf(tid) }), { ...metadata, issuer: template }))
  t.equal(await askBoth(rsa, 'tenant-1'), 'accepted', 'one of two keys with the same name')
  t.equal(await askBoth(next, 'tenant-2'), 'accepted')
  t.equal(await askBoth(next, 'tenant-1'), 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED')
})

const common = { tenantId: 'common', allowedTenants: undefined, groupsClaim: 'groups' }
const source = 'https://graph.microsoft.com/v1.0/me'
const check = (profile: Record<string, unknown>, idToken?: Record<string, unknown>, settings: Settings = common) =>
  provePerson({ profile, idToken, isOpenId: idToken?.iss !== undefined, profileSource: source }, settings)
type Settings = Parameters<typeof provePerson>[1]

t.test('a Graph profile is known by its id; mail and userPrincipalName are only names', async t => {
  const graph = { id: 'f3b0-1', displayName: 'Ana Souza', userPrincipalName: 'ana@corp.example' }
  t.same(check({ ...graph, mail: 'ana.souza@corp.example' }), {
    provider: 'cloudidp',
    issuer: source,
    subject: 'f3b0-1',
    name: 'Ana Souza',
    email: 'ana.souza@corp.example',
    username: 'ana@corp.example'
  })
  t.match(check({ ...graph, mail: null }), { email: 'ana@corp.example', username: 'ana@corp.example' })
})

t.test('a userinfo profile is known by the subject of the validated ID token', async t => {
  const idToken = { iss: 'https://id.example', sub: 's-1', preferred_username: 'ana', tid: 'x' }
  t.match(check({ sub: 's-1', name: 'Ana', email: 'ana@corp.example' }, idToken), {
    provider: 'cloudidp',
    issuer: 'https://id.example',
    subject: 's-1',
    name: 'Ana',
    email: 'ana@corp.example',
    username: 'ana'
  })
  t.match(check({ id: 'another', sub: 's-1' }, idToken), { subject: 's-1' })
})

t.test('the e-mail stands in for a missing login name; what is missing is empty', async t => {
  t.match(check({ sub: 's', email: 'ana@corp.example' }), { username: 'ana@corp.example', name: '' })
  t.match(check({ sub: 's' }), { username: '', name: '', email: '' })
  t.match(check({ sub: 's', name: 'A\u0000n\r\n\u2028\u202ea', email: ['x'] }), { name: 'Ana', email: '' })
  t.equal(check({ sub: 's', name: 'x'.repeat(5000) }).name.length, 256)
})

t.test('groups are a list, one text, or the names in an object of objects', async t => {
  const claim = 'urn:zitadel:iam:org:project:roles'
  const groups = (value: unknown) =>
    check({ sub: 's' }, { iss: 'https://id.example', sub: 's', [claim]: value }, { ...common, groupsClaim: claim })
      .groups
  t.same(groups(['agente', '', 7, 'admin']), ['agente', 'admin'])
  t.same(groups('agente'), ['agente'])
  t.same(groups({ agente: { '2711': 'corp.example' }, admin: { '2711': 'corp.example' } }), ['agente', 'admin'])
  for (const none of [{}, { admin: false }, { roles: ['admin'] }, 7, undefined]) t.same(groups(none), [])
})

// OA-12
t.test('nothing but a stable subject names somebody', async t => {
  const reason = (profile: Record<string, unknown>) => {
    try {
      return check(profile).subject
    } catch (error) {
      return (error as { reason?: string }).reason
    }
  }
  for (const sub of [undefined, null, '', {}, ['a'], true, 1.5, 'x'.repeat(256), 'a\u0000b', '\ud800']) {
    t.equal(reason({ sub, email: 'ana@corp.example', oid: 'x' }), 'subject-missing', JSON.stringify(sub) ?? 'undefined')
  }
  t.equal(reason({ id: 42 }), '42')
})

// OA-14
t.test('tenants: one is compared, open ones let in whom the list names', async t => {
  const enter = (tid: string | undefined, settings: Omit<Settings, 'groupsClaim'>) => {
    try {
      return check({ sub: 's' }, tid === undefined ? undefined : { tid }, { ...common, ...settings }).subject
    } catch (error) {
      return (error as { reason?: string }).reason
    }
  }
  t.equal(enter('t-1', { tenantId: 'common', allowedTenants: ['t-1'] }), 's')
  t.equal(enter('T-1', { tenantId: 'common', allowedTenants: ['t-1'] }), 's')
  t.equal(enter('t-12', { tenantId: 'organizations', allowedTenants: ['t-1'] }), 'tenant-refused')
  t.equal(enter(undefined, { tenantId: 'common', allowedTenants: ['t-1'] }), 'tenant-unknown')
  t.equal(enter('t-9', { tenantId: 'common', allowedTenants: ['*'] }), 's')
  t.equal(enter('t-9', { tenantId: 'common', allowedTenants: undefined }), 's')
  for (const tid of ['t\0', '\ud800', 't'.repeat(256)])
    t.equal(enter(tid, { tenantId: 'common', allowedTenants: ['*'] }), 'tenant-unknown', 'it could not be stored')
  t.equal(enter('t-9', { tenantId: 't-1', allowedTenants: undefined }), 'tenant-refused')
  t.equal(enter('t-9', { tenantId: 't-1', allowedTenants: ['*'] }), 'tenant-refused')
  t.equal(enter(undefined, { tenantId: 't-1', allowedTenants: undefined }), 's')
  t.equal(enter('t-9', { tenantId: 'corp.example', allowedTenants: undefined }), 's')
})

t.test('a start ends what people hold whom no login would admit any more', async t => {
  const admits = (settings: Omit<Settings, 'groupsClaim'>) => {
    const admitted = admittedTenants(settings)
    return ['t-1', 't-2'].filter(tid => admitted?.includes(tid) ?? true)
  }
  t.same(admits({ tenantId: 'T-1', allowedTenants: ['t-1', 'T-2'] }), ['t-1'])
  t.same(admits({ tenantId: 't-1', allowedTenants: ['*'] }), ['t-1'])
  t.same(admits({ tenantId: 't-1', allowedTenants: undefined }), ['t-1'])
  t.same(admits({ tenantId: 'common', allowedTenants: ['T-2'] }), ['t-2'])
  t.same(admits({ tenantId: 'corp.example', allowedTenants: ['*'] }), ['t-1', 't-2'])
})

// OA-14
t.test('with an issuer of many tenants, each ID token must be of the issuer of its own tenant', async t => {
  const provider = await startFaultyProvider(t)
  const { issuer } = provider
  provider.metadata = { issuer: `${issuer}/{tenantid}/v2.0` }
  const app = await startOAuthApp(t, { cloudidp: { issuer: `${issuer}/common/v2.0` } })
  const logIn = async (claims: Record<string, unknown>) => {
    provider.claims = claims
    const browser = createCloudBrowser()
    return (await browser.get(provider.authorize(await beginCloudLogin(browser, app.url)))).status
  }
  t.equal(await logIn({ tid: 'tenant-1', iss: `${issuer}/tenant-1/v2.0` }), 302)
  t.equal(await logIn({ tid: 'tenant-2', iss: `${issuer}/tenant-2/v2.0` }), 302)
  t.equal(await logIn({ tid: 'tenant-1', iss: `${issuer}/tenant-2/v2.0` }), 401)
  t.equal(await logIn({ tid: 'tenant-1', iss: `${issuer}/{tenantid}/v2.0` }), 401)
  t.equal(await logIn({ tid: '{tenantid}', iss: `${issuer}/{tenantid}/v2.0` }), 401)
  t.equal(await logIn({ iss: `${issuer}/{tenantid}/v2.0` }), 401)
  const issuers = app.people.map(person => person.issuer)
  t.same(issuers, [`${issuer}/tenant-1/v2.0`, `${issuer}/tenant-2/v2.0`])
})

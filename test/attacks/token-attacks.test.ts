// Tokens that are forged, altered, expired or in the wrong place are refused alike.
import crypto, { createHmac, generateKeyPairSync, randomUUID, sign as signWith } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { jwtVerify, SignJWT } from 'jose'
import t from 'tap'
import { signState, verifyState } from '../../gateway/cloud/attempts.ts'
import { createAccessTokens } from '../../gateway/tokens/access-token.ts'
import { routesTo, startGateway, TEST_SECRET } from '../support/gateway.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { fc } from '../support/worlds.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  config: routesTo(raw.url, [{ path: '/api/*' }, { path: '/admin/*', roles: ['Admin'] }])
})

const nowS = () => Math.floor(Date.now() / 1000)
const encode = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const claims = (more: Record<string, unknown> = {}): Record<string, unknown> => ({
  sub: '7',
  name: 'Maria',
  email: 'maria@corp.example',
  provider: 'ldap',
  username: 'maria',
  perfis: ['Agente'],
  profiles: ['Agente'],
  areas: ['Geral'],
  areaPrincipal: 'Geral',
  accessStatus: 'assigned',
  jti: randomUUID(),
  ver: 0,
  iat: nowS(),
  exp: nowS() + 3600,
  ...more
})
const HEADER = { alg: 'HS256', typ: 'JWT' }

/** Header and payload are objects or exact texts; signed with HMAC-SHA-256 whatever the header says. */
const forge = (header: unknown, payload: unknown, { secret = TEST_SECRET, hash = 'sha256' } = {}) => {
  const signed = `${encode(header)}.${encode(payload)}`
  return `${signed}.${createHmac(hash, secret).update(signed).digest('base64url')}`
}

const ask = async (token: string, path = '/api/x') => {
  const answer = await world.raw(`GET ${path} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  return { status: answer.status, code: /"code":"(\w+)"/.exec(answer.body)?.[1], body: answer.body }
}

const refusedAll = async (test: Tap.Test, tokens: Record<string, string>) => {
  const before = raw.requests.length
  for (const [name, token] of Object.entries(tokens)) {
    const { status, code, body } = await ask(token)
    test.match({ status, code }, { status: 401, code: /GW_UNAUTHENTICATED|GW_TOKEN_EXPIRED/ }, name)
    test.notMatch(body, /JW[ST]|jose|signature|claim|alg/i, `${name}: the answer says nothing of why`)
  }
  test.equal(raw.requests.length, before, 'nothing reached the upstream')
}

declare namespace Tap {
  type Test = Pick<typeof t, 'match' | 'notMatch' | 'equal'>
}

t.test('one algorithm, with one key: no other is ever taken', async t => {
  // JW-01, JW-02, JW-03
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const signed = `${encode({ alg: 'RS256', typ: 'JWT' })}.${encode(claims())}`
  const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const tokens: Record<string, string> = {
    rs256: `${signed}.${signWith('sha256', Buffer.from(signed), privateKey).toString('base64url')}`,
    hs384: forge({ ...HEADER, alg: 'HS384' }, claims(), { hash: 'sha384' }),
    hs512: forge({ ...HEADER, alg: 'HS512' }, claims(), { hash: 'sha512' }),
    'public key as secret': forge(HEADER, claims(), { secret: pem }),
    'no alg': forge({ typ: 'JWT' }, claims()),
    'alg list': forge({ ...HEADER, alg: ['HS256'] }, claims())
  }
  for (const alg of ['none', 'None', 'NONE', 'nOnE', '', null]) {
    tokens[`${alg}, unsigned`] = `${encode({ ...HEADER, alg })}.${encode(claims())}.`
    tokens[`${alg}, signed`] = forge({ ...HEADER, alg }, claims())
  }
  for (const alg of ['RS256', 'ES256', 'PS256', 'EdDSA', 'HS384', 'HS512', 'hs256', 'HS256 '])
    tokens[`${alg} signed with HMAC`] = forge({ ...HEADER, alg }, claims())
  await refusedAll(t, tokens)
})

t.test('a token ends when it says, and must say so', async t => {
  // JW-04, JW-05, JW-06, JW-21
  // Every claim by itself: test/tokens/verified-tokens.test.ts.
  const bad: Record<string, unknown>[] = [
    ...[undefined, 1e300, nowS() + 10 * 365 * 86_400, nowS()].map(exp => ({ exp })),
    { iat: nowS() + 5000, exp: nowS() + 6000 },
    { nbf: nowS() + 50 }
  ]
  await refusedAll(t, Object.fromEntries(bad.map(more => [JSON.stringify(more), forge(HEADER, claims(more))])))
  t.equal((await ask(forge(HEADER, claims({ iat: nowS() + 20 })))).status, 200, 'clocks may differ a little')
  t.equal((await ask(forge(HEADER, claims({ exp: nowS() - 1 })))).code, 'GW_TOKEN_EXPIRED')
})

t.test('what is signed for another purpose is no token', async t => {
  // JW-07
  const tokens: Record<string, string> = {}
  for (const typ of ['at+jwt', 'jwt', 'JWS', 'application/jwt', undefined, null, ['JWT']])
    tokens[String(typ)] = forge({ alg: 'HS256', typ }, claims())
  const cloud = await startGateway(t, {
    postgres: world.postgres,
    env: {
      CLOUDIDP_ENABLED: 'true',
      CLOUDIDP_CLIENT_ID: 'a',
      CLOUDIDP_CLIENT_SECRET: 'b',
      CLOUDIDP_TENANT_ID: '9b2f0b0a-0000-4000-8000-000000000000'
    }
  })
  const start = await cloud.fetch('/auth/oauth/cloudidp/start')
  const state = new URL(start.headers.get('location') ?? '').searchParams.get('state') ?? ''
  t.match(state, /\./)
  Object.assign(tokens, { state, 'state with a header': `${encode(HEADER)}.${state}` })
  await refusedAll(t, tokens)
})

t.test('a token has one spelling, so that nothing keyed by its text can be dodged', async t => {
  // JW-08, JW-13
  const good = forge(HEADER, claims())
  const [header = '', payload = '', signature = ''] = good.split('.')
  const last = signature.at(-1) ?? ''
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const sibling = alphabet[alphabet.indexOf(last) ^ 1] ?? ''
  t.same(Buffer.from(signature.slice(0, -1) + sibling, 'base64url'), Buffer.from(signature, 'base64url'), 'same bytes')
  await refusedAll(t, {
    'unused bits': `${header}.${payload}.${signature.slice(0, -1)}${sibling}`,
    padding: `${good}=`,
    blank: `${good} x`,
    'base64 alphabet': `${header}.${payload}.${signature.replace(/[-_]/, '+')}${/[-_]/.test(signature) ? '' : '+'}`,
    'two parts': `${header}.${payload}`,
    'four parts': `${good}.${signature}`,
    'five parts': `${header}.${payload}.${payload}.${payload}.${signature}`,
    'no signature': `${header}.${payload}.`,
    'short signature': good.slice(0, -1),
    'long signature': `${good}A`,
    'empty parts': '..',
    dots: '.'.repeat(10_000)
  })
  t.equal((await ask(good)).status, 200)
})

t.test('a payload that is no person is refused, however well it is signed', async t => {
  // JW-13, JW-14, JW-17, JW-18, JW-24
  const text = JSON.stringify(claims())
  const tokens: Record<string, string> = {
    '9 KB': forge(HEADER, claims({ name: 'x'.repeat(7000) })),
    array: forge(HEADER, []),
    string: forge(HEADER, '"x"'),
    null: forge(HEADER, 'null'),
    'not JSON': forge(HEADER, '{'),
    'nested payload': forge(HEADER, `${'['.repeat(4000)}${']'.repeat(400)}`),
    'nested header': forge('['.repeat(4000), claims()),
    'unsigned nested header': `${'W'.repeat(8000)}.e30.AA`,
    'duplicate alg': forge('{"alg":"HS256","alg":"none","typ":"JWT"}', claims()),
    'duplicate exp': forge(HEADER, text.replace(/}$/, ',"exp":1}')),
    'proto claims': forge(HEADER, `{"__proto__":${text}}`)
  }
  const wrong: Record<string, unknown>[] = [
    { sub: { $ne: 1 } },
    { profiles: ['Admin'] },
    { jti: undefined },
    { ver: -1 }
  ]
  t.match(await ask('a'.repeat(20_000)), { status: 431 })
  for (const more of wrong) tokens[JSON.stringify(more).slice(0, 60)] = forge(HEADER, claims(more))
  await refusedAll(t, tokens)
  t.equal(
    (await ask(forge(HEADER, claims({ profiles: ['admin'], perfis: ['admin'] })), '/admin/x')).status,
    403,
    'roles are compared exactly'
  )
})

t.test('header parameters neither open files nor fetch keys', async t => {
  // JW-15, JW-16
  await refusedAll(t, {
    'crit x': forge({ ...HEADER, crit: ['x'], x: 1 }, claims()),
    'crit empty': forge({ ...HEADER, crit: [] }, claims()),
    'b64 false': forge({ ...HEADER, b64: false, crit: ['b64'] }, claims()),
    'b64 alone': forge({ ...HEADER, b64: false }, claims()),
    'key inside': forge({ ...HEADER, jwk: { kty: 'oct', k: 'AAAA' } }, claims(), { secret: '\0\0\0' }),
    'kid null': forge({ ...HEADER, kid: '../../../../dev/null' }, claims(), { secret: '' })
  })
  const before = raw.requests.length
  for (const more of [{ kid: "' OR 1=1 --" }, { jku: raw.url }, { x5u: raw.url }, { zip: 'DEF' }])
    t.equal((await ask(forge({ ...HEADER, ...more }, claims()))).status, 200, 'ignored: the key is ours')
  t.equal(raw.requests.length - before, 4, 'no key was fetched')
})

t.test('a character beyond Latin-1 is none of those that its lower byte stands for', async t => {
  // Never in a header, but in what scripts send: the `auth` of a Socket.IO CONNECT is any Unicode text.
  const tokens = createAccessTokens({ secret: TEST_SECRET, previousSecrets: [], expiresInMs: 1000 })
  const good = forge(HEADER, claims())
  t.ok(tokens.isOurs(good))
  for (const at of [good.length - 1, good.length - 43, 5]) {
    const other = String.fromCharCode(good.charCodeAt(at) + 0x100)
    const bad = good.slice(0, at) + other + good.slice(at + 1)
    t.throws(() => tokens.verify(bad), { code: 'GW_UNAUTHENTICATED' }, `${other} at ${at}`)
  }
})

t.test('a token in any other place is no token, and a malformed field is no anonymous pass', async t => {
  // JW-23, JW-26
  const token = forge(HEADER, claims())
  const before = raw.requests.length
  const get = (target: string, fields: string) => world.raw(`GET ${target} HTTP/1.1\r\nHost: gw\r\n${fields}\r\n`)
  for (const [target, fields] of [
    [`/api/x?access_token=${token}`, ''],
    [`/api/x?token=${token}`, ''],
    ['/api/x', `Referer: http://gw/?access_token=${token}\r\n`],
    ['/api/x', `Cookie: token=${token}; __Host-portaria=${token}; authToken=${token}\r\n`],
    ['/api/x', 'Cookie: __Host-portaria=%; =; ==\r\n'],
    ['/api/x', `Cookie: ${'A'.repeat(8000)}\r\n`],
    ['/api/x', 'Authorization: Bearer\r\n'],
    ['/api/x', 'Authorization: bearer\r\n'],
    ['/api/x', `Authorization: Bearer ${token}, Bearer ${token}\r\n`],
    ['/api/x', `Authorization: Bearer\t${token}\r\n`],
    ['/api/x', `Authorization: Basic ${token}\r\n`],
    ['/api/x', `Authorization: ${token}\r\n`],
    ['/api/x', `Proxy-Authorization: Bearer ${token}\r\n`],
    ['/api/x', `X-Authorization: Bearer ${token}\r\n`]
  ] as const)
    t.equal((await get(target, fields)).status, 401, `${target} ${fields}`.slice(0, 60))
  t.equal(raw.requests.length, before)
  t.equal(
    (await get('/api/x', `authorization: bEaReR  ${token}\r\n`)).status,
    200,
    'the scheme in any case, then blanks'
  )
})

t.test('whatever this gateway accepts, an independent verifier accepts too', async t => {
  // JW-25
  const tokens = createAccessTokens({ secret: TEST_SECRET, previousSecrets: [], expiresInMs: 3_600_000 })
  const key = Buffer.from(TEST_SECRET)
  const noise = fc.constantFrom('', '=', '.', ' ', '\n', '+', '/', '!', 'A', '\0', '-', '_', 'é')
  let accepted = 0
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        alg: fc.constantFrom('HS256', 'HS256', 'HS256', 'HS384', 'none'),
        typ: fc.constantFrom('JWT', 'JWT', 'jwt'),
        more: fc.dictionary(fc.constantFrom('kid', 'crit', 'b64', 'cty'), fc.jsonValue(), { maxKeys: 1 }),
        payload: fc.dictionary(fc.constantFrom('exp', 'iat', 'nbf', 'sub', 'aud', 'x'), fc.jsonValue(), { maxKeys: 1 }),
        at: fc.nat(),
        inSigned: fc.boolean(),
        noise
      }),
      async ({ alg, typ, more, payload, at, inSigned, noise }) => {
        const put = (text: string) => text.slice(0, at % text.length) + noise + text.slice(at % text.length)
        const parts = `${encode({ alg, typ, ...more })}.${encode(claims(payload))}`
        const signed = inSigned ? put(parts) : parts
        const whole = `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`
        const token = inSigned ? whole : put(whole)
        try {
          tokens.verify(token)
        } catch {
          return true
        }
        accepted++
        await jwtVerify(token, key, { algorithms: ['HS256'], clockTolerance: 30 })
        return true
      }
    ),
    { numRuns: 2000 }
  )
  t.ok(accepted > 20, `${accepted} were accepted by both`)
  const theirs = await new SignJWT(claims()).setProtectedHeader(HEADER).sign(key)
  t.equal(tokens.verify(theirs).subject, '7')
})

t.test('signatures of tokens and states are compared in constant time', async t => {
  // JW-22: beside the HMAC no clock shows how long a comparison takes.
  const compared = t.capture(crypto, 'timingSafeEqual', crypto.timingSafeEqual)
  syncBuiltinESMExports()
  const wrong = (text: string) => text.slice(0, -2) + (text.at(-2) === 'A' ? 'B' : 'A') + text.slice(-1)
  const tokens = createAccessTokens({ secret: TEST_SECRET, previousSecrets: [], expiresInMs: 3_600_000 })
  t.equal(tokens.signedBy(wrong(forge(HEADER, claims()))), -1)
  t.equal(compared().length, 1)
  const state = signState(Buffer.alloc(24), 0, TEST_SECRET)
  t.equal(verifyState(wrong(state), 0, { secrets: [TEST_SECRET], maxAgeMs: 1 }), 'state-signature')
  t.equal(compared().length, 1)
  compared.restore()
  syncBuiltinESMExports()
})

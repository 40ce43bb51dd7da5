// A signed assertion tells a backend who asks.
import { createRemoteJWKSet, jwtVerify } from 'jose'
import t from 'tap'
import { createAssertions } from '../../gateway/tokens/assertions.ts'
import { sealingSecret } from '../../gateway/tokens/sealed-keys.ts'
import { planKeys } from '../../gateway/tokens/signing-keys.ts'
import { portariaHere } from '../support/cli-here.ts'
import { shiftClocks } from '../support/clocks.ts'
import { identityOf } from '../support/exchanges.ts'
import { signToken, startGateway, TEST_SECRET, type World } from '../support/gateway.ts'
import { only } from '../support/only.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const postgres = await startPostgres(t)
const raw = await startRawUpstream(t)
const options = {
  postgres,
  config: {
    upstreams: { orders: { url: raw.url, assertion: true }, plain: { url: raw.url } },
    routes: [
      { path: '/orders/*', upstream: 'orders' },
      { path: '/plain/*', upstream: 'plain' },
      { path: '/open/*', upstream: 'orders', public: true },
      { path: '/socket', upstream: 'orders', websocket: {} }
    ]
  },
  env: { PUBLIC_URL: 'http://localhost:3000' }
}
const [first, second] = await Promise.all([startGateway(t, options), startGateway(t, options)])

const assertionOf = async (world: World, path: string, token: string): Promise<string | undefined> => {
  await world.fetch(path, { token, headers: { 'x-user-assertion': 'forged', X_User_Assertion: 'forged' } })
  return /^x-user-assertion: (.*)\r$/im.exec(`${raw.requests.at(-1)?.head}\r\n`)?.[1]
}

/** A part of a token. */
const decoded = (part = ''): Record<string, unknown> => JSON.parse(Buffer.from(part, 'base64url').toString())

const keysOf = async (world: World) => {
  const answer = await fetch(`${world.url}/auth/jwks.json`)
  t.equal(answer.headers.get('cache-control'), 'public, max-age=300')
  return ((await answer.json()) as { keys: { kid: string; d?: string }[] }).keys
}

t.test('a backend verifies who asks with a standard library and the published keys', async t => {
  // HD-35
  const token = await first.tokenFor({ id: 7, profiles: ['Agente'], areas: ['Norte'] })
  const assertion = (await assertionOf(first, '/orders/7', token)) ?? ''
  const keys = createRemoteJWKSet(new URL(`${second.url}/auth/jwks.json`))
  const { payload, protectedHeader } = await jwtVerify(assertion, keys, {
    issuer: 'http://localhost:3000',
    audience: 'orders',
    algorithms: ['ES256']
  })
  t.match(protectedHeader, { alg: 'ES256', kid: String })
  t.match(payload, {
    sub: '7',
    name: 'Maria Souza',
    email: 'maria@corp.example',
    provider: 'ldap',
    username: 'maria',
    perfis: only('Agente'),
    profiles: only('Agente'),
    areas: only('Norte'),
    areaPrincipal: 'Geral',
    accessStatus: 'assigned'
  })
  const life = Number(payload.exp) - Number(payload.iat)
  t.ok(life > 0 && life <= 310, `${life} s`)
  await t.rejects(jwtVerify(assertion, keys, { audience: 'billing' }), 'it is good for one upstream')
  const later = new Date(1000 * (Number(payload.exp) + 60))
  await t.rejects(jwtVerify(assertion, keys, { audience: 'orders', currentDate: later }), 'and for a few minutes')
})

t.test('both instances use one key, made once; nothing private is published', async t => {
  const [one, other] = await Promise.all([keysOf(first), keysOf(second)])
  t.same(one, other)
  t.equal(one.length, 1)
  t.notOk(one.some(key => 'd' in key))
  const rows = await postgres.query('SELECT sealed::text AS sealed FROM signing_keys')
  t.notMatch(JSON.stringify(rows), /"d"/)
})

t.test('an assertion goes to private routes of upstreams that want it, once, and never outlives the token', async t => {
  // Less than an assertion otherwise lives; one that ends sooner would be remembered for a second only.
  const exp = Math.floor(Date.now() / 1000) + 200
  const token = await first.tokenFor({}, { exp })
  const assertion = await assertionOf(first, '/orders/1', token)
  t.equal(assertion, await assertionOf(first, '/orders/2', token), 'remembered')
  t.equal(decoded(assertion?.split('.')[1]).exp, exp)
  t.equal((raw.requests.at(-1)?.head.match(/assertion/gi) ?? []).length, 1, 'what the client sent is gone')
  t.equal(await assertionOf(first, '/plain/1', token), undefined)
  t.equal(await assertionOf(first, '/open/1', token), undefined)
  const upgrade = ['GET /socket HTTP/1.1', 'Host: a', `Authorization: Bearer ${token}`, 'Connection: Upgrade']
  const handshake = ['Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==']
  await first.raw(`${[...upgrade, ...handshake].join('\r\n')}\r\n\r\n`).catch(() => undefined)
  t.match(raw.requests.at(-1)?.head, /x-user-assertion: ey/, 'upgrades carry it too')
})

t.test('"keys rotate" publishes a key that signs ten minutes later; the one before it goes on signing', async t => {
  const env = { DATABASE_URL: postgres.url, JWT_SECRET: TEST_SECRET }
  const [before] = await keysOf(first)
  const rotated = await portariaHere(['keys', 'rotate', '--json'], { env })
  t.equal(rotated.code, 0, rotated.stderr)
  const { kid, signsFrom } = rotated.json<{ kid: string; signsFrom: string }>()
  const ahead = new Date(signsFrom).getTime() - Date.now()
  t.ok(ahead > 590_000 && ahead < 610_000)
  const third = await startGateway(t, options)
  t.same((await keysOf(third)).map(key => key.kid).sort(), [kid, before?.kid].sort())
  const assertion = await assertionOf(third, '/orders/1', await third.tokenFor())
  t.match(decoded(assertion?.split('.')[0]), { kid: before?.kid })
})

// RV-78
t.test('"keys rotate" under the secret of another gateway fails, and changes nothing', async t => {
  const inUse = () => postgres.query('SELECT kid FROM signing_keys WHERE set_aside_at IS NULL ORDER BY kid')
  const before = await inUse()
  for (const secrets of [
    { JWT_SECRET: 'the secret of a gateway somewhere else, for this test' },
    {
      JWT_SECRET: 'one such secret, for this test only',
      JWT_PREVIOUS_SECRETS: 'and another such secret, for this test'
    }
  ]) {
    const { code, stderr } = await portariaHere(['keys', 'rotate'], { env: { DATABASE_URL: postgres.url, ...secrets } })
    t.equal(code, 2)
    t.match(stderr, /opens none of the keys in use/)
  }
  t.same(await inUse(), before)
  t.equal(before.length, 2, 'that of the gateways, and the one that was created by rotating')
})

t.test('a change of JWT_SECRET in its safe order keeps tokens and keys; a lost one makes new keys', async t => {
  const database = await postgres.newDatabase()
  const FIRST = 'the first secret of this test and of nothing else'
  const NEXT = 'the next secret of this test and of nothing else'
  const start = (env: Record<string, string>) =>
    startGateway(t, { ...options, postgres: { url: database }, env: { ...options.env, ...env } })
  const kids = async (world: World) => (await keysOf(world)).map(({ kid }) => kid)
  const [original] = await kids(await start({ JWT_SECRET: FIRST }))
  const tokens = [await signToken(FIRST), await signToken(NEXT)]
  for (const [env, statuses] of [
    [{ JWT_SECRET: FIRST, JWT_PREVIOUS_SECRETS: NEXT }, [200, 200]],
    [{ JWT_SECRET: NEXT, JWT_PREVIOUS_SECRETS: FIRST }, [200, 200]],
    [{ JWT_SECRET: NEXT }, [401, 200]]
  ] as const) {
    const world = await start(env)
    t.same(await kids(world), [original], JSON.stringify(env))
    const found = await Promise.all(tokens.map(token => world.fetch('/orders/1', { token })))
    t.same(
      found.map(({ status }) => status),
      statuses,
      JSON.stringify(env)
    )
  }
  const UNANNOUNCED = 'a third secret that was announced to no instance before'
  const lost = await start({ JWT_SECRET: UNANNOUNCED })
  const after = await kids(lost)
  t.equal(after.length, 2, 'what the old key signed can still be verified')
  const assertion = await assertionOf(lost, '/orders/1', await signToken(UNANNOUNCED))
  t.not(decoded(assertion?.split('.')[0]).kid, original)
  const actions = await postgres.query(
    "SELECT action FROM audit_events WHERE target LIKE 'key:%' ORDER BY id",
    [],
    database
  )
  const recorded = actions.map(({ action }) => action)
  t.same(recorded, ['key.create', 'key.set-aside', 'key.create'])
})

t.test('a clock set back or forward by an hour changes neither the key nor the times of an assertion', async t => {
  const clocks = shiftClocks(t)
  const nowS = Math.floor(Date.now() / 1000)
  const secrets = [sealingSecret('a')]
  const assertions = createAssertions({ issuer: 'https://gateway.example', secrets })
  assertions.learn(planKeys([], { secrets, rotationS: 90 * 86_400, nowS, isStart: true }).add, nowS)
  const kids = new Set<unknown>()
  for (const wallMs of [0, 3_600_000, -3_600_000]) {
    clocks.wallMs = wallMs
    const line = assertions.lineFor(identityOf({ expiresAt: nowS + 28_800 }), 'orders')
    const [header = '', payload = ''] = line.slice('x-user-assertion: '.length).split('.')
    const { iat, exp } = decoded(payload)
    t.ok(Math.abs(Number(iat) - nowS) < 60, `${wallMs}: ${Number(iat) - nowS}`)
    t.equal(Number(exp) - Number(iat), 300)
    kids.add(decoded(header).kid)
  }
  t.equal(kids.size, 1)
})

// What a token must say to be ours, and which of those that are ours still count. JW-01, JW-02, JW-04, JW-08, JW-09, JW-20
import { createHmac } from 'node:crypto'
import t from 'tap'
import { GatewayError, Unauthenticated } from '../../gateway/errors.ts'
import type { Identity } from '../../gateway/identity.ts'
import { createAccessTokens, fitsToken } from '../../gateway/tokens/access-token.ts'
import {
  createPersonalTokens,
  hashPersonalToken,
  isPersonalToken,
  type LiveToken,
  personalTokenId,
  type TokenOwner
} from '../../gateway/tokens/personal-tokens.ts'
import { createRevocations } from '../../gateway/tokens/revocations.ts'
import { createTokenUses } from '../../gateway/tokens/token-uses.ts'
import { createVerifiedTokens } from '../../gateway/tokens/verified-tokens.ts'
import { mayComeFrom } from '../../gateway/values/addresses.ts'
import { identityOf } from '../support/exchanges.ts'
import { only } from '../support/only.ts'
import { quiet } from '../support/quiet.ts'

const SECRET = 'one secret for these tests, used nowhere else'
const OLD = 'the secret before it, which is still known'
const NOW_S = 1_700_000_000

const CLAIMS = {
  sub: '7',
  name: 'Maria',
  email: 'm@corp.example',
  provider: 'ldap',
  username: 'maria',
  perfis: ['Agente'],
  profiles: ['Agente'],
  areas: ['Geral'],
  areaPrincipal: 'Geral',
  accessStatus: 'assigned',
  ver: 2,
  auth_time: NOW_S - 60,
  jti: 'id-1',
  iat: NOW_S - 60,
  exp: NOW_S + 60
}
const encode = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const signed = (header: unknown, payload: unknown, secret = SECRET, isEncoded = false) => {
  const text = isEncoded ? `${header}.${payload}` : `${encode(header)}.${encode(payload)}`
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
}
const HEADER = { alg: 'HS256', typ: 'JWT' }
const withClaims = (claims: Record<string, unknown>, secret?: string) =>
  signed(HEADER, { ...CLAIMS, ...claims }, secret)

const tokensAt = (nowS = NOW_S, expiresInMs = 3_600_000) =>
  createAccessTokens({ secret: SECRET, previousSecrets: [OLD], expiresInMs, now: () => nowS * 1000 })
const outcome = (checked: Identity | GatewayError) =>
  checked instanceof GatewayError ? `${checked.code} ${checked.reason}` : checked.tokenId

t.test('a token of this gateway says who asks, by the present secret or one before it', async t => {
  const tokens = tokensAt()
  const { sub, ver, jti, iat, exp, auth_time, ...user } = CLAIMS
  t.same(tokens.check(withClaims({})), {
    user: { ...user, id: 7 },
    subject: '7',
    tokenId: 'id-1',
    version: 2,
    issuedAt: iat,
    expiresAt: exp,
    authenticatedAt: auth_time,
    kind: 'login',
    addresses: undefined
  })
  t.equal(tokens.signedBy(withClaims({})), 0)
  t.equal(tokens.signedBy(withClaims({}, OLD)), 1)
  t.equal(tokens.signedBy(withClaims({}, 'another')), -1)
  t.same([tokens.isOurs(withClaims({}, OLD)), tokens.isOurs(withClaims({}, 'another'))], [true, false])
  t.same(tokensAt().verified, [0, 0])
  tokens.check(withClaims({}, OLD))
  tokens.check(withClaims({}, OLD))
  tokens.check(withClaims({ exp: 'x' }, OLD))
  t.same(tokens.verified, [1, 2], 'those that passed are counted by their secret')
  t.equal(tokens.verify(withClaims({})).tokenId, 'id-1')
  t.throws(() => tokens.verify(withClaims({}, 'another')), { code: 'GW_UNAUTHENTICATED' })
  t.match(tokens.check(withClaims({ provider: 'client', addresses: ['10.0.0.0/8'] })), {
    kind: 'client',
    addresses: only('10.0.0.0/8')
  })
  const { ver: _ver, auth_time: _time, name: _name, email: _mail, ...fewer } = CLAIMS
  t.match(tokens.check(signed(HEADER, fewer)), { version: 0, authenticatedAt: 0, user: { name: '', email: '' } })
})

const FAULTS: Readonly<Record<string, readonly Record<string, unknown>[]>> = {
  'bad-claims': [
    ...['0', '07', 7, '-1', '7x', 'x7', '12345678901234567', undefined].map(sub => ({ sub })),
    ...['LDAP', '', undefined, 1].map(provider => ({ provider })),
    ...[undefined, 'Agente', ['Agente', 1]].map(profiles => ({ profiles, perfis: profiles })),
    { perfis: ['Admin'] },
    { perfis: ['Agente', 'Agente'] },
    { perfis: undefined },
    { host: 7 },
    ...[undefined, 'Geral', [1]].map(areas => ({ areas })),
    ...['unknown', undefined].map(accessStatus => ({ accessStatus })),
    ...[1, null, []].flatMap(value => [
      { name: value },
      { email: value },
      { username: value },
      { areaPrincipal: value }
    ]),
    ...['', undefined, 1, 'x'.repeat(129), 'x\0', '\ud800'].map(jti => ({ jti })),
    ...[undefined, '1', -1, 1e12, null].flatMap(value => [{ exp: value }, { iat: value }]),
    ...['1', -1, 1e12, null].map(auth_time => ({ auth_time })),
    ...['x', [1], null].map(addresses => ({ addresses })),
    ...['1', -1, 1.5, null, 2 ** 53].map(ver => ({ ver }))
  ],
  'not-yet-valid': [{ nbf: NOW_S + 31 }, { nbf: 'x' }, { nbf: -1 }],
  'issued-in-the-future': [{ iat: NOW_S + 31 }],
  'lives-too-long': [{ iat: NOW_S - 10, exp: NOW_S - 10 + 86_401 }]
}

t.test('every claim is checked', async t => {
  const { check } = tokensAt()
  for (const [reason, all] of Object.entries(FAULTS))
    for (const claims of all)
      t.equal(outcome(check(withClaims(claims))), `GW_UNAUTHENTICATED ${reason}`, JSON.stringify(claims))
  for (const claims of [
    { sub: '1234567890123456' },
    { provider: 'cloudidp' },
    { accessStatus: 'unassigned' },
    { jti: 'x'.repeat(128) },
    { nbf: NOW_S + 30 },
    { iat: NOW_S + 30 },
    { iat: NOW_S - 10, exp: NOW_S - 10 + 86_400 },
    { iat: 0, exp: 1 },
    { ver: 0 },
    { auth_time: 0 },
    { perfis: [], profiles: [] }
  ]) {
    const checked = outcome(check(withClaims(claims)))
    t.notMatch(checked, /bad-claims|not-yet|future|too-long/, JSON.stringify(claims))
  }
  t.equal(outcome(check(withClaims({ exp: NOW_S }))), 'GW_TOKEN_EXPIRED expired')
  t.equal(outcome(check(withClaims({ exp: NOW_S + 1 }))), 'id-1')
  const twoDays = 172_800
  const patient = tokensAt(NOW_S, twoDays * 1000)
  t.equal(outcome(patient.check(withClaims({ iat: NOW_S, exp: NOW_S + twoDays }))), 'id-1')
  const tooLong = outcome(patient.check(withClaims({ iat: NOW_S, exp: NOW_S + twoDays + 1 })))
  t.equal(tooLong, 'GW_UNAUTHENTICATED lives-too-long')
})

t.test('a token is issued for the configured life or less, and a later one of its login keeps its end', async t => {
  const tokens = tokensAt(NOW_S + 0.9, 3_600_500)
  const { user } = identityOf()
  const read = (token: string) => tokens.check(token) as Identity
  const first = read(await tokens.issue(user, 4))
  t.match(first, { version: 4, issuedAt: NOW_S, expiresAt: NOW_S + 3600, authenticatedAt: NOW_S, subject: '7' })
  t.same(first.user, user)
  t.equal(first.addresses, undefined, 'no claim without networks')
  t.match(first.tokenId, /^[0-9a-f-]{36}$/)
  t.not(read(await tokens.issue(user, 4)).tokenId, first.tokenId)
  t.equal(tokens.signedBy(await tokens.issue(user, 4)), 0, 'by the present secret')
  t.equal(read(await tokens.issue(user, 4, { expiresAt: NOW_S + 60.9 })).expiresAt, NOW_S + 60)
  t.equal(read(await tokens.issue(user, 4, { expiresAt: NOW_S + 9999 })).expiresAt, NOW_S + 3600)
  t.same(read(await tokens.issue(user, 4, { addresses: ['10.0.0.0/8'] })).addresses, ['10.0.0.0/8'])
  t.equal(read(await tokens.issue(user, 4, { addresses: [] })).addresses, undefined)
  const later = createAccessTokens({
    secret: SECRET,
    previousSecrets: [],
    expiresInMs: 1,
    now: () => (NOW_S + 20.9) * 1000
  })
  t.match(read(await later.reissue(user, 5, first)), {
    tokenId: first.tokenId,
    version: 5,
    issuedAt: NOW_S + 20,
    expiresAt: NOW_S + 3600,
    authenticatedAt: NOW_S
  })
})

t.test('whether a person fits into a token is known before one is made, to the last character', async t => {
  const tokens = tokensAt(9_999_996_399)
  const personWith = (length: number) => ({ ...identityOf().user, areas: ['x'.repeat(length)] })
  for (const addresses of [[], ['192.0.2.0/24', '2001:db8::/32']]) {
    const issueFor = (length: number) => tokens.issue(personWith(length), 9_999_999_999, { addresses })
    let length = 5000
    while (length < 7000 && fitsToken(personWith(length + 1), { addresses })) length++
    const longest = await issueFor(length)
    t.equal(longest.length, 8192)
    t.equal(tokens.verify(longest).expiresAt, 9_999_999_999)
    t.equal(outcome(tokens.check(await issueFor(length + 1))), 'GW_UNAUTHENTICATED bad-signature')
  }
})

t.test('news of revocations merge in any order, and only what changes something is news', async t => {
  const revocations = createRevocations(() => NOW_S * 1000)
  let heard = 0
  revocations.onChange(() => heard++)
  const tokenState = (version: number, tokenId = 'x') => revocations.tokenState(identityOf({ version, tokenId }))
  t.equal(tokenState(0), 'valid')
  const learn = (userId: number, version: number, lowestAccepted: number) =>
    revocations.learn({ versions: [{ userId, version, lowestAccepted }] })
  learn(7, 5, 3)
  const states = [tokenState(2), tokenState(3), tokenState(4), tokenState(5), tokenState(6)]
  t.same(states, ['revoked', 'stale', 'stale', 'valid', 'valid'])
  learn(7, 4, 2)
  learn(7, 5, 3)
  learn(7, 5, 2)
  learn(7, 4, 3)
  t.same([revocations.epoch, heard], [1, 1])
  learn(7, 4, 4)
  t.same([tokenState(3), tokenState(4)], ['revoked', 'stale'])
  learn(7, 6, 1)
  t.same([tokenState(3), tokenState(5), tokenState(6)], ['revoked', 'stale', 'valid'])
  t.same([revocations.epoch, heard, revocations.size()], [3, 3, 1])
  const standingOf = (id: number) =>
    revocations.tokenState(identityOf({ version: 0, user: { ...identityOf().user, id } }))
  revocations.learn({
    versions: [
      { userId: 8, version: 0, lowestAccepted: 0 },
      { userId: 9, version: 1, lowestAccepted: 0 }
    ]
  })
  t.same([standingOf(8), standingOf(9)], ['valid', 'stale'], 'versions begin at 0')
  t.same([revocations.epoch, heard, revocations.size()], [4, 4, 3])

  revocations.learn({})
  t.same([tokenState(9, 'a'), revocations.epoch], ['valid', 4])
  revocations.learn({ tokens: [{ jti: 'a', expiresAt: NOW_S - 1 }] })
  revocations.learn({ tokens: [{ jti: 'a', expiresAt: NOW_S + 9 }] })
  t.same([tokenState(9, 'a'), tokenState(9, 'b'), revocations.epoch, revocations.size()], ['revoked', 'valid', 5, 4])

  const later = createRevocations()
  later.learn({
    tokens: [
      { jti: 'a', expiresAt: NOW_S + 1 },
      { jti: 'b', expiresAt: NOW_S + 2 }
    ]
  })
  later.purge(NOW_S + 1)
  t.equal(later.size(), 1)
  t.equal(later.tokenState(identityOf({ tokenId: 'b' })), 'revoked')
})

const OWNER: TokenOwner = {
  user: identityOf().user,
  version: 3,
  lowestAccepted: 2,
  disabled: false,
  confirmedAt: NOW_S
}
const TOKEN = `pt_${'a'.repeat(43)}`
const ROW: LiveToken = {
  id: 5,
  hash: hashPersonalToken(TOKEN),
  profiles: ['Agente', 'Admin'],
  version: 3,
  createdAt: NOW_S - 100,
  expiresAt: NOW_S + 100
}

const startPersonal = (row: Partial<LiveToken> = {}, owner: Partial<TokenOwner> = {}) => {
  const revocations = createRevocations()
  const tokens = createPersonalTokens({ revocations, confirmMs: 60_000, now: () => NOW_S * 1000 })
  tokens.learn([{ owner: { ...OWNER, ...owner }, tokens: [{ ...ROW, ...row }] }])
  return { tokens, revocations, check: (token = TOKEN) => outcome(tokens.check(token)) }
}

t.test('an access token acts for its owner with the profiles named, as long as both are in order', async t => {
  const { tokens } = startPersonal()
  t.same(tokens.check(TOKEN), {
    user: OWNER.user,
    subject: '7',
    tokenId: 'pt_5',
    version: 3,
    issuedAt: NOW_S - 100,
    expiresAt: NOW_S + 100,
    authenticatedAt: 0,
    kind: 'personal',
    profilesAtMost: ['Agente', 'Admin']
  })
  t.equal(tokens.check(TOKEN), tokens.check(TOKEN), 'one identity until the owner changes')
  const before = tokens.check(TOKEN)
  tokens.learn([{ owner: { ...OWNER, version: 4 }, tokens: [] }])
  t.not(tokens.check(TOKEN), before)
  t.match(tokens.check(TOKEN), { version: 4 })
  t.same((startPersonal({ profiles: ['Admin'] }).tokens.check(TOKEN) as Identity).user.profiles, [])
  t.equal(startPersonal({ expiresAt: NOW_S }).check(), 'GW_TOKEN_EXPIRED expired')
  t.equal(startPersonal({ expiresAt: NOW_S + 1 }).check(), 'pt_5')
  t.equal(startPersonal({ version: 1 }).check(), 'GW_TOKEN_REVOKED revoked')
  t.equal(startPersonal({ version: 2 }).check(), 'pt_5')
  t.equal(startPersonal({}, { disabled: true }).check(), 'GW_TOKEN_REVOKED revoked')
  t.equal(startPersonal({}, { confirmedAt: NOW_S - 60 }).check(), 'pt_5')
  t.equal(startPersonal({}, { confirmedAt: NOW_S - 61 }).check(), 'GW_LOGIN_REQUIRED owner-unconfirmed')
  const { check, revocations } = startPersonal()
  for (const token of ['pt_x', `${TOKEN}a`, `x${TOKEN}`, `pt_${'b'.repeat(43)}`, ''])
    t.equal(check(token), 'GW_UNAUTHENTICATED unknown-access-token', token)
  revocations.learn({ tokens: [{ jti: 'pt_5', expiresAt: NOW_S + 1000 }] })
  t.equal(check(), 'GW_TOKEN_REVOKED revoked')
  t.same([isPersonalToken('pt_x'), isPersonalToken('xpt_'), personalTokenId(3)], [true, false, 'pt_3'])
})

t.test('access tokens are forgotten when they are over, and their owners with the last one', async t => {
  const { tokens, revocations, check } = startPersonal()
  const other = `pt_${'b'.repeat(43)}`
  const later = { ...ROW, id: 6, hash: hashPersonalToken(other), expiresAt: NOW_S + 200 }
  tokens.learn([{ owner: OWNER, tokens: [later, { ...ROW, expiresAt: 0 }] }])
  t.equal(tokens.size(), 2, 'a token once known is not replaced')
  t.same([check(), check(other)], ['pt_5', 'pt_6'])
  t.same([tokens.isOwner(7), tokens.isOwner(8)], [true, false])

  const minute = Math.floor((NOW_S * 1000) / 60_000)
  t.same(tokens.usedSince(minute), [
    { personalToken: 5, usedAt: minute * 60_000 },
    { personalToken: 6, usedAt: minute * 60_000 }
  ])
  t.same(tokens.usedSince(minute + 1), [])
  t.same(startPersonal().tokens.usedSince(1), [], 'never used')

  tokens.purge(NOW_S + 99)
  t.equal(tokens.size(), 2)
  tokens.purge(NOW_S + 100)
  t.same([tokens.size(), tokens.isOwner(7), check()], [1, true, 'GW_UNAUTHENTICATED unknown-access-token'])
  t.equal(tokens.usedSince(minute).length, 1, 'the use of the other one is still known')
  revocations.learn({ tokens: [{ jti: 'pt_6', expiresAt: NOW_S + 1000 }] })
  tokens.purge(NOW_S + 100)
  t.same([tokens.size(), tokens.isOwner(7)], [0, false])
})

/** Any text is a good token, whose id is the text. */
const acceptingAll = (revocations: ReturnType<typeof createRevocations>) =>
  createVerifiedTokens({
    tokens: { check: text => identityOf({ tokenId: text, expiresAt: NOW_S + 10 }) },
    revocations,
    personalTokens: { check: () => identityOf(), usedSince: () => [] },
    now: () => NOW_S * 1000
  })

t.test('a token is verified once, and asked about anew whenever revocations change', async t => {
  const clock = { nowS: NOW_S }
  const revocations = createRevocations(() => clock.nowS * 1000)
  let checked = 0
  let asked = 0
  const { tokenState } = revocations
  revocations.tokenState = identity => {
    asked++
    return tokenState(identity)
  }
  const verified = createVerifiedTokens({
    tokens: {
      check: text => {
        checked++
        return text.startsWith('bad')
          ? new Unauthenticated({ reason: 'bad' })
          : identityOf({ expiresAt: NOW_S + 10, tokenId: text })
      }
    },
    revocations,
    personalTokens: {
      check: () => identityOf({ tokenId: 'personal' }),
      usedSince: () => [{ personalToken: 1, usedAt: 1 }]
    },
    now: () => clock.nowS * 1000,
    generation: 2
  })
  const ask = (token: string, allowStale = false) => outcome(verified.check(token, { allowStale }))
  t.same([ask('a.b.sig'), ask('a.b.sig'), checked], ['a.b.sig', 'a.b.sig', 1])
  t.equal(asked, 1)
  t.same([ask('c.d.sig'), checked], ['c.d.sig', 2], 'the same signature under another text')
  t.same([ask('a.b.sig'), checked], ['a.b.sig', 3])
  t.same([ask('bad.x.y'), ask('bad.x.y'), checked], ['GW_UNAUTHENTICATED bad', 'GW_UNAUTHENTICATED bad', 5])
  t.same(verified.counts(), { hits: 1, misses: 5, size: 1 })
  t.equal(ask('pt_x'), 'personal')
  t.match(verified.check('a.b.sig'), { tokenId: 'a.b.sig' })
  t.match(verified.check('bad.x.y'), { code: 'GW_UNAUTHENTICATED' })

  const minute = Math.floor((NOW_S * 1000) / 60_000)
  t.match(verified.usedSince(minute), [{ usedAt: 1 }, { identity: { tokenId: 'a.b.sig' }, usedAt: minute * 60_000 }])
  t.equal(verified.usedSince(minute + 1).length, 1)

  revocations.learn({ versions: [{ userId: 7, version: 4, lowestAccepted: 0 }] })
  t.equal(ask('a.b.sig'), 'GW_TOKEN_STALE stale')
  t.equal(ask('a.b.sig', true), 'a.b.sig')
  t.equal(outcome(verified.check('a.b.sig')), 'GW_TOKEN_STALE stale', 'stale may not pass unless that is said')
  revocations.learn({ tokens: [{ jti: 'a.b.sig', expiresAt: NOW_S + 99 }] })
  t.equal(ask('a.b.sig', true), 'GW_TOKEN_REVOKED revoked')
  clock.nowS = NOW_S + 10
  t.equal(ask('e.f.g'), 'GW_TOKEN_EXPIRED expired')
  t.same(verified.usedSince(1).length, 2, 'what was refused has not been used')
  const sizes = Array.from({ length: 20 }, (_, n) => {
    ask(`x.y.${n}`)
    return verified.counts().size
  })
  t.equal(Math.max(...sizes), 4, 'two generations of two')
  for (let n = 0; n < 20; n++) ask(`x.${'y'.repeat(8000)}.${n}`)
  t.equal(verified.counts().size, 2, 'long ones take the places of several')

  const revokedBefore = createRevocations(() => NOW_S * 1000)
  revokedBefore.learn({ tokens: [{ jti: 'first.seen.now', expiresAt: NOW_S + 99 }] })
  t.equal(outcome(acceptingAll(revokedBefore).check('first.seen.now')), 'GW_TOKEN_REVOKED revoked')
})

t.test('30,000 tokens that are used in turn are verified once each', async t => {
  const verified = acceptingAll(createRevocations(() => NOW_S * 1000))
  for (let n = 0; n < 60_000; n++) verified.check(`x.y.${n % 30_000}`)
  t.same(verified.counts(), { hits: 30_000, misses: 30_000, size: 30_000 })
})

t.test('uses are written a thousand at a time, those of a minute once it is over, again if that failed', async t => {
  const clock = { minute: 100 }
  const asked: number[] = []
  const written: number[] = []
  const warned: unknown[] = []
  let isAway = false
  const uses = createTokenUses({
    usedSince(minute) {
      asked.push(minute)
      return Array.from({ length: 2001 }, (_, n) => ({ personalToken: n, usedAt: 0 }))
    },
    async record(some) {
      if (isAway) throw new Error('away')
      written.push(some.length)
    },
    log: { warn: (fields: { reason: string }) => void warned.push(fields.reason) },
    now: () => clock.minute * 60_000 + 59_999
  })
  await uses.flush()
  clock.minute++
  isAway = true
  await uses.flush()
  isAway = false
  await Promise.all([uses.flush(), uses.flush()])
  await uses.close()
  t.same(asked, [1, 100, 100, 101, 101], 'first all that has been used at all')
  t.same(written, Array.from({ length: 4 }, () => [1000, 1000, 1]).flat())
  t.same(warned, ['token-uses-unwritten'])
})

t.test('uses are written in the minute after them also when the clock has been set back', async t => {
  let minute = 100
  const asked: number[] = []
  const uses = createTokenUses({
    usedSince(from) {
      asked.push(from)
      return []
    },
    record: async () => undefined,
    log: quiet,
    now: () => minute * 60_000
  })
  await uses.flush()
  minute = 40
  await uses.flush()
  minute++
  await uses.flush()
  await uses.close()
  t.same(asked, [1, 39, 40, 41])
})

t.test('a token bound to networks counts from nowhere else', async t => {
  for (const [blocks, address, passes] of [
    [undefined, '192.0.2.1', true],
    [[], '192.0.2.1', true],
    [['192.0.2.0/24'], '192.0.2.1', true],
    [['198.51.100.0/24', '192.0.2.1'], '192.0.2.1', true],
    [['198.51.100.0/24'], '192.0.2.1', false],
    [['2001:db8::/32'], '2001:db8::1', true],
    [['0.0.0.0/0'], 'unknown', false],
    [['nonsense'], '192.0.2.1', false]
  ] as const) {
    t.equal(mayComeFrom(blocks, address), passes, `${blocks} ${address}`)
    if (blocks !== undefined) t.equal(mayComeFrom(blocks, address), passes, 'the second time too')
  }
})

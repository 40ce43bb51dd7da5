// Which logins go on, for how long, under which secret, and what a fail-over of the database ends or does not. JW-10
import t from 'tap'
import type { GatewayError } from '../../gateway/errors.ts'
import type { Identity } from '../../gateway/identity.ts'
import { createAccessTokens, fitsToken } from '../../gateway/tokens/access-token.ts'
import { createPersonalTokens, hashPersonalToken } from '../../gateway/tokens/personal-tokens.ts'
import { createRenewLogin } from '../../gateway/tokens/renew-login.ts'
import { startRevocationFeed } from '../../gateway/tokens/revocation-feed.ts'
import { createRevocations, type Lost } from '../../gateway/tokens/revocations.ts'
import { atOnce } from '../../gateway/values/in-parts.ts'
import { identityOf } from '../support/exchanges.ts'
import { quiet } from '../support/quiet.ts'

const NOW_S = 1_700_000_000
const HOUR = 3600
const { user } = identityOf()

const tokensWith = ([secret = '', ...previousSecrets]: readonly string[], sessionMaxMs?: number) =>
  createAccessTokens({
    secret,
    previousSecrets,
    expiresInMs: HOUR * 1000,
    now: () => NOW_S * 1000,
    ...(sessionMaxMs === undefined ? {} : { sessionMaxMs })
  })

const ENDS: readonly [
  title: string,
  login: Partial<Identity>,
  exp: number,
  authenticated: number,
  renews: number,
  ends: number
][] = [
  ['a whole life again', { authenticatedAt: -2 * HOUR }, HOUR, -2 * HOUR, -HOUR / 2 + 10, 6 * HOUR],
  ['up to the end of the session', { authenticatedAt: -7.5 * HOUR }, HOUR / 2, -7.5 * HOUR, -HOUR / 2 + 10, HOUR / 2],
  ['to its last second', { authenticatedAt: -8 * HOUR + 1, expiresAt: 0 }, 1, -8 * HOUR + 1, -HOUR / 2 + 5, 1],
  [
    'counted from its issue, which does not move',
    { authenticatedAt: -NOW_S },
    HOUR,
    10 - HOUR,
    -HOUR / 2 + 10,
    7 * HOUR + 10
  ],
  ['not a service account', { kind: 'client', authenticatedAt: -HOUR }, 10, -HOUR, Number.POSITIVE_INFINITY, 10],
  [
    'no renewal at the end of the session',
    { authenticatedAt: 10 - 8 * HOUR },
    10,
    10 - 8 * HOUR,
    Number.POSITIVE_INFINITY,
    10
  ],
  [
    'a token that outlives SESSION_MAX',
    { authenticatedAt: -7 * HOUR, expiresAt: 2 * HOUR },
    HOUR,
    -7 * HOUR,
    Number.POSITIVE_INFINITY,
    2 * HOUR
  ]
]

t.test('a login goes on for a life at a time, never beyond SESSION_MAX', async t => {
  const tokens = tokensWith(['x'], 8 * HOUR * 1000)
  /** Times from now on, in seconds. */
  const loginOf = ({ issuedAt = 10 - HOUR, expiresAt = 10, authenticatedAt = 0, ...more }: Partial<Identity>) =>
    identityOf({
      issuedAt: NOW_S + issuedAt,
      expiresAt: NOW_S + expiresAt,
      authenticatedAt: NOW_S + authenticatedAt,
      host: 'a.example',
      ...more
    })
  for (const [title, parts, expiresAt, authenticatedAt, renewsAt, endsAt] of ENDS) {
    const login = loginOf(parts)
    t.match(
      tokens.verify(await tokens.reissue(user, 9, login)),
      {
        tokenId: login.tokenId,
        version: 9,
        expiresAt: NOW_S + expiresAt,
        authenticatedAt: NOW_S + authenticatedAt,
        host: 'a.example'
      },
      title
    )
    t.same([tokens.renewsAt(login) - NOW_S, tokens.endsAt(login) - NOW_S], [renewsAt, endsAt], title)
  }
  const over = loginOf({ authenticatedAt: -8 * HOUR })
  await t.rejects(tokens.reissue(user, 9, over), { code: 'GW_TOKEN_EXPIRED', reason: 'session-max' })
  const [without, login] = [tokensWith(['x']), loginOf({ authenticatedAt: -HOUR })]
  t.match(without.verify(await without.reissue(user, 9, login)), {
    expiresAt: NOW_S + 10,
    authenticatedAt: NOW_S - HOUR,
    host: 'a.example'
  })
  t.same([without.renewsAt(login), without.endsAt(login)], [Number.POSITIVE_INFINITY, NOW_S + 10])
})

t.test('a login is renewed for the same person while neither has ended', async t => {
  const login = identityOf({ version: 3, expiresAt: NOW_S + 10, host: 'a.example' })
  const tokens = tokensWith(['x'])
  const later = { ...login, expiresAt: NOW_S + 20 }
  const found = { user, version: 5, lowestAcceptedVersion: 3, disabled: false }
  const renew = async (person: typeof found | undefined, identity = later, goesOn = true, old: Identity = login) => {
    const asked: number[] = []
    const renewed = await createRenewLogin({
      tokens: { reissue: tokens.reissue, verify: () => identity },
      loadPerson: async () => person,
      async prolongLogin(_, expiresAt) {
        asked.push(expiresAt - NOW_S)
        return goesOn
      }
    })(old).then(
      () => 'renewed',
      ({ code, reason }: GatewayError) => `${code} ${reason}`
    )
    return [renewed, ...asked].join(' ')
  }
  t.equal(await renew(found), 'renewed 20')
  t.equal(await renew(found, login), 'renewed', 'its end is stored only if it is a later one')
  t.equal(await renew(found, later, false), 'GW_TOKEN_REVOKED revoked 20')
  t.equal(await renew(undefined), 'GW_UNAUTHENTICATED person-unknown')
  for (const other of [{ username: 'ana' }, { provider: 'cloudidp' as const }])
    t.equal(await renew({ ...found, user: { ...user, ...other } }), 'GW_UNAUTHENTICATED person-unknown')
  t.equal(await renew({ ...found, disabled: true }), 'GW_TOKEN_REVOKED person-revoked')
  t.equal(await renew({ ...found, lowestAcceptedVersion: 4 }), 'GW_TOKEN_REVOKED person-revoked')
  for (const kind of ['client', 'personal'] as const)
    t.equal(await renew(found, later, true, { ...login, kind }), 'GW_FORBIDDEN token-kind')
  let length = 5000
  while (fitsToken({ ...user, areas: ['x'.repeat(length)] })) length++
  const tall = { ...user, areas: ['x'.repeat(length - 1)] }
  t.equal(await renew({ ...found, user: tall }), 'GW_UNAUTHENTICATED token-too-long', 'with its host it is')
})

// RV-100 RV-101
t.test('what a fail-over has lost stays ended, what was issued after it is good', async t => {
  let nowS = NOW_S
  const revocations = createRevocations(() => nowS * 1000)
  const heard: unknown[] = []
  revocations.onChange(changed => heard.push(changed))
  const state = (version: number, issuedAt: number, id = 7) =>
    revocations.tokenState(identityOf({ version, issuedAt, user: { ...user, id } }))
  const tokens = [
    { jti: 'lost', expiresAt: NOW_S + 100 },
    { jti: 'kept', expiresAt: NOW_S + 100 },
    { jti: 'over', expiresAt: NOW_S + 1 }
  ]
  const versions = [
    { userId: 7, version: 5, lowestAccepted: 4 },
    { userId: 8, version: 2, lowestAccepted: 1 },
    { userId: 9, version: 1, lowestAccepted: 0 },
    { userId: 10, version: 1, lowestAccepted: 1 }
  ]
  revocations.learn({ tokens, versions })
  nowS += 1
  const found = {
    tokens: [{ jti: 'kept', expiresAt: NOW_S + 100 }],
    versions: [
      { userId: 7, version: 3, lowestAccepted: 3 },
      { userId: 8, version: 2, lowestAccepted: 0 },
      { userId: 9, version: 1, lowestAccepted: 0 }
    ],
    nowS
  }
  const lost = atOnce(revocations.missingFrom(found))
  const ids = [lost.tokens.map(({ jti }) => jti), lost.people.map(({ userId }) => userId)]
  t.same(ids, [['lost'], [7, 8, 10]], 'what has expired, or is known there too, is not lost')
  revocations.learn({ versions: [{ userId: 10, version: 9, lowestAccepted: 9 }] })
  atOnce(revocations.replace(found, lost))
  t.same([revocations.isRevoked('lost'), revocations.isRevoked('kept')], [true, true])
  t.same([state(3, NOW_S), state(4, NOW_S), state(3, NOW_S + 1)], ['revoked', 'stale', 'valid'])
  t.same([state(0, NOW_S, 8), state(2, NOW_S + 1, 8)], ['revoked', 'valid'], 'of a person who has changed since')
  t.equal(state(8, NOW_S + 9, 10), 'revoked', 'heard after the state was read')
  t.equal(state(1, NOW_S, 9), 'valid', 'of whom nothing was lost')
  t.same(new Set(heard.at(-1) as string[]), new Set(['lost', 'kept', 'over', 7, 8, 9, 10]))
  const { epoch } = revocations
  revocations.learn({ lost: [{ userId: 7, lowestAccepted: 2, receivedAt: NOW_S - 1 }] })
  t.equal(revocations.epoch, epoch, 'less than what is known')
  revocations.learn({ lost: [{ userId: 7, lowestAccepted: 0, receivedAt: NOW_S + 5 }] })
  t.same([state(3, NOW_S + 5), state(4, NOW_S + 5), state(3, NOW_S + 6)], ['revoked', 'stale', 'valid'])
  t.equal(revocations.epoch, epoch + 1, 'which is news')
  revocations.learn({ lost: [{ userId: 7, lowestAccepted: 6, receivedAt: NOW_S }] })
  t.equal(state(5, NOW_S + 5), 'revoked', 'lost earlier, and of more')
})

// RV-100 RV-101
t.test('a later complete state is another server: what it lacks is written back, its tokens count', async t => {
  const revocations = createRevocations()
  const personalTokens = createPersonalTokens({ revocations, confirmMs: 1e12 })
  const expiresAt = Date.now() / 1000 + HOUR
  const [gone, kept] = ['a', 'b'].map(letter => `pt_${letter.repeat(43)}`) as [string, string]
  const owner = { user, version: 0, lowestAccepted: 0, disabled: false, confirmedAt: expiresAt }
  const rowOf = (text: string, id: number) => ({
    id,
    hash: hashPersonalToken(text),
    profiles: [],
    version: 0,
    createdAt: 0,
    expiresAt
  })
  const rows = [rowOf(gone, 1), rowOf(kept, 2)]
  const read = { tokens: [], versions: [], cursor: '1', at: Date.now(), nowS: 0, complete: true }
  const restored: Lost[] = []
  const warned: unknown[] = []
  const asked: (string | undefined)[] = []
  const feed = await startRevocationFeed({
    source: {
      loadRevocations: async () => read,
      changesSince: async () => ({ ...read, cursor: '2' }),
      async readLiveTokens(cursor, learn) {
        asked.push(cursor)
        learn([{ owner, tokens: [...rows] }])
      },
      async restore(lost) {
        restored.push(lost)
        if (restored.length === 1) throw new Error('the new server is not there yet')
      },
      purgeExpired: async () => undefined,
      listen: () => ({ close: async () => undefined })
    },
    revocations,
    personalTokens,
    log: { ...quiet, warn: (fields: unknown) => void warned.push((fields as { reason: string }).reason) },
    pollMs: 3_600_000
  })
  t.teardown(() => feed.close())
  t.same([personalTokens.isLive(gone), personalTokens.isLive(kept)], [true, true])
  rows.shift()
  revocations.learn({ tokens: [{ jti: 'x', expiresAt }], versions: [{ userId: 7, version: 2, lowestAccepted: 0 }] })
  await feed.catchUp()
  t.equal(personalTokens.isLive(gone), true, 'nothing is believed before what it lacks is written back')
  await feed.catchUp()
  t.match(restored, [{ tokens: [{ jti: 'x' }], people: [{ userId: 7 }] }, { tokens: [{ jti: 'x' }] }])
  t.same(warned, ['revocations-unreadable', 'revocations-restored'])
  t.same(asked, [undefined, undefined])
  t.same([personalTokens.isLive(gone), personalTokens.isLive(kept), revocations.isRevoked('x')], [false, true, true])
})

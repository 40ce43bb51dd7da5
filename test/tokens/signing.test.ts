// Which keys sign, who can open them, and what they and the keys of others vouch for: at every turn of their lives.
import { createPublicKey, verify } from 'node:crypto'
import t from 'tap'
import { createAssertions } from '../../gateway/tokens/assertions.ts'
import { reseal, type Sealed, seal, sealingSecret, unseal } from '../../gateway/tokens/sealed-keys.ts'
import { areForeign, planKeys, type SigningKeyRow, signerAmong } from '../../gateway/tokens/signing-keys.ts'
import { identityOf } from '../support/exchanges.ts'
import { only } from '../support/only.ts'

const [A, B] = [sealingSecret('first secret'), sealingSecret('second secret')]
const NOW_S = 1_700_000_000
const HOUR_S = 3600

t.test('a sealed key opens under its secret, for its id, and whole', async t => {
  t.match(A.id, /^[A-Za-z0-9_-]{12}$/)
  t.equal(A.key.length, 32)
  t.same(sealingSecret('first secret'), A)
  t.equal(A.id, 'UCw81r54PA0O', 'as in every release, or stored keys would be lost')
  t.equal(A.key.toString('hex'), 'bbec44cb9466620978f9caf250875bfdc9a3d6946532a45bb9ec75dd0847b89c')
  t.not(A.id, B.id)
  const sealed = seal([A, B], 'kid', 'the text', NOW_S)
  t.same(Object.keys(sealed), [A.id, B.id])
  t.equal(sealed[A.id]?.namedAt, NOW_S)
  t.equal(Buffer.from(sealed[A.id]?.box ?? '', 'base64url').length, 12 + 16 + 'the text'.length)
  t.not(seal([A], 'kid', 'the text', NOW_S)[A.id]?.box, sealed[A.id]?.box, 'a nonce of its own')
  t.equal(unseal([A], 'kid', sealed), 'the text')
  t.equal(unseal([sealingSecret('third'), B], 'kid', sealed), 'the text')
  t.equal(unseal([A], 'other', sealed), undefined)
  t.equal(unseal([], 'kid', sealed), undefined)
  const copyOf = (box: string): Sealed => ({ [A.id]: { box, namedAt: NOW_S } })
  t.equal(unseal([A], 'kid', copyOf(sealed[B.id]?.box ?? '')), undefined, 'of another secret')
  t.equal(unseal([A], 'kid', copyOf('')), undefined)
  const empty = Buffer.from(seal([A], 'kid', '', NOW_S)[A.id]?.box ?? '', 'base64url')
  t.equal(unseal([A], 'kid', copyOf(empty.toString('base64url'))), '')
  const cut = copyOf(empty.subarray(0, -4).toString('base64url'))
  t.equal(unseal([A], 'kid', cut), undefined, 'with a part of its tag')
  for (const at of [0, 12, 28]) {
    const box = Buffer.from(sealed[A.id]?.box ?? '', 'base64url')
    box[at] = (box[at] ?? 0) ^ 1
    t.equal(unseal([A], 'kid', copyOf(box.toString('base64url'))), undefined, `byte ${at} changed`)
  }
})

t.test('copies are renewed for the secrets that are named, and dropped for those that are not any more', async t => {
  const both = seal([A, B], 'kid', 'x', NOW_S)
  const again = (secrets: Parameters<typeof reseal>[0], sealed: Sealed, nowS: number) => {
    const better = reseal(secrets, 'kid', sealed, nowS)
    return better === undefined ? undefined : Object.entries(better).map(([id, { namedAt }]) => [id, namedAt - NOW_S])
  }
  t.equal(again([A, B], both, NOW_S + 600), undefined)
  t.same(again([A, B], both, NOW_S + 601), [
    [A.id, 601],
    [B.id, 601]
  ])
  t.same(
    again([A], both, NOW_S + 601),
    [
      [B.id, 0],
      [A.id, 601]
    ],
    'B may still be named elsewhere'
  )
  t.equal(again([A], both, NOW_S + 600), undefined)
  const freshA = { ...both, ...seal([A], 'kid', 'x', NOW_S + HOUR_S) }
  t.equal(again([A], freshA, NOW_S + HOUR_S), undefined)
  t.same(again([A], freshA, NOW_S + HOUR_S + 1), [[A.id, HOUR_S + 1]], 'unnamed for over an hour')
  t.same(
    again([A, B], seal([A], 'kid', 'x', NOW_S), NOW_S),
    [
      [A.id, 0],
      [B.id, 0]
    ],
    'a new secret gets its copy at once'
  )
  t.equal(again([B], seal([A], 'kid', 'x', NOW_S), NOW_S), undefined, 'what cannot be opened stays as it is')
})

const plan = (rows: readonly SigningKeyRow[], options: Partial<Parameters<typeof planKeys>[1]> = {}) =>
  planKeys(rows, { secrets: [A], rotationS: 1000, nowS: NOW_S, isStart: true, ...options })
const keyAt = (signsFrom: number, setAsideAt = 0, secrets = [A]): SigningKeyRow => {
  const [row] = planKeys([], { secrets, rotationS: 1, nowS: NOW_S, isStart: true }).add
  return { ...(row as SigningKeyRow), signsFrom, setAsideAt }
}

t.test('the first key signs at once, the next is published before it signs', async t => {
  const first = plan([])
  t.equal(first.add.length, 1)
  t.match(first.add[0], {
    signsFrom: NOW_S,
    setAsideAt: 0,
    publicJwk: { kty: 'EC', crv: 'P-256', alg: 'ES256', use: 'sig' }
  })
  t.match(first.add[0]?.kid, /^[A-Za-z0-9_-]{43}$/)
  t.equal(first.add[0]?.publicJwk.kid, first.add[0]?.kid)
  t.notOk('d' in (first.add[0]?.publicJwk ?? {}), 'nothing private is published')
  t.same([first.reseal, first.setAside, first.remove], [[], [], []])

  t.same(plan([keyAt(NOW_S - 1000)]).add, [])
  t.match(plan([keyAt(NOW_S - 1001)]).add, [{ signsFrom: NOW_S + 600 }])
  t.match(plan([keyAt(NOW_S)], { rotate: true }).add, [{ signsFrom: NOW_S + 600 }])
  t.same(plan([keyAt(NOW_S - 5000), keyAt(NOW_S)]).add, [], 'the newest counts')
  const due = keyAt(NOW_S)
  const resealed = plan([due], { nowS: NOW_S + 601, rotationS: 9999 }).reseal.map(({ kid }) => kid)
  t.same(resealed, [due.kid])
  t.same(plan([due]), { add: [], reseal: [], setAside: [], remove: [] })
})

t.test('a key that no secret opens is set aside at a start, and one that is over is removed', async t => {
  const [closed, open] = [keyAt(NOW_S - 10, 0, [B]), keyAt(NOW_S - 20)]
  t.match(plan([closed, open]), { setAside: only(closed.kid), add: only(), remove: only() })
  t.match(plan([closed]), { setAside: only(closed.kid), add: [{ signsFrom: NOW_S }] })
  const later = plan([closed], { isStart: false })
  t.same(later, { add: [], reseal: [], setAside: [], remove: [] }, 'others may still open it')

  const removed = (rows: readonly SigningKeyRow[]) =>
    plan(rows, { rotationS: 1e9 }).remove.map(kid => rows.findIndex(row => row.kid === kid))
  t.same(removed([keyAt(0)]), [], 'the only key stays, whatever its age')
  t.same(removed([keyAt(0), keyAt(NOW_S - HOUR_S)]), [])
  t.same(removed([keyAt(0), keyAt(NOW_S - HOUR_S - 1)]), [0])
  t.same(removed([keyAt(0), keyAt(NOW_S - 9 * HOUR_S), keyAt(NOW_S)]), [0], 'its own successor counts')
  t.same(removed([keyAt(NOW_S, NOW_S - 24 * HOUR_S), keyAt(NOW_S)]), [])
  t.same(removed([keyAt(NOW_S, NOW_S - 24 * HOUR_S - 1), keyAt(NOW_S)]), [0])
  t.same(removed([keyAt(0), keyAt(NOW_S - 9 * HOUR_S, NOW_S)]), [], 'one that was set aside succeeds nobody')
})

// RV-78
t.test('a key that no secret here opens removes no other, and is set aside once no instance names it', async t => {
  const [own, foreign] = [keyAt(NOW_S - 10), keyAt(NOW_S + 600, 0, [B])]
  const at = (nowS: number, rows: readonly SigningKeyRow[], isStart = false) =>
    plan(rows, { nowS, isStart, rotationS: 1e9 })
  for (const minutes of [0, 1, 59, 71, 60 * 24]) {
    const { remove, setAside, add } = at(NOW_S + minutes * 60, [own, foreign])
    const isAbandoned = minutes * 60 > HOUR_S
    t.same([remove, setAside, add], [[], isAbandoned ? [foreign.kid] : [], []], `${minutes} minutes later`)
  }
  const aside = { ...foreign, setAsideAt: NOW_S + 71 * 60 }
  t.same(at(NOW_S + 24 * HOUR_S, [own, aside]).remove, [])
  t.same(at(NOW_S + 26 * HOUR_S, [own, aside]).remove, [foreign.kid])

  // A gateway with other secrets has started: each goes on with a key of its own, and neither touches the other's.
  const wronged = { ...own, setAsideAt: NOW_S }
  const [anew] = at(NOW_S + 60, [wronged, foreign]).add
  t.match(anew, { signsFrom: NOW_S + 60 })
  t.same(at(NOW_S + 120, [wronged, foreign, anew as SigningKeyRow]), { add: [], reseal: [], setAside: [], remove: [] })
  const others = { secrets: [B], isStart: false, nowS: NOW_S + 120, rotationS: 1e9 }
  t.match(planKeys([wronged, foreign, anew as SigningKeyRow], others), {
    add: only(),
    setAside: only(),
    remove: only()
  })
})

t.test('keys in use of which none opens are those of another gateway', async t => {
  const [own, foreign] = [keyAt(NOW_S), keyAt(NOW_S, 0, [B])]
  for (const [rows, expected] of [
    [[], false],
    [[own], false],
    [[own, foreign], false],
    [[foreign], true],
    [[foreign, keyAt(NOW_S, 1)], true],
    [[keyAt(NOW_S, 1, [B])], false]
  ] as const)
    t.equal(areForeign(rows, [A]), expected)
})

t.test('the newest key whose time has come signs, one that was set aside only when there is no other', async t => {
  const [old, now, next] = [keyAt(NOW_S - 10), keyAt(NOW_S), keyAt(NOW_S + 1)]
  const signer = (...rows: SigningKeyRow[]) => signerAmong(rows, [A], NOW_S)?.kid
  t.equal(signer(old, now, next), now.kid)
  t.equal(signer(now, old), now.kid)
  t.equal(signer(keyAt(NOW_S + 2), next), next.kid, 'the clock has been set back since the first was created')
  t.equal(signer(keyAt(NOW_S, 0, [B]), old), old.kid)
  t.equal(signer({ ...now, setAsideAt: 5 }, old), old.kid)
  t.equal(signer(old, { ...now, setAsideAt: 5 }), old.kid)
  t.equal(signer({ ...now, setAsideAt: 5 }), now.kid)
  t.equal(signer({ ...now, setAsideAt: 5 }, { ...old, setAsideAt: 6 }), now.kid)
  t.match(signerAmong([old], [A], NOW_S)?.privateJwk, { kty: 'EC', crv: 'P-256' })
})

t.test('an assertion from before the machine was suspended, or a clock was set, is not sent any more', t => {
  const assertions = createAssertions({ issuer: 'https://gw.example', secrets: [A], clock: () => 5000 })
  const identity = identityOf({ expiresAt: NOW_S + 10_000 })
  const key = keyAt(NOW_S - 2 * HOUR_S)
  for (const nowS of [NOW_S, NOW_S + HOUR_S, NOW_S - HOUR_S]) {
    assertions.learn([key], nowS)
    const [, payload = ''] = assertions.lineFor(identity, 'orders').split('.')
    t.equal(JSON.parse(Buffer.from(payload, 'base64url').toString()).iat, nowS - 5)
  }
  t.end()
})

t.test('an assertion is made once per token and upstream, renewed in time, and by the key that signs now', async t => {
  const clock = { ms: 5000 }
  const assertions = createAssertions({ issuer: 'https://gw.example', secrets: [A], clock: () => clock.ms })
  const identity = identityOf({ expiresAt: NOW_S + 10_000 })
  t.equal(assertions.lineFor(identity, 'orders'), '', 'no key yet')
  const [old, next] = [keyAt(NOW_S - 10), keyAt(NOW_S + 50)]
  assertions.learn([old], NOW_S + 0.5)
  t.same(assertions.publicKeys(), [old.publicJwk])

  const read = (line: string, { publicJwk }: SigningKeyRow) => {
    t.match(line, /^x-user-assertion: [\w-]+\.[\w-]+\.[\w-]+\r\n$/)
    const [header = '', payload = '', signature = ''] = line.slice('x-user-assertion: '.length, -2).split('.')
    const key = createPublicKey({ key: publicJwk, format: 'jwk' })
    const bytes = Buffer.from(signature, 'base64url')
    t.ok(verify('sha256', Buffer.from(`${header}.${payload}`), { key, dsaEncoding: 'ieee-p1363' }, bytes))
    t.same(JSON.parse(Buffer.from(header, 'base64url').toString()), { alg: 'ES256', typ: 'JWT', kid: publicJwk.kid })
    return JSON.parse(Buffer.from(payload, 'base64url').toString())
  }
  const first = assertions.lineFor(identity, 'orders')
  const { id: _id, ...person } = identity.user
  t.same(read(first, old), {
    ...person,
    sub: '7',
    iss: 'https://gw.example',
    aud: 'orders',
    iat: NOW_S - 5,
    exp: NOW_S + 295
  })
  t.equal(assertions.lineFor(identity, 'orders'), first)
  t.equal(read(assertions.lineFor(identity, 'stock'), old).aud, 'stock')
  t.not(assertions.lineFor(identityOf({ expiresAt: NOW_S + 10_000, subject: '7' }), 'orders'), '')
  clock.ms += 174_999
  t.equal(assertions.lineFor(identity, 'orders'), first)
  clock.ms += 1
  const second = assertions.lineFor(identity, 'orders')
  t.match(read(second, old), { iat: NOW_S + 175 - 5, exp: NOW_S + 470 })

  const short = identityOf({ expiresAt: NOW_S + 181 })
  const ending = assertions.lineFor(short, 'orders')
  t.equal(read(ending, old).exp, NOW_S + 181, 'no later than the token')
  clock.ms += 999
  t.equal(assertions.lineFor(short, 'orders'), ending, 'kept for a second at least')
  clock.ms += 1
  t.not(assertions.lineFor(short, 'orders'), ending)

  clock.ms += 1e9
  assertions.learn([old, next], NOW_S + 49)
  t.equal(assertions.publicKeys().length, 2, 'published before it signs')
  t.equal(read(assertions.lineFor(identity, 'stock'), old).iat, NOW_S + 44)
  assertions.learn([old, next], NOW_S + 51)
  t.equal(read(assertions.lineFor(identity, 'orders'), next).iat, NOW_S + 46)
  assertions.learn([], NOW_S + 52)
  t.not(assertions.lineFor(identity, 'orders'), '', 'the last key signs until another does')

  const onMachine = createAssertions({ issuer: 'https://gw.example', secrets: [A] })
  onMachine.learn([old], NOW_S)
  const { iat } = read(onMachine.lineFor(identity, 'orders'), old)
  t.ok(iat >= NOW_S - 5 && iat < NOW_S + 60, 'by a clock of its own, set by the database')
})

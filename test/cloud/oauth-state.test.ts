// A state is accepted as it was made, until it is too old, and in no other spelling.
import { createHmac, randomBytes } from 'node:crypto'
import t from 'tap'
import { beginAttempt, findAttempt, signState, verifyState } from '../../gateway/cloud/attempts.ts'
import { linkWithoutIssuer } from '../../gateway/cloud/person.ts'
import { fc } from '../support/worlds.ts'

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
  for (const [fromOwnPage, again] of [
    [false, false],
    [true, false],
    [false, true],
    [true, true]
  ] as const) {
    const { attempt, setCookies } = beginAttempt('other=1; =x; portaria oauth=1', { fromOwnPage, again }, NOW, attempts)
    t.equal(setCookies.length, 1, 'nothing is removed')
    const [cookie = ''] = (setCookies[0] ?? '').split(';')
    const [name = '', value = ''] = cookie.split('=')
    const state = verifyState(attempt.state, NOW, options)
    if (typeof state === 'string') return t.fail(state)
    const find = (header: string) => findAttempt(header, attempt.state, state, attempts)
    t.same(find(`a=b; ${cookie}`), attempt)
    t.match(attempt, { fromOwnPage, againSince: again ? NOW : undefined })
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
    [undefined, 'o'],
    ['t-1', 5]
  ])
    t.equal(link(tid, oid), undefined)
})

// The one spelling in which a path is matched and forwarded, and everything that is refused instead of repaired.
import t from 'tap'
import { canonicalPath, isDottedPath, isPlainPath, splitTarget } from '../../gateway/routes/canonical-path.ts'
import { measureWork } from '../support/own-time.ts'
import { words } from '../support/words.ts'
import { fc } from '../support/worlds.ts'

t.test('a path without anything unusual stays as it came', async t => {
  for (const path of words`/ /api/orders/7 /api/orders/ /.well-known/x /a..b/..c /A/B.c /!$&'()*+,=:@-._~`)
    t.same(canonicalPath(path), { path })
})

t.test('unreserved characters are decoded once and other escapes are written in upper case', async t => {
  t.same(canonicalPath('/%61pi/%7Euser/%2d%5F%2E%30'), { path: '/api/~user/-_.0' })
  t.same(canonicalPath('/caf%c3%a9/%40x/%2bx/a%20b'), { path: '/caf%C3%A9/%40x/%2Bx/a%20b' })
})

t.test('an escaped percent sign is data unless two hexadecimal digits follow it', async t => {
  for (const path of ['/%254', '/%25/4', '/%254g', '/a%25']) t.same(canonicalPath(path), { path }, path)
  t.same(canonicalPath('/%2541'), { refusal: 'double-encoding' })
})

// RT-21: look-alikes are data; nothing folds them.
t.test('encoded look-alikes of slashes and dots are kept as they are', async t => {
  for (const path of ['/x%EF%BC%8Fy', '/%E2%88%95', '/%EF%BC%8E%EF%BC%8E/x']) t.same(canonicalPath(path), { path })
})

// RT-01…10, RT-14, RT-15, RT-19, RT-21
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  'dot-segment': words`
    /api/./admin /api/%2e/admin /api/%2E/admin /api/.. /api/. /public/../admin /public/%2e%2e/admin
    /public/.%2e/admin /public/%20../admin /public/..%20/x /public/..%E2%80%8B/x /..%23/x /..%3F
  `,
  backslash: ['/api/.\\admin', '/api/\\admin', '/api/admin%5cx', '/api/admin%5Cx', '/\\evil.example/x', '/..%5cadmin'],
  'double-slash': ['//api/admin', '/api//admin', '/api/admin//', '///', '//'],
  'encoded-slash': ['/api/admin%2fx', '/api%2Fadmin', '/api/x%2f..%2fadmin', '/..%2f..%2fetc'],
  'double-encoding': ['/%252e%252e/x', '/api/%2561dmin', '/api/admin%252fx', '/%25252e', '/%25%34%31', '/%25%32%65'],
  semicolon: ['/api/admin;a=b/x', '/api/;a/admin', '/api/.;/admin', '/api/admin%3ba/x', '/..;/admin'],
  'control-character': ['/admin%00/x', '/%09admin', '/x%0d%0aX-Inj:1', '/x%7f', '/x\x7f', '/x\ty', '/%c2%85x', '/%1F'],
  fragment: ['/api/private#/public', '/admin#x', '/#/admin'],
  'percent-encoding': ['/api/%zz', '/api/%', '/api/%4', '/%u0061', '/%%34%31', '/%2%35'],
  'utf-8': ['/%c0%ae%c0%ae/x', '/%ff', '/%e0%80%af', '/%ed%a0%80', '/%c3', '/%f4%90%80%80'],
  'raw-character': ['/caf\u00e9', '/a b', '/\u2215', '/a?b'],
  'not-absolute': ['', '*', 'admin/x', 'http://evil.example/x', '%2Fx']
}
for (const [reason, paths] of Object.entries(REFUSED)) {
  t.test(`a path is refused for ${reason}`, async t => {
    for (const path of paths) t.same(canonicalPath(path), { refusal: reason }, JSON.stringify(path))
  })
}

t.test('an exception permits what it names and nothing else', async t => {
  t.same(canonicalPath('/npm/@s%2fname', ['encodedSlash']), { path: '/npm/@s%2Fname' })
  t.same(canonicalPath('/x;v=1/y', ['semicolon']), { path: '/x;v=1/y' })
  t.same(canonicalPath('/x//y', ['doubleSlash']), { path: '/x//y' })
  t.same(canonicalPath('/x;v/y', ['encodedSlash', 'doubleSlash']), { refusal: 'semicolon' })
  t.same(canonicalPath('/x/%2Fy', ['encodedSlash']), { refusal: 'double-slash' })
  t.same(canonicalPath('/x%5Cy', ['encodedSlash', 'semicolon', 'doubleSlash']), { refusal: 'backslash' })
})

// RT-07, RT-14
t.test('no exception permits dot segments in any reading, or a leading double slash', async t => {
  const all = ['encodedSlash', 'semicolon', 'doubleSlash'] as const
  for (const path of ['/x/../y', '/x%2F..%2Fy', '/x/..;a/y', '/x/.%3Ba', '/x%2F.%2Fy', '/x/%20..;a']) {
    t.same(canonicalPath(path, all), { refusal: 'dot-segment' }, path)
  }
  for (const path of ['//evil.example/x', '/%2Fevil.example/x'])
    t.same(canonicalPath(path, all), { refusal: 'double-slash' })
})

// RT-10, RT-18
t.test('a target is split into path and query, and a fragment is refused wherever it stands', async t => {
  t.same(splitTarget('/a?b=/../c?d'), { path: '/a', query: '?b=/../c?d' })
  t.same(splitTarget('/a'), { path: '/a', query: '' })
  t.same(splitTarget('/a?'), { path: '/a', query: '?' })
  for (const target of ['/a#b', '/a?b#c', '#']) t.same(splitTarget(target), { refusal: 'fragment' })
})

const piece = fc.constantFrom(
  ...'/¦/¦a¦B¦.¦..¦%2e¦%2F¦%41¦%25¦%32¦35¦;¦%3b¦%20¦%c3%a9¦%c3¦\\¦%5c¦#'.split('¦'),
  ...['%23', '%3f', '~', '@', '%40', '%', '\u00e9', ' ', '%00', '%E2%80%8B']
)
const anyPath = fc.oneof(
  fc.string(),
  fc.array(piece, { maxLength: 12 }).map(parts => `/${parts.join('')}`)
)
const anyExceptions = fc.subarray(['encodedSlash', 'semicolon', 'doubleSlash'] as const)

t.test('whatever comes in, canonicalisation answers, is idempotent, and leaves nothing that is refused', async () => {
  fc.assert(
    fc.property(anyPath, anyExceptions, (raw, allow) => {
      const { path } = canonicalPath(raw, allow)
      if (path === undefined) return true
      const decoded = decodeURIComponent(path)
      const isFree =
        !/[\\\p{Cc}]/u.test(decoded) && !/(?:^|\/)\.\.?(?:\/|$)/.test(decoded) && !/%25[0-9A-F]{2}/.test(path)
      return canonicalPath(path, allow).path === path && isFree && !path.startsWith('//')
    }),
    { numRuns: 20_000 }
  )
})

t.test('a plain path is its own canonical spelling', async t => {
  fc.assert(
    fc.property(anyPath, raw => !isPlainPath(raw) || canonicalPath(raw).path === raw),
    { numRuns: 5_000 }
  )
  for (const path of ['', '/A', '/a.', '/./a', '/a/..', '//a', '/a%20', '/a;b', 'a']) t.notOk(isPlainPath(path), path)
  for (const path of ['/', '/a', '/a/', '/a-b/~c']) t.ok(isPlainPath(path), path)
  for (const path of ['', '/A', '/a.', '/./a', '/a/..', '//a', '/a%20', '/a;b', 'a', '/a+b.c'])
    t.notOk(isDottedPath(path), path)
  for (const path of ['/', '/a.b', '/a.b/', '/.well-known/a.b']) t.ok(isDottedPath(path), path)
})

// RX, RT-32
t.test('a long hostile path is checked in time that grows with its length only', async t => {
  const workMs = measureWork()
  const visits = (text: string) => canonicalPath(text).refusal
  t.equal(visits(`/${'a'.repeat(200_000)}\\`), 'backslash')
  t.equal(visits(`${'/a'.repeat(100_000)}%`), 'percent-encoding')
  t.equal(canonicalPath(`/a${'%20'.repeat(100_000)}a`).refusal, undefined)
  t.ok(workMs() < 500)
})

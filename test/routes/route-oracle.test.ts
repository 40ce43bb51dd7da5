// The route that authorises a request is the route that any upstream, however lax, would serve it by.
// RW-10, RW-11, RT-01, RT-02, RT-03, RT-04, RT-05, RT-06, RT-07, RT-08, RT-11, RT-12, RT-31
import t from 'tap'
import { forwardedPath } from '../../gateway/routes/route.ts'
import { tableOf } from '../support/route-files.ts'
import { fc } from '../support/worlds.ts'

const ROUTES = (
  '/* {public: true}¦/api/*¦/api/admin/* {roles: [Admin]}¦/api/:tenant/keys {roles: [Admin]}¦' +
  '/api/Reports/* {roles: [Supervisor]}¦/files/* {allowInPath: [encodedSlash]}¦' +
  '/files/private/* {roles: [Admin]}¦/cms/* {allowInPath: [semicolon, doubleSlash]}¦' +
  '/cms/edit/* {roles: [Admin]}¦/app/* {stripPrefix: /app}'
).split('¦')

/** What backends do to a path, one habit each; written without a look at the gateway's own reading. */
const HABITS: readonly ((path: string) => string)[] = [
  path => path,
  path => {
    try {
      return decodeURIComponent(path)
    } catch {
      return path
    }
  },
  path => path.replace(/;[^/]*/g, ''),
  path => path.replace(/%3[bB][^/]*/g, ''),
  path => path.replace(/\/+/g, '/'),
  path => path.replace(/\\/g, '/'),
  path => new URL(path.replace(/^\/+/, '/'), 'http://up').pathname,
  path => path.replace(/[#?].*$/s, ''),
  path =>
    path
      .split('/')
      .map(segment => segment.trim())
      .join('/'),
  path =>
    path
      .split('/')
      .map(segment => segment.replace(/[. ]+$/, ''))
      .join('/'),
  path => path.replace(/\.+(?=\/|$)/g, ''),
  path => path.replaceAll('+', ' '),
  // Java compares character by character, Go and Python fold the other three.
  path => path.replace(/[\u0130\u0131]|%C4%B[01]/g, 'i'),
  path => path.replace(/\u017f|%C5%BF/g, 's'),
  path => path.replace(/\u212a|%E2%84%AA/g, 'k'),
  path => cutFormat(path),
  path => path.replace(/\.[^/]*(\/*)$/, '$1'),
  path => withoutScripts(path)
]

const cutFormat = (path: string): string => path.replace(/\.[^./]*(\/*)$/, '$1')
const withoutScripts = (path: string): string => path.replace(/\/[^/]*\.php(?=\/)/gi, '')
const isShortened = (path: string): boolean => cutFormat(path) !== path || withoutScripts(path) !== path
/** No route leads a request there, so nothing is protected there. */
const OWN = /^\/(?:auth|health)(?:\/|$)/i

const token = fc.oneof(
  fc.constantFrom(
    'api',
    'admin',
    'files',
    'private',
    'cms',
    'edit',
    'keys',
    'Reports',
    'app',
    'x',
    'auth',
    'health',
    'login'
  ),
  fc.constantFrom(
    '.',
    '..',
    '%2e',
    '%2E',
    '%2f',
    '%2F',
    '%5c',
    '\\',
    ';',
    ';v=1',
    '%3b',
    '%20',
    '%23',
    '%3f',
    '%C2%A0',
    '+',
    '%2B',
    '.json',
    '.php',
    'index.php',
    'adm%C4%B0n',
    'ADM%C4%B1N',
    '%E2%84%AAeys',
    'f%C4%B0le%C5%BF',
    '%25',
    '2f',
    '//'
  )
)
const spelling = fc.tuple(token, fc.constantFrom('plain', 'upper', 'escaped')).map(([text, how]) => {
  if (how === 'upper' && /^[a-z]+$/i.test(text)) return text.toUpperCase()
  if (how === 'escaped' && /^[a-z]+$/i.test(text)) return `%${text.charCodeAt(0).toString(16)}${text.slice(1)}`
  return text
})
const anyPath = fc
  .array(fc.tuple(fc.constantFrom('/', '/', '/', ''), spelling), { minLength: 1, maxLength: 7 })
  .map(parts => `/${parts.map(part => part.join('')).join('')}`.replace(/^\/\//, '/'))

t.test('no habit of a backend leads past the route that authorised', async t => {
  const table = await tableOf(t, ...ROUTES)
  // Case is folded on both sides, as a case-insensitive backend does.
  const folded = await tableOf(t, ...ROUTES.map(route => route.replace('/Reports', '/reports')))
  let asked = 0
  let passed = 0
  fc.assert(
    fc.property(
      anyPath,
      fc.array(fc.constantFrom(...HABITS), { maxLength: 3 }),
      fc.boolean(),
      (raw, habits, foldsCase) => {
        const match = table.match('GET', raw)
        asked += 1
        if (match.route === undefined) return
        passed += 1
        const read = habits.reduce((path, habit) => habit(path), match.path)
        const segments = read.split('/').filter(segment => segment !== '')
        const plain = `/${segments.map(segment => encodeURIComponent(segment)).join('/')}`
        const again = foldsCase ? folded.match('GET', plain.toLowerCase()) : table.match('GET', plain)
        const shape = (path: string | undefined) => path?.toLowerCase()
        // What the gateway itself refuses or does not know is never more open than what it allowed.
        if (again.route === undefined) {
          if (again.refusal === 'bad-path' || (OWN.test(plain) && isShortened(match.path))) return
          throw new Error(`${raw} was allowed by ${match.route.id} and read as ${plain}: ${again.refusal}`)
        }
        // Those must admit the request too.
        const known = [match.route, ...(match.alsoReadAs ?? [])].map(route => shape(route.path))
        if (!known.includes(shape(again.route.path))) {
          throw new Error(`${raw} was allowed by ${match.route.id}, but ${plain} belongs to ${again.route.id}`)
        }
      }
    ),
    { numRuns: 60_000 }
  )
  t.ok(passed > asked / 12, `${passed} requests passed and were checked`)
})

t.test('what is forwarded always begins with one slash and has no dot segment in any reading', async t => {
  const table = await tableOf(t, ...ROUTES)
  fc.assert(
    fc.property(anyPath, raw => {
      const match = table.match('GET', raw)
      if (match.route === undefined) return true
      const sent = forwardedPath(match.route, match.path)
      const isAbsolute = /^\/(?!\/)/.test(sent)
      return isAbsolute && new URL(sent, 'http://up').pathname === sent && new URL(sent, 'http://up').host === 'up'
    }),
    { numRuns: 20_000 }
  )
})

// What the keys of an upstream may say, what they mean when they are absent, and the complaint about everything else.
import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sortComplaints } from '../../gateway/route-files/complaint.ts'
import { readRouteFiles } from '../../gateway/route-files/read.ts'
import { createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { complaintsOf, routeFolder } from '../support/route-files.ts'
import { words } from '../support/words.ts'

const fileWith = (keys: string): string =>
  `upstreams: { up: { ${keys.includes('targets:') ? '' : 'url: "http://h", '}${keys} } }\nroutes: []\n`

/** Complaints about an upstream with these keys, without their places. */
const complaintsWith = async (t: Test, keys: string): Promise<string[]> =>
  (await complaintsOf(t, { 'a.yaml': fileWith(keys) })).map(text => text.replace(/^a\.yaml:\d+:\d+: /, ''))

t.test('without options a target rests for 10 s after five errors; nothing else is limited or checked', async t => {
  const upstreamWith = async (keys: string) => {
    const { upstreams } = await readRouteFiles(await routeFolder(t, { 'a.yaml': fileWith(keys) }))
    return upstreams.get('up')
  }
  t.match(await upstreamWith(''), {
    requestBufferBytes: 65_536,
    healthCheck: undefined,
    outlier: { errors: 5, restMs: 10_000 },
    maxConnections: undefined,
    queue: undefined
  })
  t.match(await upstreamWith('maxConnections: 4, requestBuffer: 16MB, healthCheck: { path: / }'), {
    requestBufferBytes: 16 * 1024 * 1024,
    maxConnections: 4,
    queue: { max: 1024, timeoutMs: 10_000 },
    healthCheck: {
      path: '/',
      intervalMs: 10_000,
      timeoutMs: 5000,
      status: { from: 200, to: 399 },
      host: undefined,
      rise: 1,
      fall: 2
    }
  })
})

const LINE = '"X-A" must be one line of printable ASCII without spaces at its ends'
const CACHED = 'for private routes too: leave it out, or say "sharedCache: true"'
const SHARED = 'may be two people: use login or id, or say "identityHeadersShared: true"'
/** Keys of an upstream, and how the only complaint about them begins; '': there is none. */
const MISTAKES: Readonly<Record<string, string>> = {
  'targets: ["http://a", { url: "http://a/", backup: true }]': 'this address is listed twice',
  'targets: ["http://a", "http://a"]': 'this address is listed twice',
  'targets: [{ url: "http://a", backup: true }]': 'all targets are backups: at least one must not be',
  'targets: [{ backup: true }]': 'an address, or a map with url and backup needs the key "url"',
  'targets: [{ url: "ftp://a" }]': 'the address must begin with http://, https:// or unix:, not with ftp:',
  'targets: [{ url: "http://a", weight: 2 }]': 'unknown key "weight"; allowed here: url, backup',
  'requestBuffer: 1': '',
  'requestBuffer: 17MB': '"requestBuffer" must be at most 16MB',
  'requestBuffer: 0': '"requestBuffer" must be a size such as',
  'proxyRequestBuffering: 1KB': 'unknown key "proxyRequestBuffering" (did you mean "requestBuffer"?)',
  'queue: { max: 5 }': '"queue" needs "maxConnections": without it no request waits',
  'maxConnections: 0': '"maxConnections" must be a whole number from 1, not 0',
  'maxConns: 5': 'unknown key "maxConns" (did you mean "maxConnections"?); allowed here: ',
  'healthCheck: { path: /, status: 399-200 }': '"status" must begin with the lower status; write 200-399',
  'healthCheck: { path: /, status: 2xx }':
    '"status" must be a status such as 200, or a range such as 200-299; write 200-299 instead of "2xx"',
  'healthCheck: { path: /, host: "http://h" }': '"host" must be a host such as app.example.org or app.example.org:8080',
  'healthCheck: { path: /, rise: 0 }': '"rise" must be a whole number from 1, not 0',
  'healthCheck: { path: /, passes: 2 }':
    'unknown key "passes" (did you mean "rise"?); allowed here: path, interval, timeout, status, host, rise, fall',
  'outlier: { errors: -1 }': '"errors" must be a whole number from 0, not -1',
  'outlier: { for: 30d }': '"for" must be at most 24d',
  'requestHeaders: { set: { X-A: "a\\r\\nX-User-Id: 1" } }': LINE,
  'requestHeaders: { set: { X-A: " a" } }': LINE,
  'requestHeaders: { set: { X-A: 1 } }': LINE,
  'requestHeaders: { set: { "X A": a } }': '"X A" must be a header name',
  'requestHeaders: { remove: ["X:"] }': 'an entry of "remove" must be a header name, not "X:"',
  'requestHeaders: {}':
    '"requestHeaders" must not be empty; write at least one entry, as in { set: { X-Api-Version: "2" }, remove: [ Accept-Language ] }',
  'requestHeaders: { add: { X-A: a } }': 'unknown key "add" (did you mean "set"?); allowed here: set, remove',
  'requestHeaders: { set: { X-A: a, x_a: b } }': 'x_a is written twice, also as X-A',
  'requestHeaders: { set: { X-A: a } }, identityHeaders: { x_a: id }': 'x_a is written twice, also as X-A',
  'identityHeaders: { X-WEBAUTH-USER: logn }': 'unknown value "logn" (did you mean "login"?)',
  'identityHeaders: { X-WEBAUTH-USER: groups }': 'unknown value "groups"',
  'identityHeaders: { X-WEBAUTH-USER: "" }': 'unknown value ""',
  'identityHeaders: { X-Login: login, X-Id: id, X-Name: name, X-Provider: provider, X-Status: accessStatus }': '',
  'identityHeaders: { X-Profiles: profiles, X-Areas: areas, X-Area: areaPrincipal }': '',
  'identityHeaders: { X-WEBAUTH-USER: username }': `the same username ${SHARED}`,
  'identityHeaders: { X-WEBAUTH-USER: email }': `the same email ${SHARED}`,
  'identityHeaders: { X-WEBAUTH-USER: email }, identityHeadersShared: true': '',
  // RW-36
  'responseHeaders: { set: { CDN-Cache-Control: x } }': `shared caches would obey CDN-Cache-Control ${CACHED}`,
  'responseHeaders: { set: { Cloudflare-CDN-Cache-Control: x } }':
    'shared caches would obey Cloudflare-CDN-Cache-Control',
  'responseHeaders: { set: { surrogate_control: x } }': 'shared caches would obey surrogate_control',
  'responseHeaders: { set: { X-Accel-Expires: x } }': 'shared caches would obey X-Accel-Expires',
  'responseHeaders: { set: { CDN-Cache-Control: x } }, sharedCache: true': '',
  'responseHeaders: { remove: [CDN-Cache-Control] }': ''
}

t.test('the value of a header appears in no complaint, whatever is wrong with how it is written', async t => {
  const VALUE = 'hunter2hunter2'
  const values = ['', '!', '*', '|', '>', '!a!', '"a" ', '"\\z', '}', 'é'].map(sign => sign + VALUE)
  const inFlow = [' { X-Key:%s }', ' { set: { X-Key:%s } }', ' { set: { X-Key:%s, X-Key:%s } }']
  const written = [...inFlow, '\n      set:\n        X-Key: %s', '\n      X-Key: %s']
  for (const keys of written.flatMap(one => values.map(value => one.replaceAll('%s', value)))) {
    const text = `upstreams:\n  up:\n    url: http://h\n    requestHeaders:${keys}\nroutes: []\n`
    const found = await complaintsOf(t, { 'a.yaml': text })
    t.equal(found.length > 0, !keys.endsWith(`set:\n        X-Key: ${VALUE}`), keys)
    t.notMatch(found.join('\n'), VALUE, keys)
  }
})

t.test('each mistake in a key is named', async t => {
  for (const [keys, complaint] of Object.entries(MISTAKES)) {
    const found = await complaintsWith(t, keys)
    const expected = complaint === '' ? [] : [complaint]
    const begun = found.map(text => text.slice(0, complaint.length))
    t.same(begun, expected, keys)
  }
})

t.test('header rules never name what belongs to the gateway, in any spelling', async t => {
  const never = words`
    Host Content-Length transfer_encoding Connection Keep-Alive TE Trailer Upgrade Proxy-Authorization Expect
    Forwarded X-Forwarded-For X.Forwarded.Host X-Forwarded-Anything X-Real-IP X-Request-Id X-User-Id x_user_profiles
    Sec-WebSocket-Key
  `
  const rules = (name: string) => ({
    requestHeaders: [`{ set: { ${name}: x } }`, `{ remove: [${name}] }`],
    responseHeaders: [`{ set: { ${name}: x } }`, `{ remove: [${name}] }`],
    identityHeaders: [`{ ${name}: id }`]
  })
  for (const name of never)
    for (const [key, all] of Object.entries(rules(name)))
      for (const rule of all)
        t.same(await complaintsWith(t, `${key}: ${rule}`), [
          `"${key}" must not name ${name}: it belongs to the gateway`
        ])
  for (const name of ['Set-Cookie', 'Cache-Control', 'Vary', 'Access-Control-Allow-Origin']) {
    t.equal((await complaintsWith(t, `responseHeaders: { set: { ${name}: x } }`)).length, 1, name)
    t.same(await complaintsWith(t, `requestHeaders: { set: { ${name}: x } }`), [], name)
  }
})

t.test('a client certificate comes with its own key, both readable, for https', async t => {
  const folder = await routeFolder(t, {})
  const authority = createCertificateAuthority(folder)
  const [one, two] = [authority.issue('one'), authority.issue('two')]
  await writeFile(join(folder, 'odd.pem'), 'nothing')
  const check = async (keys: readonly string[], url = 'https://up') => {
    await writeFile(
      join(folder, 'a.yaml'),
      `upstreams:\n  up:\n${[`url: ${url}`, ...keys].map(key => `    ${key}\n`).join('')}routes: []\n`
    )
    // Both files are read at the same time.
    const { complaints } = await readRouteFiles(folder)
    return sortComplaints(complaints).map(({ line, message }) => `${line}: ${message}`)
  }
  const pair = (cert: string, key: string) => [`clientCertFile: ${cert}`, `clientKeyFile: ${key}`]
  t.same(await check(pair(one.certFile, one.keyFile)), [])
  t.same(await check([...pair('one.crt', 'one.key'), 'serverName: orders.internal']), [], 'beside the route file')
  t.same(await check(pair(one.certFile, two.keyFile)), ['5: "clientKeyFile" is not the key of "clientCertFile"'])
  t.same(await check(pair('odd.pem', 'odd.pem')), [
    '4: "clientCertFile" contains no valid PEM certificates',
    '5: "clientKeyFile" contains no unencrypted PEM private key'
  ])
  t.same(await check(pair('none.crt', 'none.key')), [
    `4: "clientCertFile" names a file that cannot be read: ${join(folder, 'none.crt')}`,
    `5: "clientKeyFile" names a file that cannot be read: ${join(folder, 'none.key')}`
  ])
  execFileSync('mkfifo', [join(folder, 'pipe')])
  t.same(
    await check(pair('one.crt', 'pipe')),
    [`5: "clientKeyFile" names a file that cannot be read: ${join(folder, 'pipe')}`],
    'a pipe without a writer holds up no reload'
  )
  const weak = ['-newkey', 'rsa:1024', '-nodes', '-subj', '/CN=weak', '-keyout', 'weak.key', '-out', 'weak.crt']
  execFileSync('openssl', ['req', '-x509', ...weak], { cwd: folder, stdio: 'pipe' })
  t.same(await check(pair('weak.crt', 'weak.key')), [
    '4: "clientCertFile" is rejected by OpenSSL; its key may be too short'
  ])
  // Its last certificate is still being written.
  await writeFile(join(folder, 'cut.crt'), (pemOf(one).cert + authority.ca).slice(0, -100))
  t.same(await check([...pair('cut.crt', 'one.key'), 'caFile: cut.crt']), [
    '4: "clientCertFile" contains no valid PEM certificates',
    '6: "caFile" contains no valid PEM certificates'
  ])
  t.same(await check([`clientCertFile: ${one.certFile}`]), ['4: "clientCertFile" requires "clientKeyFile"'])
  t.same(await check([`clientKeyFile: ${one.keyFile}`]), ['4: "clientKeyFile" requires "clientCertFile"'])
  t.same(await check([...pair('one.crt', 'one.key'), 'serverName: x'], 'http://up'), [
    '4: "clientCertFile" needs an https:// address',
    '5: "clientKeyFile" needs an https:// address',
    '6: "serverName" needs an https:// address'
  ])
})

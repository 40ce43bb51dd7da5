// Mistakes in the keys of an upstream are found when its file is read.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sortComplaints } from '../../gateway/route-files/complaint.ts'
import { readRouteFiles } from '../../gateway/route-files/read.ts'
import { createCertificateAuthority } from '../support/certificates.ts'
import { complaintsOf, routeFolder } from '../support/route-files.ts'
import { words } from '../support/words.ts'

const fileWith = (keys: string, url = 'http://127.0.0.1:4001'): string =>
  `upstreams:\n  up:\n    url: ${url}\n    ${keys}\nroutes: [{ path: /, upstream: up }]\n`

/** Complaints about an upstream with these keys, as `line: message`. */
const checkIn = (t: Test) => async (keys: string) =>
  (await complaintsOf(t, { 'a.yaml': fileWith(keys) })).map(text => text.replace(/^a\.yaml:(\d+):\d+/, '$1'))

t.test('header rules never name what belongs to the gateway, in any spelling', async t => {
  const never = words`
    Host Content-Length transfer_encoding Connection Keep-Alive TE Trailer Upgrade Proxy-Authorization Expect
    Forwarded X-Forwarded-For X.Forwarded.Host X-Forwarded-Anything X-Real-IP X-Request-Id X-User-Id x_user_profiles
    Sec-WebSocket-Key
  `
  for (const name of never) {
    for (const keys of [
      `requestHeaders: { set: { ${name}: x } }`,
      `requestHeaders: { remove: [${name}] }`,
      `responseHeaders: { set: { ${name}: x } }`,
      `responseHeaders: { remove: [${name}] }`,
      `identityHeaders: { ${name}: id }`
    ]) {
      const complaints = await complaintsOf(t, { 'a.yaml': fileWith(keys) })
      t.match(
        complaints,
        [new RegExp(`^a\\.yaml:4:\\d+: "\\w+" must not name ${name}: it belongs to the gateway$`)],
        keys
      )
    }
  }
  for (const name of ['Set-Cookie', 'Cache-Control', 'Vary', 'Access-Control-Allow-Origin']) {
    t.equal((await complaintsOf(t, { 'a.yaml': fileWith(`responseHeaders: { set: { ${name}: x } }`) })).length, 1, name)
    t.same(await complaintsOf(t, { 'a.yaml': fileWith(`requestHeaders: { set: { ${name}: x } }`) }), [], name)
  }
})

t.test('fields that shared caches prefer to Cache-Control are set only with sharedCache', async t => {
  // RW-36
  const checked = checkIn(t)
  for (const name of ['CDN-Cache-Control', 'Cloudflare-CDN-Cache-Control', 'surrogate_control', 'X-Accel-Expires']) {
    const set = `responseHeaders: { set: { ${name}: max-age=60 } }`
    t.same(
      await checked(set),
      [`4: shared caches would obey ${name} for private routes too: leave it out, or say "sharedCache: true"`],
      name
    )
    t.same(await checked(`${set}\n    sharedCache: true`), [])
    t.same(await checked(`responseHeaders: { remove: [${name}] }`), [])
  }
})

const LINE = '4: "X-A" must be one line of printable ASCII without spaces at its ends'

t.test('a header value is one line, and a name is a name', async t => {
  const checked = checkIn(t)
  for (const [keys, complaint] of Object.entries({
    'requestHeaders: { set: { X-A: "a\\r\\nX-User-Id: 1" } }': LINE,
    'requestHeaders: { set: { X-A: " a" } }': LINE,
    'requestHeaders: { set: { X-A: 1 } }': LINE,
    'requestHeaders: { set: { "X A": a } }': '4: "X A" must be a header name',
    'requestHeaders: { remove: ["X:"] }': '4: an entry of "remove" must be a header name, not "X:"',
    'requestHeaders: {}':
      '4: "requestHeaders" must not be empty; write at least one entry, as in { set: { X-Api-Version: "2" }, remove: [ Accept-Language ] }',
    'requestHeaders: { add: { X-A: a } }': '4: unknown key "add" (did you mean "set"?); allowed here: set, remove',
    'requestHeaders: { set: { X-A: a, x_a: b } }': '4: x_a is written twice, also as X-A',
    'identityHeaders: { X-WEBAUTH-USER: logn }': '4: unknown value "logn" (did you mean "login"?)'
  }))
    t.same(await checked(keys), [complaint], keys)
  t.same(await checked('requestHeaders: { set: { X-A: a } }\n    identityHeaders: { x_a: id }'), [
    '5: x_a is written twice, also as X-A'
  ])
})

t.test('a name that may be two people is no identity unless the upstream says that it is shared', async t => {
  const checked = checkIn(t)
  for (const attribute of ['username', 'email']) {
    const keys = `identityHeaders: { X-WEBAUTH-USER: ${attribute} }`
    t.same(await checked(keys), [
      `4: the same ${attribute} may be two people: use login or id, or say "identityHeadersShared: true"`
    ])
    t.same(await checked(`${keys}\n    identityHeadersShared: true`), [])
  }
  t.same(await checked('identityHeaders: { X-WEBAUTH-USER: login, X-Id: id }'), [])
})

t.test('a client certificate comes with its own key, both readable, for https', async t => {
  const folder = await routeFolder(t, {})
  const authority = createCertificateAuthority(folder)
  const [one, two] = [authority.issue('one'), authority.issue('two')]
  await writeFile(join(folder, 'odd.pem'), 'nothing')
  const check = async (keys: string, url = 'https://up') => {
    await writeFile(join(folder, 'a.yaml'), fileWith(keys, url))
    // Both files are read at the same time.
    const { complaints } = await readRouteFiles(folder)
    return sortComplaints(complaints).map(({ line, message }) => `${line}: ${message}`)
  }
  const pair = (cert: string, key: string) => `clientCertFile: ${cert}\n    clientKeyFile: ${key}`
  t.same(await check(pair(one.certFile, one.keyFile)), [])
  t.same(await check(`${pair('one.crt', 'one.key')}\n    serverName: orders.internal`), [], 'beside the route file')
  t.same(await check(pair(one.certFile, two.keyFile)), ['5: "clientKeyFile" is not the key of "clientCertFile"'])
  t.same(await check(pair('odd.pem', 'odd.pem')), [
    '4: "clientCertFile" contains no valid PEM certificates',
    '5: "clientKeyFile" contains no unencrypted PEM private key'
  ])
  t.same(await check(pair('none.crt', 'none.key')), [
    `4: "clientCertFile" names a file that cannot be read: ${join(folder, 'none.crt')}`,
    `5: "clientKeyFile" names a file that cannot be read: ${join(folder, 'none.key')}`
  ])
  t.same(await check(`clientCertFile: ${one.certFile}`), ['4: "clientCertFile" requires "clientKeyFile"'])
  t.same(await check(`clientKeyFile: ${one.keyFile}`), ['4: "clientKeyFile" requires "clientCertFile"'])
  t.same(await check(`${pair('one.crt', 'one.key')}\n    serverName: x`, 'http://up'), [
    '4: "clientCertFile" needs an https:// address',
    '5: "clientKeyFile" needs an https:// address',
    '6: "serverName" needs an https:// address'
  ])
})

// What a COPY or MOVE writes to is checked like the path of the request, and forwarded as the backend knows it.
// RW-45; RFC 4918 §9.8, §9.9, §10.3
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { only } from '../support/only.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'

const raw = await startRawUpstream(t)
raw.respond(() => OK)
const world = await startGateway(t, {
  env: { TRUST_PROXY: '127.0.0.1' },
  config: {
    upstreams: { files: { url: raw.url }, other: { url: raw.url } },
    routes: [
      { path: '/dav/*', upstream: 'files', stripPrefix: '/dav' },
      { path: '/dav/admin/*', upstream: 'files', stripPrefix: '/dav', roles: ['Admin'] },
      { path: '/dav/read/*', upstream: 'files', stripPrefix: '/dav', methods: ['GET', 'COPY'] },
      { path: '/dav/read/*', upstream: 'files', stripPrefix: '/dav', methods: ['PUT'], roles: ['Admin'] },
      { path: '/open/*', upstream: 'files', public: true },
      { path: '/other/*', upstream: 'other' },
      { path: '/checked/*', external: true },
      { path: '/checked/admin/*', external: true, roles: ['Admin'] }
    ]
  }
})
const tokens = { Agente: await world.tokenFor(), Admin: await world.tokenFor({ profiles: ['Admin'] }) }

const ask = async (who: keyof typeof tokens | 'anonymous', start: string, fields: readonly string[]) => {
  const before = raw.requests.length
  const auth = who === 'anonymous' ? [] : [`Authorization: Bearer ${tokens[who]}`]
  const answer = await world.raw([`${start} HTTP/1.1`, 'Host: gw', ...auth, ...fields, '', ''].join('\r\n'))
  const request = raw.requests[before]
  const destinations = request?.headers.filter(([name]) => /^destination$/i.test(name)).map(([, value]) => value)
  return { status: answer.status, code: answer.body.match(/GW_\w+/)?.[0], destinations }
}

t.test('a destination that the person may write to is forwarded as the backend knows it, others are not', async t => {
  // What is decided of which destination is shown in test/access/asked-destinations.test.ts.
  const rows: [who: keyof typeof tokens | 'anonymous', start: string, given: string, status: number, told?: string][] =
    [
      ['Agente', 'MOVE /dav/mine/a', '/dav/mine/b', 200, '/mine/b'],
      ['Agente', 'MOVE /dav/mine/a', 'http://gw/dav/mine/b%20c', 200, '/mine/b%20c'],
      ['Agente', 'MOVE /dav/mine/a', 'https://GW/dav/mine/%62?x=/y', 200, '/mine/b?x=/y'],
      ['Admin', 'MOVE /dav/mine/a', '/dav/admin/x', 200, '/admin/x'],
      ['Agente', 'MOVE /dav/mine/a', '/dav/%61dmin/x', 403],
      ['Agente', 'COPY /dav/mine/a', '/dav/read/x', 403],
      ['Admin', 'COPY /dav/mine/a', '/dav/read/x', 200, '/read/x'],
      ['anonymous', 'COPY /open/a', '/dav/x', 401],
      ['anonymous', 'COPY /open/a', '/open/b', 200, '/open/b'],
      ...'http://other.example/dav/b¦//gw/dav/b¦/dav/x/../admin/y¦/dav/ADMIN/x¦/dav/a b¦/other/x¦/auth/admin/users¦'
        .split('¦')
        .map((given): [keyof typeof tokens, string, string, number] => ['Agente', 'MOVE /dav/mine/a', given, 400])
    ]
  for (const [who, start, given, status, told] of rows)
    t.match(
      await ask(who, start, [`Destination: ${given}`]),
      { status, destinations: told === undefined ? undefined : only(raw.url + told) },
      `${start} to ${given}`
    )
  const two = ['Destination: /dav/b', 'Destination: /dav/admin/x']
  t.match(await ask('Agente', 'MOVE /dav/a', two), { status: 400, destinations: undefined }, 'two of them')
  const portal = 'Destination: https://portal.example.org/dav/b'
  t.match(await ask('Agente', 'MOVE /dav/a', [portal]), { status: 400 }, 'no proxy said so')
  t.match(await ask('Agente', 'MOVE /dav/a', [portal, 'X-Forwarded-Host: portal.example.org']), { status: 200 })
})

t.test('other methods carry a Destination as any other field', async t => {
  t.same((await ask('Agente', 'POST /dav/x', ['Destination: Lisbon', 'Content-Length: 0'])).destinations, ['Lisbon'])
})

t.test('a proxy that asks hears the same of what a COPY writes to', async t => {
  const forward = (destination: string) =>
    ask('Agente', 'GET /auth/forward', [
      'X-Forwarded-Method: COPY',
      'X-Forwarded-Uri: /checked/a',
      `Destination: ${destination}`
    ])
  t.match(await forward('/checked/b'), { status: 200 })
  t.match(await forward('/checked/admin/b'), { status: 403 })
  t.match(await forward('/dav/b'), { status: 400 }, 'not behind that proxy')
})

// RW-23, RW-58, RW-59
t.test('what a trusted proxy passes on from a client brings no token of ours to a public backend either', async t => {
  const personal = `pt_${'a'.repeat(43)}`
  const ask = (line: string) => world.raw(`GET /open/x HTTP/1.1\r\nHost: gw\r\n${line}\r\n\r\n`)
  for (const field of ['X-Request-Id', 'X-Forwarded-For', 'X-Forwarded-Proto', 'X-Portaria-Via', 'X-Real-Ip']) {
    t.equal((await ask(`${field}: ${personal}`)).status, 200, field)
    t.notOk(raw.requests.at(-1)?.head.includes(personal), field)
  }
  t.notOk(world.logText().includes(personal))
  const before = raw.requests.length
  t.equal((await ask(`X-Forwarded-Host: ${tokens.Agente}`)).status, 400)
  t.equal(raw.requests.length, before)
  await ask('X-Request-Id: pt_1\r\nX-Forwarded-For: 203.0.113.9')
  t.match(raw.requests.at(-1)?.head, /^x-request-id: pt_1\r$/m)
  t.match(raw.requests.at(-1)?.head, /^x-forwarded-for: 203\.0\.113\.9, 127\.0\.0\.1\r$/m)
})

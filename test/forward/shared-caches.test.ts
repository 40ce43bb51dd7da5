// What is for one person stays out of shared caches, whatever the backend says. RW-07, RW-36, HD-29
import t from 'tap'
import { privateCacheControl, privateVary } from '../../gateway/upstream/headers/private-answers.ts'
import { startGateway } from '../support/gateway.ts'
import { startNginx } from '../support/nginx.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

/** A real nginx with a shared cache in front of a gateway. It caches what the answers allow and nothing else; `x-cache` says HIT, MISS or EXPIRED. */
const cached = (origin: string) => (port: number, folder: string) =>
  `
  proxy_cache_path ${folder}/cache keys_zone=shared:1m;
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass ${origin};
      proxy_set_header Host $http_host;
      proxy_cache shared;
      add_header X-Cache $upstream_cache_status always;
    }
  }
`

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  env: { BROWSER_SESSION: 'true' },
  config: {
    upstreams: { raw: { url: raw.url }, shared: { url: raw.url, sharedCache: true } },
    routes: [
      { path: '/pages/*', upstream: 'raw', browser: true },
      { path: '/api/*', upstream: 'raw' },
      { path: '/shared/*', upstream: 'shared' },
      { path: '/open/*', upstream: 'raw', public: true },
      { path: '/live', upstream: 'raw', websocket: {} },
      { path: '/io/*', upstream: 'raw', socketio: { namespaces: { '/': {} } } }
    ]
  }
})
const cache = `http://127.0.0.1:${await startNginx(t, cached(world.url))}`
const maria = await world.tokenFor({ id: 1, name: 'Maria' })
const joao = await world.tokenFor({ id: 2, name: 'Joao' })

// Every backend line that has let a shared cache keep an answer.
const LINES = [
  'Cache-Control: max-age=60',
  'Cache-Control: public, max-age=60',
  'Cache-Control: s-maxage=60',
  'Cache-Control: max-age=60, must-revalidate',
  'Cache-Control: max-age=60\r\nVary: Accept-Encoding',
  'Cache-Control: private="set-cookie", max-age=60',
  'Expires: Fri, 01 Jan 2100 00:00:00 GMT',
  'X-Accel-Expires: 60',
  'Cache-Control: public\r\nCache-Control: max-age=60'
]

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const cookie = (token: string) => ({ cookie: `portaria_session=${token}` })

t.test('nobody gets what a caching proxy was given for somebody else, with bearer or cookie, on .css too', async t => {
  raw.respond(request => {
    const name = /^x-user-name: (.*)\r$/im.exec(request.head)?.[1] ?? 'nobody'
    const line = LINES[Number(/[?&]line=(\d+)/.exec(request.target)?.[1])] ?? ''
    return `HTTP/1.1 200 OK\r\n${line}\r\nContent-Length: ${name.length}\r\n\r\n${name}`
  })
  const ask = async (path: string, headers: Record<string, string>) => {
    const answer = await fetch(`${cache}${path}`, { headers, redirect: 'manual' })
    return { status: answer.status, body: await answer.text(), cached: answer.headers.get('x-cache') }
  }
  for (const [index, line] of LINES.entries()) {
    for (const [path, by] of [
      [`/pages/me?line=${index}`, cookie],
      [`/pages/me/style.css?line=${index}`, cookie],
      [`/api/me?line=${index}`, bearer],
      [`/api/me/style.css?line=${index}`, bearer]
    ] as const) {
      t.match(await ask(path, by(maria)), { status: 200, body: 'Maria' }, `${path} ${line}`)
      t.match(await ask(path, by(joao)), { status: 200, body: 'Joao' }, 'somebody else')
      t.equal((await ask(path, {})).status, 401, 'nobody')
    }
  }
})

t.test('where the upstream says so, and on public routes, a shared cache keeps what the backend marks', async t => {
  raw.respond(() => 'HTTP/1.1 200 OK\r\nCache-Control: public, s-maxage=60\r\nContent-Length: 2\r\n\r\nok')
  await (await fetch(`${cache}/open/logo.png`)).text()
  t.equal((await fetch(`${cache}/open/logo.png`)).headers.get('x-cache'), 'HIT')
  const { headers } = await world.fetch('/shared/logo.png', { token: maria })
  t.equal(headers.get('cache-control'), 'public, s-maxage=60')
  t.equal(headers.get('vary'), 'Authorization')
})

t.test('304, 206 and 404 are as private as 200', async t => {
  for (const status of ['304 Not Modified', '206 Partial Content', '404 Not Found']) {
    const range = status.startsWith('206') ? 'Content-Range: bytes 0-0/9\r\n' : ''
    const length = status.startsWith('304') ? '' : 'Content-Length: 1\r\n'
    const body = length === '' ? '' : 'x'
    const fields = `Cache-Control: public, max-age=9\r\nVary: Accept, *x\r\nCDN-Cache-Control: max-age=9\r\nCloudflare-CDN-Cache-Control: max-age=9\r\nSurrogate-Control: max-age=9\r\nEdge-Control: !no-store\r\n`
    raw.respond(() => `HTTP/1.1 ${status}\r\n${fields}${range}${length}\r\n${body}`)
    const answer = await world.raw(`GET /api/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${maria}\r\n\r\n`)
    t.equal(answer.status, Number(status.slice(0, 3)))
    t.equal(answer.headers['cache-control'], 'private, max-age=9')
    t.equal(answer.headers.vary, 'Accept, *x, Authorization')
    for (const name of ['cdn-cache-control', 'cloudflare-cdn-cache-control', 'surrogate-control', 'edge-control'])
      t.notOk(name in answer.headers, name)
    const page = await world.raw(`GET /pages/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${maria}\r\n\r\n`)
    t.equal(page.headers.vary, 'Accept, *x, Authorization, Cookie')
  }
})

// RW-57
t.test('Socket.IO polling and refused upgrades are as private, and set no session cookie either', async t => {
  const packet =
    '0{"sid":"x0123456789abcdefghi","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":100000}'
  const own = '=portaria_session=x\r\nSet-Cookie: portaria_session'
  const fields = `Cache-Control: public, max-age=60\r\nCDN-Cache-Control: max-age=9\r\nSet-Cookie: ${own}\r\nSet-Cookie: io=1\r\n`
  raw.respond(({ target }) =>
    target.startsWith('/live')
      ? `HTTP/1.1 404 Not Found\r\n${fields}Content-Length: 0\r\n\r\n`
      : `HTTP/1.1 200 OK\r\n${fields}Content-Length: ${packet.length}\r\n\r\n${packet}`
  )
  const handshake =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
  const asks = [
    ['/io/?EIO=4&transport=polling', '', 200],
    ['/live', `Authorization: Bearer ${maria}\r\n${handshake}`, 404]
  ] as const
  for (const [target, more, status] of asks) {
    const { headers, ...answer } = await world.raw(`GET ${target} HTTP/1.1\r\nHost: gw\r\n${more}\r\n`)
    t.equal(answer.status, status, target)
    t.equal(headers['cache-control'], 'private, max-age=60', target)
    t.equal(headers.vary, 'Authorization', target)
    t.notOk('cdn-cache-control' in headers, target)
    t.same([headers['set-cookie']].flat(), ['io=1'], target)
  }
})

t.test('Cache-Control is made private and otherwise left as the backend wrote it', async t => {
  const cases: [sent: string, closed: string, open: string][] = [
    ['', 'private', 'private'],
    ['max-age=60', 'private, max-age=60', 'private, max-age=60'],
    ['no-store', 'no-store', 'no-store'],
    ['no-cache', 'private, no-cache', 'private, no-cache'],
    ['private, max-age=5', 'private, max-age=5', 'private, max-age=5'],
    ['Private', 'Private', 'Private'],
    ['PUBLIC, max-age=5', 'private, max-age=5', 'PUBLIC, max-age=5'],
    ['public, no-store', 'private, no-store', 'public, no-store'],
    ['s-maxage=9', 'private', 's-maxage=9'],
    ['private, s-maxage=9', 'private', 'private, s-maxage=9'],
    ['private="a, public", max-age=5', 'private, max-age=5', 'private, max-age=5'],
    ['no-cache="set-cookie, x"', 'private, no-cache="set-cookie, x"', 'private, no-cache="set-cookie, x"'],
    ['x="public', 'private, x="public', 'private, x="public'],
    [' , ,public,,', 'private', ' , ,public,,']
  ]
  for (const [sent, closed, open] of cases) {
    t.equal(privateCacheControl(sent, false), closed, sent)
    t.equal(privateCacheControl(sent, true), open, `shared: ${sent}`)
  }
  t.equal(privateVary('', ['Authorization']), 'Authorization')
  t.equal(privateVary('accept, AUTHORIZATION', ['Authorization', 'Cookie']), 'accept, AUTHORIZATION, Cookie')
  t.equal(privateVary('Accept, *', ['Authorization']), '*')
})

// What a COPY or MOVE writes to: which routes check it, and how it is forwarded.
// RW-45; RFC 4918 §9.8, §9.9, §10.3
import t from 'tap'
import { createMatchDestination, createMatchRoute } from '../../gateway/access/match-route.ts'
import { beginForwardAuth } from '../../gateway/forward/forward-auth.ts'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { decide } from '../../gateway/routes/decide.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { exchangeOf, requestHost } from '../support/exchanges.ts'
import { askerOf, routeFolder } from '../support/route-files.ts'

const folder = await routeFolder(t, {
  'a.yaml': `
upstreams: { files: { url: http://127.0.0.1:4001 }, others: { url: http://127.0.0.1:4002 } }
routes:
  - { path: /dav/*, upstream: files, stripPrefix: /dav }
  - { path: /dav/read/*, upstream: files, methods: [GET, COPY] }
  - { path: /dav/read/*, upstream: files, methods: [PUT], roles: [Admin] }
  - { path: /others/*, upstream: others }
  - { path: /checked/*, external: true }
  - { path: /named/*, host: files.example, upstream: files }
`
})
const { table } = await loadRoutes(folder, ownRoutes())
const step = createMatchDestination(() => table)

interface Asked {
  readonly method?: string
  readonly path?: string
  readonly host?: string | undefined
  readonly fields?: readonly string[]
  readonly trusted?: boolean
  /** The named host that the request is for. */
  readonly at?: string
}
/** What is forwarded, and the ids or refusals that decide. */
const ask = (destination: string | undefined, asked: Asked = {}) => {
  const { method = 'MOVE', path = '/dav/a', host = 'gw.example', fields = [], trusted = false, at = '' } = asked
  const sent = destination === undefined ? [] : ['Destination', destination]
  const exchange = exchangeOf({ method, target: path, fields: ['Host', host, ...sent, ...fields], trusted })
  exchange.host = at
  const match = table.match(method, path, at)
  exchange.match = match
  if (match.route !== undefined) exchange.route = match.route
  step(exchange)
  const found = exchange.match.route === undefined ? undefined : exchange.match.alsoWrites
  const checks = found?.map(one =>
    one.refusal === undefined ? one.route.id : one.refusal === 'bad-path' ? one.reason : one.refusal
  )
  const both = [exchange.match, match].map(one => ({ ...one, alsoWrites: undefined }))
  t.same(both[0], both[1], 'the path of the request is checked as before')
  return { forwarded: exchange.destination, checks: checks?.join() ?? '' }
}
/** MOVE, PUT and DELETE there, and DELETE here. */
const FILES = '/dav/*,/dav/*,/dav/*,/dav/*'
const NAMED = new Array(4).fill('files.example/named/*').join()
const ELSEWHERE = 'destination,destination,destination'
const PORTAL = ['X-Forwarded-Host', 'portal.example']

t.test('the destination is checked for the method and for PUT, and forwarded as the backend knows it', async t => {
  for (const [destination, forwarded, checks = FILES, asked] of [
    ['/dav/b', '/b'],
    ['/dav/b/', '/b/', '/dav/*,/dav/*,/dav/*', { method: 'COPY' }],
    ['/dav/%62?x=/y?z', '/b?x=/y?z'],
    ['http://gw.example/dav/b', '/b'],
    ['https://GW.example/dav', '/'],
    ['/dav/read/b', '/dav/read/b', 'GET,COPY /dav/read/*,PUT /dav/read/*,/dav/*', { method: 'COPY' }],
    ['/dav/read/b', '/read/b', '/dav/*,PUT /dav/read/*,/dav/*,/dav/*'],
    ['/checked/b', '/checked/b', '/checked/*,/checked/*,/checked/*,/checked/*', { path: '/checked/a' }],
    ['/dav/b', '/b', '/dav/*,/dav/*,/dav/*', { method: 'COPY', path: '/dav/read.json' }],
    ['/named/b', '/named/b', NAMED, { path: '/named/a', at: 'files.example' }],
    ['/dav/b', '', 'no-route,no-route,no-route,files.example/named/*', { path: '/named/a', at: 'files.example' }],
    // What is no path of this gateway, or of another upstream, is a destination elsewhere.
    ['/dav/x/../b', '', 'dot-segment,dot-segment,dot-segment,/dav/*'],
    ['/none', '', 'no-route,no-route,no-route,/dav/*'],
    ['/dav/b', '', `${ELSEWHERE},/checked/*`, { path: '/checked/a' }],
    // Neither has an upstream, but only one is checked.
    ['/auth/admin/x', '', `${ELSEWHERE},/checked/*`, { path: '/checked/a' }],
    // The host for which a trusted proxy was asked is that of the destination too; of another peer, the field says nothing.
    ['http://portal.example/dav/b', '/b', FILES, { fields: PORTAL, trusted: true }],
    ['http://gw.example/dav/b', '/b', FILES, { fields: PORTAL, trusted: true }],
    ['http://portal.example/dav/b', '', `${ELSEWHERE},/dav/*`, { fields: PORTAL }],
    // Without one, only the source of a MOVE is looked at.
    [undefined, '', '/dav/*'],
    [undefined, '', '', { method: 'COPY' }],
    ['/dav/b', '', '', { method: 'PUT' }],
    ['/dav/b', '', '', { method: '' }],
    ['/dav/b', '', '', { path: '/none' }]
  ] as readonly (readonly [string | undefined, string, string?, Asked?])[])
    t.same(ask(destination, asked), { forwarded, checks }, destination ?? 'none')
  for (const other of [
    ...['/others/b', '/checked/b', 'http://other.example/dav/b', '//gw.example/dav/b', 'dav/b', 'dav/', ''],
    ...['/dav/b c', '/dav/b#c', '/dav/bé', 'http://gw.example:81/dav/b']
  ])
    t.equal(ask(other).forwarded, '', other)
  for (const other of ['/others/b', '/checked/b', 'dav/b', '/dav/b#c', ''])
    t.equal(ask(other).checks, `${ELSEWHERE},/dav/*`, other)
  const unmatched = exchangeOf({ method: 'MOVE', fields: ['Host', 'gw.example', 'Destination', '/dav/b'] })
  t.equal(step(unmatched), undefined)
  t.equal(unmatched.match, undefined)
})

t.test('a proxy that asks has a Host of its own: that of the request is the one that it names', async t => {
  const forwardedTo = (url: string, destination: string) => {
    const named = ['X-Original-Method', 'MOVE', 'X-Original-URL', url, 'X-Forwarded-Host', 'forged.example']
    const fields = ['Host', '127.0.0.1:3000', ...named, 'Destination', destination]
    const exchange = exchangeOf({ target: '/auth/forward?mode=nginx', fields, trusted: true })
    t.equal(beginForwardAuth(exchange), undefined)
    createMatchRoute(() => table, requestHost).matchPlain(exchange)
    step(exchange)
    return exchange.destination
  }
  for (const host of ['gw.example', 'app.example', 'app.example:8443'])
    t.equal(forwardedTo(`https://${host}/checked/a`, `https://${host}/checked/b`), '/checked/b', host)
  for (const other of [
    'https://forged.example/checked/b',
    'https://other.example/checked/b',
    'https://app.example/dav/b'
  ])
    t.equal(forwardedTo('https://app.example/checked/a', other), '', other)
})

// RV-29
t.test('what a MOVE removes, and what it or a COPY may overwrite, needs the right to delete', async t => {
  const folder = await routeFolder(t, {
    'a.yaml': `
upstreams:
  files: { url: http://127.0.0.1:4001, requestHeaders: { set: { X-Realm: a }, remove: [X-Other] } }
  plain: { url: http://127.0.0.1:4001, requestHeaders: { remove: [Overwrite] } }
routes:
  - { path: /files/*, upstream: files }
  - { path: /files/*, upstream: files, methods: [DELETE], roles: [Admin] }
  - { path: /plain/*, upstream: plain }
  - { path: /plain/*, upstream: plain, methods: [DELETE], roles: [Admin] }
  - { path: /parted/*, upstream: files }
  - { path: /parted/*, upstream: plain, methods: [DELETE], roles: [Admin] }
tests:
  - MOVE /files/a as Agente -> 403
  - MOVE /files/a as anonymous -> 401
  - MOVE /files/a as Admin -> allow
  - COPY /files/a as Agente -> allow
  - MOVE /parted/a as Admin -> 400
`
  })
  const { table } = await loadRoutes(folder, ownRoutes())
  const decideAt = (folder: string, method: string, who: string, ...fields: string[]) => {
    const exchange = exchangeOf({ method, fields: ['Host', 'gw.example', 'Destination', `/${folder}/b`, ...fields] })
    const match = table.match(method, `/${folder}/a`)
    exchange.match = match
    if (match.route !== undefined) exchange.route = match.route
    createMatchDestination(() => table)(exchange)
    return decide(exchange.match, askerOf(who), { cloudUnassignedMayPass: false }).decision
  }
  const decideOn = (method: string, who: string, ...fields: string[]) => decideAt('files', method, who, ...fields)
  t.equal(decideOn('MOVE', 'Agente'), 403)
  t.equal(decideOn('MOVE', 'Agente', 'Overwrite', 'F'), 403, 'the source goes')
  t.equal(decideOn('MOVE', 'Admin'), 'allow')
  t.equal(decideOn('COPY', 'Agente'), 403)
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'T'), 403)
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'f'), 403, 'a server may read that as T')
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'F\xa0'), 403, 'and so this, which is no blank in a field')
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'F'), 'allow')
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'F', 'Overwrite', 'T'), 403)
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'F', 'Connection', 'close'), 'allow')
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'F', 'Connection', 'Overwrite'), 403, 'the backend does not get it')
  t.equal(decideAt('plain', 'COPY', 'Agente', 'Overwrite', 'F'), 403, 'nor where the upstream removes it')
  t.equal(decideAt('parted', 'MOVE', 'Admin'), 400, 'another upstream would delete the source, says its test line')
})

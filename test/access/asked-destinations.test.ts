// What a COPY or MOVE writes to: which routes check it, and how it is forwarded.
// RW-45; RFC 4918 §9.8, §9.9, §10.3
import t from 'tap'
import { createMatchDestination } from '../../gateway/access/match-destination.ts'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { decide } from '../../gateway/routes/decide.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { askerOf } from '../support/askers.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { routeFolder } from '../support/route-files.ts'

const folder = await routeFolder(t, {
  'a.yaml': `
upstreams: { files: { url: http://127.0.0.1:4001 }, others: { url: http://127.0.0.1:4002 } }
routes:
  - { path: /dav/*, upstream: files, stripPrefix: /dav }
  - { path: /dav/read/*, upstream: files, methods: [GET, COPY] }
  - { path: /dav/read/*, upstream: files, methods: [PUT], roles: [Admin] }
  - { path: /others/*, upstream: others }
  - { path: /checked/*, external: true }
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
}
/** What is forwarded, and the ids or refusals that decide. */
const ask = (destination: string | undefined, asked: Asked = {}) => {
  const { method = 'MOVE', path = '/dav/a', host = 'gw.example', fields = [], trusted = false } = asked
  const sent = destination === undefined ? [] : ['Destination', destination]
  const exchange = exchangeOf({ method, target: path, fields: ['Host', host, ...sent, ...fields], trusted })
  const match = table.match(method, path)
  exchange.match = match
  if (match.route !== undefined) exchange.route = match.route
  step(exchange)
  const found = exchange.match.route === undefined ? undefined : exchange.match.alsoWrites
  const checks = found?.map(one =>
    one.refusal === undefined ? one.route.id : one.refusal === 'bad-path' ? one.reason : one.refusal
  )
  t.equal(exchange.match.route, match.route, 'the path of the request is checked as before')
  return { forwarded: exchange.destination, checks: checks?.join() }
}
/** MOVE, PUT and DELETE there, and DELETE here. */
const FILES = '/dav/*,/dav/*,/dav/*,/dav/*'
const elsewhere = (source = '/dav/*') => ({ forwarded: '', checks: `destination,destination,destination,${source}` })

t.test('the destination is checked for the method and for PUT, and forwarded as the backend knows it', async t => {
  t.same(ask('/dav/b'), { forwarded: '/b', checks: FILES })
  t.same(ask('/dav/b/', { method: 'COPY' }), { forwarded: '/b/', checks: '/dav/*,/dav/*,/dav/*' })
  t.same(ask('/dav/%62?x=/y?z'), { forwarded: '/b?x=/y?z', checks: FILES })
  t.same(ask('http://gw.example/dav/b'), { forwarded: '/b', checks: FILES })
  t.same(ask('https://GW.example/dav'), { forwarded: '/', checks: FILES })
  t.same(ask('/dav/read/b', { method: 'COPY' }), {
    forwarded: '/dav/read/b',
    checks: 'GET,COPY /dav/read/*,PUT /dav/read/*,/dav/*'
  })
  t.same(ask('/dav/read/b'), { forwarded: '/read/b', checks: '/dav/*,PUT /dav/read/*,/dav/*,/dav/*' })
})

t.test('what is no path of this gateway, or of another upstream, is a destination elsewhere', async t => {
  const others = [
    '/others/b',
    '/checked/b',
    '/auth/me',
    'http://other.example/dav/b',
    '//gw.example/dav/b',
    'dav/b',
    ''
  ]
  for (const other of [...others, '/dav/b c', '/dav/b#c', '/dav/bé', 'dav/', 'http://gw.example:81/dav/b'])
    t.match(ask(other).forwarded, /^$/, other)
  for (const other of ['/others/b', '/checked/b', 'dav/b', '/dav/b#c', '']) t.same(ask(other), elsewhere(), other)
  t.same(ask('/dav/x/../b'), { forwarded: '', checks: 'dot-segment,dot-segment,dot-segment,/dav/*' })
  t.same(ask('/none'), { forwarded: '', checks: 'no-route,no-route,no-route,/dav/*' })
  t.same(ask('/dav/b', { path: '/checked/a' }), elsewhere('/checked/*'))
  t.match(ask('/checked/b', { path: '/checked/a' }), {
    forwarded: '/checked/b',
    checks: '/checked/*,/checked/*,/checked/*,/checked/*'
  })
  t.same(
    ask('/auth/admin/x', { path: '/checked/a' }),
    elsewhere('/checked/*'),
    'neither has an upstream, but only one is checked'
  )
})

t.test('the host for which a trusted proxy was asked is that of the destination too', async t => {
  const fields = ['X-Forwarded-Host', 'portal.example']
  t.same(ask('http://portal.example/dav/b', { fields, trusted: true }), { forwarded: '/b', checks: FILES })
  t.same(ask('http://gw.example/dav/b', { fields, trusted: true }), { forwarded: '/b', checks: FILES })
  t.same(ask('http://portal.example/dav/b', { fields }), elsewhere(), 'of another peer, the field says nothing')
})

t.test('nothing else is looked at', async t => {
  t.same(ask(undefined), { forwarded: '', checks: undefined })
  for (const method of ['PUT', 'GET', ''])
    t.same(ask('/dav/b', { method }), { forwarded: '', checks: undefined }, method)
  t.same(ask('/dav/b', { path: '/none' }), { forwarded: '', checks: undefined })
  const unmatched = exchangeOf({ method: 'MOVE', fields: ['Host', 'gw.example', 'Destination', '/dav/b'] })
  t.equal(step(unmatched), undefined)
  t.equal(unmatched.match, undefined)
})

// RV-29
t.test('what a MOVE removes, and what it or a COPY may overwrite, needs the right to delete', async t => {
  const folder = await routeFolder(t, {
    'a.yaml': `
upstreams: { files: { url: http://127.0.0.1:4001 } }
routes:
  - { path: /files/*, upstream: files }
  - { path: /files/*, upstream: files, methods: [DELETE], roles: [Admin] }
`
  })
  const { table } = await loadRoutes(folder, ownRoutes())
  const decideOn = (method: string, who: string, ...fields: string[]) => {
    const exchange = exchangeOf({ method, fields: ['Host', 'gw.example', 'Destination', '/files/b', ...fields] })
    const match = table.match(method, '/files/a')
    exchange.match = match
    if (match.route !== undefined) exchange.route = match.route
    createMatchDestination(() => table)(exchange)
    return decide(exchange.match, askerOf(who), { cloudUnassignedMayPass: false }).decision
  }
  t.equal(decideOn('MOVE', 'Agente'), 403)
  t.equal(decideOn('MOVE', 'Agente', 'Overwrite', 'F'), 403, 'the source goes')
  t.equal(decideOn('MOVE', 'Admin'), 'allow')
  t.equal(decideOn('COPY', 'Agente'), 403)
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'T'), 403)
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'f'), 403, 'a server may read that as T')
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'F'), 'allow')
  t.equal(decideOn('COPY', 'Agente', 'Overwrite', 'F', 'Overwrite', 'T'), 403)
})

// Routes with `host` apply to their hosts alone; the host that chooses the rules is the one that backends are told.
// RT-28, HD-12, HD-13
import t from 'tap'
import { parse } from 'yaml'
import { weakerNeighbours } from '../../gateway/cli/weaker-neighbours.ts'
import { appsFor } from '../../gateway/routes/apps.ts'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { startGateway, type World } from '../support/gateway.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { rawWebSocket, startWebSocketUpstream } from '../support/raw-websocket.ts'
import { recipeBlocks } from '../support/recipe.ts'
import { complaintsOf, routeFolder, tableOf, UPSTREAMS } from '../support/route-files.ts'
import { words } from '../support/words.ts'

const upstream = await startRawUpstream(t)
const sockets = await startWebSocketUpstream(t)
/** Caddy compared more than a hundred of them in their own case only. */
const MANY = Array.from({ length: 200 }, (_, index) => `a${index}.corp.example`)
const config = {
  upstreams: {
    back: { url: upstream.url, preserveHost: true },
    sockets: { url: sockets.url }
  },
  routes: [
    { path: '/*', upstream: 'back', public: true },
    { path: '/live', upstream: 'sockets', websocket: {} },
    { path: '/*', upstream: 'back', host: ['admin.corp.example', ...MANY], roles: ['Admin'] },
    { path: '/page', upstream: 'back', host: ['wiki.corp.example', 'docs.corp.example'], public: true },
    { path: '/live', upstream: 'sockets', host: 'wiki.corp.example', roles: ['Admin'], websocket: {} },
    { path: '/*', upstream: 'back', host: '*.corp.example', roles: ['Supervisor'] },
    { path: '/named/*', external: true, host: 'outer.example', roles: ['Agente'] },
    { path: '/named/*', external: true, public: true }
  ]
}
const env = { PUBLIC_URL: 'https://gw.example', TRUST_PROXY: '127.0.0.1' }
const direct = await startGateway(t, { config, env: { ...env, TRUST_PROXY: '192.0.2.1' } })
const proxied = await startGateway(t, { config, env, postgres: direct.postgres })
const admin = await direct.tokenFor({ profiles: ['Admin'] })

interface Asked {
  readonly target?: string
  readonly token?: string
  readonly fields?: string
  readonly version?: string
}

/** The status, and the Host and X-Forwarded-Host that the backend received. */
const ask = async (
  world: World,
  host: string,
  { target = '/page', token, fields = '', version = '1.1' }: Asked = {}
) => {
  const before = upstream.requests.length
  const auth = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`
  const hostLine = host === '' ? '' : `Host: ${host}\r\n`
  const { status } = await world.raw(
    `GET ${target} HTTP/${version}\r\n${hostLine}${fields}${auth}Connection: close\r\n\r\n`
  )
  const received = upstream.requests[before]?.headers ?? []
  const told = received.filter(([name]) => /^(?:host|x-forwarded-host)$/i.test(name)).map(([, value]) => value)
  return [status, ...new Set(told)].join(' ')
}

t.test('routes that name the host apply alone: exact names before wildcards before the rest, in any case', async t => {
  for (const [host, without, withToken] of [
    ['gw.example', '200 gw.example', '200 gw.example'],
    ['admin.corp.example', '401', '200 admin.corp.example'],
    ['wiki.corp.example', '200 wiki.corp.example', '200 wiki.corp.example'],
    ['docs.corp.example', '200 docs.corp.example', '200 docs.corp.example'],
    ['other.corp.example', '401', '403'],
    // A wildcard is one label, and not none.
    ['a.other.corp.example', '200 gw.example', '200 gw.example'],
    ['corp.example', '200 gw.example', '200 gw.example'],
    ['xcorp.example', '200 gw.example', '200 gw.example'],
    // Caddy above 100 hosts, and Authelia's rules, compared these in their own case.
    ['Admin.Corp.Example:443', '401', '200 admin.corp.example:443'],
    ['admin.CORP.example:1', '401', '200 admin.corp.example:1'],
    ['A199.corp.example', '401', '200 a199.corp.example']
  ] as const) {
    t.equal(await ask(direct, host), without, host)
    t.equal(await ask(direct, host, { token: admin }), withToken, host)
  }
  // Nothing of a named host falls to *.corp.example, or to the routes without host.
  for (const [host, target] of [
    ['wiki.corp.example', '/other'],
    ['outer.example', '/page']
  ] as const)
    t.equal(await ask(direct, host, { target, token: admin }), '404', host)
})

t.test('a host that servers read in several ways is refused', async t => {
  for (const host of (
    'admin.corp.example.¦admin.corp.example.:443¦.corp.example¦admin..corp.example¦%61dmin.corp.example¦' +
    "admin.corp.example,gw.example¦admin'.corp.example¦*.corp.example¦good@admin.corp.example¦" +
    'admin.corp.example@evil.example¦admin.corp.example:443:443¦admin.corp.example:¦' +
    'https://admin.corp.example¦admin.corp.example/x¦ädmin.corp.example¦admin.corp.example b¦[::1'
  ).split('¦'))
    t.equal(await ask(direct, host, { token: admin }), '400', host)
  t.equal(await ask(direct, 'gw.example', { fields: 'Host: admin.corp.example\r\n' }), '400', 'two Hosts')
  t.equal(await ask(direct, 'gw.example', { fields: 'Host: gw.example\r\n' }), '400', 'two equal Hosts')
  t.equal(await ask(direct, ''), '400', 'none')
  for (const host of ['[::1]:3000', '127.0.0.1', 'gw.example:3000', 'unknown.example'])
    t.equal(await ask(direct, host), '200 gw.example', host)
  t.equal(await ask(direct, '', { version: '1.0' }), '200 gw.example', 'HTTP/1.0 knows no Host')
})

t.test('an absolute-form target must name the same host', async t => {
  t.equal(await ask(direct, 'admin.corp.example', { target: 'http://gw.example/page' }), '400')
  t.equal(await ask(direct, 'gw.example', { target: 'http://admin.corp.example/page' }), '400')
  t.equal(await ask(direct, 'gw.example', { target: 'http://gw.example@admin.corp.example/page' }), '400')
  t.equal(await ask(direct, 'Admin.corp.example', { target: 'http://admin.CORP.example/page' }), '401')
})

t.test('X-Forwarded-Host chooses for trusted proxies alone, once; nothing else that names a host does', async t => {
  const forwarded = (host: string) => ({ fields: `X-Forwarded-Host: ${host}\r\n` })
  t.equal(await ask(direct, 'admin.corp.example', forwarded('gw.example')), '401', 'a stranger cannot leave a host')
  t.equal(await ask(direct, 'gw.example', { ...forwarded('admin.corp.example'), token: admin }), '200 gw.example')
  t.equal(await ask(proxied, 'gateway', forwarded('Admin.corp.example:8443')), '401')
  const toAdmin = { ...forwarded('Admin.corp.example:8443'), token: admin }
  t.equal(await ask(proxied, 'gateway', toAdmin), '200 admin.corp.example:8443')
  t.equal(await ask(proxied, 'admin.corp.example', forwarded('gw.example')), '200 gw.example')
  t.equal(await ask(proxied, 'admin.corp.example'), '401', 'without it, Host')
  const again = 'gw.example\r\nX-Forwarded-Host: gw.example'
  for (const twice of ['gw.example, admin.corp.example', 'gw.example,gw.example', again, ''])
    t.equal(await ask(proxied, 'gw.example', forwarded(twice)), '400', twice)
  for (const name of ['X-Host', 'X-Original-Host', 'Forwarded', 'X_Forwarded_Host', 'X-Forwarded-Server'])
    for (const world of [direct, proxied])
      t.equal(await ask(world, 'admin.corp.example', { fields: `${name}: host=gw.example\r\n` }), '401', name)
})

t.test('a host that is not named counts as PUBLIC_URL’s, also where that is named', async t => {
  const routes = [
    { path: '/*', upstream: 'back', host: 'gw.example', roles: ['Admin'] },
    { path: '/*', upstream: 'back', public: true }
  ]
  const world = await startGateway(t, {
    config: { upstreams: config.upstreams, routes },
    env: { PUBLIC_URL: 'https://gw.example', ALLOWED_HOSTS: 'also.example' },
    postgres: direct.postgres
  })
  t.equal(await ask(world, 'unknown.example'), '401')
  t.equal(await ask(world, 'unknown.example', { token: admin }), '200 gw.example')
  t.equal(await ask(world, 'also.example'), '200 also.example')
  const explained = async (host: string) =>
    (
      await world.fetch(`/auth/admin/explain?method=GET&path=https://${host}/x&as=Agente`, { token: admin })
    ).json() as Promise<{ decision: unknown }>
  t.match(await explained('unknown.example'), { decision: 403, host: 'unknown.example', words: /counts as/ })
  t.match(await explained('also.example'), { decision: 'allow' })
})

t.test('/health and /auth/ are on every host', async t => {
  for (const host of ['gw.example', 'admin.corp.example', 'x.corp.example', 'unknown.example']) {
    t.equal(await ask(direct, host, { target: '/health' }), '200', host)
    t.equal(await ask(direct, host, { target: '/auth/config' }), '200', host)
    t.equal(await ask(direct, host, { target: '/auth/admin/routes' }), '401', host)
    t.equal(await ask(direct, host, { target: '/AUTH/config', token: admin }), '400', host)
  }
})

t.test('a socket opens by the rules of its host', async t => {
  const open = async (host: string, token?: string) => {
    const auth = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const socket = await rawWebSocket(direct.port, { path: '/live', headers: { host, ...auth } })
    socket.socket.destroy()
    return socket.head().split(' ')[1]
  }
  const agent = await direct.tokenFor({ profiles: ['Agente'] })
  t.equal(await open('gw.example', agent), '101')
  t.equal(await open('wiki.corp.example', agent), '403')
  t.equal(await open('Wiki.corp.example:443', admin), '101')
  t.equal(await open('docs.corp.example', admin), '404')
})

t.test('a proxy that asks names the host: X-Forwarded-Host beside X-Forwarded-Uri, or in X-Original-URL', async t => {
  const token = await direct.tokenFor({ profiles: ['Agente'] })
  const asks = async (fields: Record<string, string>, more: { token?: string } = {}) => {
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
    return ask(proxied, 'portaria:3000', { target: '/auth/forward', fields: lines.join(''), ...more })
  }
  const byForwarded = (host: string, more = {}) =>
    asks({ 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/named/x', 'X-Forwarded-Host': host, ...more })
  const byOriginal = (url: string, more = {}) => asks({ 'X-Original-Method': 'GET', 'X-Original-URL': url, ...more })
  for (const host of ['outer.example', 'Outer.Example:8443']) {
    t.equal(await byForwarded(host), '401', host)
    t.equal(await byOriginal(`https://${host}/named/x`), '401', host)
  }
  t.equal(await byForwarded('gw.example'), '200')
  t.equal(await byOriginal('https://gw.example/named/x'), '200')
  const original = { 'X-Original-Method': 'GET', 'X-Original-URL': 'https://outer.example/named/x' }
  t.equal(await asks(original, { token }), '200')
  // What a client sent passes through nginx beside what nginx says.
  t.equal(await byOriginal('https://outer.example/named/x', { 'X-Forwarded-Host': 'gw.example' }), '401')
  for (const host of ['outer.example.', 'gw.example, outer.example', 'good@outer.example', ''])
    t.equal(await byForwarded(host), '400', host)
  for (const url of words`
    /named/x https://good@outer.example/named/x https://outer.example./named/x https:///named/x
  `)
    t.equal(await byOriginal(url, { 'X-Forwarded-Host': 'gw.example' }), '400', url)
  t.equal(await asks({ 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/named/x' }), '400', 'none')
})

t.test('the access log has the host, unless it is PUBLIC_URL’s', async t => {
  await ask(direct, 'Wiki.corp.example:8443', { target: '/page?n=1' })
  await ask(direct, 'unknown.example', { target: '/unknown' })
  t.match(await direct.logged(({ host, path }) => host === 'wiki.corp.example' && path === '/page'), {
    route: 'wiki.corp.example/page',
    decision: 'allow'
  })
  t.equal((await direct.logged(({ path }) => path === '/unknown')).host, undefined)
})

t.test('an application at the root of its own host, by the recipe for Grafana', async t => {
  const [{ upstreams }, { routes }] = recipeBlocks('grafana', 'yaml').map(text => parse(text))
  const world = await startGateway(t, {
    config: { upstreams: { grafana: { ...upstreams.grafana, url: upstream.url } }, routes },
    env: { PUBLIC_URL: 'https://gw.example', BROWSER_SESSION: 'true' },
    postgres: direct.postgres
  })
  upstream.respond(({ target }) =>
    target === '/'
      ? 'HTTP/1.1 302 Found\r\nLocation: http://grafana.corp.example/login\r\nContent-Length: 0\r\n\r\n'
      : OK
  )
  t.teardown(() => upstream.respond(() => OK))
  const token = await world.tokenFor({ username: 'ana' })
  t.equal(await ask(world, 'grafana.corp.example', { target: '/d/1', token }), '200 grafana.corp.example')
  t.match(upstream.requests.at(-1)?.head, /\r\nX-WEBAUTH-USER: ldap:ana\r\n/i)
  const moved = await world.raw(
    `GET / HTTP/1.1\r\nHost: grafana.corp.example\r\nAuthorization: Bearer ${token}\r\n\r\n`
  )
  t.equal(moved.headers.location, '/login')
  t.equal(await ask(world, 'gw.example', { target: '/d/1', token }), '404')
})

const YAML = `${UPSTREAMS}routes:
  - { path: /*, upstream: up, roles: [Agente] }
  - { path: /*, upstream: up, host: Grafana.corp.example, roles: [Admin] }
  - { path: /x/*, upstream: up, host: '*.corp.example', public: true }
`

t.test('test lines name a host; without one it is one that no route names', async t => {
  const check = (...lines: string[]) =>
    complaintsOf(t, { 'routes.yaml': `${YAML}tests:\n${lines.map(line => `  - ${line}\n`).join('')}` })
  const holding = [
    'GET /x as Agente -> allow',
    'GET https://GRAFANA.corp.example:8443/x?y as Admin -> allow',
    'GET http://wiki.corp.example/x as anonymous -> allow',
    'GET http://a.123/x as Agente -> allow'
  ]
  t.same(await check(...holding), [])
  for (const wrong of words`https://grafana.corp.example./x https://grafana.corp.example:65536/x https://a@grafana.corp.example/x https://grafana.corp.example`)
    t.match(await check(`GET ${wrong} as Admin -> allow`), [
      /the address of a test must have the form https:\/\/HOST\/PATH/
    ])
  t.match(await check('GET https://grafana.corp.example/x as Agente -> allow'), [
    /fails: expected allow, got 403 \(role-missing\) from the route "grafana\.corp\.example\/\*"/
  ])
})

t.test('what is no host name is refused, with what to write', async t => {
  for (const [wrong, words] of Object.entries({
    'grafana.corp.example.': /must not end in a dot/,
    'grafana..example': /is no host name/,
    'grafana.corp.example:8443': /without its port/,
    'https://grafana.corp.example': /is no host name/,
    'a@grafana.corp.example': /is no host name/,
    'bücher.example': /must be written as requests have it: xn--bcher-kva\.example/,
    'gra*.corp.example': /is no host name/,
    '*.*.example': /is no host name/,
    '*': /leave "host" out/,
    '[::1]': /is no host name/,
    '127.1': /must be written as requests have it: 127\.0\.0\.1/,
    '-a.example': /is no host name/
  })) {
    const file = `${UPSTREAMS}routes:\n  - path: /x\n    upstream: up\n    host: ${JSON.stringify(wrong)}\n`
    const [complaint] = await complaintsOf(t, { 'routes.yaml': file })
    t.match(complaint, new RegExp(`^routes.yaml:6:11: ".*" .*${words.source}`), wrong)
  }
  const listed = `${UPSTREAMS}routes:\n  - { path: /x, upstream: up, host: [a.example, b.example.] }\n`
  t.match(await complaintsOf(t, { 'routes.yaml': listed }), [/routes.yaml:4:49: "b.example." must not end in a dot/])
  const same = `${UPSTREAMS}routes:\n  - { path: /x, upstream: up, host: [a.example, b.example] }\n  - { path: /x, upstream: up, host: [b.example, A.example] }\n`
  t.match(await complaintsOf(t, { 'routes.yaml': same }), [
    /"b\.example\/x" matches the same requests as "a\.example\/x"/
  ])
})

t.test('paths are told apart on each host alone', async t => {
  const table = await tableOf(t, '/Admin/* {host: a.example}', '/* {host: a.example}', '/admin/* {host: b.example}')
  t.match(table.match('GET', '/admin/x', 'a.example'), { reason: 'lax-reading' })
  t.match(table.match('GET', '/admin/x', 'b.example'), { route: { id: 'b.example/admin/*' } })
  t.same(table.match('GET', '/admin/x', ''), { refusal: 'no-route' })
  t.same(table.hosts, ['a.example', 'b.example'])
  t.same([table.namesHost('a.example'), table.namesHost(''), table.namesHost('example')], [true, false, false])
})

t.test('explain says which routes apply to a host; an example of replay and diff has the host', async t => {
  const folder = await routeFolder(t, { 'routes.yaml': YAML })
  const explain = (address: string, env: Record<string, string> = {}) =>
    portaria(['explain', 'GET', address, '--as', 'Agente', '--json', '--config', folder], { env })
  t.match((await explain('https://GRAFANA.corp.example:8443/x/y')).json(), {
    host: 'grafana.corp.example',
    target: '/x/y',
    words: /Only the routes that name this host apply/
  })
  t.match((await explain('/x/y')).json(), { words: /No route names a host here/ })
  const ofPublic = { PUBLIC_URL: 'https://grafana.corp.example', ALLOWED_HOSTS: 'also.example:8443' }
  t.match((await explain('https://stranger.example/x/y', ofPublic)).json(), {
    host: 'stranger.example',
    words: /Only the routes that name this host apply\..*"stranger.example" .* counts as that of PUBLIC_URL, "grafana/
  })
  for (const [address, env] of [['https://also.example:8443/x/y', ofPublic], ['https://stranger.example/x/y']] as const)
    t.match((await explain(address, env)).json(), { words: /No route names this host/ })
  const bad = await portaria(['explain', 'GET', 'https://grafana.corp.example./x', '--config', folder])
  t.match(bad, { code: 2, stderr: /PATH must begin with/ })
  const asked = { method: 'GET', host: 'grafana.corp.example', path: '/x/1' }
  const line = { msg: 'request', ...asked, decision: 'allow', profiles: [] }
  const replayed = await portaria(['replay', '-', '--config', folder, '--json'], { input: JSON.stringify(line) })
  t.match(replayed.json(), { changes: [{ example: 'GET https://grafana.corp.example/x/1' }] })
  const { host: _host, ...ofPublicUrl } = line
  const replay = (env: Record<string, string>) =>
    portaria(['replay', '-', '--config', folder, '--json'], { env, input: JSON.stringify(ofPublicUrl) })
  t.match(await replay({}), { code: 2, stdout: /set PUBLIC_URL/ })
  const named = await replay({ PUBLIC_URL: 'https://grafana.corp.example' })
  t.match(named.json(), { changes: [{ example: 'GET https://grafana.corp.example/x/1' }] })
  const alone = await routeFolder(t, { 'routes.yaml': YAML.split('\n').slice(0, 4).join('\n') })
  const { stdout } = await portaria(['diff', alone, folder])
  t.match(stdout, /grafana\.corp\.example\/\* is now open to Admin \(until now: Agente\)/)
  t.notMatch(stdout, /^.{0,8} ?\/\* is now/m, 'nothing has changed on other hosts')
  t.notMatch((await portaria(['matrix', '--config', alone])).stdout, /all other hosts/)
})

t.test('matrix groups by host; neighbours are those of the same host', async t => {
  const folder = await routeFolder(t, { 'routes.yaml': YAML })
  t.match(
    (await portaria(['matrix', '--config', folder])).stdout,
    /\nall other hosts *\n\/\* .*\ngrafana\.corp\.example *\ngrafana\.corp\.example\/\* .*\n\*\.corp\.example/
  )
  t.match((await portaria(['matrix', '--config', folder, '--json'])).json<unknown[]>()[1], {
    host: ['grafana.corp.example']
  })
  const neighboursOn = async (host: string) => {
    const below = `/reports/* {host: ${host}, public: true}`
    return weakerNeighbours(await tableOf(t, '/reports {host: a.example, roles: [Admin]}', below, '/* {public: true}'))
  }
  t.same(await neighboursOn('b.example'), [])
  t.match(await neighboursOn('a.example'), [{ message: /belongs to the less strict "a\.example\/reports\/\*"/ }])
  // A neighbour on any of the hosts counts.
  const narrow = '/reports {host: [a.example, b.example], methods: [GET], roles: [Admin]}'
  const table = await tableOf(t, narrow, '/* {host: b.example}', '/* {host: a.example, roles: [Admin]}')
  t.match(weakerNeighbours(table), [
    { message: /paths below it: \/reports\/x belongs to the less strict "b\.example\/\*"/ },
    { message: /leaves POST, PUT, PATCH, DELETE, OPTIONS and unknown methods to the less strict "b\.example\/\*"/ }
  ])
})

t.test('/auth/apps links to the host of each application, with the scheme and the port of PUBLIC_URL', async t => {
  const app = (name: string) => `app: {name: ${name}}, public: true`
  const table = await tableOf(
    t,
    `/* {host: [wiki.example, docs.example], ${app('wiki')}}`,
    `/d/* {host: ['*.example', grafana.example], ${app('grafana')}}`,
    `/portal/* {${app('portal')}}`,
    `/shown {host: closed.example, ${app('closed')}}`,
    '/elsewhere {host: a.example, public: true, app: {name: address, url: "https://b.example/"}}'
  )
  const urlsOf = (table: Parameters<typeof appsFor>[0], hostName: string, publicUrl: string) =>
    appsFor(table, {}, hostName, { cloudUnassignedMayPass: false, publicUrl }).map(({ url }) => url)
  const listed = (hostName: string) => urlsOf(table, hostName, 'https://gw.other:8443')
  const others = ['https://wiki.example:8443/', 'https://grafana.example:8443/d']
  t.same(listed('gw.other'), [...others, '/portal', 'https://closed.example:8443/shown', 'https://b.example/'])
  t.same(listed('wiki.example')[2], 'https://gw.other:8443/portal', 'on the page of another host')
  const home = await tableOf(
    t,
    `/portal {${app('portal')}}`,
    `/news {${app('news')}}`,
    '/portal {host: gw.example, roles: [Admin]}',
    '/news {host: gw.example, public: true}'
  )
  const urlsAt = (hostName: string) => urlsOf(home, hostName, 'https://gw.example')
  t.same(urlsAt('gw.example'), ['https://gw.example/news'], 'decided by the routes of the host that the link leads to')
  t.same(urlsAt('also.example'), ['/portal', '/news'])
  t.match(
    await complaintsOf(t, {
      'routes.yaml': `${UPSTREAMS}routes:\n  - { path: /x, upstream: up, public: true, host: '*.example', app: {name: x} }\n`
    }),
    [/"app" needs a whole address as "url" here, because the host has \* in it/]
  )
})

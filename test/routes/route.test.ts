// What a route is where its file says nothing, and the part of the path that is forwarded.
import t from 'tap'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { forwardedPath, ROUTE_FLAGS } from '../../gateway/routes/route.ts'
import { complaintsOf, tableOf } from '../support/route-files.ts'

t.test('a route without options lets everyone with a valid token use every method, and changes nothing', async t => {
  const table = await tableOf(t, '/x')
  const { route } = table.match('GET', '/x')
  if (route === undefined) return t.fail('no route')
  const { number: _, upstream, place, ...others } = route
  t.equal(upstream?.name, 'up')
  t.match(place, { line: 4, column: 5 })
  t.same(others, {
    id: '/x',
    path: '/x',
    methods: undefined,
    coversBelow: false,
    public: false,
    roles: undefined,
    requireAssigned: false,
    tokenKinds: undefined,
    forwardToken: false,
    browser: false,
    ownAuthorization: false,
    basic: false,
    external: false,
    stripPrefix: undefined,
    rateLimit: undefined,
    timeoutMs: undefined,
    maxBodyBytes: undefined,
    websocket: undefined,
    socketio: undefined,
    app: undefined,
    streaming: false,
    allowInPath: [],
    accept: []
  })
  const health = ownRoutes().find(({ path }) => path === '/health')
  t.match(health, { upstream: undefined, external: false, browser: false, basic: false, public: true })
  t.same(health?.place, { file: 'gateway', line: 1, column: 1 })
})

t.test('each flag of a route is described', async t => {
  const flags = [
    'public',
    'requireAssigned',
    'forwardToken',
    'external',
    'basic',
    'browser',
    'ownAuthorization',
    'streaming'
  ]
  t.same(Object.keys(ROUTE_FLAGS), flags)
  for (const text of Object.values(ROUTE_FLAGS)) t.match(text, /^\p{Lu}.*\.$/u)
})

t.test('every attribute of a person can be sent in a header, and nothing else', async t => {
  const withHeader = (attribute: string) =>
    complaintsOf(t, {
      'a.yaml': `upstreams: { up: { url: http://127.0.0.1:4001, identityHeaders: { X-Person: ${attribute} }, identityHeadersShared: true } }\nroutes: [{ path: /x, upstream: up }]\n`
    })
  const attributes = ['id', 'name', 'email', 'username', 'login', 'provider', 'profiles', 'areas', 'areaPrincipal']
  for (const attribute of [...attributes, 'accessStatus']) t.same(await withHeader(attribute), [], attribute)
  for (const other of ['groups', '""', 'Id']) t.equal((await withHeader(other)).length, 1, other)
})

t.test('a prefix is removed at the end of a segment only', async t => {
  const forwarded = (stripPrefix: string | undefined, path: string) => forwardedPath({ stripPrefix }, path)
  t.equal(forwarded(undefined, '/a/b'), '/a/b')
  t.equal(forwarded('/', '/a/b'), '/a/b')
  t.equal(forwarded('/a', '/a'), '/')
  t.equal(forwarded('/a', '/a/'), '/')
  t.equal(forwarded('/a', '/a/b/a'), '/b/a')
  t.equal(forwarded('/a', '/ab'), '/ab')
  t.equal(forwarded('/a', '/b/a/'), '/b/a/')
})

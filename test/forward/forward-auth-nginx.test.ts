// A real nginx asks the gateway about each request.
import t from 'tap'
import { parse } from 'yaml'
import { askProxy, checkHosts, checkProxy, HOSTS, type StartProxy } from '../support/auth-proxies.ts'
import { startGateway } from '../support/gateway.ts'
import { startNginx } from '../support/nginx.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { recipeBlock, recipeBlocks, recipeSettings } from '../support/recipe.ts'

const NAME = 'forward-auth-nginx'
const [OWN] = HOSTS

const startProxy: StartProxy = (gateway, app, hosts) =>
  startNginx(t, port =>
    recipeBlock(NAME, 'nginx', {
      'listen 80;': `listen 127.0.0.1:${port};`,
      'server_name app.example.org;': `server_name ${hosts.join(' ')};`,
      '127.0.0.1:3000': `127.0.0.1:${gateway.port}`,
      '127.0.0.1:8080': `127.0.0.1:${app.port}`
    })
  )

t.test('nginx in front, by the recipe’s text: who may pass passes, with our identity alone', async t => {
  // RT-34, HD-01, HD-02, RW-95
  const app = await startRawUpstream(t)
  const { routes } = parse(recipeBlock(NAME, 'yaml')) as { routes: { path: string }[] }
  const few = { path: '/app/few', external: true, rateLimit: { max: 1, window: '1h' } }
  const world = await startGateway(t, { env: recipeSettings(NAME), config: { routes: [...routes, few] } })
  const port = await startProxy(world, app, [OWN])
  await checkProxy(port, OWN, world, app)
  const agent = await world.tokenFor({ id: 7 })
  t.equal((await askProxy(port, OWN, app, '/app/public/../x')).answer.status, 400)
  t.equal((await askProxy(port, OWN, app, '/app/few', agent)).answer.status, 200)
  const { answer } = await askProxy(port, OWN, app, '/app/few', agent)
  t.match(answer, { status: 429, headers: { 'retry-after': /^\d+$/ } })
})

t.test('each host has its own rules, however a client writes it: nginx names the host that it serves', async t => {
  const app = await startRawUpstream(t)
  const world = await startGateway(t, {
    env: recipeSettings(NAME),
    config: parse(recipeBlocks(NAME, 'yaml')[1] ?? '')
  })
  const port = await startProxy(world, app, HOSTS)
  const agent = await world.tokenFor({ id: 7 })
  const ask = async (host: string, { target = '/app/x', lines = '' } = {}) => {
    const { answer, request } = await askProxy(port, host, app, target, agent, lines)
    const told = request?.headers.find(([name]) => name === 'Host')?.[1] ?? ''
    return `${answer.status} ${told}`.trimEnd()
  }
  for (const host of ['wiki.example.org', 'WIKI.example.org', 'wiki.example.org.', 'wiki.example.org:8443'])
    t.equal(await ask(host), '200 wiki.example.org', host)
  for (const host of ['admin.example.org', 'Admin.Example.org', 'admin.example.org.', 'admin.example.org:80']) {
    t.equal(await ask(host), '403', host)
    for (const name of ['X-Forwarded-Host', 'X-Original-Host', 'X-Host', 'Forwarded'])
      t.equal(await ask(host, { lines: `${name}: wiki.example.org\r\n` }), '403', `${host} with ${name}`)
  }
  t.equal(await ask('wiki.example.org', { target: 'http://admin.example.org/app/x' }), '403', 'nginx serves this host')
  t.equal(await ask('admin.example.org', { target: 'http://wiki.example.org/app/x' }), '200 wiki.example.org')
  t.equal(await ask(OWN), '404', 'no route is for this host')
})

t.test('no application has nginx answer from elsewhere, in both recipes', async t => {
  const app = await startRawUpstream(t)
  app.respond(() => OK.replace('\r\n', '\r\nX-Accel-Redirect: /app/private\r\n'))
  const world = await startGateway(t, { env: recipeSettings(NAME), config: parse(recipeBlock(NAME, 'yaml')) })
  const port = await startProxy(world, app, [OWN])
  t.match((await askProxy(port, OWN, app, '/app/public/x')).answer, { status: 200, body: 'ok' })
  t.same(
    app.requests.map(({ target }) => target),
    ['/app/public/x'],
    'what nobody may see without a login'
  )
  const before = await startNginx(t, port =>
    recipeBlock('front-nginx', 'nginx', {
      '127.0.0.1:3000': `127.0.0.1:${app.port}`,
      'server 127.0.0.1:3001 max_fails=0;': ''
    })
      .replace(/^ *(?:listen .*|ssl_.*|http2 .*)\n/gm, '')
      .replace(
        'server {',
        `server {\n listen 127.0.0.1:${port};\n location /app/private { internal; return 200 secret; }`
      )
  )
  t.match((await askProxy(before, OWN, app, '/app/public/x')).answer, { status: 200, body: 'ok' })
})

t.test('a login at the host of PUBLIC_URL opens the others, whose /auth/ nginx passes on', t =>
  checkHosts(t, startProxy)
)

// A real nginx asks the gateway about each request.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { startGateway } from '../support/gateway.ts'
import { NAVIGATION, openHostBrowser } from '../support/host-browser.ts'
import { postLoginAgain } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { accepts, freePort } from '../support/ports.ts'
import { findNginx } from '../support/provision.ts'
import { rawExchange } from '../support/raw-client.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { recipeBlock, recipeBlocks, recipeSettings } from '../support/recipe.ts'
import { until } from '../support/until.ts'

const NAME = 'forward-auth-nginx'

const startNginx = async (t: Test, gateway: number, app: number, hosts = 'app.example.org'): Promise<number> => {
  const folder = mkdtempSync(join(tmpdir(), 'portaria-nginx-'))
  const port = await freePort()
  const server = recipeBlock(NAME, 'nginx', {
    'listen 80;': `listen 127.0.0.1:${port};`,
    'server_name app.example.org;': `server_name ${hosts};`,
    '127.0.0.1:3000': `127.0.0.1:${gateway}`,
    '127.0.0.1:8080': `127.0.0.1:${app}`
  })
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name => `${name}_temp_path ${folder}/${name};`)
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off;\nmaster_process off;\npid ${folder}/pid;\nevents {}\nhttp {\naccess_log off;\n${paths.join('\n')}\n${server}}\n`
  )
  const words = ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')]
  const child = spawn(findNginx() ?? 'nginx', words, { stdio: 'ignore' })
  t.teardown(async () => {
    const ended = once(child, 'exit')
    if (child.exitCode === null && child.kill('SIGKILL')) await ended
    rmSync(folder, { recursive: true, force: true })
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(readFileSync(join(folder, 'error.log'), 'utf8'))
    return accepts(port)
  })
  return port
}

t.test('nginx in front, by the recipe’s text: who may pass passes, with our identity alone', async t => {
  // RT-34, HD-01, HD-02, RW-95
  const app = await startRawUpstream(t)
  const env = recipeSettings(NAME)
  const { routes } = parse(recipeBlock(NAME, 'yaml')) as { routes: { path: string }[] }
  const few = { path: '/app/few', external: true, rateLimit: { max: 1, window: '1h' } }
  const world = await startGateway(t, { env, config: { routes: [...routes, few] } })
  const port = await startNginx(t, world.port, app.port)
  const [agent, admin] = [await world.tokenFor({ id: 7 }), await world.tokenFor({ id: 8, profiles: ['Admin'] })]
  const ask = async (path: string, bearer: string, lines = '', method = 'GET') => {
    const before = app.requests.length
    const auth = bearer === '' ? '' : `Authorization: Bearer ${bearer}\r\n`
    const answer = await rawExchange(
      port,
      `${method} ${path} HTTP/1.1\r\nHost: app.example.org\r\nConnection: close\r\n${auth}${lines}\r\n`
    )
    return { answer, request: app.requests[before] }
  }
  const forged =
    'X-User-Id: 1\r\nX_User_Id: 1\r\nX-User-Profiles: Admin\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /app/public/x\r\n' +
    'X-Original-URL: /app/public/x\r\nX-Original-Method: GET\r\n'
  for (const lines of ['', forged]) {
    const passed = await ask('/app/x?a=1', agent, lines)
    t.equal(passed.answer.status, 200)
    t.equal(passed.request?.target, '/app/x?a=1')
    const identity = passed.request?.headers.filter(([name]) => /^x[-_]user/i.test(name)) ?? []
    t.same(Object.fromEntries(identity)['X-User-Id'], '7')
    t.same(Object.fromEntries(identity)['X-User-Profiles'], 'Agente')
    t.equal(identity.length, 9)
    t.notMatch(passed.request?.head, /authorization/i)
    t.notMatch(passed.request?.head, /x[-_]original/i, 'no other path or method')

    const open = await ask('/app/public/x', '', lines)
    t.equal(open.answer.status, 200)
    t.same(
      open.request?.headers.filter(([name]) => /^x[-_]user/i.test(name)),
      [],
      'no identity on a public route'
    )

    t.equal((await ask('/app/x', admin, lines)).answer.status, 403)
    t.equal((await ask('/app/x', '', lines)).answer.status, 401)
    t.equal((await ask('/app/public/../x', '', lines)).answer.status, 400)
    t.equal((await ask('/auth/forward', agent, lines)).answer.status, 404)
  }
  t.equal((await ask('/app/few', agent)).answer.status, 200)
  const limited = (await ask('/app/few', agent)).answer
  t.equal(limited.status, 429)
  t.match(limited.headers['retry-after'], /^\d+$/)
  const navigation = 'Accept: text/html\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n'
  const redirected = (await ask('/app/x', '', navigation)).answer
  t.equal(redirected.status, 302)
  t.match(redirected.headers.location, /\/auth\/login\?returnTo=%2Fapp%2Fx$/)
  t.equal((await ask('/auth/config', '')).answer.status, 200)
})

t.test('each host has its own rules, however a client writes it: nginx names the host that it serves', async t => {
  const app = await startRawUpstream(t)
  const [, several = ''] = recipeBlocks(NAME, 'yaml')
  const world = await startGateway(t, { env: recipeSettings(NAME), config: parse(several) })
  const port = await startNginx(t, world.port, app.port, 'app.example.org wiki.example.org admin.example.org')
  const agent = await world.tokenFor({ id: 7 })
  const ask = async (host: string, { target = '/app/x', lines = '' } = {}) => {
    const before = app.requests.length
    const auth = `Authorization: Bearer ${agent}\r\nConnection: close\r\n`
    const { status } = await rawExchange(port, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${auth}${lines}\r\n`)
    const told = app.requests[before]?.headers.find(([name]) => name === 'Host')?.[1] ?? ''
    return `${status} ${told}`.trimEnd()
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
  t.equal(await ask('app.example.org'), '404', 'no route is for this host')
})

t.test('a login at the host of PUBLIC_URL opens the others, whose /auth/ nginx passes on', async t => {
  const [app, ldap] = [await startRawUpstream(t), await startOpenLdap(t)]
  const settings = recipeSettings(NAME)
  const publicUrl = settings.PUBLIC_URL ?? ''
  const [, several = ''] = recipeBlocks(NAME, 'yaml')
  const world = await startGateway(t, {
    env: { ...settings, ...ldap.env, BOOTSTRAP_ADMINS: 'ldap:maria', LDAP_TIMEOUT_MS: '60000' },
    config: parse(several)
  })
  const port = await startNginx(t, world.port, app.port, 'app.example.org wiki.example.org admin.example.org')
  // Browsers would reach nginx over TLS.
  const browser = openHostBrowser(publicUrl, text => rawExchange(port, text))
  browser.keep('app.example.org', (await postLoginAgain(world, 'maria')).headers.getSetCookie())
  const { way, response } = await browser.open('https://admin.example.org/app/x?y=1')
  t.equal(response.status, 200)
  t.strictSame(
    way.map(address => new URL(address)).map(({ hostname, pathname }) => hostname + pathname),
    [
      'admin.example.org/app/x',
      'admin.example.org/auth/login',
      'app.example.org/auth/session',
      'admin.example.org/auth/session',
      'admin.example.org/app/x'
    ]
  )
  const username = app.requests.at(-1)?.headers.find(([name]) => name === 'X-User-Username')
  t.strictSame(username, ['X-User-Username', 'maria'])
  const refused = await browser.open('https://wiki.example.org/app/x')
  t.equal(refused.response.status, 403, 'logged in there as well, without the role')
  t.equal((await browser.open('https://admin.example.org/app/x')).way.length, 1, 'the cookie of the host is enough now')
  const stolen = { ...NAVIGATION, Cookie: browser.cookieOf('wiki.example.org') }
  t.equal((await browser.ask('https://admin.example.org/app/x', stolen)).status, 302, 'that of another host is not')
})

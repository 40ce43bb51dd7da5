// Proxies that forward requests themselves and ask the gateway to authorise each of them: Caddy and Traefik.
import { equal, match } from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
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
import { caddyVersion, startCaddy } from './caddy.ts'
import { firstLine, type Lab, type System } from './system.ts'
import { openPage } from './three-ways.ts'

const TRAEFIK = process.env.PORTARIA_LAB_TRAEFIK ?? 'traefik'

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

/** The application, and a gateway with the recipe, whose public address is the proxy's. */
const startBoth = async (lab: Lab, recipe: string) => {
  const [app, port] = [await startRawUpstream(lab), await freePort()]
  return { app, port, world: await lab.gateway(recipe, {}, { PUBLIC_URL: `http://127.0.0.1:${port}` }) }
}

const HOSTS = ['app.example.org', 'wiki.example.org', 'admin.example.org'] as const

/** Named hosts behind one proxy, and a login at the host of PUBLIC_URL. Browsers would reach the proxy over TLS. */
const checkHosts = async (lab: Lab, startProxy: (port: number, world: World, app: RawUpstream) => Promise<void>) => {
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
  await startProxy(port, world, app)
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

const caddy: System = {
  name: 'Caddy, forward-auth',
  recipe: 'forward-auth-caddy',
  version: caddyVersion,
  async check(lab) {
    const all = await startBoth(lab, 'forward-auth-caddy')
    const text = recipeBlock('forward-auth-caddy', 'caddyfile', {
      'http://app.example.org:80': `http://127.0.0.1:${all.port}`,
      '127.0.0.1:3000': `127.0.0.1:${all.world.port}`,
      '127.0.0.1:8080': `127.0.0.1:${all.app.port}`
    })
    await startCaddy(lab, text, all.port)
    const found = await checkForwardAuth(lab, all)
    const several = await checkHosts(lab, (port, world, app) => {
      const blocks = HOSTS.map(host =>
        recipeBlock('forward-auth-caddy', 'caddyfile', {
          'http://app.example.org:80': `http://${host}:${port}`,
          '127.0.0.1:3000': `127.0.0.1:${world.port}`,
          '127.0.0.1:8080': `127.0.0.1:${app.port}`
        })
      )
      return startCaddy(lab, blocks.join('\n'), port)
    })
    return [...found, ...several]
  }
}

const traefik: System = {
  name: 'Traefik, forward-auth',
  recipe: 'forward-auth-traefik',
  version: () => /[\d.]+/.exec(firstLine(TRAEFIK, 'version'))?.[0] ?? '',
  async check(lab) {
    const start = async (port: number, world: World, app: RawUpstream, hosts: readonly string[]) => {
      const file = join(lab.folder, `${hosts[0]}.yml`)
      const text = recipeBlock('forward-auth-traefik', 'yml', {
        'Host(`app.example.org`)': `(${hosts.map(host => `Host(\`${host}\`)`).join(' || ')})`,
        '127.0.0.1:3000': `127.0.0.1:${world.port}`,
        '127.0.0.1:8080': `127.0.0.1:${app.port}`
      })
      writeFileSync(file, text)
      const words = [`--entrypoints.web.address=127.0.0.1:${port}`, `--providers.file.filename=${file}`]
      await lab.run(TRAEFIK, [...words, '--global.checknewversion=false'], port)
    }
    const all = await startBoth(lab, 'forward-auth-traefik')
    await start(all.port, all.world, all.app, ['127.0.0.1'])
    const found = await checkForwardAuth(lab, all)
    return [...found, ...(await checkHosts(lab, (port, world, app) => start(port, world, app, HOSTS)))]
  }
}

export const FORWARD_AUTH: readonly System[] = [caddy, traefik]

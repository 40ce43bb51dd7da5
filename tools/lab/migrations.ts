// Asks a peer with its configuration and a gateway with ours the same requests, and compares both with the table of the page.
import { equal, ok } from 'node:assert/strict'
import { createServer } from 'node:http'
import { createCloudBrowser, followWithin, logInAtProvider } from '../../test/support/cloud-browser.ts'
import { answerOverHttp1 } from '../../test/support/http2-client.ts'
import { startNginx } from '../../test/support/nginx.ts'
import { maria, startOidcProvider } from '../../test/support/oidc-provider.ts'
import { freePort, listen } from '../../test/support/ports.ts'
import { type RawUpstream, startRawUpstream } from '../../test/support/raw-upstream.ts'
import { recipeBlock, recipeText } from '../../test/support/recipe.ts'
import { goProgram } from './installed.ts'
import { nginxVersion } from './proxies.ts'
import type { Lab, System } from './system.ts'

const PAGE = {
  accept: 'text/html',
  'sec-fetch-mode': 'navigate',
  'sec-fetch-dest': 'document',
  'sec-fetch-site': 'none'
}
const SCRIPT = { accept: 'application/json' }

interface Side {
  readonly url: string
  /** The header in which its backend learns who asks. */
  readonly identity: string
  /** Of the people of the table, by what it calls them. */
  readonly cookies: Readonly<Record<string, string>>
}

/** `forwarded`, or the status of the refusal. */
const outcomeOf = async (
  { url, identity, cookies }: Side,
  row: RegExpMatchArray,
  app: RawUpstream
): Promise<string> => {
  const [, method = '', path = '', who = ''] = row
  const person = Object.keys(cookies).find(name => who.endsWith(name))
  ok(person !== undefined || who.endsWith('not logged in'), who)
  const cookie = person === undefined ? '' : (cookies[person] ?? '')
  // With the origin that a page of its own has.
  const headers = { ...(who.startsWith('a page') ? PAGE : SCRIPT), origin: url, cookie, [identity]: 'forged' }
  const before = app.requests.length
  const { status } = await answerOverHttp1({ port: Number(new URL(url).port) }, method, path, headers)
  if (app.requests.length === before) return String(status)
  const forged = app.requests.at(-1)?.headers.filter(([, value]) => value === 'forged')
  equal(forged?.length, 0, `${url}${path}: what the client said it is`)
  return 'forwarded'
}

const ROW = /^\| (GET|POST) (\S+), ([^|]+) \| (forwarded|\d+)[^|]*\| (forwarded|\d+)[^|]*\|$/gm

const compareSides = async (page: string, theirs: Side, ours: Side, app: RawUpstream): Promise<string> => {
  const rows = [...recipeText(page).matchAll(ROW)]
  ok(rows.length > 5)
  for (const row of rows) {
    equal(await outcomeOf(theirs, row, app), row[4], `theirs: ${row[0]}`)
    equal(await outcomeOf(ours, row, app), row[5], `ours: ${row[0]}`)
    equal(row[4] === 'forwarded', row[5] === 'forwarded', row[0])
  }
  return `${rows.length} requests, decided alike`
}

const OAUTH2_PROXY = '7.6.0'

/** The cookies of somebody who has logged in on the way to `start`. */
const cookiesAfterLogin = async (url: string, start: string): Promise<string> => {
  const browser = createCloudBrowser()
  const { location } = await followWithin(browser, url + start)
  await followWithin(browser, await logInAtProvider(browser, location, maria))
  return browser.cookieHeader(url)
}

const oauth2Proxy: System = {
  name: 'oauth2-proxy beside Portaria',
  recipe: '../migrate/oauth2-proxy',
  version: () => OAUTH2_PROXY,
  async check(lab) {
    const program = await goProgram('oauth2-proxy', 'github.com/oauth2-proxy/oauth2-proxy/v7', `v${OAUTH2_PROXY}`)
    const app = await startRawUpstream(lab)
    const [port, own] = [await freePort(), await freePort()]
    const [theirUrl, ourUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${own}`]
    const redirectUris = [`${theirUrl}/oauth2/callback`, `${ourUrl}/auth/oauth/cloudidp/callback`]
    const provider = await startOidcProvider(lab, { redirectUris })
    const config = recipeBlock(this.recipe, 'toml', {
      '127.0.0.1:4180': `127.0.0.1:${port}`,
      'https://login.example.org': provider.issuer,
      'client_id = "portaria"': `client_id = "${provider.clientId}"`,
      'change-me': provider.clientSecret,
      'https://app.example.org': theirUrl,
      '127.0.0.1:8080': `127.0.0.1:${app.port}`
    })
    await lab.start(program, ['--config', 'oauth2-proxy.cfg'], {
      port,
      files: { 'oauth2-proxy.cfg': config },
      env: { OAUTH2_PROXY_COOKIE_SECURE: 'false' }
    })
    const env = { ...provider.environment, PUBLIC_URL: ourUrl }
    const world = await lab.gateway(this.recipe, { '127.0.0.1:8080': `127.0.0.1:${app.port}` }, env, own)
    const theirs = {
      url: theirUrl,
      identity: 'x-forwarded-user',
      cookies: { 'a person': await cookiesAfterLogin(theirUrl, '/app/x') }
    }
    const start = '/auth/oauth/cloudidp/start?returnTo=/app/x'
    const ours = {
      url: world.url,
      identity: 'x-user-id',
      cookies: { 'a person': await cookiesAfterLogin(world.url, start) }
    }
    return [await compareSides(this.recipe, theirs, ours, app)]
  }
}

/** A service as people write them: a cookie is the name of a role. */
const startVerifier = async (lab: Lab): Promise<number> => {
  const roles: Record<string, readonly string[]> = { 'as=agent': ['Agente'], 'as=admin': ['Agente', 'Admin'] }
  const server = createServer(({ headers }, response) => {
    const has = roles[headers.cookie ?? '']
    const wanted = String(headers['x-required-role'] ?? '')
    const status = has === undefined ? 401 : wanted === '' || has.includes(wanted) ? 200 : 403
    response.writeHead(status, has === undefined ? {} : { 'x-user': headers.cookie }).end()
  })
  return listen(lab, server)
}

const nginxAuthRequest: System = {
  name: 'nginx with auth_request beside Portaria',
  recipe: '../migrate/nginx-auth-request',
  version: nginxVersion,
  async check(lab) {
    const app = await startRawUpstream(lab)
    const addresses = { '127.0.0.1:8080': `127.0.0.1:${app.port}` }
    const verifier = `127.0.0.1:${await startVerifier(lab)}`
    const siteAt = (at: number) => {
      const more = { ...addresses, '127.0.0.1:8000': `127.0.0.1:${at}`, '127.0.0.1:9000': verifier }
      return recipeBlock(this.recipe, 'nginx', more)
    }
    const port = await startNginx(lab, siteAt)
    const world = await lab.gateway(this.recipe, addresses)
    const cookie = async (...profiles: string[]) => `portaria_session=${await world.tokenFor({ profiles })}`
    const theirs = {
      url: `http://127.0.0.1:${port}`,
      identity: 'x-user',
      cookies: { 'an agent': 'as=agent', 'an admin': 'as=admin' }
    }
    const ours = {
      url: world.url,
      identity: 'x-user',
      cookies: { 'an agent': await cookie('Agente'), 'an admin': await cookie('Admin') }
    }
    return [await compareSides(this.recipe, theirs, ours, app)]
  }
}

export const MIGRATIONS: readonly System[] = [oauth2Proxy, nginxAuthRequest]

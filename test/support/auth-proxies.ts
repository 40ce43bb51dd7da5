// Checks a proxy that forwards requests itself and asks the gateway to authorise each of them: nginx in tests, others in the lab.
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { parse } from 'yaml'
import { startGateway, type World } from './gateway.ts'
import { NAVIGATION, openHostBrowser } from './host-browser.ts'
import { postLoginAgain } from './login.ts'
import { startOpenLdap } from './openldap.ts'
import { identityFields } from './oracles.ts'
import { rawExchange } from './raw-client.ts'
import { type RawUpstream, startRawUpstream } from './raw-upstream.ts'
import { recipeBlocks, recipeSettings } from './recipe.ts'
import { until } from './until.ts'

type Teardown = Parameters<typeof startRawUpstream>[0]

/** Starts the proxy before a gateway and an application; resolves with its port. */
export type StartProxy = (gateway: World, app: RawUpstream, hosts: readonly string[]) => Promise<number>

/** The host of PUBLIC_URL, and two with rules of their own. */
export const HOSTS = ['app.example.org', 'wiki.example.org', 'admin.example.org'] as const

/** Identity headers, also as those of one hop, and both families of headers that describe a request. */
const FORGED =
  'X-User-Id: 1\r\nX_User_Id: 1\r\nX-User_Id: 1\r\nX-User-Profiles: Admin\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /app/public/x\r\n' +
  'X-Original-URL: /app/public/x\r\nX-Original-Method: GET\r\nX_Original_URL: /admin\r\nConnection: x-user-id, X-User-Profiles\r\n'

/** A GET on a connection of its own, and what arrived of it. */
export const askProxy = async (port: number, host: string, app: RawUpstream, path: string, token = '', lines = '') => {
  const before = app.requests.length
  const auth = token === '' ? '' : `Authorization: Bearer ${token}\r\n`
  const text = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${auth}${lines}\r\n`
  return { answer: await rawExchange(port, text), request: app.requests[before] }
}

const untilReady = (port: number, host: string, app: RawUpstream) => {
  const isReady = async () => (await askProxy(port, host, app, '/auth/config')).answer.status === 200
  return until(isReady, 'the proxy has read its routes')
}

/**
 * Who may pass passes, with our identity alone.
 * @param more fields that the proxy removes besides, in addition to those that each must remove
 */
export const checkProxy = async (port: number, host: string, world: World, app: RawUpstream, more = '') => {
  const [agent, admin] = [await world.tokenFor({ id: 7 }), await world.tokenFor({ id: 8, profiles: ['Admin'] })]
  const ask = (path: string, token = '', lines = '') => askProxy(port, host, app, path, token, lines)
  await untilReady(port, host, app)
  for (const lines of ['', FORGED + more]) {
    const { answer, request } = await ask('/app/x?a=1', agent, lines)
    equal(answer.status, 200)
    equal(request?.target, '/app/x?a=1')
    const identity = identityFields(request ?? { headers: [] })
    deepEqual([identity['x-user-id'], identity['x-user-profiles']], [['7'], ['Agente']])
    equal(Object.values(identity).flat().includes('1'), false)
    const unwanted = /^(?:authorization|cookie|x[-_]original[-_].*)$/i
    deepEqual(
      request?.headers.filter(([name]) => unwanted.test(name)),
      []
    )
    const open = await ask('/app/public/x', '', lines)
    equal(open.answer.status, 200)
    equal(Object.values(identityFields(open.request ?? { headers: [] })).join(''), '', 'no identity on a public route')
    const reached = app.requests.length
    equal((await ask('/app/x', admin, lines)).answer.status, 403)
    equal((await ask('/app/x', '', lines)).answer.status, 401)
    ok((await ask('/app/public/%2e%2e/x', '', lines)).answer.status >= 400)
    equal((await ask('/auth/forward', agent, lines)).answer.status, 404)
    equal(app.requests.length, reached, 'what is refused does not arrive')
  }
  const navigation = 'Accept: text/html\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n'
  const redirect = (await ask('/app/x', '', navigation)).answer
  equal(redirect.status, 302)
  match(redirect.headers.location ?? '', /^(?:http:\/\/[^/]*)?\/auth\/login\?returnTo=%2Fapp%2Fx$/)
  const long = (await ask(`/app/x?${'q'.repeat(6000)}`, '', navigation)).answer
  match(`${long.status} ${long.headers.location}`, /^302 .*returnTo=%2Fapp%2Fx%3Fq{6000}$/)
}

/** A login at the host of PUBLIC_URL opens the others, whose rules are their own. Browsers would reach the proxy over TLS. */
export const checkHosts = async (t: Teardown, startProxy: StartProxy) => {
  const [app, ldap] = [await startRawUpstream(t), await startOpenLdap(t)]
  const publicUrl = `https://${HOSTS[0]}`
  const world = await startGateway(t, {
    env: {
      ...recipeSettings('forward-auth-nginx'),
      ...ldap.env,
      BOOTSTRAP_ADMINS: 'ldap:maria',
      PUBLIC_URL: publicUrl
    },
    config: parse(recipeBlocks('forward-auth-nginx', 'yaml')[1] ?? '')
  })
  const port = await startProxy(world, app, HOSTS)
  const browser = openHostBrowser(publicUrl, text => rawExchange(port, text))
  await untilReady(port, HOSTS[0], app)
  browser.keep(HOSTS[0], (await postLoginAgain(world, 'maria')).headers.getSetCookie())
  const { way, response } = await browser.open('https://admin.example.org/app/x?y=1')
  equal(response.status, 200)
  deepEqual(
    way.map(address => new URL(address)).map(({ hostname, pathname }) => hostname + pathname),
    [
      'admin.example.org/app/x',
      'admin.example.org/auth/login',
      'app.example.org/auth/session',
      'admin.example.org/auth/session',
      'admin.example.org/app/x'
    ]
  )
  deepEqual(identityFields(app.requests.at(-1) ?? { headers: [] })['x-user-username'], ['maria'])
  const refused = await browser.open('https://wiki.example.org/app/x')
  equal(refused.response.status, 403, 'logged in there as well, without the role')
  equal((await browser.open('https://admin.example.org/app/x')).way.length, 1, 'the cookie of the host is enough now')
  const stolen = { ...NAVIGATION, Cookie: browser.cookieOf('wiki.example.org') }
  equal((await browser.ask('https://admin.example.org/app/x', stolen)).status, 302, 'that of another host is not')
}

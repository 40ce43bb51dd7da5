// Serves the login, apps, account and console pages, and the session script for pages of backends; nothing loads from other sites.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { HostLogin } from '../access/host-login.ts'
import { isOwnPath, type OwnHosts } from '../access/own-hosts.ts'
import { NotFound } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { REDIRECT } from '../http/own-requests.ts'
import { accepts } from '../http/request.ts'
import type { AppItem } from '../routes/apps.ts'
import type { Settings } from '../settings/settings.ts'
import { array, object, string } from '../values/json-schema.ts'
import { encodeRawBytes } from '../values/urls.ts'
import { ASSETS, pageAssets } from './assets.ts'
import type { PageName } from './bundle-pages.ts'
import { pageHtml } from './page-html.ts'

interface PageRoutesParts extends Pick<Settings, 'publicUrl' | 'browserSession' | 'contact' | 'brandName'> {
  cloudidp: Pick<Settings['cloudidp'], 'name'>
  hosts: Pick<OwnHosts, 'named'>
  hostLogin: Pick<HostLogin, 'begin'>
  /** Whether any route is listed on /auth/apps. */
  hasApps: () => boolean
  /** What the sender of a request may open. Throws what the sender is refused with. */
  appsOf: (exchange: Exchange) => AppItem[]
}

// CSP Level 3 and Trusted Types: scripts and styles only from files here, no markup from text, no framing.
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'"
].join('; ')

const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': POLICY,
  'x-frame-options': 'DENY',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()'
}

const A_YEAR = 'public, max-age=31536000, immutable'
const FIVE_MINUTES = 'public, max-age=300'

const APPS_SCHEMA = {
  summary: 'The applications that you may open: a page, or a list with Accept: application/json',
  response: {
    200: {
      description: 'The page, or the list',
      content: {
        'text/html': { schema: string },
        'application/json': {
          schema: object({ items: array(object({ name: string, description: string, icon: string, url: string })) })
        }
      }
    },
    ...REDIRECT
  }
}

export const pageRoutes = (app: FastifyInstance, parts: PageRoutesParts): void => {
  const { browserSession, contact = '', brandName: brand, hosts } = parts
  const fixed = { 'browser-session': String(browserSession), contact, brand, 'cloud-name': parts.cloudidp.name ?? '' }

  const document =
    (name: PageName) =>
    async ({ exchange }: FastifyRequest, reply: FastifyReply) => {
      const elsewhere = browserSession && hosts.named(exchange) !== undefined && awayFrom(exchange, name, parts)
      if (elsewhere) return reply.code(302).headers(elsewhere).send()
      const { manifest } = await pageAssets()
      const facts = { ...fixed, apps: String(parts.hasApps()) }
      return reply.headers(PAGE_HEADERS).send(pageHtml(name, manifest, facts))
    }
  const page = (name: PageName, summary: string) =>
    app.get(`/auth/${name}`, { schema: { summary, produces: ['text/html'], response: REDIRECT } }, document(name))

  page('login', 'The login page')
  page('console', 'The admin console')
  page('account', 'The account page: access, sessions, access tokens')

  const appsPage = document('apps')
  app.get('/auth/apps', { schema: APPS_SCHEMA }, async (request, reply) => {
    reply.header('vary', 'Origin, Accept')
    const wantsList = accepts(request.headers.accept, 'application/json')
    return wantsList ? { items: parts.appsOf(request.exchange) } : appsPage(request, reply)
  })

  app.get(
    '/auth/session.js',
    { schema: { summary: 'The script that keeps the session of a page alive', produces: ['text/javascript'] } },
    (request, reply) => sendAsset(request, reply, 'session.js', FIVE_MINUTES)
  )

  app.get<{ Params: { '*': string } }>(`${ASSETS}*`, { schema: { hide: true } }, (request, reply) =>
    sendAsset(request, reply, request.params['*'], A_YEAR)
  )
}

/** On a named host, where people log in and see their account: at PUBLIC_URL; undefined: here. */
const awayFrom = (exchange: Exchange, name: PageName, { publicUrl, hostLogin }: PageRoutesParts) => {
  if (name !== 'login') return { location: publicUrl + exchange.path + encodeRawBytes(exchange.query) }
  const query = new URLSearchParams(exchange.query)
  const [popup, returnTo = '/'] = [query.get('popup'), query.get('returnTo') ?? undefined]
  // A pop-up that comes back from there closes itself, and tells the pages of this host.
  if (popup === POPUP_DONE) return undefined
  const path = popup === null ? returnTo : `/auth/login?popup=${POPUP_DONE}`
  const further = ['again', 'popup'].flatMap(key => (query.has(key) ? [[key, '1']] : []))
  const { address, setCookie } = hostLogin.begin(exchange, isOwnPath(path) ? path : '/', Object.fromEntries(further))
  return { location: address, 'set-cookie': setCookie }
}

const POPUP_DONE = 'done'

const sendAsset = async (request: FastifyRequest, reply: FastifyReply, file: string, caching: string) => {
  const asset = (await pageAssets()).get(file)
  if (asset === undefined) throw new NotFound({ reason: 'no-asset' })
  // RFC 9110 §12.5.3, as far as browsers use it.
  const isCompressed = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(request.headers['accept-encoding'] ?? '')
  reply.headers({
    'content-type': asset.type,
    'cache-control': caching,
    vary: 'Origin, Accept-Encoding',
    'cross-origin-resource-policy': 'same-origin'
  })
  if (isCompressed) reply.header('content-encoding', 'gzip')
  return reply.send(isCompressed ? asset.compressed : asset.body)
}

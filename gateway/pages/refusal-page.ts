// Writes a refusal as a small page in the reader's language, without scripts, with its request id and helpful links.
import { createHash } from 'node:crypto'
import type { GatewayError } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { RefusalPage } from '../http/own-responses.ts'
import { fieldValue } from '../http/request.ts'
import type { Settings } from '../settings/settings.ts'
import { escapeHtml } from './page-html.ts'
import { words } from './words-refusal.ts'

// The colours of the login page, if the browser supports `light-dark`.
const STYLE = `
body { margin: 0; min-height: 100vh; display: grid; place-items: center; overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, Arial, sans-serif;
  background: light-dark(#f3f6f5, #0e1413); color: light-dark(#16211f, #e6eeec) }
main { box-sizing: border-box; width: min(32rem, 100%); padding: 1.5rem }
h1 { margin: 0; font-size: 1.6rem; line-height: 1.2 }
small, .brand { color: light-dark(#52625e, #9fb1ac) }
.brand { margin: 0 0 1.5rem; font-weight: 700 }
nav { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1.5rem 0 }
a { padding: .5rem 1rem; border: 1px solid light-dark(#0f6b5c, #63cdb8); border-radius: 10px; font-weight: 600;
  text-decoration: none; color: light-dark(#0f6b5c, #63cdb8) }
a:first-child { background: light-dark(#0f6b5c, #63cdb8); color: light-dark(#fff, #06211c) }
a:focus-visible { outline: 3px solid light-dark(#0f6b5c, #63cdb8); outline-offset: 2px }
`

// Without an icon of its own, the page would make browsers request /favicon.ico from the site.
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='7' fill='%230f6b5c'/%3E%3Cpath d='M8 25V14a8 8 0 0 1 16 0v11M5 25.5h22' fill='none' stroke='%23fff' stroke-width='2.6'/%3E%3C/svg%3E"

/** The page's Content-Security-Policy: nothing loads, and only its own style applies (CSP Level 3 §6.7.2, by hash). */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  'img-src data:',
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'"
].join('; ')

/** Where each kind of refusal leads on. Its title is the word of its name, its text that with `Text` behind it. */
const KINDS = {
  request: ['home'],
  login: ['logIn', 'home'],
  failed: ['startAgain'],
  forbidden: ['account', 'home'],
  unassigned: ['account', 'home'],
  nothing: ['home'],
  tooMany: ['again'],
  away: ['again', 'home'],
  unavailable: ['again', 'home']
} as const satisfies Record<string, readonly Way[]>

type Kind = keyof typeof KINDS
type Way = 'logIn' | 'startAgain' | 'account' | 'home' | 'again'

const LOGINS = /^GW_(?:OAUTH_STATE|OAUTH_FAILED|LOGIN_FAILED|PASSWORD_EXPIRED)$/
const BY_STATUS: Readonly<Record<number, Kind>> = {
  401: 'login',
  403: 'forbidden',
  404: 'nothing',
  429: 'tooMany',
  500: 'unavailable',
  502: 'away',
  503: 'unavailable',
  504: 'away'
}

const kindOf = ({ code, statusCode }: GatewayError): Kind => {
  if (LOGINS.test(code)) return 'failed'
  if (code === 'GW_UNASSIGNED') return 'unassigned'
  if (code === 'GW_BAD_ORIGIN') return 'request'
  return BY_STATUS[statusCode] ?? 'request'
}

/** The reader's most preferred language decides (RFC 9110 §12.5.4): Portuguese, or English for all others. */
const prefersPortuguese = (acceptLanguage = ''): boolean => {
  let best = { tag: '', weight: 0 }
  for (const item of acceptLanguage.split(',').slice(0, 20)) {
    const [tag = '', ...parameters] = item.split(';').map(part => part.trim().toLowerCase())
    const weight = Number(parameters.find(part => part.startsWith('q='))?.slice(2) ?? 1)
    if (tag !== '' && weight > best.weight) best = { tag, weight }
  }
  return /^pt(?:-|$)/.test(best.tag)
}

type Site = Pick<Settings, 'brandName' | 'contact' | 'publicUrl' | 'frontendUrl'> & {
  readonly cloudidp: Pick<Settings['cloudidp'], 'name' | 'successRedirectUrl'>
}

/** Never leads back to a login that is over, nor to the page that was just refused. */
const waysOn = (kind: Kind, { target }: Exchange, { publicUrl, frontendUrl, cloudidp }: Site) => {
  const home = frontendUrl === publicUrl ? '/' : frontendUrl
  const isLogin = target.startsWith('/auth/oauth/')
  const addresses: Record<Way, string> = {
    logIn: '/auth/login',
    startAgain: isLogin ? cloudidp.successRedirectUrl : '/auth/login',
    account: '/auth/account',
    home,
    again: ''
  }
  const isHome = target.split('?')[0] === home
  const wanted: readonly Way[] = isLogin ? ['startAgain'] : KINDS[kind].filter(way => way !== 'home' || !isHome)
  return (wanted.length === 0 ? ['logIn' as const] : wanted).map(way => ({ way, address: addresses[way] }))
}

export const createRefusalPage = (site: Site): RefusalPage => ({
  policy: POLICY,
  html(error, exchange) {
    const { profiles, statusCode, code } = error
    const isPortuguese = prefersPortuguese(fieldValue(exchange.request.fields, 'accept-language'))
    const say = (key: keyof typeof words, value = ''): string =>
      words[key][isPortuguese ? 0 : 1].replace(/\{\w+\}/, () => value)
    const kind = kindOf(error)
    const texts = [say(`${kind}Text`, site.cloudidp.name ?? say('provider'))]
    if (profiles?.length === 0) texts.push(say('access'))
    else if (profiles !== undefined) texts.push(say('profiles', profiles.join(', ')))
    if (site.contact !== undefined) texts.push(say('contact', site.contact))
    const links = waysOn(kind, exchange, site)
    const brand = escapeHtml(site.brandName)
    return `<!doctype html>
<html lang="${isPortuguese ? 'pt-BR' : 'en'}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${say(kind)} · ${brand}</title>
<link rel="icon" href="${escapeHtml(ICON)}">
<style>${STYLE}</style>
</head>
<body>
<main>
<p class="brand">${brand}</p>
<h1>${say(kind)}</h1>
${texts.map(text => `<p>${escapeHtml(text)}</p>\n`).join('')}<nav>${links
      .map(({ way, address }) => `<a href="${escapeHtml(address)}">${say(way)}</a>`)
      .join(' ')}</nav>
<p><small>${statusCode} ${escapeHtml(code)} · ${say('requestId')}: <span id="request-id">${escapeHtml(exchange.requestId)}</span></small></p>
</main>
</body>
</html>
`
  }
})

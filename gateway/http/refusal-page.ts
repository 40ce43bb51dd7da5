// Writes a refusal as a small page in the reader's language, without scripts, with its request id and helpful links.
import { createHash } from 'node:crypto'
import type { GatewayError } from '../errors.ts'
import type { Exchange } from './exchange.ts'
import { kindOf, type PageLanguage, pageLanguage, REFUSALS, WAYS_ON } from './refusal-words.ts'
import { fieldValue } from './server/request.ts'

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, character => ENTITIES[character] ?? character)

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
export const REFUSAL_PAGE_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  'img-src data:',
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'"
].join('; ')

export interface RefusalPageOptions {
  /** BRAND_NAME. */
  brand: string
  /** CONTACT: whom to contact. */
  contact: string | undefined
  /** The site's home page; `/` if it is on this origin. */
  home: string
  /** Paths at which a cloud login begins and ends. */
  cloudLogin: string
  /** CLOUDIDP_NAME. */
  cloudName: string | undefined
}

const LOGIN = '/auth/login'
const OWN_LOGINS = /^\/auth\/oauth\//
const WAYS: Readonly<
  Partial<Record<ReturnType<typeof kindOf>, readonly ('logIn' | 'startAgain' | 'account' | 'home' | 'again')[]>>
> = {
  attempt: ['startAgain'],
  failed: ['startAgain'],
  login: ['logIn', 'home'],
  ended: ['logIn', 'home'],
  forbidden: ['account', 'home'],
  unassigned: ['account', 'home'],
  throttled: ['again'],
  tooMany: ['again'],
  away: ['again', 'home'],
  slow: ['again', 'home'],
  unavailable: ['again', 'home'],
  internal: ['again', 'home']
}

/** Never leads back to a login that is over, nor to the page that was just refused. */
const waysOn = (error: GatewayError, { target }: Exchange, { home, cloudLogin }: RefusalPageOptions) => {
  const isLogin = OWN_LOGINS.test(target)
  const isHome = target.split('?')[0] === home
  const addresses = {
    logIn: LOGIN,
    startAgain: isLogin ? cloudLogin : LOGIN,
    account: '/auth/account',
    home,
    again: ''
  }
  const ways = isLogin ? (['startAgain'] as const) : (WAYS[kindOf(error.code)] ?? (['home'] as const))
  const wanted = ways.filter(way => way !== 'home' || !isHome)
  return (wanted.length === 0 ? (['logIn'] as const) : wanted).map(way => ({ way, address: addresses[way] }))
}

/** Details of a particular refusal. */
const detailOf = ({ profiles }: GatewayError, words: (typeof WAYS_ON)[PageLanguage]): string => {
  if (profiles === undefined) return ''
  return profiles.length === 0 ? words.access : words.profiles.replace('{profiles}', () => profiles.join(', '))
}

export const refusalPage = (error: GatewayError, exchange: Exchange, options: RefusalPageOptions): string => {
  const { requestId, request } = exchange
  const language = pageLanguage(fieldValue(request.fields, 'accept-language'))
  const { title, text } = REFUSALS[language][kindOf(error.code)]
  const words = WAYS_ON[language]
  const detail = detailOf(error, words)
  const ways = waysOn(error, exchange, options)
  const { brand, contact } = options
  const contactLine = contact === undefined ? '' : words.contact.replace('{contact}', () => contact)
  return `<!doctype html>
<html lang="${language === 'pt' ? 'pt-BR' : 'en'}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · ${escapeHtml(brand)}</title>
<link rel="icon" href="${escapeHtml(ICON)}">
<style>${STYLE}</style>
</head>
<body>
<main>
<p class="brand">${escapeHtml(brand)}</p>
<h1>${title}</h1>
<p>${escapeHtml(text.replace('{provider}', () => options.cloudName ?? words.provider))}</p>
${detail === '' ? '' : `<p>${escapeHtml(detail)}</p>\n`}${contactLine === '' ? '' : `<p>${escapeHtml(contactLine)}</p>\n`}<nav>${ways
    .map(({ way, address }) => `<a href="${escapeHtml(address)}">${words[way]}</a>`)
    .join(' ')}</nav>
<p><small>${error.statusCode} ${escapeHtml(error.code)} · ${words.requestId}: <span id="request-id">${escapeHtml(requestId)}</span></small></p>
</main>
</body>
</html>
`
}

/**
 * Whether the request is a navigation, which gets a page instead of JSON. A service worker repeats one with the mode of the
 * original and an empty destination (Fetch Metadata); older browsers tell by Accept alone.
 */
export const wantsPage = ({ method, request, head }: Exchange): boolean => {
  if (head.accept === undefined || !/(?:^|,)\s*text\/html\s*(?:;|,|$)/i.test(head.accept)) return false
  const mode = fieldValue(request.fields, 'sec-fetch-mode')
  if (mode !== undefined) return mode === 'navigate'
  return fieldValue(request.fields, 'sec-fetch-dest') === undefined && (method === 'GET' || method === 'HEAD')
}

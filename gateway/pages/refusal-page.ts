// Writes a refusal as a small page in the reader's language, without scripts, with its request id and helpful links.
import { createHash } from 'node:crypto'
import type { GatewayError } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { RefusalPage } from '../http/own-responses.ts'
import { fieldValue } from '../http/request.ts'
import type { Settings } from '../settings/settings.ts'
import { escapeHtml } from './page-html.ts'

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

type Texts = readonly [pt: string, en: string]
type Way = 'logIn' | 'startAgain' | 'account' | 'home' | 'again'

interface Kind {
  readonly title: Texts
  readonly text: Texts
  readonly ways: readonly Way[]
}

/** What a refusal means to its reader, and where it leads on. */
export const REFUSAL_KINDS = {
  request: {
    title: ['Solicitação recusada', 'Request refused'],
    text: [
      'Este endereço não aceita a solicitação como foi enviada. Volte e tente de outra forma.',
      'This address does not accept the request as it was sent. Go back and try another way.'
    ],
    ways: ['home']
  },
  login: {
    title: ['É preciso entrar', 'Login required'],
    text: [
      'A sua sessão terminou ou não começou. Entre para continuar.',
      'You are not logged in, or no longer. Log in to continue.'
    ],
    ways: ['logIn', 'home']
  },
  failed: {
    title: ['Não foi possível entrar', 'The login failed'],
    text: [
      'A tentativa expirou ou já foi usada, {provider} não confirmou quem você é, ou esta conta não pode entrar. Comece de novo.',
      'The attempt has expired or was used already, {provider} did not confirm who you are, or this account may not log in. Start again.'
    ],
    ways: ['startAgain']
  },
  forbidden: {
    title: ['Acesso negado', 'Access denied'],
    text: ['O seu acesso não permite isto.', 'Your access does not allow this.'],
    ways: ['account', 'home']
  },
  unassigned: {
    title: ['Aguardando liberação', 'Waiting for access'],
    text: [
      'A sua conta foi reconhecida, mas um administrador ainda precisa lhe dar acesso.',
      'Your account has been recognised, but an administrator still has to give you access.'
    ],
    ways: ['account', 'home']
  },
  nothing: {
    title: ['Página não encontrada', 'Page not found'],
    text: ['Não há nada neste endereço.', 'There is nothing at this address.'],
    ways: ['home']
  },
  tooMany: {
    title: ['Tentativas demais', 'Too many attempts'],
    text: [
      'Houve solicitações demais em pouco tempo. Espere um momento e tente de novo.',
      'There were too many requests in a short time. Wait a moment and try again.'
    ],
    ways: ['again']
  },
  away: {
    title: ['Serviço fora do ar', 'Service unavailable'],
    text: [
      'O serviço por trás deste endereço não respondeu a tempo. Tente de novo em instantes.',
      'The service behind this address did not respond in time. Try again in a moment.'
    ],
    ways: ['again', 'home']
  },
  unavailable: {
    title: ['Indisponível no momento', 'Not available right now'],
    text: [
      'Isto não é possível agora. Tente de novo em instantes.',
      'This is not possible right now. Try again in a moment.'
    ],
    ways: ['again', 'home']
  }
} as const satisfies Record<string, Kind>

/** The texts of links and details below a refusal. */
export const REFUSAL_WORDS = {
  logIn: ['Entrar', 'Log in'],
  startAgain: ['Começar de novo', 'Start again'],
  account: ['Ver o meu acesso', 'See what I have access to'],
  home: ['Ir para o início', 'Go to the start page'],
  again: ['Tentar de novo', 'Try again'],
  contact: ['Para obter ajuda: {contact}', 'For help: {contact}'],
  profiles: ['É preciso ter um destes perfis: {profiles}.', 'One of these profiles is needed: {profiles}.'],
  access: ['É preciso ter um perfil e uma área.', 'A profile and an area are needed.'],
  requestId: ['Código da solicitação', 'Request id'],
  provider: ['o provedor de login', 'the login provider']
} as const satisfies Record<string, Texts>

const LOGINS = /^GW_(?:OAUTH_STATE|OAUTH_FAILED|LOGIN_FAILED|PASSWORD_EXPIRED)$/
const BY_STATUS: Readonly<Record<number, keyof typeof REFUSAL_KINDS>> = {
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
  if (LOGINS.test(code)) return REFUSAL_KINDS.failed
  if (code === 'GW_UNASSIGNED') return REFUSAL_KINDS.unassigned
  if (code === 'GW_BAD_ORIGIN') return REFUSAL_KINDS.request
  return REFUSAL_KINDS[BY_STATUS[statusCode] ?? 'request']
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
const waysOn = ({ ways }: Kind, { target }: Exchange, { publicUrl, frontendUrl, cloudidp }: Site) => {
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
  const wanted = isLogin ? (['startAgain'] as const) : ways.filter(way => way !== 'home' || !isHome)
  return (wanted.length === 0 ? (['logIn'] as const) : wanted).map(way => ({ way, address: addresses[way] }))
}

export const createRefusalPage = (site: Site): RefusalPage => ({
  policy: POLICY,
  html(error, exchange) {
    const { profiles, statusCode, code } = error
    const isPortuguese = prefersPortuguese(fieldValue(exchange.request.fields, 'accept-language'))
    const say = ([pt, en]: Texts): string => (isPortuguese ? pt : en)
    const words = (key: keyof typeof REFUSAL_WORDS): string => say(REFUSAL_WORDS[key])
    const kind = kindOf(error)
    const texts = [say(kind.text).replace('{provider}', () => site.cloudidp.name ?? words('provider'))]
    if (profiles?.length === 0) texts.push(words('access'))
    else if (profiles !== undefined) texts.push(words('profiles').replace('{profiles}', () => profiles.join(', ')))
    if (site.contact !== undefined) texts.push(words('contact').replace('{contact}', () => site.contact ?? ''))
    const links = waysOn(kind, exchange, site)
    const brand = escapeHtml(site.brandName)
    return `<!doctype html>
<html lang="${isPortuguese ? 'pt-BR' : 'en'}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${say(kind.title)} · ${brand}</title>
<link rel="icon" href="${escapeHtml(ICON)}">
<style>${STYLE}</style>
</head>
<body>
<main>
<p class="brand">${brand}</p>
<h1>${say(kind.title)}</h1>
${texts.map(text => `<p>${escapeHtml(text)}</p>\n`).join('')}<nav>${links
      .map(({ way, address }) => `<a href="${escapeHtml(address)}">${words(way)}</a>`)
      .join(' ')}</nav>
<p><small>${statusCode} ${escapeHtml(code)} · ${words('requestId')}: <span id="request-id">${escapeHtml(exchange.requestId)}</span></small></p>
</main>
</body>
</html>
`
  }
})

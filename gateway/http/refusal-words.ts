// Says what a refusal means to somebody who reads it as a page, in Portuguese and English.

export type PageLanguage = 'pt' | 'en'

interface RefusalWords {
  readonly title: string
  readonly text: string
}

type Kind =
  | 'request'
  | 'path'
  | 'attempt'
  | 'login'
  | 'ended'
  | 'failed'
  | 'throttled'
  | 'forbidden'
  | 'unassigned'
  | 'origin'
  | 'nothing'
  | 'method'
  | 'conflict'
  | 'tooLarge'
  | 'tooMany'
  | 'away'
  | 'slow'
  | 'unavailable'
  | 'internal'

const KINDS: Readonly<Record<string, Kind>> = {
  GW_BAD_PATH: 'path',
  GW_OAUTH_STATE: 'attempt',
  GW_UNAUTHENTICATED: 'login',
  GW_LOGIN_REQUIRED: 'login',
  GW_TOKEN_EXPIRED: 'ended',
  GW_TOKEN_REVOKED: 'ended',
  GW_TOKEN_STALE: 'ended',
  GW_LOGIN_FAILED: 'failed',
  GW_OAUTH_FAILED: 'failed',
  GW_LOGIN_THROTTLED: 'throttled',
  GW_FORBIDDEN: 'forbidden',
  GW_UNASSIGNED: 'unassigned',
  GW_BAD_ORIGIN: 'origin',
  GW_NO_ROUTE: 'nothing',
  GW_NOT_FOUND: 'nothing',
  GW_METHOD_NOT_ALLOWED: 'method',
  GW_LAST_ADMIN: 'conflict',
  GW_CONFLICT: 'conflict',
  GW_BODY_TOO_LARGE: 'tooLarge',
  GW_RATE_LIMITED: 'tooMany',
  GW_UPSTREAM_UNREACHABLE: 'away',
  GW_BAD_UPSTREAM_RESPONSE: 'away',
  GW_UPSTREAM_TIMEOUT: 'slow',
  GW_UNAVAILABLE: 'unavailable',
  GW_INTERNAL: 'internal'
}

/** What kind of refusal a code is, to people. */
export const kindOf = (code: string): Kind => KINDS[code] ?? 'request'

const pt: Readonly<Record<Kind, RefusalWords>> = {
  request: { title: 'Pedido inválido', text: 'O navegador enviou algo que não pode ser atendido.' },
  path: { title: 'Endereço inválido', text: 'O endereço pode ser lido de mais de uma forma e por isso é recusado.' },
  attempt: {
    title: 'Esta tentativa de entrar não vale mais',
    text: 'Ela expirou, já foi usada ou começou em outro navegador. Comece de novo.'
  },
  login: { title: 'É preciso entrar', text: 'Esta página só abre para quem entrou.' },
  ended: { title: 'A sua sessão terminou', text: 'Entre de novo para continuar.' },
  failed: {
    title: 'Não foi possível entrar',
    text: '{provider} não confirmou quem você é, ou esta conta não pode entrar. Tente de novo.'
  },
  throttled: {
    title: 'Tentativas demais',
    text: 'Houve muitas tentativas de entrar. Espere alguns minutos e tente de novo.'
  },
  forbidden: { title: 'Acesso negado', text: 'O seu acesso não permite isto.' },
  unassigned: {
    title: 'Falta a liberação',
    text: 'A sua conta foi reconhecida, mas um administrador ainda precisa lhe dar acesso.'
  },
  origin: { title: 'Pedido recusado', text: 'Este pedido veio de uma página que não pode fazê-lo.' },
  nothing: { title: 'Página não encontrada', text: 'Não há nada neste endereço.' },
  method: { title: 'Pedido recusado', text: 'Este endereço não aceita este tipo de pedido.' },
  conflict: { title: 'Conflito', text: 'Isto conflita com o que já existe.' },
  tooLarge: { title: 'Envio grande demais', text: 'O que foi enviado é maior do que se aceita aqui.' },
  tooMany: { title: 'Pedidos demais', text: 'Foram pedidos demais em pouco tempo. Espere um momento e tente de novo.' },
  away: {
    title: 'Serviço fora do ar',
    text: 'O serviço por trás deste endereço não respondeu. Tente de novo em instantes.'
  },
  slow: {
    title: 'Serviço lento demais',
    text: 'O serviço por trás deste endereço demorou demais. Tente de novo em instantes.'
  },
  unavailable: { title: 'Indisponível no momento', text: 'Isto não é possível agora. Tente de novo em instantes.' },
  internal: { title: 'Algo deu errado', text: 'Houve uma falha no servidor. Tente de novo em instantes.' }
}

const en: Readonly<Record<Kind, RefusalWords>> = {
  request: { title: 'Bad request', text: 'The browser sent something that cannot be handled.' },
  path: { title: 'Bad address', text: 'The address can be read in more than one way and is refused for that reason.' },
  attempt: {
    title: 'This login attempt is no longer valid',
    text: 'It has expired, has been used already, or began in another browser. Start again.'
  },
  login: { title: 'Login required', text: 'This page is only for people who have logged in.' },
  ended: { title: 'Your session has ended', text: 'Log in again to continue.' },
  failed: {
    title: 'The login failed',
    text: '{provider} did not confirm who you are, or this account is not allowed to log in. Try again.'
  },
  throttled: {
    title: 'Too many attempts',
    text: 'There were too many login attempts. Wait a few minutes and try again.'
  },
  forbidden: { title: 'Access denied', text: 'Your access does not allow this.' },
  unassigned: {
    title: 'Waiting for access',
    text: 'Your account has been recognised, but an administrator still has to give you access.'
  },
  origin: { title: 'Request refused', text: 'This request came from a page that is not allowed to make it.' },
  nothing: { title: 'Page not found', text: 'There is nothing at this address.' },
  method: { title: 'Request refused', text: 'This address does not take requests of this kind.' },
  conflict: { title: 'Conflict', text: 'This conflicts with what is already there.' },
  tooLarge: { title: 'Upload too large', text: 'What was sent is larger than what is accepted here.' },
  tooMany: {
    title: 'Too many requests',
    text: 'There were too many requests in a short time. Wait a moment and try again.'
  },
  away: {
    title: 'Service unavailable',
    text: 'The service behind this address did not answer. Try again in a moment.'
  },
  slow: { title: 'Service too slow', text: 'The service behind this address took too long. Try again in a moment.' },
  unavailable: { title: 'Not available right now', text: 'This is not possible right now. Try again in a moment.' },
  internal: { title: 'Something went wrong', text: 'The server failed. Try again in a moment.' }
}

export const REFUSALS: Readonly<Record<PageLanguage, Readonly<Record<Kind, RefusalWords>>>> = { pt, en }

/** What leads on from a refusal. */
export const WAYS_ON = {
  pt: {
    logIn: 'Entrar',
    startAgain: 'Começar de novo',
    account: 'Ver o meu acesso',
    home: 'Ir para o início',
    again: 'Tentar de novo',
    contact: 'Quem pode ajudar: {contact}',
    profiles: 'É preciso ter um destes perfis: {profiles}.',
    access: 'É preciso ter um perfil e uma área.',
    requestId: 'Código do pedido',
    provider: 'O provedor de login'
  },
  en: {
    logIn: 'Log in',
    startAgain: 'Start again',
    account: 'See what I have access to',
    home: 'Go to the start page',
    again: 'Try again',
    contact: 'Who can help: {contact}',
    profiles: 'One of these profiles is needed: {profiles}.',
    access: 'A profile and an area are needed.',
    requestId: 'Request id',
    provider: 'The login provider'
  }
} as const

/** The first of the languages that a reader prefers decides (RFC 9110 §12.5.4): Portuguese, or English for all others. */
export const pageLanguage = (acceptLanguage: string | undefined): PageLanguage => {
  let best = { tag: '', weight: 0 }
  for (const item of (acceptLanguage ?? '').split(',').slice(0, 20)) {
    const [tag = '', ...parameters] = item.split(';').map(part => part.trim().toLowerCase())
    const weight = Number(parameters.find(part => part.startsWith('q='))?.slice(2) ?? 1)
    if (tag !== '' && weight > best.weight) best = { tag, weight }
  }
  return /^pt(?:-|$)/.test(best.tag) ? 'pt' : 'en'
}

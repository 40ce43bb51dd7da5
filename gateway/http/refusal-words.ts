// Holds the texts of refusal pages, in Portuguese and English.

export type PageLanguage = 'pt' | 'en'

interface RefusalWords {
  readonly title: string
  readonly text: string
}

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

/** The kind of refusal that a code represents for readers. */
export const kindOf = (code: string): Kind => KINDS[code] ?? 'request'

const pt = {
  request: { title: 'Solicitação inválida', text: 'O navegador enviou uma solicitação que não pode ser processada.' },
  path: { title: 'Endereço inválido', text: 'O endereço pode ser lido de mais de uma forma e por isso foi recusado.' },
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
    title: 'Aguardando liberação',
    text: 'A sua conta foi reconhecida, mas um administrador ainda precisa lhe dar acesso.'
  },
  origin: {
    title: 'Solicitação recusada',
    text: 'Esta solicitação veio de uma página que não tem permissão para fazê-la.'
  },
  nothing: { title: 'Página não encontrada', text: 'Não há nada neste endereço.' },
  method: { title: 'Solicitação recusada', text: 'Este endereço não aceita este tipo de solicitação.' },
  conflict: { title: 'Conflito', text: 'Isto conflita com dados existentes.' },
  tooLarge: { title: 'Envio grande demais', text: 'O envio ultrapassa o tamanho permitido aqui.' },
  tooMany: {
    title: 'Solicitações demais',
    text: 'Foram feitas solicitações demais em pouco tempo. Espere um momento e tente de novo.'
  },
  away: {
    title: 'Serviço fora do ar',
    text: 'O serviço por trás deste endereço não respondeu. Tente de novo em instantes.'
  },
  slow: {
    title: 'Serviço lento demais',
    text: 'O serviço por trás deste endereço demorou demais para responder. Tente de novo em instantes.'
  },
  unavailable: { title: 'Indisponível no momento', text: 'Isto não é possível agora. Tente de novo em instantes.' },
  internal: { title: 'Algo deu errado', text: 'Ocorreu um erro no servidor. Tente de novo em instantes.' }
} satisfies Readonly<Record<string, RefusalWords>>

type Kind = keyof typeof pt

const en: Readonly<Record<Kind, RefusalWords>> = {
  request: { title: 'Bad request', text: 'The browser sent a request that cannot be processed.' },
  path: { title: 'Bad address', text: 'The address could be read in more than one way, so it was refused.' },
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
  method: { title: 'Request refused', text: 'This address does not accept this kind of request.' },
  conflict: { title: 'Conflict', text: 'This conflicts with existing data.' },
  tooLarge: { title: 'Upload too large', text: 'The upload exceeds the size that is allowed here.' },
  tooMany: {
    title: 'Too many requests',
    text: 'There were too many requests in a short time. Wait a moment and try again.'
  },
  away: {
    title: 'Service unavailable',
    text: 'The service behind this address did not respond. Try again in a moment.'
  },
  slow: {
    title: 'Service too slow',
    text: 'The service behind this address took too long to respond. Try again in a moment.'
  },
  unavailable: { title: 'Not available right now', text: 'This is not possible right now. Try again in a moment.' },
  internal: { title: 'Something went wrong', text: 'An error occurred on the server. Try again in a moment.' }
}

export const REFUSALS: Readonly<Record<PageLanguage, Readonly<Record<Kind, RefusalWords>>>> = { pt, en }

/** The texts of links and details below a refusal. */
export const WAYS_ON = {
  pt: {
    logIn: 'Entrar',
    startAgain: 'Começar de novo',
    account: 'Ver o meu acesso',
    home: 'Ir para o início',
    again: 'Tentar de novo',
    contact: 'Para obter ajuda: {contact}',
    profiles: 'É preciso ter um destes perfis: {profiles}.',
    access: 'É preciso ter um perfil e uma área.',
    requestId: 'Código da solicitação',
    provider: 'O provedor de login'
  },
  en: {
    logIn: 'Log in',
    startAgain: 'Start again',
    account: 'See what I have access to',
    home: 'Go to the start page',
    again: 'Try again',
    contact: 'For help: {contact}',
    profiles: 'One of these profiles is needed: {profiles}.',
    access: 'A profile and an area are needed.',
    requestId: 'Request id',
    provider: 'The login provider'
  }
} as const

/** The reader's most preferred language decides (RFC 9110 §12.5.4): Portuguese, or English for all others. */
export const pageLanguage = (acceptLanguage: string | undefined): PageLanguage => {
  let best = { tag: '', weight: 0 }
  for (const item of (acceptLanguage ?? '').split(',').slice(0, 20)) {
    const [tag = '', ...parameters] = item.split(';').map(part => part.trim().toLowerCase())
    const weight = Number(parameters.find(part => part.startsWith('q='))?.slice(2) ?? 1)
    if (tag !== '' && weight > best.weight) best = { tag, weight }
  }
  return /^pt(?:-|$)/.test(best.tag) ? 'pt' : 'en'
}

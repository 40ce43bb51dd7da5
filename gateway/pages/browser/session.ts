// Keeps the token of this tab in sessionStorage, sends it with every request, and tells the other tabs of logins and logouts.
import type { User } from './shapes.ts'

export interface Answer<T> {
  /** 0: the gateway could not be reached. */
  readonly status: number
  readonly code: string
  readonly body: T
  readonly headers: Headers
}

const TOKEN = 'authToken'
const USER = 'authUser'

export const keptToken = (): string | undefined => sessionStorage.getItem(TOKEN) ?? undefined

export const keep = (token: string, user: User): void => {
  sessionStorage.setItem(TOKEN, token)
  sessionStorage.setItem(USER, JSON.stringify(user))
}

export const forget = (): void => {
  sessionStorage.removeItem(TOKEN)
  sessionStorage.removeItem(USER)
}

/** Whose token this tab keeps; undefined: it keeps none. */
export const keptUserId = (): number | undefined => {
  try {
    return keptToken() === undefined ? undefined : (JSON.parse(sessionStorage.getItem(USER) ?? '') as User).id
  } catch {
    return undefined
  }
}

export const fact = (name: string): string =>
  document.querySelector<HTMLMetaElement>(`meta[name="portaria:${name}"]`)?.content ?? ''

/** The display name of this installation. */
export const brand = (): string => fact('brand') || 'Portaria'

export interface Question {
  method?: string
  body?: unknown
  /** Used instead of the stored token; '': none, so that the browser's cookie counts. */
  token?: string | undefined
  /** The ETag that a change is based on. */
  ifMatch?: string | undefined
  isFile?: boolean
}

export const send = async <T>(path: string, question: Question): Promise<Answer<T>> => {
  const { method = 'GET', body, token = keptToken(), ifMatch, isFile = false } = question
  const headers: Record<string, string> = { accept: 'application/json' }
  if (ifMatch !== undefined) headers['if-match'] = ifMatch
  if (token !== undefined && token !== '') headers.authorization = `Bearer ${token}`
  if (body !== undefined) headers['content-type'] = 'application/json'
  try {
    const response = await fetch(path, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const answer = isFile && response.ok ? await response.blob() : JSON.parse((await response.text()) || '{}')
    return {
      status: response.status,
      code: typeof answer.code === 'string' && !response.ok ? answer.code : '',
      body: answer,
      headers: response.headers
    }
  } catch {
    return { status: 0, code: '', body: {} as T, headers: new Headers() }
  }
}

/** The gateway says nothing about the session at the moment. */
export const isAway = ({ status }: Answer<unknown>): boolean => status === 0 || status === 429 || status >= 500

/** How far the clock of this device is ahead of the gateway's; below 0: behind. */
export const aheadMsBy = ({ headers }: Answer<unknown>): number => {
  const date = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(date) ? 0 : Date.now() - date
}

/** Refreshes the token of the same login with its current access, and replaces the stored one. */
export const refresh = async (): Promise<Answer<{ token: string; user: User }>> => {
  const before = keptToken()
  const answer = await send<{ token: string; user: User }>('/auth/refresh', { method: 'POST', token: before })
  // Logged out in the meantime: a late response must not log in again.
  if (answer.status === 200 && before !== undefined && keptToken() === before) keep(answer.body.token, answer.body.user)
  return answer
}

/** @param again the login form is shown even to people who are logged in */
export const loginAddress = ({ again = false } = {}): string => {
  const { pathname, search, hash } = location
  return `/auth/login?${again ? 'again=1&' : ''}returnTo=${encodeURIComponent(pathname + search + hash)}`
}

/** In a window of its own, so that this page stays as it is. */
export const logInAgain = (): void => {
  const opened = window.open('/auth/login?popup=1', 'portaria-login', 'popup,width=480,height=720')
  if (opened === null) location.assign(loginAddress())
}

/** Called when the gateway no longer accepts this tab's token. */
const endListeners = new Set<() => void>()
export const onSessionEnd = (listener: () => void): (() => void) => {
  endListeners.add(listener)
  return () => endListeners.delete(listener)
}

/** Sends a request to the gateway; with a stale token, once more with a fresh one. */
export const ask = async <T>(path: string, question: Question = {}): Promise<Answer<T>> => {
  let token = keptToken()
  let answer = await send<T>(path, question)
  if (question.token !== undefined) return answer
  if (answer.code === 'GW_TOKEN_STALE') {
    const renewal = await refresh()
    if (isAway(renewal)) return renewal as Answer<never>
    token = keptToken()
    if (renewal.status === 200) answer = await send<T>(path, question)
  }
  // A late answer says nothing about the token of a newer login.
  if (keptToken() !== token) return answer
  // A login that is too old for one thing is good for everything else.
  if (answer.status === 401 && answer.code !== 'GW_LOGIN_REQUIRED' && answer.code !== 'GW_LOGIN_FAILED')
    for (const listener of endListeners) listener()
  return answer
}

interface News {
  readonly kind: 'login' | 'logout'
  readonly userId: number
}

const channel = new BroadcastChannel('portaria.session')

/** Notifies the other tabs; never sends a token. */
export const announce = (news: News): void => channel.postMessage(news)

export const onNews = (listener: (news: News) => void): (() => void) => {
  const hear = ({ data }: MessageEvent) => {
    if (data?.kind === 'login' || data?.kind === 'logout') listener({ kind: data.kind, userId: Number(data.userId) })
  }
  channel.addEventListener('message', hear)
  return () => channel.removeEventListener('message', hear)
}

type Logout =
  /** `url`: where the session at the cloud provider ends, if that is known. */
  | { readonly is: 'out'; readonly url: string | undefined }
  /** The login may live on; its token is kept. */
  | { readonly is: 'failed'; readonly answer: Answer<unknown> }

let leaving: Promise<Logout> | undefined
// A page that is kept for "Back" may get another login.
addEventListener('pagehide', () => {
  leaving = undefined
})

/** Ends the login here and everywhere it is used. On the way to the provider, a second click leads nowhere else. */
export const logOut = (user: Pick<User, 'id' | 'provider'>): Promise<Logout> => {
  leaving ??= endLogin(user).then(logout => {
    if (logout.is === 'failed' || logout.url === undefined) leaving = undefined
    return logout
  })
  return leaving
}

const endLogin = async (user: Pick<User, 'id' | 'provider'>): Promise<Logout> => {
  const body = user.provider === 'cloudidp' ? { provider: true } : undefined
  const leave = () => send<{ logoutUrl?: string }>('/auth/logout', { method: 'POST', body })
  const hadToken = keptToken() !== undefined
  let answer = await leave()
  if (answer.status === 401 && hadToken && fact('browser-session') === 'true') {
    forget()
    // Requests by cookie, such as those of other tabs, renew the cookie but not the token of this tab.
    const renewal = await refresh()
    if (isAway(renewal)) return { is: 'failed', answer: renewal }
    if (renewal.status === 200 && renewal.body.user.id === user.id) answer = await leave()
  }
  const isOut = answer.status === 200 || answer.status === 204 || answer.status === 401
  if (!isOut) return { is: 'failed', answer }
  forget()
  announce({ kind: 'logout', userId: user.id })
  return { is: 'out', url: answer.body.logoutUrl }
}

/** Another tab has told everyone already. */
export const endQuietly = async (): Promise<void> => {
  const token = keptToken()
  forget()
  if (token === undefined) return
  await fetch('/auth/logout', { method: 'POST', headers: { authorization: `Bearer ${token}` } }).catch(() => undefined)
}

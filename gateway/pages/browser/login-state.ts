// Determines the state of the login page step by step: who is logged in, which logins are possible, where to go next.
import { arrived, markCloudLogin } from './fragment.ts'
import { safeReturnTo } from './return-to.ts'
import { type Answer, announce, ask, fact, forget, keep, keptToken, refresh, type User } from './session.ts'
import type { LoginKey } from './words-login.ts'

export interface Doors {
  readonly ldap: boolean
  /** '' if the provider is not active. */
  readonly cloudUrl: string
  /** Name of the provider; '' if it has none. */
  readonly cloudName: string
}

export interface Notice {
  readonly key: LoginKey
  readonly values?: Readonly<Record<string, string | number>>
  readonly isError: boolean
}

export type Start =
  | { readonly is: 'in'; readonly user: User; readonly isFresh: boolean }
  | { readonly is: 'out'; readonly notice: Notice | undefined }

const query = new URLSearchParams(location.search)

/** A cloud login began with its own URL, whose parameters still apply. */
const begun = typeof arrived === 'object' ? arrived.login : undefined
export const returnTo = safeReturnTo(begun?.returnTo ?? query.get('returnTo'), location.origin)
export const isPopup = begun?.popup ?? query.get('popup') === '1'

const noticeOf = (key: LoginKey, isError = false): Notice => ({ key, isError })

/** Why a login failed, in words that help the reader. */
const noticeFor = ({ status, code, requestId, retryAfter }: Answer<unknown>): Notice => {
  if (status === 0) return noticeOf('unreachable', true)
  if (status === 429) return { key: 'throttled', values: { seconds: retryAfter }, isError: true }
  if (status === 503) return noticeOf('unavailable', true)
  if (status === 400 || status === 413) return noticeOf('invalid', true)
  if (code === 'GW_PASSWORD_EXPIRED') return noticeOf('passwordExpired', true)
  if (code === 'GW_LOGIN_FAILED' || code === 'GW_OAUTH_FAILED') return noticeOf('refused', true)
  return { key: 'unexpected', values: { requestId }, isError: true }
}

export const findDoors = async (): Promise<Doors | Notice> => {
  const answer = await ask<{
    ldap: { enabled: boolean }
    cloudidp: { enabled: boolean; startUrl: string; name?: string }
  }>('/auth/config')
  if (answer.status !== 200) return noticeFor(answer)
  const { ldap, cloudidp } = answer.body
  return { ldap: ldap.enabled, cloudUrl: cloudidp.enabled ? cloudidp.startUrl : '', cloudName: cloudidp.name ?? '' }
}

export const startCloudLogin = (cloudUrl: string): void => {
  markCloudLogin({ returnTo: returnTo ?? null, popup: isPopup })
  location.assign(cloudUrl)
}

/** A browser session without anything stored in this tab. */
const findCookieSession = async (): Promise<User | undefined> => {
  if (fact('browser-session') !== 'true') return undefined
  const answer = await refresh()
  return answer.status === 200 ? answer.body.user : undefined
}

const takeArrived = async (token: string): Promise<Start> => {
  const answer = await ask<User>('/auth/me', { token })
  if (answer.status !== 200) return { is: 'out', notice: noticeFor(answer) }
  keep(token, answer.body)
  announce({ kind: 'login', userId: answer.body.id })
  return { is: 'in', user: answer.body, isFresh: true }
}

const resume = async (): Promise<Start> => {
  const answer = await ask<User>('/auth/me')
  if (answer.status === 200) {
    const token = keptToken()
    if (token !== undefined) keep(token, answer.body)
    return { is: 'in', user: answer.body, isFresh: false }
  }
  if (answer.status !== 401) return { is: 'out', notice: noticeFor(answer) }
  forget()
  return { is: 'out', notice: noticeOf('ended') }
}

export const findStart = async (): Promise<Start> => {
  if (arrived === 'foreign') return { is: 'out', notice: noticeOf('foreign', true) }
  if (arrived !== undefined) return takeArrived(arrived.token)
  // Opening a pop-up means wanting another login; the login it was opened with is a copy.
  if (isPopup) {
    forget()
    return { is: 'out', notice: undefined }
  }
  if (keptToken() !== undefined) return resume()
  const user = await findCookieSession()
  return user === undefined ? { is: 'out', notice: undefined } : { is: 'in', user, isFresh: true }
}

export const logIn = async (username: string, password: string): Promise<User | Notice> => {
  const answer = await ask<{ token: string; user: User }>('/auth/login', {
    method: 'POST',
    body: { username, password }
  })
  if (answer.status !== 200) return noticeFor(answer)
  keep(answer.body.token, answer.body.user)
  announce({ kind: 'login', userId: answer.body.user.id })
  return answer.body.user
}

// Determines the state of the login page step by step: who is logged in, which logins are possible, where to go next.
import { arrived, markCloudLogin } from './fragment.ts'
import { enter, findPageSession, type PageSession, takeLoggedOut, takeToken } from './page-session.ts'
import { safeReturnTo } from './return-to.ts'
import { type Answer, ask, forget } from './session.ts'
import type { User } from './shapes.ts'
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

type Start =
  | { readonly is: 'in'; readonly user: User; readonly isFresh: boolean }
  | { readonly is: 'out'; readonly notice: Notice | undefined }
  /** The gateway does not answer: there may be a session. */
  | { readonly is: 'unknown'; readonly notice: Notice }

const query = new URLSearchParams(location.search)

/** A cloud login began with its own URL, whose parameters still apply. */
const begun = typeof arrived === 'object' ? arrived.login : undefined
/** A page of another host that the gateway serves waits for this login: the gateway checks the address, and makes the code for it. */
const challenge = query.get('challenge')
const asked = query.get('returnTo') ?? ''
const forHost = challenge === null ? asked : `/auth/session?${new URLSearchParams({ returnTo: asked, challenge })}`
export const returnTo = safeReturnTo(begun?.returnTo ?? forHost, location.origin)
export const isForHost = returnTo?.startsWith('/auth/session?') === true
export const isPopup = begun?.popup ?? query.has('popup')
/** A login at PUBLIC_URL, begun by a page of this host, has given this host its session. */
export const isPopupDone = query.get('popup') === 'done'
/** The login form is shown even to people who are logged in. */
const isAgain = query.get('again') === '1'
/** These two show nothing without a token in their tab. */
const needsToken = /^\/auth\/(?:account|console)(?:[?#]|$)/.test(returnTo ?? '')

const noticeOf = (key: LoginKey, isError = false): Notice => ({ key, isError })

/** Why a login or a logout failed, in words that help the reader. */
export const noticeFor = ({ status, code, headers }: Answer<unknown>): Notice => {
  if (status === 0) return noticeOf('unreachable', true)
  if (status === 429) return { key: 'throttled', values: { seconds: headers.get('retry-after') ?? 0 }, isError: true }
  if (status === 503) return noticeOf('unavailable', true)
  if (status === 400 || status === 413) return noticeOf('invalid', true)
  if (code === 'GW_PASSWORD_EXPIRED') return noticeOf('passwordExpired', true)
  if (code === 'GW_LOGIN_FAILED' || code === 'GW_OAUTH_FAILED') return noticeOf('refused', true)
  return { key: 'unexpected', values: { requestId: headers.get('x-request-id') ?? '' }, isError: true }
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

/** `page`: the login comes back here under this name, wherever FRONTEND_URL is; `again`: the provider asks for the password anew. */
export const startCloudLogin = (cloudUrl: string): void => {
  const page = markCloudLogin({ returnTo: returnTo ?? null, popup: isPopup })
  location.assign(`${cloudUrl}?page=${page}${isAgain ? '&again=1' : ''}`)
}

const startOf = (pageSession: PageSession): Start => {
  // Even if it is not said now, it would be wrong later.
  const isLoggedOut = takeLoggedOut()
  if (pageSession.is === 'unknown') return { is: 'unknown', notice: noticeFor(pageSession.answer) }
  if (pageSession.is === 'in' || (pageSession.is === 'cookie' && !needsToken))
    return { is: 'in', user: pageSession.user, isFresh: false }
  if (isLoggedOut) return { is: 'out', notice: noticeOf('loggedOutElsewhere') }
  return { is: 'out', notice: pageSession.is === 'out' && pageSession.hasEnded ? noticeOf('ended') : undefined }
}

const freshStartOf = (pageSession: PageSession): Start => {
  const start = startOf(pageSession)
  return start.is === 'in' ? { ...start, isFresh: true } : start
}

export const findStart = async (): Promise<Start> => {
  if (arrived === 'foreign') return { is: 'out', notice: noticeOf('foreign', true) }
  if (arrived !== undefined) return freshStartOf(await takeToken(arrived.token))
  if (isPopupDone) return freshStartOf(await findPageSession())
  // Opening a pop-up means wanting another login; the login it was opened with is a copy.
  if (isPopup) forget()
  if (isPopup || isAgain) return { is: 'out', notice: isAgain ? noticeOf('again') : undefined }
  return startOf(await findPageSession())
}

export const logIn = async (username: string, password: string): Promise<User | Notice> => {
  const answer = await ask<{ token: string; user: User }>('/auth/login', {
    method: 'POST',
    body: { username, password }
  })
  if (answer.status !== 200) return noticeFor(answer)
  enter(answer.body.token, answer.body.user)
  return answer.body.user
}

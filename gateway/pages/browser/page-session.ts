// Decides who is logged in on any of our pages, follows what happens to that session elsewhere, and ends it.
//
//                       +--> out                                     no session, or it has ended
//   findPageSession() --+--> cookie                                  the browser has a session, this tab has no token of it
//                       +--> unknown                                 the gateway does not answer
//                       +--> in --+--> onEnded                       expired, revoked, or the person was disabled; where a cookie is
//                                 |                                  enough, `goOnByCookie()` goes on with that of the browser
//                                 +--> onOther                       the token in this tab is now somebody else's
//                                 +--> onRenewed                     logged in again
//                                 +--> login page                    logged out in another tab
//
// A stale token is refreshed on the way and never seen, and a session that use prolongs (SESSION_MAX) is renewed by it. What a login
// is too old for is asked again with `loginAddress({ again: true })`.
import {
  type Answer,
  aheadMsBy,
  announce,
  ask,
  endQuietly,
  fact,
  forget,
  isAway,
  keep,
  keptToken,
  keptUserId,
  loginAddress,
  logOut,
  onNews,
  onSessionEnd,
  refresh,
  send
} from './session.ts'
import type { User } from './shapes.ts'
import { giveUpUnsaved } from './unsaved.ts'

export type PageSession =
  | { readonly is: 'in' | 'cookie'; readonly user: User }
  | { readonly is: 'out'; readonly hasEnded: boolean }
  | { readonly is: 'unknown'; readonly answer: Answer<unknown> }

const RETRY_MS = 60_000
/** From when on the session can be renewed, by the clock of this device; Infinity: it cannot be. */
let renewsAt = Number.POSITIVE_INFINITY

const noteLife = (answer: Answer<unknown>) => {
  const renewsAtS = Number(answer.headers.get('portaria-session-renews') ?? Number.POSITIVE_INFINITY)
  renewsAt = renewsAtS * 1000 + aheadMsBy(answer)
}

/** Somebody uses the page. If the session cannot be renewed now, a later use tries again. */
const renewByUse = async () => {
  if (Date.now() < renewsAt) return
  renewsAt = Date.now() + RETRY_MS
  const answer = await refresh()
  if (answer.status === 200) noteLife(answer)
}

/** A session that the browser keeps in a cookie is enough for applications, but our own pages show nothing with it. */
const cookieSession = async (otherwise: PageSession): Promise<PageSession> => {
  if (fact('browser-session') !== 'true') return otherwise
  const answer = await refresh()
  if (isAway(answer)) return { is: 'unknown', answer }
  if (answer.status !== 200) return otherwise
  noteLife(answer)
  return { is: 'cookie', user: answer.body.user }
}

/**
 * Requests by cookie, such as those of other tabs, renew the cookie but not the token of this tab, which then ends. True: this tab goes
 * on, by the cookie or with another token, which a pop-up has brought in the meantime.
 */
export const goOnByCookie = async ({ id }: Pick<User, 'id'>): Promise<boolean> => {
  const token = keptToken()
  if (fact('browser-session') !== 'true' || token === undefined) return false
  const answer = await send<{ user: User }>('/auth/refresh', { method: 'POST', token: '' })
  if (keptToken() !== token) return true
  if (answer.status !== 200 || answer.body.user.id !== id) return false
  noteLife(answer)
  forget()
  return true
}

export const findPageSession = async (): Promise<PageSession> => {
  const token = keptToken()
  if (token === undefined) return cookieSession({ is: 'out', hasEnded: false })
  const answer = await ask<User>('/auth/me')
  // A refresh, a pop-up or a logout has changed it in the meantime: the answer may be about another login.
  if (keptToken() !== token) return findPageSession()
  if (answer.status === 200) {
    noteLife(answer)
    keep(token, answer.body)
    return { is: 'in', user: answer.body }
  }
  if (answer.status !== 401) return { is: 'unknown', answer }
  forget()
  return cookieSession({ is: 'out', hasEnded: true })
}

/** A token that a login has brought becomes that of this tab. */
export const takeToken = async (token: string): Promise<PageSession> => {
  const answer = await ask<User>('/auth/me', { token })
  if (answer.status !== 200) return { is: 'unknown', answer }
  enter(token, answer.body)
  return { is: 'in', user: answer.body }
}

export const enter = (token: string, user: User): void => {
  keep(token, user)
  announce({ kind: 'login', userId: user.id })
}

/** Another tab has logged out the person of this one, which the login page says once. */
const LOGGED_OUT = 'portaria.loggedOut'
export const takeLoggedOut = (): boolean => {
  const isLoggedOut = sessionStorage.getItem(LOGGED_OUT) !== null
  sessionStorage.removeItem(LOGGED_OUT)
  return isLoggedOut
}

/** Logs out here, in the other tabs and, if it can, at the provider. Returns the answer if that failed; the page then stays. */
export const leavePageSession = async (user: User): Promise<Answer<unknown> | undefined> => {
  const logout = await logOut(user)
  if (logout.is === 'failed') return logout.answer
  giveUpUnsaved()
  location.assign(logout.url ?? '/auth/login')
  return undefined
}

interface Followers {
  onEnded(): void
  onRenewed(): void
  onOther(): void
}

/** Follows the session of a page; returns what stops that. */
export const followPageSession = (user: User, { onEnded, onRenewed, onOther }: Followers): (() => void) => {
  const look = () => {
    const owner = keptUserId()
    if (owner !== undefined && owner !== user.id) return onOther()
    void ask<User>('/auth/me').then(answer => {
      if (answer.status !== 200) return
      noteLife(answer)
      answer.body.id === user.id ? onRenewed() : onOther()
    })
  }
  const stopEnd = onSessionEnd(onEnded)
  const stopNews = onNews(({ kind, userId }) => {
    if (kind === 'login') return look()
    if (userId !== user.id) return
    // The other tab may have had a login of its own; this one ends too.
    sessionStorage.setItem(LOGGED_OUT, '1')
    giveUpUnsaved()
    void endQuietly().then(() => location.replace(loginAddress()))
  })
  const uses = ['pointerdown', 'keydown'] as const
  for (const use of uses) window.addEventListener(use, renewByUse)
  return () => {
    stopEnd()
    stopNews()
    for (const use of uses) window.removeEventListener(use, renewByUse)
  }
}

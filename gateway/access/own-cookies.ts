// Recognises the gateway's own cookies, which are never passed to or taken from backends.

import { isNonceCookie } from './host-login.ts'
import { isSessionCookie } from './session-cookie.ts'

/** Prefix of the names of cookies for cloud logins in progress. */
export const ATTEMPT_COOKIE = 'portaria_login_'
// Bound to this host and invisible to scripts; a sibling domain cannot plant one (draft-ietf-httpbis-rfc6265bis §4.1.3.2).
export const SECURE_ATTEMPT_COOKIE = `__Host-${ATTEMPT_COOKIE}`

export const ownCookies = {
  has: (name: string): boolean =>
    name.startsWith(SECURE_ATTEMPT_COOKIE) ||
    name.startsWith(ATTEMPT_COOKIE) ||
    isSessionCookie(name) ||
    isNonceCookie(name)
}

// Carries a browser's session in a cookie that scripts cannot read, and accepts it only where that is safe; knows all cookies of the gateway.
import { BadOrigin, BadRequest, GatewayError } from '../errors.ts'
import { askingRoute, type Exchange } from '../http/exchange.ts'
import { wantsPage } from '../http/own-responses.ts'
import { fieldValue, fieldValues, type RequestHead } from '../http/request.ts'
import type { Identity } from '../identity.ts'
import { isPersonalToken } from '../tokens/personal-tokens.ts'
import type { VerifiedTokens } from '../tokens/verified-tokens.ts'
import { cookiePairs } from '../values/cookies.ts'
import { encodeRawBytes } from '../values/urls.ts'
import { type HostLogin, isNonceCookie } from './host-login.ts'
import { isOwnPath, type OwnHosts } from './own-hosts.ts'
import { originAllowed } from './socket-token.ts'

export type SessionCookie = ReturnType<typeof createSessionCookie>

interface SessionCookieParts {
  publicUrl: string
  hosts: Pick<OwnHosts, 'areNamed' | 'named' | 'originOf'>
  hostLogin: Pick<HostLogin, 'begin'>
  verifiedTokens: Pick<VerifiedTokens, 'check'>
  /** The login of a token that has expired, if it goes on by renewed ones, such as those in the cookies of other hosts. */
  outlived: (token: string) => Identity | undefined
  /** Ends the login that another one replaces in the same browser. Throws `GW_UNAVAILABLE` if that cannot be stored. */
  endReplaced: (identity: Identity, exchange: Exchange) => Promise<void>
}

const NAME = 'portaria_session'
const SECURE_NAME = `__Host-${NAME}`
/** Browsers store at most 4096 bytes of name, value and attributes (RFC 6265bis §5.6). */
const PART_LENGTH = 3800
const PARTS = 3
/** Endpoints about the session itself, and what it opens. The admin API never accepts a cookie. */
const ABOUT_SESSION: ReadonlySet<string> = new Set(['/auth/me', '/auth/refresh', '/auth/logout', '/auth/apps'])
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Prefix of the names of cookies for cloud logins in progress. */
export const ATTEMPT_COOKIE = 'portaria_login_'
// Bound to this host and invisible to scripts; a sibling domain cannot plant one (draft-ietf-httpbis-rfc6265bis §4.1.3.2).
export const SECURE_ATTEMPT_COOKIE = `__Host-${ATTEMPT_COOKIE}`

/** The session cookie in any spelling of its prefix. */
const SESSION_COOKIE = /^(?:__(?:host|secure)-)?portaria_session(?:_\d)?$/i

/** The gateway's own cookies, which are never passed to or taken from backends. */
export const ownCookies = {
  has: (name: string): boolean =>
    name.startsWith(SECURE_ATTEMPT_COOKIE) ||
    name.startsWith(ATTEMPT_COOKIE) ||
    SESSION_COOKIE.test(name) ||
    isNonceCookie(name)
}

/**
 * When nginx or Traefik asks whether an upgrade may pass, it leaves out Upgrade. Each handshake has a version, and a key as well
 * (RFC 6455 §4.1) unless it is made over HTTP/2 (RFC 8441 §5).
 */
const opensSocket = ({ head, request: { fields } }: Exchange): boolean =>
  head.upgrade?.toLowerCase() === 'websocket' ||
  fieldValue(fields, 'sec-fetch-mode') === 'websocket' ||
  fieldValue(fields, 'sec-websocket-version') !== undefined ||
  fieldValue(fields, 'sec-websocket-key') !== undefined

/** A browser adds what was once typed for a path to requests for all paths below (RFC 7617 §2.2). It is no credential here. */
const isRemembered = ({ authorization = '', authorizations }: RequestHead): boolean =>
  authorizations === 1 && /^Basic /i.test(authorization)

export const createSessionCookie = (parts: SessionCookieParts) => {
  const { hosts } = parts
  const isSecure = parts.publicUrl.startsWith('https:')
  const baseName = isSecure ? SECURE_NAME : NAME
  const names = Array.from({ length: PARTS }, (_, i) => (i === 0 ? baseName : `${baseName}_${i}`))
  // No Max-Age: the cookie ends with the browser, just as session storage ends with the tab.
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`
  const end = () => names.map(name => `${name}=; ${attributes}; Max-Age=0`)

  const setCookies = (token: string): string[] => {
    // Longer than browsers store: no cookie is better than half of one.
    if (token.length > PART_LENGTH * PARTS) return end()
    return names.map((name, i) => {
      const value = token.slice(i * PART_LENGTH, (i + 1) * PART_LENGTH)
      return value === '' ? `${name}=; ${attributes}; Max-Age=0` : `${name}=${value}; ${attributes}`
    })
  }

  /** The token in the Cookie field; `twice` if a part occurs more than once, because then something else has set one of them. */
  const read = (cookie: string | undefined): { token: string | undefined; twice: boolean } => {
    const values = new Map<string, string>()
    if (cookie === undefined || !cookie.includes(baseName)) return { token: undefined, twice: false }
    for (const [name, value] of cookiePairs(cookie)) {
      if (!names.includes(name)) continue
      if (values.has(name)) return { token: undefined, twice: true }
      values.set(name, value)
    }
    const token = names.map(name => values.get(name) ?? '').join('')
    return { token: values.get(baseName) === undefined ? undefined : token, twice: false }
  }

  /** The login of a token in the cookie of a host, stale or not; undefined if it has ended, or if the token is none of a login. */
  const identify = (token: string, host: string | undefined): Identity | undefined => {
    const identity = parts.verifiedTokens.check(token, { allowStale: true, host })
    return identity instanceof GatewayError || identity.kind !== 'login' ? undefined : identity
  }

  const loginIn = (exchange: Exchange): Identity | undefined => {
    const { token } = read(exchange.head.cookie)
    return token === undefined ? undefined : identify(token, hosts.named(exchange))
  }

  /** What a login takes the place of, and a logout ends. */
  const lastLoginIn = (exchange: Exchange): Identity | undefined =>
    loginIn(exchange) ?? parts.outlived(read(exchange.head.cookie).token ?? '')

  const checkOrigin = (exchange: Exchange): void => {
    const { method, request } = exchange
    const route = askingRoute(exchange)
    const site = fieldValue(request.fields, 'sec-fetch-site')
    const changes = opensSocket(exchange) || !SAFE_METHODS.has(method)
    const ownEndpoint = route?.upstream === undefined && route?.external !== true
    // A link from another site may open a page, but must not query the session or change anything.
    if (site !== undefined && site !== 'same-origin' && (changes || (ownEndpoint && site !== 'none'))) {
      throw new BadOrigin({ reason: 'cookie-cross-site' })
    }
    if (!changes) return
    const sent = fieldValues(request.fields, 'origin')
    // A page with Referrer-Policy: no-referrer sends its own forms with `null`; Sec-Fetch-Site, which no page can set, tells them
    // from those of others (Fetch, "append a request Origin header").
    const isOwnForm = site === 'same-origin' && sent.length === 1 && sent[0] === 'null'
    const allowed =
      isOwnForm || originAllowed({ sent, allowed: [hosts.originOf(exchange)], byCookie: site !== 'same-origin' })
    if (!allowed) throw new BadOrigin({ reason: 'cookie-origin' })
  }

  /**
   * Libraries name themselves in X-Requested-With. The WebView of Android names its app there, which has a dot in its name; over
   * plain HTTP it tells no mode.
   */
  const isNavigation = (exchange: Exchange): boolean =>
    askingRoute(exchange)?.browser === true &&
    wantsPage(exchange) &&
    (fieldValue(exchange.request.fields, 'sec-fetch-mode') !== undefined ||
      fieldValue(exchange.request.fields, 'x-requested-with')?.includes('.') !== false)

  return {
    /**
     * The token from the cookie, where a cookie is accepted: on routes with `browser: true`, and at endpoints about
     * the session itself. Throws `GW_BAD_ORIGIN` (403) if another site may have sent the request, and `GW_BAD_REQUEST` (400)
     * if the cookie is sent twice.
     */
    tokenOf(exchange: Exchange): string | undefined {
      const { head } = exchange
      const route = askingRoute(exchange)
      const isAboutSession = route?.upstream === undefined && ABOUT_SESSION.has(route?.path ?? '')
      if (!isAboutSession && route?.browser !== true) return undefined
      // A request with an Authorization of ours is checked by it alone.
      const isOurs = isAboutSession ? !isRemembered(head) : route?.ownAuthorization !== true
      if (head.authorizations > 0 && isOurs) return undefined
      const { token, twice } = read(head.cookie)
      if (twice) throw new BadRequest({ reason: 'two-session-cookies' })
      if (token === undefined || isPersonalToken(token)) return undefined
      checkOrigin(exchange)
      exchange.sessionToken = token
      exchange.sessionHost = hosts.named(exchange)
      return token
    },
    /** Set-Cookie fields that make a token the browser's session. */
    fieldsOf: setCookies,
    /** The login in the cookie of PUBLIC_URL, stale or not, if a page from there asks. Throws as `tokenOf` does. */
    loginOf(exchange: Exchange): Identity | undefined {
      if (read(exchange.head.cookie).twice) throw new BadRequest({ reason: 'two-session-cookies' })
      checkOrigin(exchange)
      return loginIn(exchange)
    },
    /** Also if it sends a form. */
    isNavigation,
    /** Where to redirect such a navigation without a session; undefined: it is refused. */
    loginAddress(exchange: Exchange): string | undefined {
      if (!isNavigation(exchange) || !SAFE_METHODS.has(exchange.method)) return undefined
      // Of a path that is refused, only the target is known.
      const path = exchange.path === '' ? (exchange.target.split('?', 1)[0] ?? '') : exchange.path
      const target = path + encodeRawBytes(exchange.query)
      const kept = isOwnPath(target) ? target : '/'
      // What a proxy that asks relays is not always the cookie: the login page of the host sets it.
      const isElsewhere = hosts.named(exchange) !== undefined && exchange.forwardAuth === undefined
      if (!isElsewhere) return `/auth/login?returnTo=${encodeURIComponent(kept)}`
      const { address, setCookie } = parts.hostLogin.begin(exchange, kept)
      exchange.setCookies = () => [setCookie]
      return address
    },
    /**
     * After a successful login: its token becomes the browser's session. If that replaces another person's session, it ends; where
     * hosts are named, any, because their cookies would outlive the logout of the new one; if it cannot be ended, the new one ends
     * and the login fails. On a named host it sets nothing: its session is that of PUBLIC_URL, and comes with a code.
     */
    async begin(exchange: Exchange, token: string): Promise<string[]> {
      if (hosts.named(exchange) !== undefined) return []
      const [before, now] = [lastLoginIn(exchange), identify(token, undefined)]
      const isKept = before?.subject === now?.subject && !hosts.areNamed()
      if (before === undefined || isKept) return setCookies(token)
      await parts.endReplaced(before, exchange).catch(async (error: unknown) => {
        // This login fails, so no one gets its token.
        if (now !== undefined) await parts.endReplaced(now, exchange).catch(() => undefined)
        throw error
      })
      return setCookies(token)
    },
    /** After a refresh. Sets nothing if the browser holds another login or none. */
    renew(exchange: Exchange, token: string): string[] {
      const [login, own] = [loginIn(exchange), exchange.identity]
      const isSame = login !== undefined && login.tokenId === own?.tokenId && login.host === own.host
      return isSame ? setCookies(token) : []
    },
    end,
    /** After a logout: the cookie ends, and with it another login of the same person that it holds. */
    async endAfter(exchange: Exchange): Promise<string[]> {
      const [kept, own] = [lastLoginIn(exchange), exchange.identity]
      if (kept !== undefined && kept.subject === own?.subject && kept.tokenId !== own.tokenId)
        await parts.endReplaced(kept, exchange)
      return end()
    },
    /** Whether the token came from the cookie; if so, no response reveals it to scripts. */
    isByCookie: ({ sessionToken }: Exchange) => sessionToken !== undefined
  }
}

// Takes a browser's session from PUBLIC_URL to a named host: a code that is good once, for that host and browser only.
//
//   https://grafana.example/d/1                                       no session: a nonce cookie, and 302
//   PUBLIC_URL/auth/login?returnTo=https://grafana.example/d/1&challenge=…     logs in, or finds the session
//   PUBLIC_URL/auth/session?returnTo=https://grafana.example/d/1&challenge=…   302 with the code
//   https://grafana.example/auth/session?code=…&returnTo=/d/1         the session cookie of this host, and 302
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Exchange } from '../http/exchange.ts'
import type { LiveLogin } from '../identity.ts'
import { cookiePairs } from '../values/cookies.ts'
import { isOwnPath, type OwnHosts } from './own-hosts.ts'

interface HostLoginParts {
  readonly publicUrl: string
  /** JWT_SECRET first, then JWT_PREVIOUS_SECRETS. */
  readonly secrets: readonly string[]
  readonly hosts: OwnHosts
  /** Milliseconds since the epoch. */
  readonly now?: () => number
}

export type HostLogin = ReturnType<typeof createHostLogin>

const NONCE_COOKIE = 'portaria_host_login'
const SECURE_NONCE_COOKIE = `__Host-${NONCE_COOKIE}`
/** No login takes longer. All tabs of a browser share the nonce of a host. */
const NONCE_MAX_AGE_S = 3600
const CODE_LIFE_MS = 60_000
/** 32 bytes in base64url: a nonce, or its SHA-256. */
const VALUE = /^[A-Za-z0-9_-]{43}$/

export const isNonceCookie = (name: string): boolean => name === NONCE_COOKIE || name === SECURE_NONCE_COOKIE

const challengeOf = (nonce: string): string => createHash('sha256').update(nonce).digest('base64url')

/** What a code says of a login, in this order. */
const packed = ({ user, tokenId, version, issuedAt, expiresAt, authenticatedAt }: LiveLogin) =>
  [user.id, user.provider, user.username, tokenId, version, issuedAt, expiresAt, authenticatedAt] as const

const unpacked = (values: ReturnType<typeof packed>, host: string): LiveLogin => {
  const [id, provider, username, tokenId, version, issuedAt, expiresAt, authenticatedAt] = values
  const user = { id, provider, username }
  return { user, subject: String(id), tokenId, version, issuedAt, expiresAt, authenticatedAt, kind: 'login', host }
}

export const createHostLogin = ({ publicUrl, secrets, hosts, now = Date.now }: HostLoginParts) => {
  const isSecure = publicUrl.startsWith('https:')
  const cookieName = isSecure ? SECURE_NONCE_COOKIE : NONCE_COOKIE
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}; Max-Age=${NONCE_MAX_AGE_S}`

  const nonceIn = ({ head }: Exchange): string | undefined => {
    const [, nonce = ''] = cookiePairs(head.cookie).find(([name]) => name === cookieName) ?? []
    return VALUE.test(nonce) ? nonce : undefined
  }
  /** Bound to everything that must not be exchanged; no part of it can hold the separator. */
  const signatureOf = (secret: string, payload: string, ...bound: readonly [string, string, string]) =>
    createHmac('sha256', secret)
      .update(['portaria host session', payload, ...bound].join('\0'))
      .digest()

  return {
    /**
     * Sends a browser on a named host to the login.
     * @param path where it goes afterwards, on this host
     * @param further of the login page's query
     */
    begin(exchange: Exchange, path: string, further: Readonly<Record<string, string>> = {}) {
      const nonce = nonceIn(exchange) ?? randomBytes(32).toString('base64url')
      const returnTo = hosts.originOf(exchange) + path
      const query = new URLSearchParams({ returnTo, challenge: challengeOf(nonce), ...further })
      return {
        address: `${publicUrl}/auth/login?${query}`,
        setCookie: `${cookieName}=${nonce}; ${attributes}`
      }
    },
    /** Where a browser that is logged in at PUBLIC_URL continues; undefined if the address is not on a named host. */
    codeAddress(login: LiveLogin, returnTo: string, challenge: string): string | undefined {
      const target = hosts.read(returnTo)
      if (target === undefined || !VALUE.test(challenge)) return undefined
      const { host, origin, path } = target
      const values = [randomBytes(24).toString('base64url'), now() + CODE_LIFE_MS, ...packed(login)]
      const payload = Buffer.from(JSON.stringify(values)).toString('base64url')
      const signature = signatureOf(secrets[0] ?? '', payload, host, challenge, path).toString('base64url')
      return `${origin}/auth/session?${new URLSearchParams({ code: `${payload}.${signature}`, returnTo: path })}`
    },
    /**
     * What the code of a request on a named host says; undefined if it is of another host or browser, changed, or too old. `id` names
     * the code, which is good once, until `expiresAt` (milliseconds since the epoch).
     */
    redeem(exchange: Exchange, host: string) {
      const query = new URLSearchParams(exchange.query)
      const [code = '', path = ''] = [query.get('code') ?? '', query.get('returnTo') ?? '']
      const [payload = '', signature = '', ...rest] = code.split('.')
      const nonce = nonceIn(exchange)
      if (nonce === undefined || rest.length > 0 || !VALUE.test(signature) || !isOwnPath(path)) return undefined
      const given = Buffer.from(signature, 'base64url')
      const isOurs = secrets.some(secret =>
        timingSafeEqual(signatureOf(secret, payload, host, challengeOf(nonce), path), given)
      )
      if (!isOurs) return undefined
      const [id, expiresAt, ...values] = JSON.parse(Buffer.from(payload, 'base64url').toString()) as [
        ...[string, number],
        ...ReturnType<typeof packed>
      ]
      return expiresAt > now() ? { id, expiresAt, login: unpacked(values, host), path } : undefined
    }
  }
}

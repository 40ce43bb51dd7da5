// Lets only pages of the listed origins read responses (Fetch, CORS protocol).
import type { Exchange } from './exchange.ts'
import { fieldValue } from './request.ts'

export type CrossOrigins = ReturnType<typeof createCrossOrigins>

// Without credentials `*` stands for every name (Fetch, CORS-exposed header-name list).
export const EXPOSED = '*, retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-request-id'

const VARY = ['vary', 'Origin']
const NONE: readonly string[] = []
export const PREFLIGHT_METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

export const createCrossOrigins = (publicUrl: string, frontendUrl: string, further: readonly string[]) => {
  /** Named in the gateway's own responses to requests that name no listed origin. */
  const frontend = new URL(frontendUrl).origin
  /** The origins of FRONTEND_URL and CORS_ORIGINS, as browsers write them. */
  const listed: ReadonlySet<string> = new Set([frontend, ...further])
  const isElsewhere = frontend !== new URL(publicUrl).origin
  /** Those that the operator has named. On other hosts of the gateway, PUBLIC_URL is as foreign as any other origin. */
  const named: ReadonlySet<string> = isElsewhere ? listed : new Set(further)
  // `isUsed`: whether any of them differs from the gateway's own.
  return { frontend, listed, named, isUsed: listed.size > 1 || isElsewhere }
}

/** The origin that may read a response of the gateway itself. */
export const readableBy = ({ head }: Exchange, { frontend, listed }: CrossOrigins): string =>
  head.origin !== undefined && listed.has(head.origin) ? head.origin : frontend

/** `OPTIONS` with an Origin and the method that a browser asks permission for (Fetch, CORS-preflight request). */
export const preflightMethod = ({ method, request, head }: Exchange): string | undefined => {
  if (method !== 'OPTIONS' || head.origin === undefined) return undefined
  const asked = fieldValue(request.fields, 'access-control-request-method')
  return asked !== undefined && /^[A-Za-z]{1,32}$/.test(asked) ? asked.toUpperCase() : undefined
}

/** `[name, value, …]` of the response to a preflight: the methods and fields that a listed page may send. */
export const preflightFields = (exchange: Exchange): string[] => {
  const method = preflightMethod(exchange)
  const isFurther = method !== undefined && !PREFLIGHT_METHODS.split(', ').includes(method)
  const fields = ['access-control-allow-methods', isFurther ? `${PREFLIGHT_METHODS}, ${method}` : PREFLIGHT_METHODS]
  fields.push('access-control-max-age', '600')
  const asked = fieldValue(exchange.request.fields, 'access-control-request-headers')
  if (asked !== undefined && /^[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1024}$/.test(asked)) {
    fields.push('access-control-allow-headers', asked)
  }
  return fields
}

/**
 * `[name, value, …]` to add to a forwarded response with the field lines `passed`. Backends that implement CORS themselves, and
 * all public routes, are left alone. Credentials are never allowed: a page of another origin sends its token itself.
 */
export const crossOriginFields = (
  { head, route }: Exchange,
  passed: string,
  { listed, isUsed }: CrossOrigins
): readonly string[] => {
  const { origin } = head
  if (route === undefined || route.public) return NONE
  if (origin === undefined || !listed.has(origin)) return isUsed ? VARY : NONE
  if (namesOrigin(passed)) return NONE
  return ['access-control-allow-origin', origin, 'access-control-expose-headers', EXPOSED, ...VARY]
}

/**
 * A session cookie makes a response credentialed, so a backend's permission of that stays only for a listed origin that the
 * backend itself names: beside the origin that the gateway adds, it would be one that neither has given.
 */
export const checkCredentials = ({ head, route }: Exchange, passed: string, { named }: CrossOrigins): string => {
  if (route?.browser !== true || head.origin === undefined) return passed
  if (named.has(head.origin) && (route.public || namesOrigin(passed))) return passed
  return passed.replace(/^access-control-allow-credentials:[^\r]*\r\n/gim, '')
}

const namesOrigin = (passed: string): boolean => /^access-control-allow-origin:/im.test(passed)

// Keeps secrets out of the log: in fields, in URLs, and in the texts of errors.
import { decode } from '../routes/canonical-path.ts'

const REDACTED = '[redacted]'
const MAX_DEPTH = 6
const MAX_ITEMS = 50
const MAX_URL = 2048

/** Names without `-`, `_` and case; for fields, headers and URL parameters alike. */
const SECRET_NAMES: ReadonlySet<string> = new Set(
  `authorization proxyauthorization cookie setcookie password passwd pwd token accesstoken idtoken refreshtoken authtoken
  clientsecret secret jwtsecret previoussecrets clientassertion codeverifier sid sessionstate auth jwt apikey xapikey
  signature sig credentials secwebsocketprotocol secwebsocketkey`.split(/\s+/)
)
/** `code` and `state` are secrets in an OAuth redirect but ordinary words in logs, so their values decide. */
const EVERYDAY: Readonly<Record<string, RegExp>> = {
  code: /^(?:[A-Z]{2,8}(?:_[A-Z0-9/]{1,24}){1,9}|E[A-Z0-9]{2,20}|[0-9A-Z]{5})$/,
  state: /^[a-z][a-z -]{0,23}$/
}
const URL_NAMES: ReadonlySet<string> = new Set(['url', 'originalurl', 'location', 'referer', 'referrer', 'path'])

/** A copy of what is to be logged, with the values of secret names replaced at any depth and in any spelling. */
export const redact = (value: unknown, depth = 0): unknown => {
  if (value === null || typeof value !== 'object') return value
  if (depth > MAX_DEPTH) return '[deep]'
  if (Array.isArray(value)) return value.slice(0, MAX_ITEMS).map(item => redact(item, depth + 1))
  if (value instanceof Error || value instanceof Date) return value
  if (!isPlain(value)) return `[${value.constructor?.name ?? 'Object'}]`
  const copy: Record<string, unknown> = {}
  for (const [name, item] of Object.entries(value)) copy[name] = redactField(name, item, depth)
  return copy
}

/** A URL or request target for the log, without the values of secret parameters, userinfo and the fragment. */
export const redactUrl = (url: unknown): string => {
  if (typeof url !== 'string') return ''
  const text = url.length > MAX_URL ? url.slice(0, MAX_URL) : url
  if (!/[?#@;]/.test(text)) return text
  const [beforeFragment = ''] = text.split('#', 1)
  const question = beforeFragment.indexOf('?')
  const place = (question === -1 ? beforeFragment : beforeFragment.slice(0, question)).replace(
    USERINFO,
    `//${REDACTED}@`
  )
  const fragment = text.length > beforeFragment.length ? '#' : ''
  if (question === -1) return place + fragment
  return `${place}?${beforeFragment.slice(question + 1).replace(/[^&;]+/g, redactParameter)}${fragment}`
}

/** Text of an error or a finished line, with tokens, bearer credentials and passwords in URLs replaced. */
export const redactText = (text: string): string => {
  const withoutJwts = text.includes('eyJ') ? text.replace(JWT, `$1${REDACTED}`) : text
  const withoutTokens = SECRET_HINT.test(withoutJwts) ? withoutJwts.replace(SECRET, REDACTED) : withoutJwts
  const withoutBearer = BEARER_HINT.test(withoutTokens)
    ? withoutTokens.replace(BEARER, `$1 ${REDACTED}`)
    : withoutTokens
  return withoutBearer.includes('@') ? withoutBearer.replace(USERINFO, `//${REDACTED}@`) : withoutBearer
}

// Only the first `eyJ` of a run is tried, since all of them end where it does: a path of 8 KB would take 20 ms.
const JWT = /(?<![\w-])(?=([\w-]*?)eyJ)\1eyJ[\w-]{5,}(?:\.[\w-]*){1,4}/g
/** Access tokens of people and secrets of service accounts. */
const SECRET = /p[ts]_[\w-]{43}/g
const SECRET_HINT = /p[ts]_/
const BEARER_HINT = /\b(?:bearer|basic) /i
const BEARER = /\b(bearer|basic) +[\w.~+/=-]{8,}/gi
const USERINFO = /\/\/[^/?#\s"@]*@/g

const redactField = (name: string, item: unknown, depth: number): unknown => {
  const plain = plainName(name)
  if (SECRET_NAMES.has(plain)) return item === undefined || item === null || typeof item === 'boolean' ? item : REDACTED
  const everyday = EVERYDAY[plain]
  if (everyday !== undefined && typeof item === 'string') return everyday.test(item) ? item : REDACTED
  if (everyday !== undefined && Array.isArray(item)) return REDACTED
  if (typeof item === 'string' && URL_NAMES.has(plain)) return redactUrl(item)
  return redact(item, depth + 1)
}

const redactParameter = (parameter: string): string => {
  const equals = parameter.indexOf('=')
  const name = equals === -1 ? parameter : parameter.slice(0, equals)
  return equals !== -1 && isSecretParameter(name) ? `${name}=${REDACTED}` : parameter
}

// `auth[token]` and `%74oken` reach a backend's parser as the plain name does; undecodable names are treated as secret.
const isSecretParameter = (name: string): boolean => {
  const parts = decode(name.replaceAll('+', ' '))?.split(/[[\].]/)
  return parts === undefined || parts.map(plainName).some(part => SECRET_NAMES.has(part) || part in EVERYDAY)
}

const plainName = (name: string): string => name.toLowerCase().replace(/[-_\s]/g, '')

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

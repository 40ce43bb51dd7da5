// Classifies the fields of an upstream's response by name, in place: what each means to the gateway.
import { SHARED_CACHE_FIELDS, SHARED_CACHE_SUFFIX } from '../../values/cache-fields.ts'

/** Not in the table: passed on as it is. */
export const PASS_ON = 0
/** Never passed on: hop-by-hop, or written by the gateway itself. */
export const DROP = 1
export const CONNECTION_OPTIONS = 2
export const KEEP_ALIVE = 3
export const BODY_CODING = 4
export const BODY_LENGTH = 5
export const LOCATION = 6
export const CONTENT_TYPE = 7
export const SET_COOKIE = 8
export const REFRESH = 9
export const DATE = 10
// What follows concerns caches.
export const CACHE_CONTROL = 11
export const VARY = 12
const SHARED_CACHES = 13

const KINDS: Readonly<Record<string, number>> = {
  connection: CONNECTION_OPTIONS,
  'keep-alive': KEEP_ALIVE,
  'transfer-encoding': BODY_CODING,
  'content-length': BODY_LENGTH,
  location: LOCATION,
  'content-location': LOCATION,
  'content-type': CONTENT_TYPE,
  'set-cookie': SET_COOKIE,
  refresh: REFRESH,
  date: DATE,
  'cache-control': CACHE_CONTROL,
  vary: VARY,
  ...Object.fromEntries(SHARED_CACHE_FIELDS.map(name => [name, SHARED_CACHES])),
  'proxy-connection': DROP,
  'proxy-authenticate': DROP,
  te: DROP,
  // The gateway frames the response itself; trailers follow after a chunked body (RFC 9110 §6.5).
  trailer: DROP,
  upgrade: DROP,
  // Would lead browsers around the gateway (RFC 7838 §3).
  'alt-svc': DROP,
  'x-request-id': DROP,
  'x-ratelimit-limit': DROP,
  'x-ratelimit-remaining': DROP,
  'x-ratelimit-reset': DROP
}

/** Names of one length with one last letter. */
const byShape: Array<Array<readonly [name: string, kind: number]>> = []
const shapeOf = (length: number, last: number): number => length * 32 + (last & 31)
for (const [name, kind] of Object.entries(KINDS)) {
  const shape = shapeOf(name.length, name.charCodeAt(name.length - 1))
  while (byShape.length <= shape) byShape.push([])
  byShape[shape]?.push([name, kind])
}

/** Whether a token (RFC 9110 §5.6.2) at an index is `name`, in any case: bit 5 distinguishes the letters of a token only. */
const isNamed = (bytes: Uint8Array, at: number, name: string): boolean => {
  for (let i = 0; i < name.length; i++) if (((bytes[at + i] ?? 0) | 32) !== name.charCodeAt(i)) return false
  return true
}

/** The kind of the field name, a token, between two indexes. */
export const responseFieldKind = (bytes: Uint8Array, start: number, end: number): number => {
  const shape = shapeOf(end - start, bytes[end - 1] ?? 0)
  const names = shape < byShape.length ? byShape[shape] : undefined
  if (names !== undefined) {
    for (let i = 0; i < names.length; i++) {
      const named = names[i]
      if (named !== undefined && isNamed(bytes, start, named[0])) return named[1]
    }
  }
  const suffixAt = end - SHARED_CACHE_SUFFIX.length
  return suffixAt >= start && isNamed(bytes, suffixAt, SHARED_CACHE_SUFFIX) ? SHARED_CACHES : PASS_ON
}

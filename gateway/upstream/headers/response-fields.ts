// Classifies the fields of an upstream's response by name: what each means to the gateway.
import { remembered } from '../../values/bounded-map.ts'
import { SHARED_CACHE_FIELDS, SHARED_CACHE_SUFFIX } from '../../values/cache-fields.ts'

/** `pass`: passed on as it is. `drop`: never, because it is hop-by-hop or written by the gateway itself. */
export type ResponseFieldKind =
  | 'pass'
  | 'drop'
  | 'connection'
  | 'keep-alive'
  | 'transfer-encoding'
  | 'content-length'
  | 'content-type'
  | 'address'
  | 'set-cookie'
  | 'refresh'
  | 'date'
  | 'authenticate'
  | 'cache-control'
  | 'vary'
  | 'shared-caches'

const DROPPED = [
  'proxy-connection',
  'proxy-authenticate',
  'te',
  // The gateway frames the response itself; trailers follow after a chunked body (RFC 9110 §6.5).
  'trailer',
  'upgrade',
  // Would lead browsers around the gateway (RFC 7838 §3).
  'alt-svc',
  'x-request-id',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset'
]

const KINDS = new Map<string, ResponseFieldKind>([
  ['connection', 'connection'],
  ['keep-alive', 'keep-alive'],
  ['transfer-encoding', 'transfer-encoding'],
  ['content-length', 'content-length'],
  ['content-type', 'content-type'],
  ['location', 'address'],
  ['content-location', 'address'],
  ['set-cookie', 'set-cookie'],
  ['refresh', 'refresh'],
  ['date', 'date'],
  ['www-authenticate', 'authenticate'],
  ['cache-control', 'cache-control'],
  ['vary', 'vary'],
  ...SHARED_CACHE_FIELDS.map(name => [name, 'shared-caches'] as const),
  ...DROPPED.map(name => [name, 'drop'] as const)
])

export const responseFieldKind = remembered((name): ResponseFieldKind => {
  const lower = name.toLowerCase()
  return KINDS.get(lower) ?? (lower.endsWith(SHARED_CACHE_SUFFIX) ? 'shared-caches' : 'pass')
})

// Classifies the fields of an upstream's response by name: what each means to the gateway.
import { SHARED_CACHE_FIELDS, SHARED_CACHE_SUFFIX } from '../../http/fields.ts'
import { remembered } from '../../values/bounded-map.ts'

/** Fields that mean to the gateway what their name says. */
const READ = [
  'connection',
  'keep-alive',
  'transfer-encoding',
  'content-length',
  'content-type',
  'set-cookie',
  'refresh',
  'clear-site-data',
  'strict-transport-security',
  'date',
  'cache-control',
  'vary'
] as const

/** `pass`: passed on as it is. `drop`: never, because it is hop-by-hop or written by the gateway itself. */
export type ResponseFieldKind = 'pass' | 'drop' | (typeof READ)[number] | 'address' | 'authenticate' | 'shared-caches'

const DROPPED = [
  'proxy-connection',
  'proxy-authenticate',
  'te',
  // The gateway frames the response itself; trailers follow after a chunked body (RFC 9110 §6.5).
  'trailer',
  'upgrade',
  'http2-settings',
  // Would lead browsers around the gateway (RFC 7838 §3).
  'alt-svc',
  // Would have browsers report all requests to the host, also to other backends, for as long as it says (Network Error Logging §4).
  'nel',
  // An Envoy in front would take that for the state of the gateway. One beside a backend says so when its service is to get no more.
  'x-envoy-immediate-health-check-fail',
  'x-envoy-degraded',
  'x-request-id',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset'
]

const KINDS = new Map<string, ResponseFieldKind>([
  ...READ.map(name => [name, name] as const),
  ['location', 'address'],
  ['content-location', 'address'],
  ['www-authenticate', 'authenticate'],
  ...SHARED_CACHE_FIELDS.map(name => [name, 'shared-caches'] as const),
  ...DROPPED.map(name => [name, 'drop'] as const)
])

export const responseFieldKind = remembered((name): ResponseFieldKind => {
  const lower = name.toLowerCase()
  return KINDS.get(lower) ?? (lower.endsWith(SHARED_CACHE_SUFFIX) ? 'shared-caches' : 'pass')
})

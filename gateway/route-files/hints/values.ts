// Suggests the key or the value that was probably meant: a misspelling, another spelling, or another gateway's word.
import { stringify } from 'yaml'
import {
  DURATION_OR_ZERO_PATTERN,
  DURATION_PATTERN,
  DURATION_UNITS,
  SIZE_PATTERN,
  SIZE_UNITS
} from '../../values/quantities.ts'
import { nearestHint } from '../../values/spelling.ts'

/** A part of the schema. */
type Form = Readonly<Record<string, unknown>>

const MAX_SHOWN = 60

/** `; write 30s instead of "30 sec"`, or `, not "soon"`, or nothing if the value cannot be shown briefly. */
export const valueHint = (form: Form, path: readonly string[], value: unknown): string => {
  const [last = '', owner = ''] = path.toReversed()
  const key = OWNERS.has(owner) ? `${owner} entry` : last
  const shown = show(value)
  if (key === 'methods entry' && value === '*') return '; without "methods" a route takes all of them'
  if (key === 'methods entry' && /^connect$/i.test(textOf(value))) return '; tunnels (CONNECT) are not supported'
  const wanted = spellings(form, key, value)
  if (wanted.length > 0) return `; write ${wanted.join(' or ')}${shown === undefined ? '' : ` instead of ${shown}`}`
  return shown === undefined ? '' : `, not ${shown}`
}

/** Keys whose entries have names or numbers. */
const OWNERS: ReadonlySet<string> = new Set(['upstreams', 'methods', 'namespaces', 'events'])

/** A scalar as it was meant, with text in quotes. Nothing that is long or could contain a password. */
const show = (value: unknown): string | undefined => {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  const isShown = typeof value === 'string' && value.length <= MAX_SHOWN && !/:\/\/[^/]*@|\p{Cc}/u.test(value)
  return isShown ? `"${value}"` : undefined
}

/** Maps, which have no prototype here, cannot be converted. */
const textOf = (value: unknown): string => (typeof value === 'object' ? '' : String(value))

const spellings = (form: Form, key: string, value: unknown): readonly string[] => {
  if (form.pattern === DURATION_PATTERN || form.pattern === DURATION_OR_ZERO_PATTERN) return durations(value)
  if (form.pattern === SIZE_PATTERN) return sizes(value)
  if (form.type === 'boolean') return booleans(value)
  if (form.type === 'integer') return typeof value === 'string' && /^[1-9]\d{0,8}$/.test(value) ? [value] : []
  if (form.type === 'array') return lists(value, key === 'tests')
  return BY_KEY[key]?.(value) ?? []
}

const BY_KEY: Readonly<Record<string, (value: unknown) => readonly string[]>> = {
  rateLimit: value => rateLimits(value),
  'methods entry': value => methods(value),
  websocket: value => (value === true || value === null ? ['{}'] : []),
  'namespaces entry': value => rules(value),
  'events entry': value => rules(value),
  'upstreams entry': value => (isAddress(value) ? [flow({ url: value })] : []),
  status: value => statuses(value),
  healthCheck: value => (typeof value === 'string' && value.startsWith('/') ? [flow({ path: value })] : [])
}

const methods = (value: unknown): readonly string[] =>
  typeof value === 'string' && /^[a-z]{3,20}(?:[\s,|]+[a-z]{3,20})*$/i.test(value)
    ? [value.toUpperCase().replaceAll(/[\s,|]+/g, ', ')]
    : []

const isAddress = (value: unknown): value is string => typeof value === 'string' && /^https?:\/\/[^/@\s]+$/.test(value)

const flow = (value: unknown): string => stringify(value, { collectionStyle: 'flow', lineWidth: 0 }).trimEnd()

const statuses = (value: unknown): readonly string[] => {
  const hundreds = /^([2-5])xx$/i.exec(textOf(value))?.[1]
  return hundreds === undefined ? [] : [`${hundreds}00-${hundreds}99`]
}

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.length > 0 && value.every(entry => typeof entry === 'string')

const rules = (value: unknown): readonly string[] => {
  if (value === true || value === null) return ['{}']
  return isTexts(value) ? [flow({ roles: value })] : []
}

const lists = (value: unknown, isLine: boolean): readonly string[] => {
  if (typeof value !== 'string' || value.length > MAX_SHOWN) return []
  const entries = isLine ? [value] : value.split(/[\s,]+/).filter(entry => entry !== '')
  return entries.length > 0 && entries.every(entry => show(entry) !== undefined) ? [flow(entries)] : []
}

const YES = /^(?:yes|on|true|y|1)$/i
const NO = /^(?:no|off|false|n|0)$/i

const booleans = (value: unknown): readonly string[] => {
  const text = textOf(value)
  return YES.test(text) ? ['true'] : NO.test(text) ? ['false'] : []
}

const WORDS: readonly (readonly [RegExp, number])[] = [
  [/^(?:ms|msecs?|milliseconds?|millis)$/, 1],
  [/^(?:s|secs?|seconds?)$/, 1000],
  [/^(?:m|mins?|minutes?)$/, 60_000],
  [/^(?:h|hrs?|hours?)$/, 3_600_000],
  [/^(?:d|days?)$/, 86_400_000],
  [/^(?:w|weeks?)$/, 7 * 86_400_000]
]

const durations = (value: unknown): readonly string[] => {
  const text = textOf(value).trim().toLowerCase()
  if (/^[1-9]\d{0,8}$/.test(text)) return [`${text}s`, `${text}ms`]
  if (!/^(?:\d+(?:\.\d+)?\s*[a-z]+\s*)+$/.test(text)) return []
  let total = 0
  for (const [, amount, word = ''] of text.matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+)/g)) {
    total += Number(amount) * (WORDS.find(([spelling]) => spelling.test(word))?.[1] ?? Number.NaN)
  }
  return Number.isInteger(total) && total > 0 ? [spelt(total, DURATION_UNITS)] : []
}

const sizes = (value: unknown): readonly string[] => {
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b|bytes?)?$/i.exec(textOf(value).trim()) ?? []
  const bytes = Number(amount) * (SIZE_UNITS[`${unit.toUpperCase()}B`] ?? Number.NaN)
  return Number.isInteger(bytes) && bytes > 0 ? [spelt(bytes, SIZE_UNITS)] : []
}

/** In the largest unit that needs no fraction. */
const spelt = (amount: number, units: Readonly<Record<string, number>>): string => {
  const [unit = '', size = 1] = Object.entries(units).findLast(([, one]) => amount % one === 0) ?? []
  return `${amount / size}${unit}`
}

const RATE = /^(\d{1,9})\s*(?:r|reqs?|requests?)?\s*(?:\/|per|p)\s*(\d{0,9})\s*([a-z]+)$/i

const rateLimits = (value: unknown): readonly string[] => {
  if (typeof value === 'number') return value >= 1 ? [flow({ max: value, window: '1m' })] : []
  const [, max, amount, word] = RATE.exec(textOf(value).trim()) ?? []
  const [window] = word === undefined ? [] : durations(`${amount || '1'}${word}`)
  return window === undefined || Number(max) < 1 ? [] : [flow({ max: Number(max), window })]
}

const OTHERS: Readonly<Record<string, readonly string[]>> = {
  path: ['uri', 'url', 'match', 'location', 'from'],
  upstream: ['backend', 'service', 'target', 'proxy', 'proxyPass', 'to', 'cluster'],
  url: ['address', 'host', 'server', 'uri', 'target'],
  targets: ['hosts', 'servers', 'urls', 'addresses'],
  roles: ['profiles', 'allow', 'groups', 'permissions', 'requiredRoles'],
  profiles: ['roles'],
  methods: ['verbs'],
  public: ['anonymous', 'noAuth', 'skipAuth'],
  stripPrefix: ['prefix', 'stripPath', 'rewrite'],
  rateLimit: ['limit', 'rate', 'throttle'],
  maxBody: ['bodyLimit', 'maxBodySize', 'clientMaxBodySize'],
  requestBuffer: ['requestBuffering', 'proxyRequestBuffering', 'bodyBuffer', 'clientBodyBufferSize'],
  streaming: ['stream', 'unbuffered', 'flushInterval'],
  max: ['limit', 'requests', 'count'],
  window: ['per', 'interval', 'period', 'ttl'],
  by: ['key'],
  websocket: ['ws'],
  socketio: ['io'],
  group: ['dn', 'cn'],
  caFile: ['ca', 'caCert'],
  serverName: ['sni'],
  preserveHost: ['passHost', 'passHostHeader'],
  requestHeaders: ['headers'],
  set: ['add'],
  healthCheck: ['health'],
  rise: ['passes', 'healthyThreshold'],
  fall: ['fails', 'unhealthyThreshold'],
  status: ['expect', 'expectStatus', 'expectedStatuses'],
  outlier: ['outlierDetection', 'passiveHealth', 'maxFails'],
  errors: ['maxFails', 'consecutive5xx'],
  for: ['failTimeout', 'baseEjectionTime'],
  maxConnections: ['maxConns', 'maxConn', 'connectionLimit'],
  queue: ['maxPendingRequests'],
  backup: ['isBackup', 'standby']
}

/** ` (did you mean "x"?)`, or nothing. */
export const keyHint = (key: string, known: readonly string[]): string => {
  const near = nearestHint(key, known)
  if (near !== '') return near
  const plain = key.replace(/[-_]/g, '').toLowerCase()
  const meant = known.find(name => OTHERS[name]?.some(other => other.toLowerCase() === plain))
  return meant === undefined ? '' : ` (did you mean "${meant}"?)`
}

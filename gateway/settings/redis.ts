// Reads the settings of Redis: one server, also by its Unix socket, a Sentinel group or a Cluster; its keys' prefix, its certificates.
import { readPairs } from './certificate-pair.ts'
import { type Reader, readAuthorities } from './reader.ts'

export interface RedisNode {
  readonly host: string
  readonly port: number
}

interface RedisAccess {
  readonly username: string | undefined
  readonly password: string | undefined
  readonly tls: boolean
}

type RedisAddress =
  | ({ readonly kind: 'single'; readonly db: number } & RedisNode & RedisAccess)
  | ({ readonly kind: 'unix'; readonly path: string; readonly db: number } & RedisAccess)
  | ({
      readonly kind: 'sentinel'
      readonly sentinels: readonly RedisNode[]
      /** Name of the master that the sentinels watch. */
      readonly name: string
      readonly db: number
      readonly sentinelUsername: string | undefined
      readonly sentinelPassword: string | undefined
    } & RedisAccess)
  | ({ readonly kind: 'cluster'; readonly nodes: readonly RedisNode[] } & RedisAccess)

export type RedisSettings = RedisAddress & {
  /** Begins every key and channel. */
  readonly prefix: string
  /** PEM texts for TLS. */
  readonly certificates: { readonly ca?: string; readonly cert?: string; readonly key?: string }
}

/** Undefined: requests are counted in memory. */
export const readRedis = (reader: Reader): RedisSettings | undefined => {
  const url = reader.text('REDIS_URL')
  const address = url === undefined ? undefined : parseRedisUrl(url)
  const prefix = reader.matching('REDIS_PREFIX', PREFIX, 'must be 1 to 64 letters, digits and ._:/-') ?? ''
  const usesTls = address !== undefined && 'tls' in address && address.tls
  for (const name of FILES) {
    if (reader.given(name) && !usesTls) reader.mistake(name, 'has no effect without a REDIS_URL of the form rediss…')
  }
  const ca = readAuthorities(reader, 'REDIS_CA_FILE')
  const certificates = { ...(ca === undefined ? {} : { ca }), ...readClientPair(reader) }
  if (address === undefined || !('mistake' in address)) return address && { ...address, prefix, certificates }
  reader.mistake('REDIS_URL', address.mistake)
  return undefined
}

/** A brace would move the hash tag by which a Cluster finds the keys of one window in one slot. */
const PREFIX = /^[\w.:/-]{1,64}$/
const FILES = ['REDIS_CA_FILE', 'REDIS_CERT_FILE', 'REDIS_KEY_FILE'] as const

const readClientPair = (reader: Reader): { readonly cert?: string; readonly key?: string } => {
  const fileOf = (name: (typeof FILES)[number]) => [reader.text(name) ?? []].flat()
  const [first] = readPairs(reader, ['REDIS_CERT_FILE', 'REDIS_KEY_FILE'], fileOf) ?? []
  return first === undefined ? {} : { cert: first.pair.cert, key: first.pair.key }
}

/**
 * Parses the four forms; `rediss…` means TLS, user and password are percent-encoded:
 * - `redis://[user:password@]host[:6379][/db]`
 * - `unix:/path[?db=…&username=…&password=…]`
 * - `redis-sentinel://[user:password@]host[:26379],host[:26379]/master[/db][?sentinelUsername=…&sentinelPassword=…]`
 * - `redis-cluster://[user:password@]host[:6379],host[:6379]`
 *
 * @returns the structure, or the mistake in words that contain nothing of the URL.
 */
export const parseRedisUrl = (url: string): RedisAddress | { readonly mistake: string } => {
  const { scheme, userinfo = '', hosts = '', path = '', socket, query } = FORM.exec(url)?.groups ?? {}
  // A `+` is itself where text is percent-encoded; in forms it is a blank.
  const parameters = new URLSearchParams(query?.replaceAll('+', '%2B'))
  if (socket !== undefined) return unixSocket(socket, parameters)
  if (scheme === undefined) return { mistake: FORMS }
  const access = accessOf(userinfo, scheme.startsWith('rediss'))
  if (access === undefined) return { mistake: 'its user or password is not percent-encoded' }
  const kind = scheme.replace(/^rediss?-?/, '')
  const nodes = hosts.split(',').map(host => nodeOf(host, kind === 'sentinel' ? 26_379 : 6379))
  if (!nodes.every(node => node !== undefined)) return { mistake: 'a host or port in it is not valid' }
  const segments = path === '' ? [] : path.split('/')
  if (kind === 'sentinel') return sentinel(nodes, segments, parameters, access)
  if (query !== undefined) return { mistake: 'parameters are supported only in the Sentinel form' }
  if (kind === 'cluster')
    return segments.length > 0 ? { mistake: 'a Cluster has no database number' } : { kind, nodes, ...access }
  const [node, ...others] = nodes
  const db = databaseOf(segments[0])
  if (node === undefined || others.length > 0)
    return { mistake: `several hosts require the Sentinel or the Cluster form` }
  if (db === undefined || segments.length > 1) return { mistake: 'only a database number may follow the host' }
  return { kind: 'single', ...node, db, ...access }
}

const FORM =
  /^(?:unix:(?<socket>\/[^?#\s]+)|(?<scheme>rediss?(?:-sentinel|-cluster)?):\/\/(?:(?<userinfo>[^@/?#\s]*)@)?(?<hosts>[^@/?#\s]+)(?:\/(?<path>[^?#\s]*))?)(?:\?(?<query>[^#\s]*))?$/
const FORMS =
  'must be redis://host:6379/0, unix:/path?db=0, redis-sentinel://host:26379,host:26379/master or redis-cluster://host:6379,host:6379 (rediss… for TLS; user and password percent-encoded)'

/** Of a name that occurs twice, the first counts. */
const valuesOf = (parameters: URLSearchParams): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries([...parameters].toReversed())
const hasOthers = (parameters: URLSearchParams, ...known: string[]): boolean =>
  [...parameters.keys()].some(key => !known.includes(key))
const UNKNOWN = { mistake: 'it contains an unknown parameter' }

const unixSocket = (path: string, parameters: URLSearchParams): RedisAddress | { mistake: string } => {
  const { db: database, username, password } = valuesOf(parameters)
  const db = databaseOf(database)
  if (db === undefined) return { mistake: 'its db is not a database number' }
  if (hasOthers(parameters, 'db', 'username', 'password')) return UNKNOWN
  return { kind: 'unix', path, db, username, password, tls: false }
}

const sentinel = (
  sentinels: readonly RedisNode[],
  [name, database, ...rest]: string[],
  parameters: URLSearchParams,
  access: RedisAccess
): RedisAddress | { mistake: string } => {
  const db = databaseOf(database)
  if (name === undefined || !/^[\w.-]{1,128}$/.test(name))
    return { mistake: 'the Sentinel form must end with the name of the master' }
  if (db === undefined || rest.length > 0)
    return { mistake: 'only a database number may follow the name of the master' }
  if (hasOthers(parameters, 'sentinelUsername', 'sentinelPassword')) return UNKNOWN
  const { sentinelUsername, sentinelPassword } = valuesOf(parameters)
  return { kind: 'sentinel', sentinels, name, db, sentinelUsername, sentinelPassword, ...access }
}

const nodeOf = (text: string, defaultPort: number): RedisNode | undefined => {
  const [, bracketed, name, port = defaultPort] = /^(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  const host = bracketed ?? name
  return host === undefined || Number(port) < 1 || Number(port) > 65_535 ? undefined : { host, port: Number(port) }
}

const databaseOf = (text = ''): number | undefined => (/^\d{0,4}$/.test(text) ? Number(text) : undefined)

const accessOf = (userinfo: string, tls: boolean): RedisAccess | undefined => {
  const [user = '', ...password] = userinfo.split(':')
  try {
    return {
      username: user === '' ? undefined : decodeURIComponent(user),
      password: password.length === 0 ? undefined : decodeURIComponent(password.join(':')),
      tls
    }
  } catch {
    return undefined
  }
}

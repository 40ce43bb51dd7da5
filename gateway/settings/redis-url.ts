// Parses REDIS_URL into a structure: one server, also by its Unix socket, a Sentinel group or a Cluster.

interface RedisNode {
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
  if (url.startsWith('unix:')) return unixSocket(url)
  const { scheme, userinfo, hosts, path, query } = FORM.exec(url)?.groups ?? {}
  if (scheme === undefined || hosts === undefined) return { mistake: FORMS }
  const access = accessOf(userinfo, scheme.startsWith('rediss'))
  if (access === undefined) return { mistake: 'its user or password is not percent-encoded' }
  const kind = scheme.replace(/^rediss?-?/, '')
  const nodes = hosts.split(',').map(host => nodeOf(host, kind === 'sentinel' ? 26_379 : 6379))
  if (!nodes.every(node => node !== undefined)) return { mistake: 'a host or port in it is not valid' }
  const segments = path === undefined || path === '' ? [] : path.split('/')
  if (query !== undefined && kind !== 'sentinel')
    return { mistake: 'parameters are supported only in the Sentinel form' }
  if (kind === 'sentinel') return sentinel(nodes, segments, new URLSearchParams(query ?? ''), access)
  if (kind === 'cluster') {
    return segments.length > 0 ? { mistake: 'a Cluster has no database number' } : { kind: 'cluster', nodes, ...access }
  }
  const [node] = nodes
  const db = databaseOf(segments[0])
  if (node === undefined || nodes.length > 1)
    return { mistake: `several hosts require the Sentinel or the Cluster form` }
  if (db === undefined || segments.length > 1) return { mistake: 'only a database number may follow the host' }
  return { kind: 'single', ...node, db, ...access }
}

const FORM =
  /^(?<scheme>rediss?(?:-sentinel|-cluster)?):\/\/(?:(?<userinfo>[^@/?#\s]*)@)?(?<hosts>[^@/?#\s]+)(?:\/(?<path>[^?#\s]*))?(?:\?(?<query>[^#\s]*))?$/
const FORMS =
  'must be redis://host:6379/0, unix:/path?db=0, redis-sentinel://host:26379,host:26379/master or redis-cluster://host:6379,host:6379 (rediss… for TLS; user and password percent-encoded)'

const unixSocket = (url: string): RedisAddress | { mistake: string } => {
  const { path, query } = /^unix:(?<path>\/[^?#\s]+)(?:\?(?<query>[^#\s]*))?$/.exec(url)?.groups ?? {}
  const parameters = new URLSearchParams(query ?? '')
  const db = databaseOf(parameters.get('db') ?? undefined)
  if (path === undefined) return { mistake: FORMS }
  if (db === undefined) return { mistake: 'its db is not a database number' }
  for (const key of parameters.keys()) {
    if (!['db', 'username', 'password'].includes(key)) return { mistake: 'it contains an unknown parameter' }
  }
  const username = parameters.get('username') ?? undefined
  const password = parameters.get('password') ?? undefined
  return { kind: 'unix', path, db, username, password, tls: false }
}

const sentinel = (
  sentinels: readonly RedisNode[],
  [name, database, ...rest]: string[],
  query: URLSearchParams,
  access: RedisAccess
): RedisAddress | { mistake: string } => {
  const db = databaseOf(database)
  if (name === undefined || !/^[\w.-]{1,128}$/.test(name))
    return { mistake: 'the Sentinel form must end with the name of the master' }
  if (db === undefined || rest.length > 0)
    return { mistake: 'only a database number may follow the name of the master' }
  for (const key of query.keys()) {
    if (key !== 'sentinelUsername' && key !== 'sentinelPassword') return { mistake: 'it contains an unknown parameter' }
  }
  const sentinelUsername = query.get('sentinelUsername') ?? undefined
  const sentinelPassword = query.get('sentinelPassword') ?? undefined
  return { kind: 'sentinel', sentinels, name, db, sentinelUsername, sentinelPassword, ...access }
}

const nodeOf = (text: string, defaultPort: number): RedisNode | undefined => {
  const { bracketed, name, port } =
    /^(?:\[(?<bracketed>[0-9A-Fa-f:.]+)\]|(?<name>[\w.-]+))(?::(?<port>\d{1,5}))?$/.exec(text)?.groups ?? {}
  const host = bracketed ?? name
  const number = port === undefined ? defaultPort : Number(port)
  return host === undefined || number < 1 || number > 65_535 ? undefined : { host, port: number }
}

const databaseOf = (text: string | undefined): number | undefined => {
  if (text === undefined || text === '') return 0
  return /^\d{1,4}$/.test(text) ? Number(text) : undefined
}

const accessOf = (userinfo: string | undefined, tls: boolean): RedisAccess | undefined => {
  const [user = '', ...password] = (userinfo ?? '').split(':')
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

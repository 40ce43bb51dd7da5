// Names a failure of Redis with one stable word.

export interface RedisFault {
  /** A stable word for logs, metrics and /health. */
  readonly reason: string
  /** The code of the TLS error or of the server's reply, where there is one. */
  readonly code?: string
}

export class RedisTimeout extends Error {
  constructor(timeoutMs: number) {
    super(`Redis did not answer within ${timeoutMs} ms`)
    this.name = 'RedisTimeout'
  }
}

export const redisFault = (error: unknown): RedisFault => {
  if (error instanceof RedisTimeout) return { reason: 'timeout' }
  if (!(error instanceof Error)) return { reason: 'error' }
  const { message } = error
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const tls = TLS_FAILURES.find(([pattern]) => pattern.test(code))?.[1]
  if (tls !== undefined) return { reason: tls, code }
  // Redis before 7 wraps the errors of commands in a script; a Cluster client those of its nodes.
  const word = SERVER_FAILURES.exec(message)?.[1]
  if ('command' in error && (error.command as { name?: unknown }).name === 'select')
    return { reason: 'select', ...(word === undefined ? {} : { code: word }) }
  if (word !== undefined) return { reason: word.toLowerCase() }
  return { reason: CONNECTION.test(`${code} ${message}`) ? 'connection' : 'error' }
}

const SERVER_FAILURES =
  /\b(READONLY|OOM|LOADING|CLUSTERDOWN|MASTERDOWN|NOAUTH|WRONGPASS|NOPERM|MISCONF|BUSY|NOREPLICAS)\b/
const CONNECTION =
  /connection is closed|writeable|ECONN|ENOENT|EPIPE|ETIMEDOUT|ENOTFOUND|isn't ready|reset|is ended|max retries per request|socket timeout|hang up|aborted|None of startup nodes|slots cache/i
const TLS_FAILURES: readonly (readonly [RegExp, string])[] = [
  [/^CERT_HAS_EXPIRED$|^CERT_NOT_YET_VALID$/, 'tls-expired'],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, 'tls-wrong-name'],
  [/SELF_SIGNED|UNABLE_TO_(VERIFY|GET)|^CERT_/, 'tls-unknown-ca'],
  [/^ERR_SSL_.*ALERT/, 'tls-client-refused'],
  [/^ERR_(SSL|TLS)_/, 'tls']
]

const ENDING = ['connection', 'readonly', 'masterdown', 'noauth', 'wrongpass', 'select']

/** The connection has ended, or must: another one may reach a server that can be used. */
export const endsConnection = (reason: string): boolean => ENDING.includes(reason) || reason.startsWith('tls')

/** A reply that is already in the socket when the time is up still counts: the poll phase comes before setImmediate. */
export const within = <T>(reply: Promise<T>, timeoutMs: number): Promise<T> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => setImmediate(() => reject(new RedisTimeout(timeoutMs))), timeoutMs)
    reply.finally(() => clearTimeout(timer)).then(resolve, reject)
  })

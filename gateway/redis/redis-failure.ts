// Names a failure of Redis with one stable word.

export class RedisTimeout extends Error {
  constructor(timeoutMs: number) {
    super(`Redis did not answer within ${timeoutMs} ms`)
    this.name = 'RedisTimeout'
  }
}

/** The problem as one stable word for logs, metrics and /health. */
export const redisFailure = (error: unknown): string => {
  if (error instanceof RedisTimeout) return 'timeout'
  const message = error instanceof Error ? error.message : ''
  const word = /^(?:.*Last error: )?(?:\w+Error: )?([A-Z]{3,})\b/.exec(message)?.[1]
  if (word !== undefined && SERVER_FAILURES.has(word)) return word.toLowerCase()
  return /connection is closed|writeable|ECONN|EPIPE|isn't ready|reset|is ended/i.test(message) ? 'connection' : 'error'
}

const SERVER_FAILURES = new Set(
  'READONLY OOM LOADING CLUSTERDOWN MASTERDOWN NOAUTH WRONGPASS NOPERM MISCONF BUSY NOREPLICAS'.split(' ')
)

/** A reply that is already in the socket when the time is up still counts: the poll phase comes before setImmediate. */
export const within = <T>(reply: Promise<T>, timeoutMs: number): Promise<T> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => setImmediate(() => reject(new RedisTimeout(timeoutMs))), timeoutMs)
    reply.finally(() => clearTimeout(timer)).then(resolve, reject)
  })

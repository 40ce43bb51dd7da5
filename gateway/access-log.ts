// One line per request: who, where to, decided how and why, and how long it took. Never a query, a header or a body.
import type { Logger } from 'pino'
import type { Exchange } from './exchange.ts'

export type Outcome = 'allow' | 'refuse' | 'fail'

/** `fail`: allowed, but the upstream or the gateway could not do it. */
export const outcomeOf = ({ error }: Exchange): Outcome => {
  if (error === undefined) return 'allow'
  return error.statusCode >= 500 ? 'fail' : 'refuse'
}

const rounded = (ms: number): number => Math.round(ms * 100) / 100

/** The words of a chain of causes, for the log alone. */
const causes = (error: unknown): string[] => {
  const words: string[] = []
  for (let cause = error; cause instanceof Error && words.length < 5; cause = cause.cause) {
    const code = 'code' in cause && typeof cause.code === 'string' ? `${cause.code}: ` : ''
    words.push(`${code}${cause.message}`.slice(0, 300))
  }
  return words
}

const lineOf = (exchange: Exchange) => {
  const { req, res, route, identity, error, client } = exchange
  const user = identity?.user
  return {
    requestId: exchange.requestId,
    method: req.method,
    // What could not be read as a path is cut and shown as it came; JSON escapes it.
    path: exchange.path === '' ? (req.url ?? '').split('?', 1)[0]?.slice(0, 256) : exchange.path,
    route: route?.id,
    status: res.headersSent ? res.statusCode : undefined,
    decision: outcomeOf(exchange),
    code: error?.code,
    reason: error?.reason ?? (res.writableFinished ? undefined : 'client-gone'),
    user: user?.id,
    profiles: user?.profiles,
    accessStatus: user?.accessStatus,
    provider: user?.provider,
    ip: client.address,
    ms: rounded(performance.now() - exchange.startedAt),
    upstreamMs: exchange.upstreamMs < 0 ? undefined : rounded(exchange.upstreamMs)
  }
}

/** The observer of finished exchanges that writes the access log; costs nothing where `info` is off. */
export const createAccessLog = (log: Logger) => {
  const written = log.isLevelEnabled('info')
  return (exchange: Exchange): void => {
    const { error } = exchange
    if (error !== undefined && error.statusCode >= 500)
      log.warn({ ...lineOf(exchange), causes: causes(error.cause) }, 'request')
    else if (written)
      log.info(
        error?.cause === undefined ? lineOf(exchange) : { ...lineOf(exchange), causes: causes(error.cause) },
        'request'
      )
  }
}

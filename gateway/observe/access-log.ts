// Writes one line per request: person, destination, decision with its reason, and times. Never a query, header or body.
import type { Logger } from 'pino'
import type { Exchange } from '../http/exchange.ts'
import { parseTraceparent } from '../http/trace-context.ts'
import type { Identity } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import { oncePer } from '../values/bounded-map.ts'
import { encodeRawBytes } from '../values/urls.ts'
import { lineWriter } from './logging.ts'
import { redactText, redactUrl } from './redaction.ts'

/** `fail`: allowed, but the upstream or the gateway could not serve it. */
export const OUTCOMES = ['allow', 'refuse', 'fail'] as const
export type Outcome = (typeof OUTCOMES)[number]

export const outcomeOf = ({ error }: Exchange): Outcome => {
  if (error === undefined) return 'allow'
  return error.statusCode >= 500 ? 'fail' : 'refuse'
}

const rounded = (ms: number): number => Math.round(ms * 100) / 100

/** The messages of a chain of causes, for the log only. */
const causes = (error: unknown): string[] => {
  const words: string[] = []
  for (let cause = error; cause instanceof Error && words.length < 5; cause = cause.cause) {
    const code = 'code' in cause && typeof cause.code === 'string' ? `${cause.code}: ` : ''
    words.push(redactText(`${code}${cause.message}`.slice(0, 300)))
  }
  return words
}

// The same for every request of a route or a token, so they are built once.
const routeField = oncePer(({ id }: Route) => `,"route":${JSON.stringify(id)}`)

const identityField = oncePer(
  ({ user, kind }: Identity) =>
    `,"user":${user.id},"profiles":${JSON.stringify(user.profiles)},"accessStatus":"${user.accessStatus}","provider":"${user.provider}"` +
    (kind === 'personal' ? ',"tokenKind":"personal"' : '')
)

/** A path may be a link that contains a token. A path that could not be parsed is truncated, and logged as received except for bytes that no URL contains. */
const pathOf = ({ path, target }: Exchange): string =>
  JSON.stringify(
    redactText(redactUrl(path === '' ? encodeRawBytes(target.split('?', 1)[0]?.slice(0, 256) ?? '') : path))
  )

const statusField = ({ response, upgraded }: Exchange): string => {
  if (upgraded) return ',"status":101'
  return response.hasBegun ? `,"status":${response.status}` : ''
}

const whyFields = ({ error, response, upgraded }: Exchange): string => {
  if (error === undefined) return response.isDelivered || upgraded ? '' : ',"reason":"client-gone"'
  const reason = error.reason === undefined ? '' : `,"reason":${JSON.stringify(error.reason)}`
  const chain = causes(error.cause)
  return `,"code":"${error.code}"${reason}${chain.length === 0 ? '' : `,"causes":${JSON.stringify(chain)}`}`
}

/** The trace of our own span; with tracing off, the one in the client's traceparent. Contains only hexadecimal digits. */
const traceField = ({ trace, head }: Exchange): string => {
  if (trace !== undefined) return `,"traceId":"${trace.traceId}"`
  const parent = head.traceparent === undefined ? undefined : parseTraceparent(head.traceparent)
  return parent === undefined ? '' : `,"traceId":"${parent.traceId}"`
}

/**
 * The line's fields as JSON text, each after a comma. Built by hand, because inspecting an object of known shape field
 * by field costs several times the writing: all values except the path are the gateway's own words, numbers and ids.
 */
const fieldsOf = (exchange: Exchange, publicHost: string): string => {
  const { route, identity, client, host, upstreamMs, headMs, forwardAuth } = exchange
  const requestId = exchange.peerTrusted ? redactText(exchange.requestId) : exchange.requestId
  const ms = performance.now() - exchange.startedAt
  return (
    `,"requestId":"${requestId}"${traceField(exchange)},"method":"${exchange.method}"` +
    (host === publicHost || host === '' ? '' : `,"host":"${exchange.hostName}"`) +
    `,"path":${pathOf(exchange)}` +
    (route === undefined ? '' : routeField(route)) +
    (forwardAuth === undefined ? '' : ',"forwardAuth":true') +
    (exchange.request.connection.isHttp2 ? ',"protocol":"h2"' : '') +
    statusField(exchange) +
    `,"decision":"${outcomeOf(exchange)}"${whyFields(exchange)}` +
    (identity === undefined ? '' : identityField(identity)) +
    `,"ip":${JSON.stringify(client.address)},"ms":${rounded(ms)}` +
    (upstreamMs < 0 ? '' : `,"upstreamMs":${rounded(upstreamMs)}`) +
    `,"gatewayMs":${rounded(headMs < 0 ? ms : Math.max(0, headMs - upstreamMs))}`
  )
}

/** Writes the access log for finished exchanges; costs nothing if its level is off. */
export const createAccessLog = (log: Logger, publicUrl: string) => {
  const publicHost = new URL(publicUrl).host
  const info = log.isLevelEnabled('info') ? lineWriter(log, 'info', 'request') : undefined
  const warn = log.isLevelEnabled('warn') ? lineWriter(log, 'warn', 'request') : undefined
  return (exchange: Exchange): void => {
    const write = exchange.error !== undefined && exchange.error.statusCode >= 500 ? warn : info
    if (write !== undefined) write(fieldsOf(exchange, publicHost))
  }
}

// Describes the client and the destination of a Socket.IO session.
import type { Exchange } from '../http/exchange.ts'
import { forwardedPath, type Route } from '../routes/route.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { requestRulesOf } from '../upstream/headers/header-rules.ts'
import { ownText } from '../values/bounded-map.ts'

export interface SessionSource {
  readonly route: Route
  readonly upstream: Upstream
  readonly target: Target
  readonly path: string
  readonly hostName: string
  readonly requestId: string
  readonly ip: string
  /** The key that limits count by. */
  readonly ipKey: string
}

export const sourceOf = (exchange: Exchange, route: Route, upstream: Upstream, target: Target): SessionSource => ({
  route,
  upstream,
  target,
  path: ownText(exchange.path),
  hostName: exchange.hostName,
  requestId: ownText(exchange.requestId),
  ip: exchange.client.address,
  ipKey: exchange.client.key
})

/** The head of one of the gateway's own POSTs, which carries packets to the upstream. */
export const ownPostHead = (
  { route, upstream, path, target, requestId }: SessionSource,
  sid: string,
  length: number
): string =>
  `POST ${forwardedPath(route, path)}?EIO=4&transport=polling&sid=${sid} HTTP/1.1\r\nhost: ${target.authority}\r\n` +
  `content-type: text/plain;charset=UTF-8\r\ncontent-length: ${length}\r\nx-request-id: ${requestId}\r\n` +
  `${requestRulesOf(upstream)?.lines ?? ''}\r\n`

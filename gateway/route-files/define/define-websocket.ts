// Reads the WebSocket settings of a route, and complains about origins that no browser sends.
import type { WebSocketOptions } from '../../routes/route.ts'
import { parseSize } from '../../values/quantities.ts'
import type { Complain } from '../complaint.ts'
import type { WebSocketData } from '../schema/socket-schemas.ts'
import { defineTimer } from './define-timer.ts'

/** `data` has passed the schema. */
export const defineWebSocket = (data: WebSocketData, say: Complain): WebSocketOptions => {
  for (const [index, origin] of (data.origins ?? []).entries()) {
    const isOrigin = /^https?:/.test(origin) && URL.canParse(origin) && new URL(origin).origin === origin
    if (!isOrigin)
      say(
        `an origin must be scheme, host and port, as in https://app.example.org${originHint(origin)}`,
        'websocket',
        'origins',
        index
      )
  }
  return {
    origins: data.origins ?? [],
    tokenInQuery: data.tokenInQuery ?? false,
    maxMessageBytes: parseSize(data.maxMessage ?? '1MB'),
    messagesPerSecond: data.messagesPerSecond ?? 0,
    idleTimeoutMs: defineTimer(data.idleTimeout ?? '1h', say, 'websocket', 'idleTimeout'),
    maxLifetimeMs: defineTimer(data.maxLifetime ?? 0, say, 'websocket', 'maxLifetime')
  }
}

const originHint = (written: string): string => {
  if (written.includes('*')) return '; there are no wildcards: list each origin'
  if (/^[\w-]+(?:\.[\w-]+)+(?::\d+)?$/.test(written)) return `; write https://${written}`
  const url = /^https?:\/\/[^/@]+\//.test(written) && URL.canParse(written) ? new URL(written) : undefined
  return url === undefined ? '' : `; write ${url.origin}`
}

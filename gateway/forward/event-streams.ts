// Registers a response that turns out to be an event stream, so that it ends when the access that opened it ends.
import { GatewayError } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { asGatewayError } from '../http/own-responses.ts'
import type { Upstream } from '../routes/upstream.ts'
import type { OpenStreams } from './open-streams.ts'
import { streamInfoOf } from './stream.ts'

/** @param end ends the stream; returns a function to call when it has ended, or the reason why it may not begin */
export type RegisterEventStream = (
  exchange: Exchange,
  upstream: Upstream,
  end: () => void
) => (() => void) | GatewayError

export const createRegisterEventStream =
  (streams: Pick<OpenStreams, 'admit' | 'register'>): RegisterEventStream =>
  (exchange, upstream, end) => {
    const { route, identity, client } = exchange
    if (route === undefined) return () => undefined
    const leave = streams.admit({ upstream, userId: identity?.user.id, ip: client.key })
    if (leave instanceof GatewayError) return leave
    try {
      const { close } = streams.register(streamInfoOf(exchange, route, 'sse'), { end, destroy: end })
      return () => {
        close()
        leave()
      }
    } catch (error) {
      leave()
      return asGatewayError(error)
    }
  }

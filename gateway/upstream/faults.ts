// Names what can go wrong with an upstream, and the refusal that the client gets for it.
import { BadUpstreamResponse, type GatewayError, UpstreamTimeout, UpstreamUnreachable } from '../errors.ts'
import { Http2Only } from './http2-only.ts'

export type UpstreamFault = 'unreachable' | 'reset' | 'bad-response' | 'timeout'

const REFUSALS: Record<UpstreamFault, (cause: unknown) => GatewayError> = {
  unreachable: cause => new UpstreamUnreachable({ cause, reason: 'upstream-unreachable' }),
  reset: cause => new UpstreamUnreachable({ cause, reason: 'upstream-reset' }),
  'bad-response': cause =>
    new BadUpstreamResponse({
      cause,
      reason: cause instanceof Http2Only ? 'upstream-http2-only' : 'upstream-nonsense'
    }),
  timeout: cause => new UpstreamTimeout({ cause, reason: 'upstream-timeout' })
}

/** @param cause for the log only */
export const upstreamRefusal = (fault: UpstreamFault, cause: unknown): GatewayError => REFUSALS[fault](cause)

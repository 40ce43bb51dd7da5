// Names what can go wrong with an upstream, how a backend that supports only HTTP/2 shows it, and the refusal for the client.
import { BadUpstreamResponse, type GatewayError, Unavailable, UpstreamTimeout, UpstreamUnreachable } from '../errors.ts'

/** A fault of a target. */
export type TargetFault = 'unreachable' | 'reset' | 'bad-response' | 'timeout'

/** The gateway had no file descriptor left for a connection: no other target would fare better. */
export const EXHAUSTED = 'descriptors-exhausted'

export type UpstreamFault = TargetFault | typeof EXHAUSTED

export class BadResponse extends Error {}

export class Http2Only extends BadResponse {}

const REFUSALS = {
  unreachable: [UpstreamUnreachable, 'upstream-unreachable'],
  reset: [UpstreamUnreachable, 'upstream-reset'],
  'bad-response': [BadUpstreamResponse, 'upstream-nonsense'],
  timeout: [UpstreamTimeout, 'upstream-timeout'],
  [EXHAUSTED]: [Unavailable, EXHAUSTED]
} as const

/** @param cause for the log only */
export const upstreamRefusal = (fault: UpstreamFault, cause: unknown): GatewayError => {
  const [Refusal, reason] = REFUSALS[fault]
  return new Refusal({ cause, reason: cause instanceof Http2Only ? 'upstream-http2-only' : reason })
}

/**
 * Whether a request of which nothing has been sent may be tried again. A warm connection that was closed in the meantime says
 * nothing against its target; an unreachable target is not tried twice.
 * @param attempts so far, on connections that had carried nothing before
 * @param unreached how many of the targets could not be reached
 */
export const mayTryAgain = (fault: UpstreamFault, attempts: number, unreached: number, targets: number): boolean =>
  fault !== EXHAUSTED && unreached < targets && attempts <= targets

const MAX_FIRST_FRAME_BYTES = 16_384

/** The first thing an HTTP/2 server sends: a SETTINGS or GOAWAY frame of the connection itself (RFC 9113 §3.4, §4.1). */
export const isHttp2Frame = (bytes: Buffer): boolean =>
  bytes.length >= 9 &&
  bytes.readUIntBE(0, 3) <= MAX_FIRST_FRAME_BYTES &&
  (bytes[3] === 4 || bytes[3] === 7) &&
  bytes.readUInt32BE(5) === 0

/** No common version of HTTP (RFC 7301 §3.2; only http/1.1 is offered): recognised by its code, or by its text if a write failed first. */
export const isNoCommonProtocol = ({ code, message }: NodeJS.ErrnoException): boolean =>
  code === 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL' ||
  (code === 'EPROTO' && message.includes('alert no application protocol'))

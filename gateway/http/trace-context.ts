// Reads a client's trace context as the standard defines it; an invalid one counts as absent (W3C Trace Context §3.2).

/** Fields that replace the client's upstream. */
export interface TraceFields {
  readonly traceId: string
  readonly traceparent: string
  /** Whether the client's tracestate is still valid (§3.3.1.1: without a valid traceparent it is not). */
  readonly keepsState: boolean
}

// Version 00 ends after the flags; later versions may continue after another dash (§4).
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

export const parseTraceparent = (text: string | undefined) => {
  const [, version, traceId = '', spanId = '', flags = '', rest] = TRACEPARENT.exec(text?.trim() ?? '') ?? []
  if (version === undefined || version === 'ff' || (version === '00' && rest !== undefined)) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, flags: Number.parseInt(flags, 16) & 1 }
}

type TraceParent = NonNullable<ReturnType<typeof parseTraceparent>>

export const formatTraceparent = ({ traceId, spanId, flags }: TraceParent): string =>
  `00-${traceId}-${spanId}-${(flags & 1) === 1 ? '01' : '00'}`

/** Whether one of the client's fields (lower case) is replaced by ours. */
export const isReplaced = (name: string, { keepsState }: TraceFields): boolean =>
  name === 'traceparent' || (name === 'tracestate' && !keepsState)

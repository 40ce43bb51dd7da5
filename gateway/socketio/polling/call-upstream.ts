// Sends one small request to an upstream and reads its whole response, within limits, or fails with a refusal.
import { BadUpstreamResponse, Unavailable } from '../../errors.ts'
import type { Target, Upstream } from '../../routes/upstream.ts'
import type { UpstreamConnection } from '../../upstream/connection.ts'
import { upstreamRefusal } from '../../upstream/faults.ts'
import type { Requester, ResponseHead } from '../../upstream/parser.ts'
import { mustBeRead } from '../../upstream/pool.ts'
import type { Upstreams } from '../../upstream/upstreams.ts'
import { contain } from '../../values/contain.ts'

interface Call {
  readonly upstream: Upstream
  readonly target: Target
  readonly method: 'GET' | 'POST'
  /** The complete head, including its empty line. */
  readonly head: string
  readonly body: Buffer | undefined
  readonly timeoutMs: number
  /** It may wait for a long time, and counts as a stream. */
  readonly isStream?: boolean
  /** Maximum size of the response body. */
  readonly maxBytes: number
}

export interface UpstreamAnswer {
  readonly head: ResponseHead
  readonly body: Buffer
}

export interface PendingCall {
  /** Rejects with a refusal (502, 503, 504); never settles once aborted. */
  readonly answer: Promise<UpstreamAnswer>
  abort(): void
}

export const callUpstream = (upstreams: Upstreams, call: Call): PendingCall => {
  const pool = upstreams.poolOf(call.upstream)
  let connection: UpstreamConnection | undefined
  let aborted = false
  let attempts = 0
  const answer = new Promise<UpstreamAnswer>((resolve, reject) => {
    let head: ResponseHead | undefined
    let parts: Buffer[] = []
    let size = 0
    const keep = (chunk: Buffer) => {
      size += chunk.length
      if (size > call.maxBytes) {
        connection?.destroy()
        reject(new BadUpstreamResponse({ reason: 'upstream-answer-too-large' }))
      } else parts.push(Buffer.from(chunk))
    }
    const requester: Requester = {
      onInterim: () => undefined,
      onThrown: reject,
      onDrain: () => undefined,
      onHead(received, whole) {
        head = received
        if (whole !== undefined) keep(Buffer.from(whole, 'latin1'))
      },
      onBody: keep,
      onEnd() {
        connection = undefined
        if (head !== undefined) resolve({ head, body: Buffer.concat(parts) })
        parts = []
      },
      onFault(fault, cause, nothingSent) {
        connection = undefined
        // Nothing has been sent: a warm connection that was closed in the meantime is replaced.
        if (nothingSent && fault === 'reset' && attempts < 3) begin()
        else reject(upstreamRefusal(fault, cause))
      }
    }
    const send = (to: UpstreamConnection) => {
      if (aborted) return to.destroy()
      if (to.destroyed) return begin()
      to.send(call.method, call.head, requester, call.timeoutMs)
      if (call.body !== undefined) to.write(call.body)
      to.finish()
    }
    const begin = () => {
      attempts++
      const acquired = pool.acquire({ isStream: call.isStream }, call.target)
      if (acquired === undefined) return reject(new Unavailable({ reason: 'upstream-connections-exhausted' }))
      connection = acquired
      if (!mustBeRead(acquired, call.body !== undefined)) send(acquired)
      else setImmediate(() => contain({ onThrown: reject }, () => send(acquired)))
    }
    begin()
  })
  return {
    answer,
    abort() {
      aborted = true
      connection?.destroy()
    }
  }
}

// Sends one small request to an upstream and reads its whole response, within limits, or fails with a refusal.
import { BadUpstreamResponse, Unavailable } from '../../errors.ts'
import { forwardedPath } from '../../routes/route.ts'
import type { Target, Upstream } from '../../routes/upstream.ts'
import type { UpstreamConnection } from '../../upstream/connection.ts'
import { mayTryAgain, upstreamRefusal } from '../../upstream/faults.ts'
import { requestRulesOf } from '../../upstream/headers/header-rules.ts'
import { bindsConnection, type Requester, type ResponseHead } from '../../upstream/parser.ts'
import { mustBeRead } from '../../upstream/pool.ts'
import type { Upstreams } from '../../upstream/upstreams.ts'
import { ownText } from '../../values/bounded-map.ts'
import { contain } from '../../values/contain.ts'
import type { Holding } from '../../values/held-memory.ts'
import type { EngineSessionSource } from '../engine-session.ts'

interface Call {
  readonly upstream: Upstream
  /** The only one that may be asked; undefined: any, one after the other until one can be reached. */
  readonly target?: Target
  readonly method: 'GET' | 'POST'
  /** From {@link headTemplate}. */
  readonly head: string
  readonly body?: Buffer
  readonly timeoutMs: number
  /** It may wait for a long time, and counts as a stream. */
  readonly isStream?: boolean
  /** Maximum size of the response body. */
  readonly maxBytes: number
  /** Where the body counts, until the caller counts it elsewhere. */
  readonly holding?: Holding
}

/** `target`: the one that answered. */
export type UpstreamAnswer = Readonly<{ target: Target; head: ResponseHead; body: Buffer }>

export type PendingCall = ReturnType<typeof callUpstream>

export const callUpstream = (upstreams: Upstreams, call: Call) => {
  const pool = upstreams.poolOf(call.upstream)
  let connection: UpstreamConnection | undefined
  let aborted = false
  let attempts = 0
  const answer = new Promise<UpstreamAnswer>((resolve, reject) => {
    const unreached: Target[] = []
    let target: Target
    let head: ResponseHead | undefined
    let parts: Buffer[] = []
    let size = 0
    const keep = (chunk: Buffer) => {
      size += chunk.length
      call.holding?.set(size)
      if (size > call.maxBytes || call.holding?.isTooMuch()) {
        connection?.destroy()
        reject(new BadUpstreamResponse({ reason: 'upstream-answer-too-large' }))
      } else parts.push(Buffer.from(chunk))
    }
    const requester: Requester = {
      onThrown: reject,
      onHead(received, whole) {
        head = received
        if (whole !== undefined) keep(Buffer.from(whole, 'latin1'))
      },
      onBody: keep,
      onEnd() {
        connection = undefined
        if (head !== undefined) resolve({ target, head, body: Buffer.concat(parts) })
        parts = []
      },
      onFault(fault, cause, nothingSent) {
        connection = undefined
        if (fault !== 'reset') unreached.push(target)
        const count = call.target === undefined ? pool.targetCount() : 1
        if (nothingSent && mayTryAgain(fault, attempts, unreached.length, count)) begin()
        else reject(upstreamRefusal(fault, cause))
      }
    }
    const send = (to: UpstreamConnection) => {
      if (aborted) return to.destroy()
      if (to.destroyed) return begin()
      if (to.idleSince === 0) attempts++
      if (bindsConnection(AUTHORIZATION.exec(call.head)?.[1])) to.isBound = true
      to.send(call.method, fillHead(call.head, target, call.body?.length), requester, call.timeoutMs)
      if (call.body !== undefined) to.write(call.body)
      to.finish()
    }
    const begin = () => {
      const acquired = pool.acquire({ isStream: call.isStream, only: call.target, not: unreached, isSession: true })
      if (acquired === undefined) return reject(new Unavailable({ reason: 'upstream-connections-exhausted' }))
      connection = acquired
      target = acquired.target
      if (!mustBeRead(acquired, call.body !== undefined)) send(acquired)
      else setImmediate(() => contain({ onThrown: reject }, () => send(acquired)))
    }
    begin()
  })
  return {
    /** Rejects with a refusal (502, 503, 504); never settles once aborted. */
    answer,
    abort() {
      aborted = true
      connection?.destroy()
    }
  }
}

// Neither can occur in a request (RFC 9112 §3, RFC 9110 §5.5).
const AUTHORITY = '\0'
const LENGTH = '\x01'

/** In a request head. NTLM and Negotiate authenticate the connection, which other clients must then not use. */
const AUTHORIZATION = /\r\nauthorization: ([^\r]*)/i

/**
 * The head of a request for which target and length are not known yet: its session may be elsewhere.
 * @param write returns the start of the head for this authority and these framing lines
 */
export const headTemplate = (method: string, write: (authority: string, framing: string) => string): string =>
  `${write(AUTHORITY, method === 'POST' ? `content-length: ${LENGTH}\r\n` : '')}\r\n`

const fillHead = (template: string, { authority }: Target, length = 0): string =>
  template.replace(AUTHORITY, authority).replace(LENGTH, String(length))

/** The lines of a head by which balancers choose a backend, and backends decide whether to redirect to HTTPS. */
export const routingLinesOf = (head: string): string =>
  ownText(head.match(/^(?:cookie|x-forwarded-[a-z]+|x-real-ip): [^\r]*\r\n/gm)?.join('') ?? '')

/** The head of one of the gateway's own POSTs. @param routingLines as in the client's requests */
export const ownPostHead = (
  { route, upstream, path, host, requestId }: EngineSessionSource,
  sid: string,
  routingLines: string
): string => {
  const rules = requestRulesOf(upstream)?.lines ?? ''
  // One that a rule sets is among both.
  const others = routingLines.replace(/[^\n]*\n/g, line => (`\n${rules}`.includes(`\n${line}`) ? '' : line))
  return headTemplate(
    'POST',
    (authority, framing) =>
      `POST ${forwardedPath(route, path)}?EIO=4&transport=polling&sid=${sid} HTTP/1.1\r\n` +
      `host: ${upstream.preserveHost ? host : authority}\r\n` +
      `content-type: text/plain;charset=UTF-8\r\n${framing}x-request-id: ${requestId}\r\n${rules}${others}`
  )
}

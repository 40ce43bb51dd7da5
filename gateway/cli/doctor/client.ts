// Sends probes exactly as written, and reads their responses within limits of size, time and number.
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import net from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import tls from 'node:tls'

export type Header = readonly [name: string, value: string]

export interface Probe {
  /** Only safe methods (RFC 9110 §9.2.1). */
  readonly method?: 'GET' | 'HEAD' | 'OPTIONS'
  readonly target: string
  /** In order; `Host` and `Connection` are added if they are missing. */
  readonly headers?: readonly Header[]
}

export interface ProbeAnswer {
  /** 0: no readable response. */
  readonly status: number
  /** Names in lower case; multiple values are joined by a line break. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** No more probes may be sent; the message says why. */
export class ProbesEnded extends Error {}

export type DoctorClient = ReturnType<typeof createDoctorClient>

interface Bounds {
  readonly maxRequests: number
  readonly maxSeconds: number
}

const ANSWER_TIMEOUT_MS = 5_000
/** Of no gateway. */
export const FOREIGN_ORIGIN = 'https://foreign.invalid'
const MAX_ANSWER_LENGTH = 64 * 1024
const MAX_KEPT = 50

export const createDoctorClient = (url: URL, { maxRequests, maxSeconds }: Bounds) => {
  const deadline = performance.now() + maxSeconds * 1000
  const refusals: ProbeAnswer[] = []
  const cookies = new Set<string>()
  let asked = 0
  return {
    url,
    /** The first refusals. */
    refusals,
    cookies,
    /** Requests sent so far. */
    asked: () => asked,
    /** Waits as long as a 429 demands. Throws {@link ProbesEnded} beyond the limits. */
    async ask(probe: Probe): Promise<ProbeAnswer> {
      for (;;) {
        if (asked >= maxRequests) throw new ProbesEnded(`${maxRequests} requests were sent (--max-requests)`)
        if (performance.now() > deadline) throw new ProbesEnded(`${maxSeconds} seconds had passed (--max-seconds)`)
        asked += 1
        const answer = await exchange(url, probe)
        if (answer.status === 429) {
          await waitAsTold(answer, deadline)
          continue
        }
        if (answer.status >= 400 && refusals.length < MAX_KEPT) refusals.push(answer)
        for (const cookie of answer.headers.get('set-cookie')?.split('\n') ?? []) cookies.add(cookie)
        return answer
      }
    }
  }
}

/** RFC 9110 §10.2.3, in seconds; throws {@link ProbesEnded} if that would exceed the time limit. */
const waitAsTold = async ({ headers }: ProbeAnswer, deadline: number): Promise<void> => {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  const isInTime = seconds >= 0 && performance.now() + seconds * 1000 < deadline
  if (!isInTime) throw new ProbesEnded('the rate limit (429) lasts longer than the time allowed (--max-seconds)')
  await delay(Math.max(seconds, 0.1) * 1000)
}

/** The status, and what arrives until the response ends or breaks, or until more has arrived than anything needs. */
const exchange = async (url: URL, { method = 'GET', target, headers = [] }: Probe): Promise<ProbeAnswer> => {
  const lacks = (name: string) => headers.every(([one]) => one.toLowerCase() !== name)
  const sent = [
    ...(lacks('host') ? ['Host', url.host] : []),
    ...headers.flat(),
    ...(lacks('connection') ? ['Connection', 'close'] : [])
  ]
  const createConnection = () => (url.protocol === 'https:' ? connectTls(url, {}) : net.connect(endpointOf(url)))
  const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS)
  const request = http.request({ method, path: target, headers: sent, createConnection, signal })
  // Once upgraded, a request no longer closes its socket.
  request.on('upgrade', (_response, socket) => socket.destroy())
  request.on('error', () => undefined).end()
  let answer: ProbeAnswer = { status: 0, headers: new Map(), body: '' }
  try {
    const [response]: IncomingMessage[] = await Promise.race([once(request, 'response'), once(request, 'upgrade')])
    const { statusCode: status = 0, headersDistinct = {} } = response ?? {}
    const fields = Object.entries(headersDistinct).map(([name, values]) => [name, values?.join('\n') ?? ''] as const)
    answer = { status, headers: new Map(fields), body: '' }
    // After an upgrade, what follows is no body.
    for await (const text of status === 101 ? [] : (response?.setEncoding('utf8') ?? [])) {
      answer = { ...answer, body: answer.body + text }
      if (answer.body.length > MAX_ANSWER_LENGTH) break
    }
  } catch {
    // There is no response, or a part of one.
  }
  request.destroy()
  return answer
}

/** Where to connect: the brackets around an IPv6 address belong only to the URL. */
const endpointOf = ({ hostname, protocol, port }: URL) => ({
  host: hostname.replace(/^\[|\]$/g, ''),
  port: Number(port || (protocol === 'https:' ? 443 : 80))
})

/** Whether the certificate is valid is checked separately; here it must not hide the responses. */
const connectTls = (url: URL, options: tls.ConnectionOptions): tls.TLSSocket => {
  const endpoint = endpointOf(url)
  const named = net.isIP(endpoint.host) === 0 ? { servername: endpoint.host } : {}
  return tls.connect({ ...endpoint, ...named, ...options, rejectUnauthorized: false })
}

/** What a TLS handshake comes to; undefined: there is none. */
export const shakeHands = async (url: URL, options: tls.ConnectionOptions) => {
  const socket = connectTls(url, options)
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    const { authorized, authorizationError } = socket
    return { fault: authorized ? undefined : String(authorizationError) }
  } catch {
    return undefined
  } finally {
    socket.on('error', () => undefined).destroy()
  }
}

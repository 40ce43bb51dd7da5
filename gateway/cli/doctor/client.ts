// Sends probes exactly as written, over HTTP/1.1 or HTTP/2, and reads their responses within limits of size, time and number.
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import http2 from 'node:http2'
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
  /** The name in the TLS handshake, '': none; absent: that of the URL. */
  readonly serverName?: string | undefined
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

export const ANSWER_TIMEOUT_MS = 5_000
/** Of no gateway. */
export const FOREIGN_ORIGIN = 'https://foreign.invalid'
const MAX_ANSWER_LENGTH = 64 * 1024
const MAX_KEPT = 50

export const createDoctorClient = (url: URL, { maxRequests, maxSeconds }: Bounds) => {
  const deadline = performance.now() + maxSeconds * 1000
  const refusals: ProbeAnswer[] = []
  const cookies = new Set<string>()
  let asked = 0
  const askOver = (exchange: typeof overHttp1) => async (probe: Probe) => {
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
  return {
    url,
    /** The first refusals. */
    refusals,
    cookies,
    /** Requests sent so far. */
    asked: () => asked,
    /** Waits as long as a 429 demands. Throws {@link ProbesEnded} beyond the limits. */
    ask: askOver(overHttp1),
    askOverHttp2: askOver(overHttp2)
  }
}

/** RFC 9110 §10.2.3, in seconds; throws {@link ProbesEnded} if that would exceed the time limit. */
const waitAsTold = async ({ headers }: ProbeAnswer, deadline: number): Promise<void> => {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  const isInTime = seconds >= 0 && performance.now() + seconds * 1000 < deadline
  if (!isInTime) throw new ProbesEnded('the rate limit (429) lasts longer than the time allowed (--max-seconds)')
  await delay(Math.max(seconds, 0.1) * 1000)
}

const overHttp1 = async (url: URL, { method = 'GET', target, headers = [], serverName }: Probe) => {
  const lacks = (name: string) => headers.every(([one]) => one.toLowerCase() !== name)
  const sent = [
    ...(lacks('host') ? ['Host', url.host] : []),
    ...headers.flat(),
    ...(lacks('connection') ? ['Connection', 'close'] : [])
  ]
  const createConnection = () =>
    url.protocol === 'https:' ? connectTls(url, { servername: serverName }) : net.connect(endpointOf(url))
  const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS)
  const request = http.request({ method, path: target, headers: sent, createConnection, signal })
  // Once upgraded, a request no longer closes its socket.
  request.on('upgrade', (_response, socket) => socket.destroy())
  request.on('error', () => undefined).end()
  return readAnswer(request, async () => {
    const [response]: IncomingMessage[] = await Promise.race([once(request, 'response'), once(request, 'upgrade')])
    // After an upgrade, what follows is no body.
    const body = response?.statusCode === 101 ? [] : response?.setEncoding('utf8')
    return { status: response?.statusCode, fields: response?.headersDistinct, body }
  })
}

export const OFFER_HTTP2 = { ALPNProtocols: ['h2'] }

/** On a connection of its own. */
const overHttp2 = async (url: URL, { method = 'GET', target, headers = [], serverName }: Probe) => {
  const sent: Record<string, string | string[]> = { ':method': method, ':path': target, ':authority': url.host }
  for (const [spelt, value] of headers) {
    const name = spelt.toLowerCase()
    if (name === 'host') sent[':authority'] = value
    else if (name === 'cookie') sent[name] = [...(sent[name] ?? []), value]
    else if (name !== 'connection') sent[name] = value
  }
  const createConnection = () => connectTls(url, { ...OFFER_HTTP2, servername: serverName })
  const session = http2.connect(url.origin, { createConnection }).on('error', () => undefined)
  return readAnswer(session, async () => {
    const stream = session.request(sent, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    stream.on('error', () => undefined)
    // A stream that is reset may close without an error.
    const [fields = {}] = await Promise.race([once(stream, 'response'), once(stream, 'close').then(() => [])])
    return { status: fields[':status'], fields, body: stream.setEncoding('utf8') }
  })
}

interface Begun {
  readonly status: number | undefined
  readonly fields: NodeJS.Dict<string | string[]> | undefined
  readonly body: AsyncIterable<string> | readonly string[] | undefined
}

/** What arrives until the exchange ends or breaks, or until more has arrived than anything needs. */
const readAnswer = async (exchange: { destroy(): unknown }, begin: () => Promise<Begun>): Promise<ProbeAnswer> => {
  let answer: ProbeAnswer = { status: 0, headers: new Map(), body: '' }
  try {
    const { status = 0, fields = {}, body = [] } = await begin()
    const headers = new Map(Object.entries(fields).map(([name, value]) => [name, [value ?? ''].flat().join('\n')]))
    answer = { status, headers, body: '' }
    for await (const text of body) {
      answer = { ...answer, body: answer.body + text }
      if (answer.body.length > MAX_ANSWER_LENGTH) break
    }
  } catch {
    // There is no response, or a part of one.
  }
  exchange.destroy()
  return answer
}

/** Where to connect: the brackets around an IPv6 address belong only to the URL. */
const endpointOf = ({ hostname, protocol, port }: URL) => ({
  host: hostname.replace(/^\[|\]$/g, ''),
  port: Number(port || (protocol === 'https:' ? 443 : 80))
})

/** For all handshakes, unless a probe is about the handshake: making one takes as long as a handshake. */
let secureContext: tls.SecureContext | undefined

/** Whether the certificate is valid is checked separately; here it must not hide the responses. */
export const connectTls = (url: URL, { servername, ...options }: tls.ConnectionOptions): tls.TLSSocket => {
  const endpoint = endpointOf(url)
  secureContext ??= tls.createSecureContext()
  const name = servername ?? (net.isIP(endpoint.host) === 0 ? endpoint.host : undefined)
  return tls.connect({
    ...endpoint,
    ...(name !== undefined && { servername: name }),
    secureContext,
    ...options,
    rejectUnauthorized: false
  })
}

/** What a TLS handshake comes to; undefined: there is none. */
export const shakeHands = async (url: URL, options: tls.ConnectionOptions) => {
  const socket = connectTls(url, { ...options, secureContext: tls.createSecureContext(options) })
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    const { alpnProtocol, authorized, authorizationError } = socket
    return { protocol: alpnProtocol, fault: authorized ? undefined : String(authorizationError) }
  } catch {
    return undefined
  } finally {
    socket.on('error', () => undefined).destroy()
  }
}

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
  /** The name in the TLS handshake, '': none; absent: that of the URL. */
  readonly serverName?: string
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
const MAX_ANSWER_LENGTH = 64 * 1024
const MAX_KEPT = 50

export const createDoctorClient = (url: URL, { maxRequests, maxSeconds }: Bounds) => {
  const deadline = performance.now() + maxSeconds * 1000
  /** Every refusal seen so far. */
  const refusals: ProbeAnswer[] = []
  const cookies = new Set<string>()
  let asked = 0
  return {
    url,
    refusals,
    cookies,
    /** Requests sent so far. */
    asked: () => asked,
    /** Waits as long as a 429 demands. Throws {@link ProbesEnded} beyond the limits. */
    async ask(probe: Probe, exchange = overHttp1): Promise<ProbeAnswer> {
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

const overHttp1 = (url: URL, { method = 'GET', target, headers = [], serverName }: Probe): Promise<ProbeAnswer> => {
  const lacks = (name: string) => headers.every(([one]) => one.toLowerCase() !== name)
  const sent: Header[] = [
    ...(lacks('host') ? [['Host', url.host] as const] : []),
    ...headers,
    ...(lacks('connection') ? [['Connection', 'close'] as const] : [])
  ]
  const createConnection = () =>
    url.protocol === 'https:' ? connectTls(url, serverNameOption(serverName)) : net.connect(endpointOf(url))
  return readAnswer((answer, end) => {
    const request = http.request({ method, path: target, headers: sent.flat(), createConnection })
    const read = (response: IncomingMessage) => {
      answer.begin(response.statusCode, response.headersDistinct)
      response.setEncoding('utf8').on('data', answer.add).on('error', end).on('close', end)
    }
    request.on('response', read).on('error', end)
    request.on('upgrade', response => {
      read(response)
      end()
    })
    request.end()
    return request
  })
}

export const serverNameOption = (servername: string | undefined) => (servername === undefined ? {} : { servername })

interface Arriving {
  begin(status: number | undefined, headers: NodeJS.Dict<string | string[]>): void
  add(text: string): void
}

/** What `start` receives until it calls `end`, the time is over or more has arrived than anything needs. */
export const readAnswer = (
  start: (answer: Arriving, end: () => void) => { destroy(): unknown }
): Promise<ProbeAnswer> => {
  const { promise, resolve } = Promise.withResolvers<ProbeAnswer>()
  let answer: ProbeAnswer = { status: 0, headers: new Map(), body: '' }
  const begin: Arriving['begin'] = (status = 0, fields) => {
    const headers = new Map(Object.entries(fields).map(([name, value]) => [name, [value ?? ''].flat().join('\n')]))
    answer = { status, headers, body: '' }
  }
  const add = (text: string) => {
    answer = { ...answer, body: answer.body + text }
    if (answer.body.length > MAX_ANSWER_LENGTH) end()
  }
  const end = () => {
    clearTimeout(timer)
    resolve(answer)
    exchange.destroy()
  }
  const exchange = start({ begin, add }, end)
  const timer = setTimeout(end, ANSWER_TIMEOUT_MS)
  return promise
}

/** Where to connect: the brackets around an IPv6 address belong only to the URL. */
const endpointOf = ({ hostname, protocol, port }: URL) => ({
  host: hostname.replace(/^\[|\]$/g, ''),
  port: Number(port || (protocol === 'https:' ? 443 : 80))
})

/** Whether the certificate is valid is checked separately; here it must not hide the responses. */
export const connectTls = (url: URL, options: tls.ConnectionOptions = {}): tls.TLSSocket => {
  const endpoint = endpointOf(url)
  const name = net.isIP(endpoint.host) === 0 ? { servername: endpoint.host } : {}
  return tls.connect({ ...endpoint, ...name, ...options, rejectUnauthorized: false })
}

/** What a TLS handshake comes to; undefined: there is none. */
export const shakeHands = async (url: URL, options: tls.ConnectionOptions) => {
  const socket = connectTls(url, options)
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

// Sends probes exactly as written, and reads their responses within limits of size, time and number.
import net from 'node:net'
import tls from 'node:tls'

export interface Probe {
  /** Only safe methods (RFC 9110 §9.2.1). */
  readonly method?: 'GET' | 'HEAD' | 'OPTIONS'
  readonly target: string
  /** In order; `Host` and `Connection` are added if they are missing. */
  readonly headers?: readonly (readonly [name: string, value: string])[]
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
  readonly maxTimeMs: number
}

const ANSWER_TIMEOUT_MS = 5_000
const MAX_ANSWER_BYTES = 64 * 1024
const MAX_KEPT = 50

export const createDoctorClient = (url: URL, { maxRequests, maxTimeMs }: Bounds) => {
  const deadline = performance.now() + maxTimeMs
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
        if (performance.now() > deadline)
          throw new ProbesEnded(`${maxTimeMs / 1000} seconds had passed (--max-seconds)`)
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

const overHttp1 = async (url: URL, probe: Probe): Promise<ProbeAnswer> =>
  parse(await send(url, render(url, probe), probe.serverName))

/** RFC 9110 §10.2.3, in seconds; throws {@link ProbesEnded} if that would exceed the time limit. */
const waitAsTold = async ({ headers }: ProbeAnswer, deadline: number): Promise<void> => {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  const isInTime = seconds >= 0 && performance.now() + seconds * 1000 < deadline
  if (!isInTime) throw new ProbesEnded('the rate limit (429) lasts longer than the time allowed (--max-seconds)')
  await new Promise(resolve => setTimeout(resolve, Math.max(seconds, 0.1) * 1000))
}

const render = (url: URL, { method = 'GET', target, headers = [] }: Probe): Buffer => {
  const names = new Set(headers.map(([name]) => name.toLowerCase()))
  const lines = headers.map(([name, value]) => `${name}: ${value}`)
  if (!names.has('host')) lines.unshift(`Host: ${url.host}`)
  if (!names.has('connection')) lines.push('Connection: close')
  return Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1')
}

/** Where to connect: the brackets around an IPv6 address belong only to the URL. */
const endpointOf = (url: URL) => ({
  host: url.hostname.replace(/^\[|\]$/g, ''),
  port: url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
})

/** Whether the certificate is valid is checked separately; here it must not hide the responses. */
export const connectTls = (url: URL, options: tls.ConnectionOptions = {}): tls.TLSSocket => {
  const endpoint = endpointOf(url)
  const name = net.isIP(endpoint.host) === 0 ? { servername: endpoint.host } : {}
  return tls.connect({ ...endpoint, ...name, ...options, rejectUnauthorized: false })
}

const send = (url: URL, request: Buffer, servername?: string): Promise<Buffer> =>
  new Promise(resolve => {
    const socket =
      url.protocol === 'https:'
        ? connectTls(url, { ...(servername !== undefined && { servername }) })
        : net.connect(endpointOf(url))
    const chunks: Buffer[] = []
    let size = 0
    const end = () => {
      clearTimeout(timer)
      socket.destroy()
      resolve(Buffer.concat(chunks))
    }
    const timer = setTimeout(end, ANSWER_TIMEOUT_MS)
    socket.on('data', chunk => {
      chunks.push(chunk)
      size += chunk.length
      if (size > MAX_ANSWER_BYTES || isComplete(Buffer.concat(chunks))) end()
    })
    socket.on('error', end)
    socket.on('close', end)
    socket.write(request)
  })

const isComplete = (bytes: Buffer): boolean => {
  const text = bytes.toString('latin1')
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return false
  const head = text.slice(0, end)
  if (/^HTTP\/1\.[01] (?:101|204|304)/.test(head)) return true
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  return length !== undefined && text.length - end - 4 >= Number(length)
}

const parse = (bytes: Buffer): ProbeAnswer => {
  const text = bytes.toString('latin1')
  const end = text.indexOf('\r\n\r\n')
  const [first = '', ...lines] = text.slice(0, end === -1 ? 0 : end).split('\r\n')
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1] ?? 0)
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    const known = headers.get(name)
    headers.set(name, known === undefined ? value : `${known}\n${value}`)
  }
  return { status, headers, body: end === -1 ? '' : bytes.subarray(end + 4).toString('utf8') }
}

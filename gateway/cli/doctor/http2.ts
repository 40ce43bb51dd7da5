// Probes a gateway over HTTP/2: what it refuses over HTTP/1.1 it must refuse here too, and what HTTP/2 forbids besides.
import { ANSWER_TIMEOUT_MS, connectTls, type Header, OFFER_HTTP2 } from './client.ts'
import { HEADER_CHECKS } from './headers.ts'
import { PATH_CHECKS } from './paths.ts'
import { type Check, type Checks, collect, type DoctorWorld, getsIn } from './world.ts'

const overHttp2 =
  (look: Check['look']): Check['look'] =>
  async world =>
    world.hasHttp2 ? look({ ...world, client: { ...world.client, ask: world.client.askOverHttp2 } }) : []

/** The same checks; two Host headers are one of the malformed requests. */
const { 'two-hosts': _twoHosts, ...SAME_HEADERS } = HEADER_CHECKS
const SAME_CHECKS: Checks = Object.fromEntries(
  Object.entries({ ...PATH_CHECKS, ...SAME_HEADERS }).map(([id, check]) => [
    `http2-${id}`,
    { ...check, title: `${check.title}, over HTTP/2`, look: overHttp2(check.look) }
  ])
)

export const HTTP2_CHECKS: Checks = {
  'http2-open': {
    title: 'A path that requires a token is served without one over HTTP/2',
    fix: 'Apply the same rules to all protocols; or do not offer h2 (TLS_HTTP2=false).',
    look: overHttp2(world => collect(world.closed, ({ path }) => getsIn(world, path, target => ({ target }))))
  },
  'http2-malformed': {
    title: 'A malformed HTTP/2 request is accepted',
    fix: 'Reset streams whose fields HTTP/2 forbids (RFC 9113 §8.2, §8.3): written as HTTP/1.1 they become another request.',
    look: overHttp2(malformed)
  },
  'http2-token-in-crumbs': {
    severity: 'medium',
    title: "The gateway's own token reaches a backend behind a public path in a cookie of several fields",
    fix: 'Join the Cookie fields of a request (RFC 9113 §8.2.3) before removing cookies from it.',
    look: overHttp2(({ client, open, token }) =>
      collect(token === undefined ? [] : open, async target => {
        const headers = ['a=1', `token=${token}`, 'b=2'].map(crumb => ['Cookie', crumb] as const)
        const { body } = await client.ask({ target, headers })
        return body.includes(token ?? '') ? `GET ${target} repeats a token sent in a crumb` : undefined
      })
    )
  },
  ...SAME_CHECKS
}

/** Fields that a request must not have. */
const malformedFields = (host: string): Readonly<Record<string, readonly Header[]>> => ({
  'transfer-encoding: chunked': [['transfer-encoding', 'chunked']],
  'connection: x-a': [['connection', 'x-a']],
  'upgrade: websocket': [['upgrade', 'websocket']],
  'te: gzip': [['te', 'gzip']],
  'content-length without a body': [['content-length', '5']],
  'a host beside another :authority': [['host', 'other.invalid']],
  'a name in upper case': [['X-User-Id', '1']],
  'a second :path': [[':path', '/']],
  'a pseudo-field behind fields': Object.entries({ 'x-a': '1', ':authority': host })
})

/** Only a success counts, and only where the request without the fault succeeds. */
async function malformed({ client: { url }, open, path, bearer }: DoctorWorld): Promise<string[]> {
  const target = open[0] ?? path
  const pseudo = { ':method': 'GET', ':scheme': 'https', ':authority': url.host, ':path': target }
  const own = open[0] === undefined ? bearer.map(([name, value]): Header => [name.toLowerCase(), value]) : []
  const sound = [...Object.entries(pseudo), ...own]
  if (!(await isTaken(url, sound))) return []
  return collect(Object.entries(malformedFields(url.host)), async ([name, fields]) =>
    (await isTaken(url, [...sound, ...fields])) ? `GET ${target} with ${name} succeeds` : undefined
  )
}

const [HEADERS, SETTINGS] = [1, 4]
const END_STREAM_AND_HEADERS = 0x5
/** `:status` 200, 204 and 206 of the static table (RFC 7541, Appendix A). */
const SUCCESSES = [0x88, 0x89, 0x8a]

/** Sends the fields as they are, which no HTTP/2 client would do; resolves to whether the answer is a success. */
const isTaken = async (url: URL, fields: readonly Header[]): Promise<boolean> => {
  const socket = connectTls(url, { ...OFFER_HTTP2, timeout: ANSWER_TIMEOUT_MS })
  socket.on('timeout', () => socket.destroy())
  const block = fields.map(([name, value]) => `\0${lengthAndText(name)}${lengthAndText(value)}`).join('')
  const preface = `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${frame(SETTINGS, 0, 0, '')}`
  socket.write(preface + frame(HEADERS, END_STREAM_AND_HEADERS, 1, block), 'latin1')
  let received = Buffer.alloc(0)
  try {
    for await (const bytes of socket) {
      received = Buffer.concat([received, bytes])
      while (received.length >= 9 && received.length >= 9 + received.readUIntBE(0, 3)) {
        const [length, type, stream] = [received.readUIntBE(0, 3), received[3], received.readUInt32BE(5)]
        if (stream === 1) return type === HEADERS && SUCCESSES.includes(received[9] ?? 0)
        received = received.subarray(9 + length)
      }
    }
  } catch {
    // The connection broke, or nothing came in time.
  }
  return false
}

const frame = (type: number, flags: number, stream: number, payload: string): string => {
  const { length } = payload
  return String.fromCharCode(length >> 16, (length >> 8) & 0xff, length & 0xff, type, flags, 0, 0, 0, stream) + payload
}

/** Without Huffman code (RFC 7541 §5.1, §5.2). */
const lengthAndText = (text: string): string => {
  if (text.length < 127) return String.fromCharCode(text.length) + text
  const rest = text.length - 127
  return String.fromCharCode(127, (rest & 0x7f) | 0x80, rest >> 7) + text
}

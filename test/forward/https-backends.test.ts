// Answers of https backends arrive whole, however they are cut into records.
import t from 'tap'
import { createCertificateAuthority } from '../support/certificates.ts'
import { startGateway } from '../support/gateway.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'

const authority = createCertificateAuthority(t.testdir({}))

const raw = await startRawUpstream(t, authority.issue('backend'))
const world = await startGateway(t, {
  config: {
    upstreams: { raw: { url: raw.url, caFile: authority.caFile } },
    routes: [{ path: '/x', upstream: 'raw', public: true }]
  }
})

/** No two parts are the same, so that one in place of another shows. */
const bodyOf = (size: number): string => {
  let text = ''
  for (let i = 0; text.length < size; i++) text += `${i.toString(36)} `
  return text.slice(0, size)
}
const inChunks = (body: string, size: number): string =>
  `${body.replace(new RegExp(`.{1,${size}}`, 'g'), part => `${part.length.toString(16)}\r\n${part}\r\n`)}0\r\n\r\n`

for (const size of [6000, 17_000, 40_000, 100_000]) {
  const body = bodyOf(size)
  const length = `HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
  const answers: [how: string, writes: string[]][] = [
    ['in one write', [length + body]],
    ['apart from its head', [length, body]],
    ['in chunks', [chunked + inChunks(body, 9000)]],
    ['in chunks apart from their head', [chunked, inChunks(body, 5000)]]
  ]
  for (const [how, writes] of answers)
    t.test(`an answer of ${size} bytes over TLS, ${how}, arrives whole`, async t => {
      // RV-01
      raw.respond(() => socket => {
        const [first = '', second] = writes
        socket.write(first, () => second !== undefined && setImmediate(() => socket.write(second)))
      })
      const response = await world.fetch('/x')
      t.equal(response.status, 200)
      t.ok((await response.text()) === body)
    })
}

t.test('a request with a body costs no more time over TLS than one without', async t => {
  // RV-04: the body waited for the delayed acknowledgement of its head, 40 ms each time.
  raw.respond(() => OK)
  const connection = await world.connect()
  t.teardown(() => connection.destroy())
  const time = async (request: string): Promise<number> => {
    const begun = performance.now()
    for (let n = 0; n < 20; n++) {
      connection.send(request)
      t.equal((await connection.response()).status, 200)
    }
    return performance.now() - begun
  }
  const extraMs: number[] = []
  for (let round = 0; round < 3; round++) {
    const withoutBody = await time('GET /x HTTP/1.1\r\nHost: gw\r\n\r\n')
    extraMs.push((await time('POST /x HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\n\r\nhello')) - withoutBody)
  }
  t.ok(Math.min(...extraMs) < 20 * 20, `${extraMs} ms`)
})

// Uploads of all kinds at once, to backends of all kinds: what arrives is what was sent, once, and each client gets one answer.
import http from 'node:http'
import net from 'node:net'
import t, { type Test } from 'tap'
import { heldBodyBytes } from '../../gateway/http/body-buffer.ts'
import { startGateway } from '../support/gateway.ts'
import { freePort, listen } from '../support/ports.ts'
import { until } from '../support/until.ts'
import { fc } from '../support/worlds.ts'

const KB = 1024

interface Case {
  readonly method: string
  readonly isChunked: boolean
  readonly pieces: readonly number[]
  /** The first target that is tried refuses connections. */
  readonly isRefused: boolean
  readonly isStreaming: boolean
  readonly expects: boolean
  readonly backend: 'reads' | 'slow' | 'early' | 'last'
  /** The client leaves after so many pieces; undefined: it stays. */
  readonly leavesAfter: number | undefined
  /** Whether each piece waits for the one before to have been written. */
  readonly isPaced: boolean
}

const cases: fc.Arbitrary<Case> = fc.record({
  method: fc.constantFrom('POST', 'PUT', 'DELETE'),
  isChunked: fc.boolean(),
  pieces: fc.array(fc.constantFrom(1, 5, 100, 16 * KB - 1, 16 * KB, 64 * KB - 1, 64 * KB, 64 * KB + 1, 130 * KB), {
    maxLength: 5
  }),
  isRefused: fc.boolean(),
  isStreaming: fc.boolean(),
  expects: fc.boolean(),
  backend: fc.constantFrom('reads', 'slow', 'early', 'last'),
  leavesAfter: fc.option(fc.nat({ max: 4 }), { nil: undefined, freq: 4 }),
  isPaced: fc.boolean()
})

/** What arrived for one request. */
interface Arrival {
  heads: number
  body: string
  isWhole: boolean
}

const bodyOf = (id: number, size: number) => Buffer.alloc(size, `${id}.`).toString('latin1')

const READ_PAUSES = 3

/** Reads requests whose target is `/KIND/ID`. */
const startBackend = async (t: Test) => {
  const arrivals = new Map<string, Arrival>()
  const server = http.createServer((req, res) => {
    const [, kind = '', id = ''] = /^\/(?:streaming\/)?(\w+)\/(\d+)$/.exec(req.url ?? '') ?? []
    const arrival = arrivals.get(id) ?? { heads: 0, body: '', isWhole: false }
    arrival.heads++
    arrivals.set(id, arrival)
    const answer = (status: number, fields = {}) => {
      if (!res.headersSent) res.writeHead(status, { 'content-length': 2, ...fields }).write('ok')
    }
    if (kind === 'early') answer(200)
    // It reads on nevertheless.
    if (kind === 'last') answer(413, { connection: 'close' })
    let pauses = 0
    req.setEncoding('latin1')
    req.on('data', text => {
      arrival.body += text
      if (kind !== 'slow' || pauses++ > READ_PAUSES) return
      req.pause()
      setImmediate(() => req.resume())
    })
    req.on('end', () => {
      arrival.isWhole = true
      answer(200)
      res.end()
    })
    req.on('error', () => undefined)
  })
  return { url: `http://127.0.0.1:${await listen(t, server)}`, arrivals }
}

const headOf = (
  { method, isChunked, isStreaming, isRefused, expects, backend }: Case,
  id: number,
  size: number
): string => {
  const host = isRefused ? 'refused' : 'one'
  const fields = [
    `Host: gw`,
    isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${size}`,
    ...(expects ? ['Expect: 100-continue'] : [])
  ]
  return `${method} /${host}/${isStreaming ? 'streaming/' : ''}${backend}/${id} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`
}

const chunkOf = (data: string): string => `${data.length.toString(16)}\r\n${data}\r\n`

/** All that the client received; it ends when its connection does, or when it leaves. */
const send = async (port: number, one: Case, id: number): Promise<string> => {
  const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
  let received = ''
  let isClosed = false
  socket.on('data', bytes => {
    received += bytes.toString('latin1')
  })
  socket.on('error', () => undefined)
  socket.on('close', () => {
    isClosed = true
  })
  const size = one.pieces.reduce((sum, piece) => sum + piece, 0)
  const body = bodyOf(id, size)
  const write = (text: string) => new Promise(resolve => socket.write(text, 'latin1', resolve))
  await write(headOf(one, id, size))
  let at = 0
  for (const [index, piece] of one.pieces.entries()) {
    if (index === one.leavesAfter) {
      socket.destroy()
      return received
    }
    const data = body.slice(at, at + piece)
    at += piece
    const written = write(one.isChunked ? chunkOf(data) : data)
    if (one.isPaced) await written
  }
  if (one.isChunked) void write('0\r\n\r\n')
  await until(() => isClosed || /HTTP\/1\.1 [2-5]\d\d.*\r\n\r\nok|GW_/s.test(received))
  // Whatever else came would be a second answer.
  await new Promise(resolve => setImmediate(resolve))
  socket.destroy()
  return received
}

const EXPECTED = { reads: '200', slow: '200', early: '200', last: '413' }

const faultOf = (one: Case, id: number, received: string, arrival: Arrival | undefined): string | undefined => {
  const size = one.pieces.reduce((sum, piece) => sum + piece, 0)
  const body = bodyOf(id, size)
  const finals = received.match(/^HTTP\/1\.1 [2-5]\d\d/gm) ?? []
  if ((arrival?.heads ?? 0) > 1) return 'the request was sent twice'
  if (arrival !== undefined && !body.startsWith(arrival.body)) return 'other bytes arrived'
  if (one.leavesAfter !== undefined && one.leavesAfter < one.pieces.length)
    return arrival?.isWhole === true ? 'a part of a body arrived as a whole' : undefined
  if (finals.length !== 1) return `${finals.length} answers: ${JSON.stringify(received.slice(0, 200))}`
  if (!finals[0]?.endsWith(EXPECTED[one.backend])) return `answered ${finals[0]}: ${received.slice(-200)}`
  const isRead = one.backend === 'reads' || one.backend === 'slow'
  return isRead && (arrival?.isWhole !== true || arrival.body !== body) ? 'bytes are missing' : undefined
}

// RV-05, RX-12, SM-28
t.test('whatever clients send, and however backends take it, each body arrives once', async t => {
  const backend = await startBackend(t)
  const refusing = `http://127.0.0.1:${await freePort()}`
  const routes = ['one', 'refused'].flatMap(upstream => [
    { path: `/${upstream}/*`, upstream, public: true, stripPrefix: `/${upstream}` },
    { path: `/${upstream}/streaming/*`, upstream, public: true, stripPrefix: `/${upstream}`, streaming: true }
  ])
  const upstreams = {
    one: { url: backend.url },
    refused: { targets: [refusing, backend.url], outlier: { errors: 0 } }
  }
  const world = await startGateway(t, { config: { upstreams, routes } })
  let nextId = 1
  await fc.assert(
    fc.asyncProperty(fc.array(cases, { minLength: 1, maxLength: 6 }), async together => {
      const ids = together.map(() => nextId++)
      let mostHeld = 0
      const watch = setInterval(() => {
        mostHeld = Math.max(mostHeld, heldBodyBytes())
      }, 1)
      const received = await Promise.all(together.map((one, i) => send(world.port, one, ids[i] ?? 0)))
      clearInterval(watch)
      await until(() => heldBodyBytes() === 0, 'buffered bodies are forgotten')
      for (const [i, one] of together.entries()) {
        const fault = faultOf(one, ids[i] ?? 0, received[i] ?? '', backend.arrivals.get(String(ids[i])))
        if (fault !== undefined) throw new Error(`${fault} (request ${i})`)
      }
      if (mostHeld > together.length * 256 * KB) throw new Error(`${mostHeld} bytes were held`)
    }),
    { numRuns: 60, endOnFailure: true }
  )
  t.ok(backend.arrivals.size > 60)
})

// Large bodies arrive byte for byte, however the two sides stop and go: the memory they pass through is used again.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'

const SIZE = 24 * 1024 * 1024
const postgres = await startPostgres(t)

/** No two blocks are the same, so that an old one in place of a new one shows. */
const blocks = function* (size: number, blockBytes: number): Generator<Buffer> {
  for (let at = 0; at < size; at += blockBytes) {
    const block = Buffer.alloc(Math.min(blockBytes, size - at))
    for (let i = 0; i + 4 <= block.length; i += 4) block.writeInt32LE((at + i) ^ 0x9e3779b9, i)
    yield block
  }
}

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate)
}

/** Each block comes alone: reads are then large, but not as large as what makes a writer wait at once. */
const paced = async function* (of: Iterable<Buffer>): AsyncGenerator<Buffer> {
  for (const block of of) {
    yield block
    await turns(3)
  }
}

const digestOf = async (body: AsyncIterable<Buffer>): Promise<string> => {
  const hash = createHash('sha256')
  for await (const chunk of body) hash.update(chunk)
  return hash.digest('hex')
}

const expected = await digestOf(Readable.from(blocks(SIZE, 65536)))

/** Answers a GET with the body in the asked framing and block size, and a PUT with the digest of what came, read haltingly. */
const startUpstream = async (): Promise<string> => {
  const server = http.createServer((req, res) => {
    const query = new URL(req.url ?? '', 'http://x').searchParams
    if (req.method === 'PUT') {
      readHaltingly(req).then(
        digest => res.end(digest),
        () => res.destroy()
      )
      return
    }
    const framing = query.get('framing')
    if (framing === 'length') res.setHeader('content-length', SIZE)
    if (framing === 'close') {
      res.shouldKeepAlive = false
      res.useChunkedEncodingByDefault = false
      res.removeHeader('transfer-encoding')
    }
    const body = blocks(SIZE, Number(query.get('block')))
    pipeline(Readable.from(query.has('paced') ? paced(body) : body), res).catch(() => undefined)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const world = await startGateway(t, {
  postgres,
  config: {
    upstreams: { files: { url: await startUpstream() } },
    routes: [{ path: '/files/*', upstream: 'files', public: true }]
  }
})
const fileAddress = (query: string) => `http://127.0.0.1:${world.port}/files/x?${query}`

/** Reads in gulps: some data, then nothing for a few turns of the event loop, so that bytes wait at every stage. */
const readHaltingly = async (response: http.IncomingMessage): Promise<string> => {
  const hash = createHash('sha256')
  let sinceHalt = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    hash.update(chunk)
    sinceHalt += chunk.length
    if (sinceHalt < 1024 * 1024) continue
    sinceHalt = 0
    await turns(200)
  }
  return hash.digest('hex')
}

const download = async (query: string): Promise<string> => {
  const request = http.get(fileAddress(query), { agent: false })
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  return readHaltingly(response)
}

for (const framing of ['length', 'chunked', 'close']) {
  for (const block of [65536, 262_144, 1000]) {
    t.test(`a download framed by ${framing}, written in blocks of ${block} bytes, arrives byte for byte`, async t => {
      t.equal(await download(`framing=${framing}&block=${block}`), expected)
    })
  }
}

t.test('a download that comes block by block arrives byte for byte', async t => {
  t.equal(await download('framing=length&block=40000&paced'), expected)
})

t.test('several downloads at once do not share memory', async t => {
  const all = await Promise.all(Array.from({ length: 6 }, () => download('framing=length&block=65536')))
  t.strictSame(new Set(all), new Set([expected]))
})

for (const framing of ['length', 'chunked']) {
  t.test(`an upload framed by ${framing} arrives byte for byte, however haltingly it is taken`, async t => {
    const headers = framing === 'length' ? { 'content-length': SIZE } : {}
    const request = http.request(fileAddress(''), { method: 'PUT', agent: false, headers })
    const answered = once(request, 'response') as Promise<[http.IncomingMessage]>
    await pipeline(Readable.from(blocks(SIZE, 65536)), new PassThrough(), request)
    const [response] = await answered
    t.equal((await response.toArray()).join(''), expected)
  })
}

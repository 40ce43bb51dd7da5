// Sends or takes one large body and prints the bytes that arrived and the time they took as one line of JSON.
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { blocks } from './blocks.ts'

interface Flags {
  readonly port: number
  readonly token: string
  readonly direction: 'down' | 'up'
  readonly bytes: number
}

const { port, token, direction, bytes } = JSON.parse(process.argv[2] ?? '{}') as Flags
const isUp = direction === 'up'
const startedAt = performance.now()
const outgoing = request({
  port,
  host: '127.0.0.1',
  path: `/api/body?bytes=${bytes}`,
  method: isUp ? 'PUT' : 'GET',
  headers: { authorization: `Bearer ${token}`, ...(isUp ? { 'content-length': bytes } : {}) }
})
const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
await pipeline(Readable.from(blocks(isUp ? bytes : 0)), outgoing)
const [response] = await answered
let received = 0
let text = ''
response.on('data', (chunk: Buffer) => {
  received += chunk.length
  if (isUp) text += chunk.toString('latin1')
})
await once(response, 'end')
const arrived = isUp ? Number(text) : received
const result = { status: response.statusCode, bytes: arrived, seconds: (performance.now() - startedAt) / 1000 }
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0))

// Sends or takes one large body and prints the bytes that arrived and the time they took as one line of JSON.
import { request } from 'node:http'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    port: { type: 'string' },
    token: { type: 'string' },
    direction: { type: 'string' },
    bytes: { type: 'string' }
  }
})

const bytes = Number(values.bytes)
const block = Buffer.alloc(64 * 1024, 'portaria')
const isUp = values.direction === 'up'
const startedAt = performance.now()

const outgoing = request(
  {
    port: Number(values.port),
    host: '127.0.0.1',
    path: `/api/body?bytes=${bytes}`,
    method: isUp ? 'PUT' : 'GET',
    headers: { authorization: `Bearer ${values.token}`, ...(isUp ? { 'content-length': bytes } : {}) }
  },
  response => {
    let received = 0
    let text = ''
    response.on('data', (chunk: Buffer) => {
      received += chunk.length
      if (isUp) text += chunk.toString('latin1')
    })
    response.on('error', fail)
    response.on('end', () => {
      const arrived = isUp ? Number(text) : received
      const result = { status: response.statusCode, bytes: arrived, seconds: (performance.now() - startedAt) / 1000 }
      process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0))
    })
  }
)

const fail = (error: Error) => {
  console.error(String(error))
  process.exit(1)
}

outgoing.on('error', fail)
let left = isUp ? bytes : 0
const pump = () => {
  while (left > 0) {
    const chunk = left >= block.length ? block : block.subarray(0, left)
    left -= chunk.length
    if (!outgoing.write(chunk)) {
      outgoing.once('drain', pump)
      return
    }
  }
  outgoing.end()
}
pump()

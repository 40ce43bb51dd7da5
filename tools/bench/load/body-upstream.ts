// An upstream of large bodies: GET ?bytes=N sends so many, any other method counts what it gets and answers the count.
import { createServer, type ServerResponse } from 'node:http'

const block = Buffer.alloc(64 * 1024, 'portaria')

const send = (response: ServerResponse, bytes: number) => {
  let left = bytes
  const pump = () => {
    while (left > 0) {
      const chunk = left >= block.length ? block : block.subarray(0, left)
      left -= chunk.length
      if (!response.write(chunk)) {
        response.once('drain', pump)
        return
      }
    }
    response.end()
  }
  response.writeHead(200, { 'content-length': bytes })
  pump()
}

const server = createServer((request, response) => {
  if (request.headers['x-user-id'] === undefined) {
    response.writeHead(418).end()
    return
  }
  if (request.method === 'GET') {
    send(response, Number(new URL(request.url ?? '/', 'http://localhost').searchParams.get('bytes') ?? 0))
    return
  }
  let received = 0
  request.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  request.on('end', () => response.end(`${received}`))
})
server.requestTimeout = 0
server.keepAliveTimeout = 300_000
server.listen(Number(process.env.PORT), '127.0.0.1')
